"""What the report page holds, as plain JSON values: one block for each thing that the page reads when it needs it."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.lib import config, jsonl, metrics
from scripts.lib.cells import AXES, JUDGED, Cell, Scored, table_scores
from scripts.lib.errors import DataError
from scripts.lib.records import (
    ALL,
    MACRO,
    Case,
    FramePlan,
    FrameTimes,
    Judgement,
    OcrFrame,
    Prediction,
    Question,
    Video,
)

SAME_TIME_S = 0.0005
"""Two times of one video that differ by less are the same frame."""


@dataclass(frozen=True)
class Inputs:
    """The roots below which the workflow keeps what the report shows."""

    results: Path
    predictions: Path
    resources: Path
    table_dir: Path


@dataclass(frozen=True)
class Dataset:
    """One data set: questions in file order, and what is known of its videos."""

    questions: dict[str, Question]
    videos: dict[str, Video]
    frame_times: dict[str, FrameTimes]


@dataclass(frozen=True)
class Answered:
    """One cell: its cases, with the predictions and judgements that they come from."""

    cases: list[Case]
    """In file order; those by metrics of text where the tables ask for these, else those of the first judge."""
    predictions: dict[str, Prediction]
    """By key, as the two below."""
    judged: dict[str, dict[str, Case]] = field(default_factory=dict)
    """By judge."""
    judgements: dict[str, dict[str, Judgement]] = field(default_factory=dict)
    """By judge."""


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


def read_table(inputs: Inputs, path: Path) -> tuple[dict[str, Any], list[Scored]]:
    """One table as make_table wrote it, and the scores it draws on that there are.

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
    return table_view(made), [scored for scored in table_scores(spec) if str(scored) not in made["missing"]]


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


def read_cell(inputs: Inputs, scores: list[Scored], dataset: Dataset, plans: dict[str, FramePlan]) -> Answered:
    """The cases of one cell with what they come from.

    Args:
        scores: all of this cell that the tables ask for; at least one.

    Raises:
        DataError: a file is missing, or a case has no prediction, question, frame plan or judgement.
    """
    cell = scores[0].cell
    predictions = jsonl.read_unique(
        need(inputs.predictions / cell.path / "predictions.jsonl", "run_cell"), Prediction, "key"
    )
    cases, judgements = {}, {}
    for scored in scores:
        rule = "score_judgements" if scored.judge else "score_cell"
        path = need(inputs.results / scored.folder / "cases.jsonl", rule)
        found = cases[scored.judge] = jsonl.read_unique(path, Case, "key")
        for known, name, maker in (
            (predictions, "prediction", rule),
            (dataset.questions, "question", "run_cell"),
            (plans, "frame plan", "build_frames"),
        ):
            _all_known(path, found, known, name, maker)
        if scored.judge:
            made = inputs.results / "judgements" / scored.judge / cell.path / "judgements.jsonl"
            judgements[scored.judge] = jsonl.read_unique(need(made, "judge_cell"), Judgement, "key")
            _all_known(path, found, judgements[scored.judge], "judgement", rule)
    shown = list(cases[scores[0].judge].values())
    return Answered(shown, predictions, {judge: of for judge, of in cases.items() if judge}, judgements)


def metric_name(metric: str, judge: str) -> str:
    """What the page calls a metric: ``judge_score by egotextvqa`` where a judge gives it."""
    return f"{metric} by {judge}" if judge else metric


def _measured(answered: Answered) -> dict[str, list[float | None]]:
    """Every metric of a cell's cases by the page's name, in their order; none where a case doesn't have it."""
    text = sorted({name for case in answered.cases for name in case.metrics if name not in JUDGED})
    values = {name: [_short(case.metrics.get(name)) for case in answered.cases] for name in text}
    for judge, of in answered.judged.items():
        for name in JUDGED:
            values[metric_name(name, judge)] = [
                _short(of[case.key].metrics.get(name)) if case.key in of else None for case in answered.cases
            ]
    return values


def _judged(judgement: Judgement | None) -> dict[str, Any] | None:
    """A judgement as the page shows it; what is as usual is left out."""
    hidden = {"key", "judge", "prompt_hash", "seconds", "calls", "tokens_in", "tokens_out", "dollars"}
    return judgement.model_dump(exclude=hidden, exclude_defaults=True) if judgement else None


def cell_block(answered: Answered, dataset: Dataset, plans: dict[str, FramePlan]) -> dict[str, Any]:
    """The cases of one cell, column by column (a name said once is a name not read 7,064 times).

    Returns:
        ``question`` (index in the data set), ``status`` (of the prediction), ``answer``, ``raw`` (none where it is the
        answer), ``detail``, ``used`` (positions in the frame plan, none where all of it was used), ``size`` (width and
        height), ``tokens``, ``seconds``, ``metrics`` (name to values, none where there is none) and ``judged`` (judge
        to judgements).
    """
    position = {key: index for index, key in enumerate(dataset.questions)}
    cases = answered.cases
    made = [answered.predictions[case.key] for case in cases]
    return {
        "question": [position[case.key] for case in cases],
        "status": [one.status for one in made],
        "answer": [case.answer for case in cases],
        "raw": [None if one.raw == case.answer else one.raw for case, one in zip(cases, made, strict=True)],
        "detail": [one.detail for one in made],
        "used": [used_frames(plans[case.key], one) for case, one in zip(cases, made, strict=True)],
        "size": [[one.width, one.height] for one in made],
        "tokens": [one.visual_tokens for one in made],
        "seconds": [round(one.seconds, 2) for one in made],
        "metrics": _measured(answered),
        "judged": {judge: [_judged(of.get(case.key)) for case in cases] for judge, of in answered.judgements.items()},
    }


def _all_known(path: Path, cases: dict[str, Case], known: dict[str, Any], name: str, rule: str) -> None:
    lost = next((key for key in cases if key not in known), None)
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


def cell_summary(cell: Cell, answered: Answered, plans: dict[str, FramePlan]) -> dict[str, Any]:
    """What the page must know of a cell before its cases are looked at, and what ran it."""
    lengths = [len(plans[case.key].frames) for case in answered.cases if plans[case.key].frames]
    made = [answered.predictions[case.key] for case in answered.cases]
    origin = {
        name: sorted({str(value) for one in made if (value := getattr(one, name))})
        for name in ("engine", "model_revision", "prompt_hash", "image_digest")
    }
    return {
        **{axis: getattr(cell, axis) for axis in AXES},
        "n": len(answered.cases),
        "frames": statistics.median_high(lengths) if lengths else 0,
        "metrics": list(_measured(answered)),
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
    """A table as the page draws it: each number as text, and for sorting and plotting in per cent or, of a score, 0–5.

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
    """A number, and where its cases are: nowhere while it is missing, with all of them for a mean over categories."""
    view = {name: entry[name] for name in ("judge", "rank", "text", "interval", "used")}
    view["cell"] = None if entry["state"] == "missing" else entry["cell"]
    view["metric"] = metric_name(entry["metric"], entry["judge"]) if entry["metric"] else None
    view["group"] = ALL if entry["group"] == MACRO else entry["group"]
    scale = metrics.scale(entry["metric"]) if entry["metric"] else 1
    told = ("low", "high") if entry["interval"] else ()
    return {**view, **{name: entry[name] * scale if entry[name] is not None else None for name in ("value", *told)}}
