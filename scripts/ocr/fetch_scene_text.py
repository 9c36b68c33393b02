"""Take in readings of the videos' text that were made elsewhere, for exactly the frames that questions are shown.

In config/datasets/<name>.yaml, with the name that a prompt's ``scene_text`` gives:

    scene_text:
      azure: {format: azure_read, files: data/azure, fps: 6}

The folder holds ``<video>.json``, an object of readings by moment, or ``<video>/<moment>.json``, a reading each; for
roadtextvqa it holds ``<video>_<moment>.json``. A moment is a frame number at ``fps``, counted from ``first`` (0 if
absent), or without ``fps`` a time in seconds. docs/scene_text.md shows each format.

A frame gets the reading nearest in time, the earlier of two, within ``tolerance_s`` (0.5 if absent); a frame without
one is missing, and questions that show it are not asked. Boxes are in pixels of the upright source frame.
"""

import argparse
import json
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.lib import cli, config, jsonl
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.records import FramePlan, OcrFrame, Video
from scripts.lib.text import did_you_mean, nfc
from scripts.ocr.extract_ocr import upright_size
from scripts.ocr.readings import Reading, parse

TOLERANCE_S = 0.5
EPSILON_S = 1e-6
"""Times made by division count as equal within this."""
MOMENT = re.compile(r"(\d+(?:\.\d+)?)s?$")
"""The number that a moment's name ends with: ``12``, ``12.5``, ``frame_00012``."""


@dataclass(frozen=True)
class Source:
    """One entry of a data set's ``scene_text``."""

    format: str
    files: Path
    tolerance_s: float
    fps: float | None
    first: int
    """Number of the frame at 0 s."""

    def seconds(self, moment: str, where: str) -> float:
        """When a moment is.

        Raises:
            DataError: its name ends with no number, or with one before the first frame's.
        """
        match = MOMENT.search(moment)
        if match is None:
            raise DataError(f"{where}: '{moment}' is no moment: name it by its frame number or its time in seconds")
        number = float(match.group(1))
        if number < self.first:
            raise DataError(f"{where}: '{moment}' is before the first frame, {self.first}; correct scene_text.*.first")
        return (number - self.first) / (self.fps or 1.0)


def read_source(dataset: dict[str, Any], name: str, where: str) -> Source:
    """The entry of that name.

    Raises:
        ConfigError: there is none, or it numbers frames but has no ``fps``; ``where`` is the file.
    """
    sources = dataset.get("scene_text", {})
    if name not in sources:
        raise ConfigError(f"{where}: no scene_text '{name}'{did_you_mean(name, sources)}")
    entry = sources[name]
    if "first" in entry and "fps" not in entry:
        raise ConfigError(f"{where}: scene_text.{name}.first: numbers frames; give fps too, or leave it out")
    tolerance_s, first = entry.get("tolerance_s", TOLERANCE_S), entry.get("first", 0)
    return Source(entry["format"], Path(entry["files"]), tolerance_s, entry.get("fps"), first)


def find_files(source: Source) -> dict[str, list[tuple[str | None, Path]]]:
    """Video id to its files, each with its moment, or None for a file with all of them.

    Raises:
        DataError: no such folder, or no file in it that is named as it must be.
    """
    if not source.files.is_dir():
        raise DataError(f"{source.files}: no such folder; correct scene_text.*.files in the data set's YAML")
    found: dict[str, list[tuple[str | None, Path]]] = {}
    for path in sorted(source.files.rglob("*.json")):
        video, moment = nfc(path.stem), None
        if source.format == "roadtextvqa":
            video, _, moment = video.rpartition("_")
        elif path.parent != source.files:
            video, moment = nfc(path.parent.name), video
        found.setdefault(video, []).append((moment, path))
    found.pop("", None)  # without an underscore, where there must be one
    if not found:
        named = "<video>_<moment>.json" if source.format == "roadtextvqa" else "<video>.json or <video>/<moment>.json"
        raise DataError(f"{source.files}: no file {named} in it; docs/scene_text.md says how to name them")
    return found


def read_video(source: Source, files: list[tuple[str | None, Path]]) -> dict[float, Reading]:
    """Time in seconds to what was read then, rising.

    Raises:
        DataError: a file is not such JSON, or two readings are of the same moment.
    """
    found: dict[float, Reading] = {}
    for moment, path in files:
        content = _json(path)
        if moment is None and not isinstance(content, dict):
            raise DataError(f"{path}: must be an object of readings by moment; docs/scene_text.md shows one")
        for name, raw in content.items() if moment is None else [(moment, content)]:
            where = f"{path}: {name}" if moment is None else str(path)
            t = source.seconds(name, where)
            if t in found:
                raise DataError(f"{where}: a second reading of {t:g} s; remove one")
            found[t] = parse(source.format, raw, where)
    return dict(sorted(found.items()))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({' '.join(str(error).split())}); fetch the file anew") from None


def nearest(times: list[float], t: float, tolerance_s: float) -> float | None:
    """Of rising times the nearest to ``t``, the earlier of two; None where none is within the tolerance."""
    place = bisect_left(times, t)
    near = min(times[max(0, place - 1) : place + 1], key=lambda time: (round(abs(time - t), 6), time), default=None)
    return near if near is not None and abs(near - t) <= tolerance_s + EPSILON_S else None


def wanted(plans: Iterator[FramePlan]) -> dict[str, dict[int, float]]:
    """Video id to the frames that any question shows, each with its time, both in order."""
    found: dict[str, dict[int, float]] = {}
    for plan in plans:
        found.setdefault(plan.video, {}).update(zip(plan.frames, plan.times, strict=True))
    return {video: dict(sorted(frames.items())) for video, frames in sorted(found.items()) if frames}


def of_frame(video: Video, frame: int, t: float, reading: Reading) -> OcrFrame:
    """A reading as that of a frame, its boxes scaled from the picture that was read to the source frame."""
    width, height = upright_size(video)
    across, down = reading.size or (width, height)
    boxes = [
        box.model_copy(update={"polygon": [(x * width / across, y * height / down) for x, y in box.polygon]})
        for box in reading.boxes
    ]
    return OcrFrame(video=video.id, frame=frame, t=t, width=width, height=height, boxes=boxes)


def records(source: Source, shown: dict[str, dict[int, float]], videos: dict[str, Video]) -> Iterator[OcrFrame]:
    """The frames that have a reading, by video and frame."""
    files = find_files(source)
    for name, frames in shown.items():
        readings = read_video(source, files.get(name, []))
        times = list(readings)
        for frame, t in frames.items():
            near = nearest(times, t, source.tolerance_s)
            if near is not None:
                yield of_frame(videos[name], frame, t, readings[near])


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--dataset", type=Path, required=True, help="YAML under config/datasets/ with scene_text")
    parser.add_argument("--source", required=True, help="which of its scene_text")
    parser.add_argument("--frames", type=Path, required=True, help="frame plans of build_frames")
    parser.add_argument("--videos", type=Path, required=True, help="videos.jsonl of probe_videos")
    parser.add_argument("--scene-text", type=Path, required=True, help="file to write (OcrFrame records)")
    return parser


def step(args: argparse.Namespace) -> None:
    source = read_source(config.read_file("dataset", args.dataset), args.source, str(args.dataset))
    videos = jsonl.read_unique(args.videos, Video, "id")
    shown = wanted(jsonl.read(args.frames, FramePlan))
    for name in shown:
        if name not in videos:
            raise DataError(f"{args.frames}: video '{name}' is not in {args.videos}; run build_frames anew")
    made = list(records(source, shown, videos))
    total = sum(map(len, shown.values()))
    if shown and not made:
        raise DataError(
            f"{source.files}: no reading within {source.tolerance_s:g} s of any of {total} frames; check that its files"
            " are named by the videos' ids, and fps and tolerance_s in the data set's YAML"
        )
    jsonl.write(args.scene_text, made)
    lines = sum(len(frame.boxes) for frame in made)
    without = len(shown) - len({frame.video for frame in made})
    print(
        f"fetch_scene_text  {len(made)} of {total} frames have a reading, with {lines} lines of text; {without} of"
        f" {len(shown)} videos have none",
        file=sys.stderr,
    )


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
