"""What the report page holds, as plain JSON values: one block for each thing that the page reads when it needs it."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.lib import config, jsonl
from scripts.lib.cells import AXES, Cell, table_cells
from scripts.lib.errors import DataError
from scripts.lib.records import Case, FramePlan, FrameTimes, OcrFrame, Prediction, Question, Video

Answered = tuple[Case, Prediction]

SAME_TIME_S = 0.0005
"""Two times of one video that differ by less are the same frame."""


@dataclass(frozen=True)
class Inputs:
    """The roots below which the workflow keeps what the report shows."""

    scores: Path
    predictions: Path
    resources: Path
    table_dir: Path


@dataclass(frozen=True)
class Dataset:
    """One data set: questions in file order, and what is known of its videos."""

    questions: dict[str, Question]
    videos: dict[str, Video]
    frame_times: dict[str, FrameTimes]


def need(path: Path, rule: str) -> Path:
    """``path``, if it is there.

    Raises:
        DataError: names the rule that makes the file.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; run the rule {rule}, which makes it")
    return path


def read_dataset(inputs: Inputs, name: str) -> Dataset:
    """The questions, videos and frame times of a data set, each keyed by its id.

    Raises:
        DataError: a file is missing or malformed.
    """
    folder = inputs.resources / "datasets" / name
    return Dataset(
        jsonl.read_unique(need(folder / "questions.jsonl", "that builds the data set's questions"), Question, "key"),
        jsonl.read_unique(need(folder / "videos.jsonl", "probe_videos"), Video, "id"),
        jsonl.read_unique(need(folder / "frame_times.jsonl", "probe_videos"), FrameTimes, "id"),
    )


def read_plans(inputs: Inputs, dataset: str, sampler: str) -> dict[str, FramePlan]:
    """The frames that each question sees under a sampler, by question key."""
    path = inputs.resources / "frames" / dataset / f"{sampler}.jsonl"
    return jsonl.read_unique(need(path, "build_frames"), FramePlan, "key")


def read_table(inputs: Inputs, path: Path) -> tuple[dict[str, Any], list[Cell]]:
    """One table as make_table wrote it, and the cells it draws on that have scores.

    Raises:
        ConfigError: the table's YAML is wrong.
        DataError: make_table has not written the JSON, or wrote it for another version of the YAML.
    """
    spec = config.read_file("table", path)
    source = need(inputs.table_dir / f"{spec['name']}.json", "make_table")
    try:
        made = json.loads(source.read_text(encoding="utf-8"))
        current = made["spec"] == spec
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{source}: not what make_table writes; run make_table again") from None
    if not current:
        raise DataError(f"{source}: made for another version of {path}; run make_table again")
    return table_view(made), [cell for cell in table_cells(spec) if str(cell) not in made["missing"]]


def question_block(questions: Iterable[Question]) -> list[dict[str, Any]]:
    """Questions as the page shows them; what is empty is left out."""
    hidden = {"question_id", "qa_times", "evidence", "domain"}
    shown = (question.model_dump(exclude=hidden) for question in questions)
    return [{name: value for name, value in one.items() if value not in (None, [])} for one in shown]


def plan_block(plans: dict[str, FramePlan], questions: Iterable[str]) -> list[dict[str, Any] | None]:
    """The frames of each question, in the order of the questions; none where the sampler was not asked."""
    return [
        plan.model_dump(include={"status", "frames", "times", "note"}, exclude_defaults=True)
        if (plan := plans.get(key))
        else None
        for key in questions
    ]


def read_cell(inputs: Inputs, cell: Cell, dataset: Dataset, plans: dict[str, FramePlan]) -> list[Answered]:
    """The cases of one cell with the predictions that they judge, in file order.

    Raises:
        DataError: a file is missing, or a case has no prediction, question or frame plan.
    """
    path = need(inputs.scores / cell.path / "cases.jsonl", "score_cell")
    cases = list(jsonl.read(path, Case))
    predictions = jsonl.read_unique(
        need(inputs.predictions / cell.path / "predictions.jsonl", "run_cell"), Prediction, "key"
    )
    for known, name, rule in (
        (predictions, "prediction", "score_cell"),
        (dataset.questions, "question", "run_cell"),
        (plans, "frame plan", "build_frames"),
    ):
        _all_known(path, cases, known, name, rule)
    return [(case, predictions[case.key]) for case in cases]


def cell_block(answered: list[Answered], dataset: Dataset, plans: dict[str, FramePlan]) -> dict[str, Any]:
    """The cases of one cell, column by column (a name said once is a name not read 7,064 times).

    Returns:
        ``question`` (index in the data set), ``status``, ``answer``, ``raw`` (none where it is the answer), ``detail``,
        ``used`` (positions in the frame plan, none where all of it was used), ``size`` (width and height),
        ``tokens``, ``seconds`` and ``metrics`` (name to values, none where there is none).
    """
    position = {key: index for index, key in enumerate(dataset.questions)}
    return {
        "question": [position[case.key] for case, _ in answered],
        "status": [case.status for case, _ in answered],
        "answer": [case.answer for case, _ in answered],
        "raw": [None if made.raw == case.answer else made.raw for case, made in answered],
        "detail": [made.detail for _, made in answered],
        "used": [used_frames(plans[case.key], made) for case, made in answered],
        "size": [[made.width, made.height] for _, made in answered],
        "tokens": [made.visual_tokens for _, made in answered],
        "seconds": [round(made.seconds, 2) for _, made in answered],
        "metrics": {
            name: [_short(case.metrics.get(name)) for case, _ in answered]
            for name in sorted({name for case, _ in answered for name in case.metrics})
        },
    }


def _all_known(path: Path, cases: list[Case], known: dict[str, Any], name: str, rule: str) -> None:
    lost = next((case.key for case in cases if case.key not in known), None)
    if lost is not None:
        raise DataError(f"{path}: case '{lost}' has no {name}: the files are of different runs; run {rule} again")


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def used_frames(plan: FramePlan, prediction: Prediction) -> list[int] | None:
    """Positions in the plan of the frames that the model was really given; none when it was given all or failed."""
    if not prediction.scored or len(prediction.times) == len(plan.times):
        return None
    used = prediction.times
    return [at for at, t in enumerate(plan.times) if any(abs(t - u) < SAME_TIME_S for u in used)]


def cell_summary(cell: Cell, answered: list[Answered], plans: dict[str, FramePlan]) -> dict[str, Any]:
    """What the page must know of a cell before its cases are looked at, and what ran it."""
    lengths = [len(plans[case.key].frames) for case, _ in answered if plans[case.key].frames]
    origin = {
        name: sorted({str(value) for _, made in answered if (value := getattr(made, name))})
        for name in ("engine", "model_revision", "prompt_hash", "image_digest")
    }
    return {
        **{axis: getattr(cell, axis) for axis in AXES},
        "n": len(answered),
        "frames": statistics.median_high(lengths) if lengths else 0,
        "metrics": sorted({name for case, _ in answered for name in case.metrics}),
        "origin": origin,
    }


def ocr_block(path: Path, kept: set[tuple[str, int]]) -> dict[str, dict[int, Any]] | None:
    """The text read on the frames of which the page has room; none when this OCR was never asked for.

    Args:
        kept: video and frame index.

    Returns:
        Video to frame index to ``[width, height, [[text, confidence, [x, y, x, y, …]], …]]``, pixels of the source.
    """
    if not path.is_file():
        return None
    block: dict[str, dict[int, Any]] = {}
    for read in jsonl.read(path, OcrFrame):
        if (read.video, read.frame) in kept:
            boxes = [
                [box.text, round(box.confidence, 2), [round(x) for point in box.polygon for x in point]]
                for box in read.boxes
            ]
            block.setdefault(read.video, {})[read.frame] = [read.width, read.height, boxes]
    return block


def table_view(made: dict[str, Any]) -> dict[str, Any]:
    """A table as the page draws it: each number as text, and in per cent for sorting and plotting.

    Args:
        made: what make_table wrote as JSON.
    """
    spec = made["spec"]
    return {
        "title": spec["title"],
        "caption": spec["caption"],
        "columns": [
            {"label": column.get("heading", column["label"]), "over": column.get("over", "")}
            for column in spec["columns"]
        ],
        "rows": [
            {"label": row["label"], "section": row["section"], "entries": [_entry_view(one) for one in row["entries"]]}
            for row in made["rows"]
        ],
        "footnotes": made["footnotes"],
    }


def _entry_view(entry: dict[str, Any]) -> dict[str, Any]:
    view = {name: entry[name] for name in ("cell", "metric", "group", "rank", "text", "interval", "used")}
    told = ("low", "high") if entry["interval"] else ()
    return {**view, **{name: entry[name] * 100 if entry[name] is not None else None for name in ("value", *told)}}
