"""Join the lines of text read on single frames into texts followed over time, video by video.

Reads OcrFrame records, writes Track records: per video in reading order. The rules are those of scripts/ocr/tracks.py,
chosen in config/ocr.yaml.
"""

import argparse
from itertools import groupby
from pathlib import Path

from scripts.lib import cli, jsonl, progress
from scripts.lib.records import OcrFrame
from scripts.ocr import settings, tracks


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--ocr", type=Path, required=True, help="OcrFrame records of extract_ocr, sorted by video")
    parser.add_argument("--settings", type=Path, required=True, help="config/ocr.yaml")
    parser.add_argument("--tracks", type=Path, required=True, help="file to write")
    return parser


def step(args: argparse.Namespace) -> None:
    rules = settings.read("ocr", args.settings)["tracks"]
    frames = sorted(jsonl.read(args.ocr, OcrFrame), key=lambda frame: (frame.video, frame.t))
    videos = [list(group) for _, group in groupby(frames, key=lambda frame: frame.video)]
    shown = progress.track(videos, "merge_tracks", len(videos), "videos")
    jsonl.write(args.tracks, (track for video in shown for track in tracks.merge(video, rules)))


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
