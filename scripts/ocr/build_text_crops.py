"""Enlarge the text on every frame that some question of a data set is shown (EgoTextVQA section 5 Q3, Table 6).

Each planned frame is decoded and shrunk once, whatever the number of questions that see it; its texts are cut out along
their lines and enlarged as ``scene_text`` of the resolution says. What comes out does not depend on ``scale``: putting
the texts back is for whoever shows the frame. A frame without text is noted as such. One whose text was not read, or
that can't be decoded, is missing, and one line says why; nothing else of that video or of others is lost by it.

With ``difftsr``, which takes seconds a text, each finished one is kept in --cache at once, so a killed run loses only
the one it was at. ``lanczos`` takes no longer than decoding, and is done anew.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scripts.infer import text_crops
from scripts.infer.text_crops import Cut, Image, Packed
from scripts.lib import cli, config, jsonl, progress, video, workers
from scripts.lib.cache import fingerprint
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.files import atomic_path
from scripts.lib.records import FramePlan, FrameTimes, OcrFrame, Video
from scripts.models import weights
from scripts.ocr import difftsr
from scripts.ocr.extract_ocr import frames_wanted

FRAMES_PER_ITEM = 64
"""Frames for one worker at a time: their texts are in memory together."""


@dataclass(frozen=True)
class Item:
    """Some frames of one video, for one worker."""

    video: Video
    record: FrameTimes
    read: list[OcrFrame]
    """Their text, by rising frame."""
    resolution: dict[str, Any]


@dataclass(frozen=True)
class Part:
    """What became of an item."""

    cuts: list[Cut] = field(default_factory=list)
    left_out: int = 0
    """Texts too small, or outside the picture."""
    trouble: str = ""
    """Why frames are missing, in one line."""


@dataclass
class Tally:
    """What is said at the end."""

    frames: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        left = [f"{count} {why}" for why, count in sorted(self.texts.items()) if count and why != "enlarged"]
        said = f"{self.texts['enlarged']} texts enlarged"
        said += f", left as they are: {', '.join(left)}" if left else ""
        return (
            said + f"; frames: {', '.join(f'{count} {what}' for what, count in sorted(self.frames.items()) if count)}"
        )


def cut_item(item: Item) -> Part:
    """Cut the texts of an item's frames, and enlarge them by ``lanczos``; runs in a child process."""
    cuts, left_out = [], 0
    shown = [read for read in item.read if read.boxes]
    trouble = ""
    frames = video.read_frames(Path(item.video.path), item.record, [read.frame for read in shown])
    try:
        for read, frame in zip(shown, frames, strict=True):
            small = video.resize(frame, item.resolution)
            pieces, lost = text_crops.cut(small, read)
            left_out += lost
            packed = [text_crops.pack(piece.quad, _first(piece.image, item.resolution), piece.text) for piece in pieces]
            cuts.append(Cut(item.video.id, read.frame, (small.shape[0], small.shape[1]), packed))
    except DataError as error:
        trouble = str(error)
    cuts += [Cut(item.video.id, read.frame, (0, 0), []) for read in item.read if not read.boxes]
    return Part(sorted(cuts, key=lambda cut: cut.frame), left_out, trouble)


def _first(patch: Image, resolution: dict[str, Any]) -> Image:
    """A text as it leaves the child process: finished, or for a model as it was cut."""
    asked = resolution["scene_text"]
    if asked["method"] != "lanczos":
        return patch
    return text_crops.enlarge_lanczos(patch, asked["height"], asked["width"])


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--frames", type=Path, required=True, help="frame plans of build_frames")
    parser.add_argument("--videos", type=Path, required=True, help="videos.jsonl of probe_videos")
    parser.add_argument("--frame-times", type=Path, required=True, help="frame_times.jsonl of probe_videos")
    parser.add_argument("--ocr", type=Path, required=True, help="text on those frames, by extract_ocr")
    parser.add_argument("--resolution", type=Path, required=True, help="config/resolutions/<name>.yaml with scene_text")
    parser.add_argument("--crops", type=Path, required=True, help="zip file to write")
    parser.add_argument("--weights", type=Path, help="folder of the model's weights; for difftsr")
    parser.add_argument("--cache", type=Path, help="folder for texts already enlarged; for difftsr")
    parser.add_argument("--seed", type=int, default=0, help="of the noise that difftsr draws")
    parser.add_argument("--workers", type=int, default=1, help="processes that decode and cut")
    parser.add_argument("--timeout-s", type=float, default=600, help="frames not decoded by then are given up")
    return parser


def plan_items(args: argparse.Namespace, resolution: dict[str, Any], tally: Tally) -> list[Item]:
    """The work of one command line, sorted by video and frame.

    Raises:
        DataError: a plan names a video that is not in the list; no text of any frame.
    """
    videos = jsonl.read_unique(args.videos, Video, "id")
    times = jsonl.read_unique(args.frame_times, FrameTimes, "id")
    known = {(frame.video, frame.frame): frame for frame in jsonl.read(args.ocr, OcrFrame)}
    wanted = frames_wanted(list(jsonl.read(args.frames, FramePlan)))
    items = []
    for name, frames in wanted.items():
        if name not in videos or name not in times:
            raise DataError(f"{args.frames}: video '{name}' is not in {args.videos}; run build_frames anew")
        read = [known[name, frame] for frame in frames if (name, frame) in known]
        tally.frames["not read"] += len(frames) - len(read)
        parts = [read[start : start + FRAMES_PER_ITEM] for start in range(0, len(read), FRAMES_PER_ITEM)]
        items += [Item(videos[name], times[name], part, resolution) for part in parts]
    if wanted and not items:
        raise DataError(f"{args.ocr}: no text of any frame of {args.frames}; rerun extract_ocr with these frames")
    return items


def cut_all(items: list[Item], count: int, timeout_s: float, tally: Tally) -> Iterator[Cut]:
    """The frames of all items in their order, cut in ``count`` child processes; says which are missing, and why."""
    outcomes = workers.run_all(cut_item, items, count, timeout_s, ahead=2 * count)
    total = sum(len(item.read) for item in items)
    for outcome in progress.track(outcomes, "build_text_crops", total, "frames", size=lambda done: len(done.item.read)):
        part = outcome.value or Part(trouble=outcome.error or "")
        if part.trouble:
            lost = f"{len(outcome.item.read) - len(part.cuts)} frames missing"
            print(f"build_text_crops  {outcome.item.video.id}: {lost}: {part.trouble}", file=sys.stderr)
        tally.frames["missing"] += len(outcome.item.read) - len(part.cuts)
        tally.texts["too small or outside the picture"] += part.left_out
        yield from part.cuts


def store(args: argparse.Namespace, asked: dict[str, Any]) -> Path:
    """The folder for texts that agree in everything that can change them but their pixels."""
    model = [difftsr.VERSION, text_crops.VERSION, weights.identity(args.weights), steps(asked), args.seed]
    return args.cache / fingerprint(*model, asked["height"], asked["width"])


def steps(asked: dict[str, Any]) -> int:
    """Of the diffusion."""
    return int(asked.get("steps", difftsr.STEPS))


class Enlarger:
    """Puts texts through DiffTSR; the model is loaded when the first one is not in the store."""

    def __init__(self, args: argparse.Namespace, asked: dict[str, Any], tally: Tally) -> None:
        self.args, self.asked, self.tally = args, asked, tally
        self.folder = store(args, asked)
        self._enlarge: Callable[[Image], Image] | None = None

    def __call__(self, cut: Cut) -> Cut:
        """The frame with those of its texts that the model takes."""
        kept = []
        for crop in cut.crops:
            across, down = text_crops.sides(crop.quad)
            why = difftsr.unfit(crop.text, down, across)
            if why:
                self.tally.texts[why] += 1
            else:
                kept.append(self._through(crop))
        return replace(cut, crops=kept)

    def _through(self, crop: Packed) -> Packed:
        path = self.folder / crop.name[:2] / f"{crop.name}.png"
        if not path.is_file():
            if self._enlarge is None:
                self._enlarge = difftsr.load(self.args.weights, steps(self.asked), self.args.seed)
            made = self._enlarge(text_crops.unpack(crop.png))
            sized = text_crops.fit(made, self.asked["height"], self.asked["width"])
            with atomic_path(path) as temporary:
                temporary.write_bytes(text_crops.pack(crop.quad, sized, crop.text).png)
        return text_crops.pack(crop.quad, text_crops.unpack(path.read_bytes()), crop.text)


def counted(cuts: Iterator[Cut], tally: Tally) -> Iterator[Cut]:
    """The same frames, counted."""
    for cut in cuts:
        tally.frames["with text" if cut.crops else "without"] += 1
        tally.texts["enlarged"] += len(cut.crops)
        yield cut


def step(args: argparse.Namespace) -> None:
    resolution = config.read_file("resolution", args.resolution)
    asked = resolution.get("scene_text")
    if asked is None:
        raise ConfigError(f"{args.resolution}: has no scene_text, so no text of it is enlarged")
    if asked["method"] == "difftsr" and not (args.weights and args.cache):
        raise ConfigError(f"{args.resolution}: asks for difftsr; pass --weights and --cache")
    tally = Tally()
    cuts = cut_all(plan_items(args, resolution, tally), args.workers, args.timeout_s, tally)
    if asked["method"] == "difftsr":
        cuts = map(Enlarger(args, asked, tally), cuts)
    text_crops.write(args.crops, counted(cuts, tally))
    print(f"{args.crops}: {tally}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
