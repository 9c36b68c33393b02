"""Make a report: tables, plots and every case of every cell, in one file that needs no network.

It is results/report.html for the tables that are asked for, and results/reports/<paper>.html for those of one folder.

The tables are those that make_table worked out. The case browser shows, for each question of each cell, the sampled
frames with the text that OCR read on them, the question, the truth, the answer, its scores and what judges made of it.
Pictures are small JPEGs inside the page; --max-frames bounds them, and the page says how many were left out. They are
kept under --cache, so that a rerun decodes nothing twice.

    python -m scripts.tables.make_report --tables config/tables/demo/*.yaml --results results \\
        --predictions results/predictions --resources resources --table-dir results/tables --report results/report.html
"""

import argparse
import base64
import datetime
import hashlib
import os
import platform
import string
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scripts.lib import cli, files
from scripts.lib.cells import Cell, Scored
from scripts.lib.errors import ConfigError
from scripts.lib.pages import embed
from scripts.lib.records import FramePlan
from scripts.tables import report_data, report_frames
from scripts.tables.report_data import Dataset, Inputs

FOLDER = Path(__file__).parent / "report"
SCRIPTS = ("page.js", "tables.js", "charts.js", "cases.js", "detail.js", "report.js")
Plans = dict[tuple[str, str], dict[str, FramePlan]]
"""Data set and sampler to the plans by question key."""

VERSION = 2
"""Raise it when a change of the code under scripts/tables makes another page of the same scores."""


def commit() -> str:
    """The git commit of the workflow, marked where files were changed since; empty outside a repository."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def date() -> str:
    """The day that SOURCE_DATE_EPOCH names (UTC); empty without it, so that equal inputs give equal bytes."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return ""
    try:
        return datetime.datetime.fromtimestamp(int(epoch), datetime.UTC).date().isoformat()
    except (ValueError, OverflowError):
        raise ConfigError(f"SOURCE_DATE_EPOCH: '{epoch}' is not a number of seconds since 1970") from None


def wanted_frames(cells: dict[Cell, report_data.Answered], plans: Plans) -> list[tuple[str, str, list[int]]]:
    """What each case would show: data set, video and frames, once per question and sampler."""
    asked = {
        (cell.dataset, cell.sampler, case.key): None for cell, answered in cells.items() for case in answered.cases
    }
    found = [(dataset, plans[dataset, sampler][key]) for dataset, sampler, key in asked]
    return [(dataset, plan.video, plan.frames) for dataset, plan in found if plan.frames]


def frame_jobs(chosen: set[report_frames.Frame], datasets: dict[str, Dataset]) -> list[report_frames.Job]:
    """One decoding job per video; a video without times (it was not usable) has none."""
    by_video: dict[tuple[str, str], list[int]] = {}
    for dataset, video, frame in sorted(chosen):
        by_video.setdefault((dataset, video), []).append(frame)
    return [
        report_frames.Job(dataset, datasets[dataset].videos[video], datasets[dataset].frame_times[video], frames)
        for (dataset, video), frames in by_video.items()
        if video in datasets[dataset].videos and video in datasets[dataset].frame_times
    ]


def blocks(
    inputs: Inputs,
    datasets: dict[str, Dataset],
    plans: Plans,
    cells: dict[Cell, report_data.Answered],
    pictures: dict[report_frames.Frame, str],
    chosen: set[report_frames.Frame],
) -> Iterator[str]:
    """Everything the page reads lazily, in a fixed order."""
    for name, dataset in datasets.items():
        yield embed(f"questions:{name}", report_data.question_block(dataset.questions.values()))
    for (name, sampler), plan in plans.items():
        yield embed(f"plans:{name}/{sampler}", report_data.plan_block(plan, datasets[name].questions))
    for name, sampler, resolution in sorted({(cell.dataset, cell.sampler, cell.resolution) for cell in cells}):
        kept = {(video, frame) for dataset, video, frame in chosen if dataset == name}
        path = inputs.resources / "ocr" / name / sampler / f"{resolution}.jsonl"
        yield embed(f"ocr:{name}/{sampler}/{resolution}", report_data.ocr_block(path, kept))
    for cell, answered in cells.items():
        yield embed(f"cases:{cell}", report_data.cell_block(answered, datasets[cell.dataset], plans[key_of(cell)]))
    by_video: dict[str, dict[int, str]] = {}
    for frame, picture in sorted(pictures.items()):
        by_video.setdefault(f"{frame[0]}/{frame[1]}", {})[frame[2]] = picture
    for name, frames in by_video.items():
        yield embed(f"pictures:{name}", frames)


def key_of(cell: Cell) -> tuple[str, str]:
    """What a frame plan depends on."""
    return cell.dataset, cell.sampler


def by_cell(scores: Iterable[Scored]) -> dict[Cell, list[Scored]]:
    """The cells, sorted, each with its scores: those by metrics of text before those by judges."""
    found: dict[Cell, list[Scored]] = {}
    for scored in sorted(set(scores)):
        found.setdefault(scored.cell, []).append(scored)
    return found


def page(report: dict[str, Any], lazy: Iterator[str]) -> str:
    """The HTML of the report; its policy lets it load nothing and run no script but its own."""
    code = '"use strict";\n' + "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    code = f"(() => {{\n{code}\n}})();\n"
    style = (FOLDER / "report.css").read_text(encoding="utf-8")
    template = string.Template((FOLDER / "template.html").read_text(encoding="utf-8"))
    return template.substitute(
        policy=f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(code)}",
        style=style,
        script=code,
        report=embed("report", report),
        blocks="\n".join(lazy),
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def notes(n_chosen: int, n_wanted: int) -> list[str]:
    """What the reader must know of what is not in the page."""
    if n_chosen == n_wanted:
        return []
    return [
        f"Pictures of {n_chosen:,} of the {n_wanted:,} sampled frames are in this page, spread evenly over the cases; "
        "the others show their time only. Raise --max-frames of make_report to keep more."
    ]


def step(args: argparse.Namespace) -> None:
    inputs = Inputs(args.results, args.predictions, args.resources, args.table_dir)
    made = [report_data.read_table(inputs, path) for path in args.tables]
    names = by_cell(scored for _, table_scores in made for scored in table_scores)
    datasets = {name: report_data.read_dataset(inputs, name) for name in sorted({cell.dataset for cell in names})}
    plans = {key: report_data.read_plans(inputs, *key) for key in sorted({key_of(cell) for cell in names})}
    cells = {
        cell: report_data.read_cell(inputs, of, datasets[cell.dataset], plans[key_of(cell)])
        for cell, of in names.items()
    }

    wanted = wanted_frames(cells, plans)
    chosen = report_frames.choose_frames(wanted, args.max_frames)
    n_wanted = len({(dataset, video, frame) for dataset, video, frames in wanted for frame in frames})
    cache = args.cache or args.resources / "cache" / "thumbnails"
    jobs = frame_jobs(chosen, datasets)
    pictures, problems = report_frames.decode_all(jobs, cache, args.workers, args.timeout_s)
    report = {
        "tables": [table for table, _ in made],
        "cells": {
            str(cell): report_data.cell_summary(cell, answered, plans[key_of(cell)]) for cell, answered in cells.items()
        },
        "commit": commit(),
        "date": date(),
        "versions": {"Python": platform.python_version()},
        "problems": problems,
        "notes": notes(len(chosen), n_wanted),
    }
    files.write_text(args.report, page(report, blocks(inputs, datasets, plans, cells, pictures, chosen)))


def build_parser() -> argparse.ArgumentParser:
    made = cli.parser(__doc__)
    made.add_argument("--tables", type=Path, nargs="+", required=True, help="YAML files of the tables to show")
    made.add_argument("--results", type=Path, required=True, help="folder of scores/, judged/ and judgements/")
    made.add_argument("--predictions", type=Path, required=True, help="folder of <cell>/predictions.jsonl")
    made.add_argument("--resources", type=Path, required=True, help="folder of datasets/, frames/ and ocr/")
    made.add_argument("--table-dir", type=Path, required=True, help="folder of the tables' JSON")
    made.add_argument("--report", type=Path, required=True, help="the page to write")
    made.add_argument("--max-frames", type=int, default=1500, help="most pictures in the page (%(default)s)")
    made.add_argument("--cache", type=Path, help="folder of pictures made before (RESOURCES/cache/thumbnails)")
    made.add_argument("--workers", type=int, default=1, help="processes that decode (%(default)s)")
    made.add_argument("--timeout-s", type=float, default=120, help="most seconds for 32 frames (%(default)s)")
    return made


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
