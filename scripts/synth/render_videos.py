"""Render the scenarios of a synthetic data set into mp4 files, in parallel.

A video is written whole or not at all, with a small JSON file beside it that names the scenario and encoder settings it
was made from. A rerun keeps the finished ones: only videos that are missing, or whose scenario or settings changed, are
rendered. The manifest lists every video in the order of the scenarios.
"""

import argparse
import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.lib import cli, files, jsonl, progress, workers
from scripts.lib.cache import fingerprint
from scripts.lib.errors import DataError, EngineError
from scripts.lib.records import Scenario, Source
from scripts.synth import compose, encode, fonts
from scripts.synth.build_scenarios import background_folder, load_dataset

LOOK_VERSION = 1
"""Raise it when the same scenario gives another picture than before, so that finished videos are rendered again."""


@dataclass(frozen=True)
class Job:
    """One video to render."""

    scenario: Scenario
    path: Path
    encoder: dict[str, Any]
    backgrounds: Path | None
    system_fonts: bool


def print_of(scenario: Scenario, encoder: dict[str, Any]) -> str:
    """What the finished video depends on."""
    return fingerprint(LOOK_VERSION, scenario.model_dump(mode="json"), encoder)


def finished(job: Job) -> bool:
    """Whether the video is there and was made from this very scenario and these settings."""
    note = job.path.with_suffix(".json")
    if not (job.path.is_file() and note.is_file()):
        return False
    return note.read_text(encoding="utf-8").strip() == _note(job)


def _note(job: Job) -> str:
    return jsonl.dumps({"id": job.scenario.id, "fingerprint": print_of(job.scenario, job.encoder)})


def render(job: Job) -> int:
    """Render one video unless it is finished; return how many frames were written.

    Raises:
        ConfigError: a font is not installed.
        DataError: a background is gone or changed.
        EngineError: the encoder failed.
    """
    if finished(job):
        return 0
    scenario, note = job.scenario, job.path.with_suffix(".json")
    faces = fonts.find(job.system_fonts)
    # First, because a kill between the two writes must not leave a note that vouches for the wrong video
    note.unlink(missing_ok=True)
    for left in job.path.parent.glob(f".{glob.escape(scenario.id[:80])}.*{job.path.suffix}"):
        left.unlink()  # what a killed run was writing
    with files.atomic_path(job.path) as temporary:
        made = compose.frames(scenario, faces, job.backgrounds)
        count = encode.encode(temporary, made, scenario.width, scenario.height, scenario.fps, job.encoder)
    files.write_text(note, _note(job) + "\n")
    return count


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--dataset", type=Path, required=True, help="YAML under config/datasets/")
    parser.add_argument("--scenarios", type=Path, required=True, help="scenarios.jsonl to render")
    parser.add_argument("--videos", type=Path, required=True, help="folder for the mp4 files")
    parser.add_argument("--manifest", type=Path, required=True, help="manifest.jsonl to write")
    parser.add_argument("--workers", type=int, default=1, help="processes, one video each at a time (default 1)")
    return parser


def step(args: argparse.Namespace) -> None:
    dataset = load_dataset(args.dataset)
    source = dataset["source"]
    scenarios = jsonl.read_unique(args.scenarios, Scenario, "id")
    if not scenarios:
        raise DataError(f"{args.scenarios}: no scenario in it; run build_scenarios again")
    encode.require_encoder()
    args.videos.mkdir(parents=True, exist_ok=True)
    jobs = [
        Job(
            made,
            args.videos / f"{made.id}.mp4",
            source["encoder"],
            background_folder(source),
            source["fonts"] == "system",
        )
        for made in scenarios.values()
    ]
    _render_all([job for job in jobs if not finished(job)], dataset["name"], args.workers)
    jsonl.write(
        args.manifest,
        (
            Source(
                id=job.scenario.id,
                path=str(job.path),
                source=f"{source['kind']}, seed {job.scenario.seed}",
                licence=dataset["licence"],
            )
            for job in jobs
        ),
    )


def _render_all(jobs: list[Job], name: str, count: int) -> None:
    """Render what is missing; one that fails does not stop the others, but ends the step."""
    outcomes = workers.run_all(render, jobs, count)
    failed = [
        outcome
        for outcome in progress.track(outcomes, f"render_videos {name}", len(jobs), "videos")
        if outcome.error is not None
    ]
    if failed:
        raise EngineError(
            f"{failed[0].item.path}: {failed[0].error} ({len(failed)} of {len(jobs)} videos failed; rerun to retry)"
        )


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
