"""What choosing frames saves the OCR stage, and whether it costs text: keyframes against every single frame.

Renders short rolling clips whose text is known, reads every frame of them with the real engine, and joins the readings
into text twice: from all frames, and from the keyframes of config/keyframes.yaml alone. Both routes share one engine
and one run, so the ratios hold on any machine; a frame's reading is the same in both. Recall and precision are
characters of the longest common subsequence over the length of the truth and of the joined text.

    python -m benchmarks.ocr_stage --motions rtl ttb --seconds 6

Each motion costs about 140 frames of OCR (80 CPU-seconds).
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from rapidfuzz.distance import LCSseq

from scripts.lib import config, video
from scripts.lib.records import FrameTimes, OcrFrame, Question, Scenario
from scripts.ocr import engine, extract_keyframes, fetch_ocr_models, hashing, settings, tracks
from scripts.synth import build_scenarios, fonts, render_videos

ROOT = Path(__file__).parents[1]


def scenarios(motions: list[str], seconds: float, seed: int) -> list[tuple[Scenario, Question]]:
    """One scenario and question for each motion, at 24 frames a second."""
    dataset = config.load("dataset", "demo_rolling", ROOT / "config")
    changed = {"seed": seed, "videos": 7, "duration_s": [seconds, seconds], "fps": [24, 24], "languages": ["en"]}
    source = {**dataset["source"], **changed}
    made, questions = build_scenarios.build({**dataset, "source": source}, fonts.find(system=False))
    return [pair for pair in zip(made, questions, strict=True) if pair[0].look["motion"] in motions]


def frame_times(path: Path) -> FrameTimes:
    """Of a clip just rendered."""
    import numpy as np

    with video.open_video(path) as container:
        base = video.picture_stream(container).time_base
        ticks = np.array([frame.pts for frame in video.sequential(container, [])])
    return video.encode_times(path.stem, ticks, (base.numerator, base.denominator))


def read_every_frame(path: Path, record: FrameTimes, reader: Any) -> tuple[list[OcrFrame], list[float]]:
    """All frames read one by one, and the CPU-seconds that each took."""
    times = video.frame_times(record)
    found, cost = [], []
    for index, picture in enumerate(video.read_frames(path, record, range(len(times)))):
        start = time.process_time()
        height, width = picture.shape[:2]
        boxes = engine.read(reader, picture, (width, height), 0.5)
        cost.append(time.process_time() - start)
        found.append(
            OcrFrame(video=path.stem, frame=index, t=float(times[index]), width=width, height=height, boxes=boxes)
        )
    return found, cost


def choose(path: Path, record: FrameTimes) -> tuple[list[int], float]:
    """The keyframes of config/keyframes.yaml and the CPU-seconds to decode, hash and choose."""
    import numpy as np

    rules = settings.read("keyframes", ROOT / "config" / "keyframes.yaml")
    start = time.process_time()
    hashes = np.array([hashing.perceptual_hash(plane) for _, plane in video.read_luma(path)])
    chosen = extract_keyframes.keyframes(hashes, video.frame_times(record), rules)
    return chosen, time.process_time() - start


def spared(path: Path, record: FrameTimes, chosen: list[int], alike: dict[str, Any]) -> int:
    """How many of the keyframes extract_ocr would not read because they look like an earlier one."""
    seen: list[tuple[int, hashing.Luma]] = []
    count = 0
    for index, picture in zip(chosen, video.read_frames(path, record, chosen), strict=True):
        plane = hashing.luma(picture)
        if hashing.find_alike(plane, reversed(seen), alike) is None:
            seen.append((index, plane))
        else:
            count += 1
    return count


def score(frames: list[OcrFrame], truth: str, rules: dict[str, Any]) -> tuple[float, float]:
    """Recall and precision of the joined text."""
    text = tracks.reading(tracks.merge(frames, rules))
    common = LCSseq.similarity(text, truth)
    return common / len(truth), common / max(1, len(text))


def report(scenario: Scenario, question: Question, folder: Path, reader: Any, ocr: dict[str, Any]) -> str:
    """Render, read and compare one clip; return its line."""
    path = folder / f"{scenario.look['motion']}.mp4"
    render_videos.render(render_videos.Job(scenario, path, {"preset": "veryfast", "crf": 23}, None, system_fonts=False))
    record = frame_times(path)
    frames, cost = read_every_frame(path, record, reader)
    chosen, hashing_cost = choose(path, record)
    unread = spared(path, record, chosen, ocr["alike"])
    truth = question.answers[0]
    every = score(frames, truth, ocr["tracks"])
    keys = score([frames[index] for index in chosen], truth, ocr["tracks"])
    key_cost = sum(cost[index] for index in chosen) + hashing_cost
    return (
        f"{path.stem:<11}{len(frames):>7}{len(chosen):>6}{unread:>7}{len(frames) / len(chosen):>8.1f}"
        f"{sum(cost) / key_cost:>8.1f}  {every[0]:.4f}/{every[1]:.4f}  {keys[0]:.4f}/{keys[1]:.4f}"
        f"  {keys[0] - every[0]:+.4f}/{keys[1] - every[1]:+.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--motions", nargs="+", default=["rtl", "ttb"])
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    ocr = settings.read("ocr", ROOT / "config" / "ocr.yaml")
    print("recall/precision of the joined text; cpu = every frame's OCR over keyframes' OCR and their choice")
    print("motion      frames  keys  alike  frames:  cpu:    every frame    keyframes      difference")
    with tempfile.TemporaryDirectory() as scratch:
        fetch_ocr_models.fetch(ocr["models"], Path(scratch, "models"))
        reader = engine.load(Path(scratch, "models"), ocr["engine"])
        for scenario, question in scenarios(args.motions, args.seconds, args.seed):
            print(report(scenario, question, Path(scratch), reader, ocr), flush=True)


if __name__ == "__main__":
    main()
