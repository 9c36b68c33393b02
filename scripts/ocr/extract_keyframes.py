"""Find the frames of each video that are worth reading (design section 6, CoT; ViTexQA section 3.2).

Every frame is decoded and hashed (64 bits of its brightness). Two rules, chosen in config/keyframes.yaml:

    capped          a frame that differs from the last keyframe by more than tau bits, or comes max_gap_s after it, and
                    never sooner than min_gap_s
    paper_literal   one frame for each contiguous run of neighbours that differ by more than a threshold: the first
                    after the run, when the picture has come to rest

The first frame is always one. A video that cannot be decoded, is not done within the time limit or whose process dies
is named and left out, and tried again whenever the step runs. A killed run goes on at the next video.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scripts.lib import cache, cli, jsonl, progress, video, workers
from scripts.lib.errors import DataError
from scripts.lib.records import FrameTimes, Keyframes, Video
from scripts.ocr import hashing, settings

VERSION = 1
"""Part of the cache key: raise it when a code change, here or in ``ocr.hashing``, can change the choice."""

Task = tuple[Video, FrameTimes, dict[str, Any]]
Hashes = npt.NDArray[np.bool_]


def capped(hashes: Hashes, times: npt.NDArray[np.float64], tau: int, max_gap_s: float, min_gap_s: float) -> list[int]:
    """Indices of the keyframes, by distance from the last keyframe and time since.

    Args:
        hashes: n x 64 bits.
        times: n seconds, rising.
    """
    found = [0] if len(hashes) else []
    slack = 1e-6
    for index in range(1, len(hashes)):
        gap = times[index] - times[found[-1]]
        if gap < min_gap_s - slack:
            continue
        if gap >= max_gap_s - slack or hashing.hamming(hashes[index], hashes[found[-1]]) > tau:
            found.append(index)
    return found


def paper_literal(hashes: Hashes, threshold: int) -> list[int]:
    """Indices of the keyframes: the first frame, and the one after each run of neighbours beyond ``threshold`` bits."""
    if not len(hashes):
        return []
    moving = np.concatenate([(hashes[1:] != hashes[:-1]).sum(axis=1) > threshold, [False]])
    ends = np.flatnonzero(moving[:-1] & ~moving[1:]) + 1
    return [0, *(int(end) for end in ends)]


def keyframes(hashes: Hashes, times: npt.NDArray[np.float64], rules: dict[str, Any]) -> list[int]:
    """Indices of the keyframes by the rule that config/keyframes.yaml (``rules``) chooses."""
    if rules["rule"] == "paper_literal":
        return paper_literal(hashes, **rules["paper_literal"])
    return capped(hashes, times, **rules["capped"])


def of_video(task: Task) -> list[int]:
    """Decode one video and choose; runs in a child process.

    Raises:
        DataError: it cannot be decoded, or not to the end that its frame times promise.
    """
    import cv2

    cv2.setNumThreads(1)
    source, record, rules = task
    hashes = np.array([hashing.perceptual_hash(plane) for _, plane in video.read_luma(Path(source.path))])
    times = video.frame_times(record)
    if len(hashes) != len(times):
        raise DataError(f"{source.path}: {len(hashes)} frames decoded, {len(times)} expected; run probe_videos anew")
    return keyframes(hashes, times, rules)


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--videos", type=Path, required=True, help="videos.jsonl of probe_videos")
    parser.add_argument("--frame-times", type=Path, required=True, help="frame_times.jsonl of probe_videos")
    parser.add_argument("--settings", type=Path, required=True, help="config/keyframes.yaml")
    parser.add_argument("--keyframes", type=Path, required=True, help="file to write")
    parser.add_argument("--cache", type=Path, required=True, help="folder for finished videos")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--timeout-s", type=float, default=600, help="longest time for one video")
    return parser


def step(args: argparse.Namespace) -> None:
    rules = settings.read("keyframes", args.settings)
    times = jsonl.read_unique(args.frame_times, FrameTimes, "id")
    videos = [item for item in jsonl.read(args.videos, Video) if item.usable]
    for item in videos:
        if item.id not in times:
            raise DataError(f"{args.frame_times}: no video '{item.id}' of {args.videos}; run probe_videos anew")
    with open_cache(args.cache, rules, args.keyframes) as done:
        tasks: list[Task] = [(item, times[item.id], rules) for item in videos if item.sha256 not in done]
        outcomes = workers.run_all(of_video, tasks, args.workers, timeout_s=args.timeout_s)
        for outcome in progress.track(outcomes, "extract_keyframes", len(tasks), "videos"):
            if outcome.value is None:
                print(f"extract_keyframes  {outcome.item[0].id} left out: {outcome.error}", file=sys.stderr)
            else:
                done.put(outcome.item[0].sha256, outcome.value)
        found = [(item.id, done[item.sha256]) for item in videos if item.sha256 in done]
    jsonl.write(args.keyframes, (_record(id_, frames, times[id_]) for id_, frames in found))


def open_cache(root: Path, rules: dict[str, Any], output: Path) -> cache.Cache:
    """The choices that these rules have made so far, whatever the data set.

    One file per output, because several data sets may be at work at a time; the files of the others are read.
    """
    chosen = rules["rule"]
    folder = root / cache.fingerprint("keyframes", VERSION, chosen, rules[chosen])
    own = folder / f"{cache.fingerprint(str(output.absolute()))}.jsonl"
    return cache.Cache(own, [path for path in sorted(folder.glob("*.jsonl")) if path != own])


def _record(id_: str, frames: list[int], record: FrameTimes) -> Keyframes:
    return Keyframes(id=id_, frames=frames, times=video.frame_times(record)[frames].tolist())


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
