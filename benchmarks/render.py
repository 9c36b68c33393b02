"""How much of rendering is the encoder: frames per CPU-second end to end, divided by those of the encoder alone on the
same frames, composed beforehand and fed from memory. 1.00 would mean that drawing costs nothing. One process, one run.

    python -m benchmarks.render --dataset config/datasets/demo_rolling.yaml --dataset config/datasets/demo_signs.yaml
"""

import argparse
import resource
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts.lib.records import Scenario
from scripts.synth import backgrounds, build_scenarios, compose, encode, fonts

PRESETS = ("veryfast", "ultrafast")


def cpu_seconds() -> float:
    """User and system time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def copied(frame: Any) -> Any:
    """A frame of its own memory."""
    made = type(frame).from_ndarray(frame.to_ndarray(format="yuv420p"), format="yuv420p")
    made.pts = frame.pts
    return made


def timed(scenario: Scenario, frames: Iterable[Any], preset: str, folder: str) -> float:
    """CPU-seconds to draw (when ``frames`` is lazy) and encode."""
    start = cpu_seconds()
    size = scenario.width, scenario.height, scenario.fps
    encode.encode(Path(folder) / "made.mp4", frames, *size, {"preset": preset, "crf": 23})
    return cpu_seconds() - start


def measure(scenario: Scenario, faces: list[fonts.Face], preset: str, count: int, rounds: int) -> tuple[float, float]:
    """Least CPU-seconds of ``rounds`` for (end to end, encoder alone), measured by turns."""
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            made = [copied(frame) for frame in compose.frames(scenario, faces, None, count)]
            alone = timed(scenario, made, preset, folder)
            del made
            pairs.append((timed(scenario, compose.frames(scenario, faces, None, count), preset, folder), alone))
    return min(whole for whole, _ in pairs), min(alone for _, alone in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path, action="append", required=True)
    parser.add_argument("--frames", type=int, default=300, help="frames of each video (default 300)")
    parser.add_argument("--rounds", type=int, default=2, help="the least of so many runs counts (default 2)")
    parser.add_argument(
        "--videos", type=int, default=7, help="first videos of each data set (default 7: each motion once)"
    )
    parser.add_argument("--preset", action="append", help=f"of x264 (default {' and '.join(PRESETS)})")
    args = parser.parse_args()
    print(f"{'preset':10} {'video':16} {'frames':>6} {'encoder f/cpu-s':>16} {'all f/cpu-s':>12} {'ratio':>6}")
    for preset in args.preset or PRESETS:
        total = [0.0, 0.0]
        for path in args.dataset:
            dataset = build_scenarios.load_dataset(path)
            source = dataset["source"] | {"videos": args.videos}
            faces = fonts.find(source["fonts"] == "system")
            pictures = backgrounds.images(build_scenarios.background_folder(source))
            for scenario in build_scenarios.build(dataset | {"source": source}, faces, pictures)[0]:
                count = min(args.frames, round(scenario.duration_s * scenario.fps))
                whole, alone = measure(scenario, faces, preset, count, args.rounds)
                total = [total[0] + whole, total[1] + alone]
                row = f"{count:6} {count / alone:16.0f} {count / whole:12.0f} {alone / whole:6.2f}"
                print(f"{preset:10} {scenario.id:16} {row}", flush=True)
        print(f"{preset:10} {'all':16} {'':6} {'':16} {'':12} {total[1] / total[0]:6.2f}", flush=True)


if __name__ == "__main__":
    main()
