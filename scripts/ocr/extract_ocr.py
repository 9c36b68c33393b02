"""Read the text on every frame that some question of a data set is shown.

The frames of all questions on a video are read once, at the resolution that the models see, and the boxes are given
in pixels of the upright source frame. Within a stretch of a video, a frame that looks like one already read gets that
one's text (``read_as``). A frame without text has an empty list; a frame that cannot be decoded is missing, and one
line says why. Frames that are missing because a process died or took too long end the step with an error, once all
others are read: run it again.

Each frame read is kept at once in the cache, so a killed run loses only the frames that were being read. Other
samplers' readings of the same frames, in the same cache, are not made again.
"""

import argparse
import functools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.lib import cache, cli, config, jsonl, progress, video, workers
from scripts.lib.errors import DataError, EngineError
from scripts.lib.records import FramePlan, FrameTimes, OcrBox, OcrFrame, Video
from scripts.ocr import engine, hashing, settings

NAMED = 5
"""So many unfinished items are named in the error."""
AGAIN = (
    "what was read is kept: run again, with fewer --workers, a lower work.items_per_process or a larger"
    " work.item_timeout_s in config/ocr.yaml if it happens again"
)


@dataclass(frozen=True)
class Item:
    """Some frames of one video, for one worker."""

    video: Video
    record: FrameTimes
    frames: list[int]
    folder: Path
    """Of the cache."""
    job: str
    """Tells the cache files of this output and video from those of other samplers."""
    models: Path
    settings: dict[str, Any]
    resolution: dict[str, Any]

    @property
    def path(self) -> Path:
        """The cache file that this item alone writes. Which frames are alike depends on all frames of the item, so
        another plan gets another file, and takes over only what was really read."""
        return self.folder / f"{self.video.sha256[:32]}.{self.span}.{cache.fingerprint(self.job, self.frames)}.jsonl"

    @property
    def span(self) -> str:
        return f"{self.frames[0]}-{self.frames[-1]}"

    @property
    def others(self) -> list[Path]:
        """Cache files with readings of the same video by other runs."""
        return [file for file in sorted(self.folder.glob(f"{self.video.sha256[:32]}.*.jsonl")) if file != self.path]


@dataclass(frozen=True)
class Trouble:
    """Why an item was not finished, in one line."""

    why: str
    fatal: bool = False
    """Whether all others would end like it."""


def frames_wanted(plans: list[FramePlan]) -> dict[str, list[int]]:
    """Video id to the rising numbers of all frames that any plan shows."""
    wanted: dict[str, set[int]] = {}
    for plan in plans:
        wanted.setdefault(plan.video, set()).update(plan.frames)
    return {name: sorted(frames) for name, frames in sorted(wanted.items()) if frames}


def cache_folder(root: Path, models: Path, config_ocr: dict[str, Any], resolution: dict[str, Any]) -> Path:
    """The folder for readings that agree in everything that can change them.

    Raises:
        EngineError: ``models`` is not a folder of fetch_ocr_models.
    """
    reading = {key: config_ocr["engine"][key] for key in ("device", "limit_side", "min_confidence")}
    size = {key: value for key, value in resolution.items() if key in ("kind", "pixels")}
    digests = engine.manifest(models)["sha256"]
    return root / cache.fingerprint(engine.VERSION, engine.version(), reading, config_ocr["alike"], size, digests)


@functools.lru_cache(maxsize=1)
def _reader(models: Path, engine_settings: str) -> Any:
    return engine.load(models, json.loads(engine_settings))


def read_item(item: Item) -> Trouble | None:
    """Read what the item's cache file lacks; runs in a child process.

    Which frames are alike depends on the item alone, never on what is in the cache, so that a run that was killed gives
    the same records as one that was not.

    Returns:
        None, or why some of its frames are missing.
    """
    elsewhere = _elsewhere(item)
    seen: list[tuple[int, hashing.Luma]] = []
    with cache.Cache(item.path) as known:
        try:
            for frame, picture in zip(item.frames, _pictures(item), strict=True):
                plane = hashing.luma(picture)
                like = hashing.find_alike(plane, reversed(seen), item.settings["alike"])
                if like is None:
                    seen.append((frame, plane))
                if str(frame) in known:
                    continue
                known.put(
                    str(frame), {"as": like} if like is not None else elsewhere.get(frame) or _read(item, picture)
                )
        except DataError as error:
            return Trouble(str(error))
        except EngineError as error:
            return Trouble(str(error), fatal=True)
    return None


def _pictures(item: Item) -> Iterator[video.Image]:
    for picture in video.read_frames(Path(item.video.path), item.record, item.frames):
        yield video.resize(picture, item.resolution)


def _elsewhere(item: Item) -> dict[int, Any]:
    """Readings of this video by other runs; those that were taken from a frame alike do not count."""
    values: dict[int, Any] = {}
    for file in item.others:
        values |= {int(frame): value for frame, value in entries(file).items() if "boxes" in value}
    return values


def entries(path: Path) -> dict[str, Any]:
    """The whole lines of another run's cache file, which may still be growing: nothing is locked or cut."""
    found: dict[str, Any] = {}
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        frame, value = json.loads(line)
        found[frame] = value
    return found


def _read(item: Item, picture: video.Image) -> dict[str, Any]:
    reader = _reader(item.models, json.dumps(item.settings["engine"]))
    found = engine.read(reader, picture, upright_size(item.video), item.settings["engine"]["min_confidence"])
    return {"boxes": [box.model_dump(mode="json") for box in found]}


def upright_size(source: Video) -> tuple[int, int]:
    """Width and height of the frame as a player shows it."""
    turned = source.rotation % 180 != 0
    return (source.height, source.width) if turned else (source.width, source.height)


def records(item: Item) -> Iterator[OcrFrame]:
    """The item's finished frames, in order."""
    values = entries(item.path) if item.path.is_file() else {}
    times = video.frame_times(item.record)
    width, height = upright_size(item.video)
    for frame in item.frames:
        value = values.get(str(frame))
        if value is None:
            continue
        like = value.get("as")
        lines = value["boxes"] if like is None else values[str(like)]["boxes"]
        boxes = [OcrBox.model_validate_json(json.dumps(line)) for line in lines]
        t = float(times[frame])
        yield OcrFrame(video=item.video.id, frame=frame, t=t, width=width, height=height, boxes=boxes, read_as=like)


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--frames", type=Path, required=True, help="frame plans of build_frames")
    parser.add_argument("--videos", type=Path, required=True, help="videos.jsonl of probe_videos")
    parser.add_argument("--frame-times", type=Path, required=True, help="frame_times.jsonl of probe_videos")
    parser.add_argument("--resolution", type=Path, required=True, help="config/resolutions/<name>.yaml")
    parser.add_argument("--settings", type=Path, required=True, help="config/ocr.yaml")
    parser.add_argument("--models", type=Path, required=True, help="folder of fetch_ocr_models")
    parser.add_argument("--cache", type=Path, required=True, help="folder for the frames already read")
    parser.add_argument("--ocr", type=Path, required=True, help="file to write")
    parser.add_argument("--workers", type=int, default=1)
    return parser


def plan_items(args: argparse.Namespace) -> list[Item]:
    """The work of one command line, sorted by video and frame.

    Raises:
        DataError: a plan names a video that is not in the list.
    """
    chosen = settings.read("ocr", args.settings)
    resolution = config.read_file("resolution", args.resolution)
    videos = jsonl.read_unique(args.videos, Video, "id")
    times = jsonl.read_unique(args.frame_times, FrameTimes, "id")
    folder = cache_folder(args.cache, args.models, chosen, resolution)
    per_item = chosen["work"]["frames_per_item"]
    items = []
    for name, frames in frames_wanted(list(jsonl.read(args.frames, FramePlan))).items():
        if name not in videos or name not in times:
            raise DataError(f"{args.frames}: video '{name}' is not in {args.videos}; run build_frames anew")
        job = cache.fingerprint(str(args.ocr), name)
        for start in range(0, len(frames), per_item):
            part = frames[start : start + per_item]
            items.append(Item(videos[name], times[name], part, folder, job, args.models, chosen, resolution))
    return items


def step(args: argparse.Namespace) -> None:
    items = plan_items(args)
    read_all([item for item in items if not _finished(item)], args.workers)
    jsonl.write(args.ocr, (record for item in items for record in records(item)))


def _finished(item: Item) -> bool:
    return item.path.is_file() and set(map(str, item.frames)) <= set(entries(item.path))


def read_all(items: list[Item], count: int) -> None:
    """Read the items in ``count`` child processes; name those of which frames are missing.

    Raises:
        EngineError: the engine does not run here at all; or, once all is tried, an item whose process died or took too
            long, so that whoever called the step calls it again.
    """
    if not items:
        return
    work = items[0].settings["work"]
    outcomes = workers.run_all(read_item, items, count, work["item_timeout_s"], work["items_per_process"])
    total = sum(len(item.frames) for item in items)
    lost = []
    for outcome in progress.track(outcomes, "extract_ocr", total, "frames", size=lambda done: len(done.item.frames)):
        if outcome.error:
            lost.append(f"{outcome.item.video.id} {outcome.item.span}: {outcome.error}")
            print(f"extract_ocr  {outcome.item.video.id}: frames missing: {outcome.error}", file=sys.stderr)
        elif outcome.value and outcome.value.fatal:
            raise EngineError(outcome.value.why)
        elif outcome.value:
            print(f"extract_ocr  {outcome.item.video.id}: frames missing: {outcome.value.why}", file=sys.stderr)
    if lost:
        more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
        raise EngineError(f"not all frames are read ({'; '.join(lost[:NAMED])}{more}); {AGAIN}")


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
