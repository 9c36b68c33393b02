"""Score the answers of one cell against the references of its data set.

Reads predictions.jsonl (one Prediction per question) and questions.jsonl (Question). Writes cases.jsonl, one Case per
question with its value in every metric, and scores.json with the micro mean of every metric over all questions, each
category and each subset, and its 95 % interval by bootstrap over videos. All values are in 0–1.

A prompt with `answers: open` is scored by the text metrics of scripts/lib/metrics.py, one with `answers: option` by
`accuracy` of the option read from the reply (scripts.judges.option_letter.py). Only answers are scored (status ok or
unanswerable); failures are counted by status and never enter a mean.

    python -m scripts.judge.score_cell --predictions results/predictions/CELL/predictions.jsonl \\
        --questions resources/datasets/DATASET/questions.jsonl --prompt config/prompts/v_q.yaml \\
        --scores scores.json --cases cases.jsonl
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.infer import prompting
from scripts.judges.option_letter import read_option
from scripts.lib import cells, cli, jsonl, metrics, stats
from scripts.lib.errors import DataError
from scripts.lib.files import write_text
from scripts.lib.questions import read_questions
from scripts.lib.records import ALL, Case, Prediction, Question

VERSION = 2
"""Of the scoring: raise it when a metric or the way an answer is read changes."""
DECIMALS = 6
"""Of the values in scores.json: beyond any use, and short of where machines differ in adding up."""


def open_metrics(question: Question, prediction: Prediction) -> dict[str, float]:
    """Every text metric of one open-ended answer, the best over the references."""
    return {name: measure(question.answers, prediction.answer) for name, measure in metrics.OPEN.items()}


def option_metrics(question: Question, prediction: Prediction) -> dict[str, float]:
    """Accuracy of one multiple-choice answer; a reply that names no option, or two, is wrong.

    Raises:
        DataError: the question has no options.
    """
    if question.options is None:
        raise DataError(
            f"question '{question.key}' has no options; score it under a prompt with 'answers: open',"
            " or give the question options and ground_truth"
        )
    return {metrics.CHOICE: float(read_option(prediction.answer, question.options) == question.ground_truth)}


ANSWERS = {"open": open_metrics, "option": option_metrics}


def check_keys(questions: dict[str, Question], predictions: dict[str, Prediction], where: Path) -> None:
    """Refuse predictions that are not one for each question.

    Raises:
        DataError: names the first key without a prediction or without a question.
    """
    missing = next((key for key in questions if key not in predictions), None)
    if missing is not None:
        raise DataError(
            f"{where}: no prediction for question '{missing}'; run run_cell again, it answers what is missing"
        )
    unknown = next((key for key in predictions if key not in questions), None)
    if unknown is not None:
        raise DataError(f"{where}: prediction '{unknown}' is of no question of this data set; check --questions")


def make_cases(questions: dict[str, Question], predictions: dict[str, Prediction], answers: str) -> list[Case]:
    """One case per question, in question order; metrics only where the prediction is an answer.

    Args:
        answers: ``open`` or ``option``, as the prompt says.
    """
    measure = ANSWERS[answers]
    return [
        Case(
            key=key,
            video=question.video,
            category=question.category,
            subsets=question.subsets,
            status=predictions[key].status,
            answer=predictions[key].answer,
            metrics=measure(question, predictions[key]) if predictions[key].scored else {},
        )
        for key, question in questions.items()
    ]


def groups(cases: list[Case]) -> dict[str, list[Case]]:
    """The cases of ``all``, of each category and of each subset.

    A subset that shares its name with a category (MyEgo's "previous" beside a question about the previous sign) is
    named ``subset:<name>``.

    Raises:
        DataError: a category or subset is called ``all``.
    """
    categories = sorted({case.category for case in cases})
    subsets = sorted({subset for case in cases for subset in case.subsets})
    if ALL in (*categories, *subsets):
        raise DataError(f"a category or subset is called '{ALL}', which means every question; rename it")
    named = {f"subset:{name}" if name in categories else name: name for name in subsets}
    return {
        ALL: cases,
        **{name: [case for case in cases if case.category == name] for name in categories},
        **{shown: [case for case in cases if name in case.subsets] for shown, name in named.items()},
    }


def score(cases: list[Case], names: list[str], draws: int, seed: int) -> dict[str, dict[str, Any]]:
    """Metric to group to ``value``, ``low``, ``high``, ``n``, ``n_scored`` and ``n_videos`` (of those scored).

    ``value``, ``low`` and ``high`` are null where nothing could be scored.
    """
    scores: dict[str, dict[str, Any]] = {name: {} for name in names}
    for group, members in groups(cases).items():
        scored = [case for case in members if case.metrics]
        values = [[case.metrics[name] for name in names] for case in scored]
        intervals = stats.bootstrap(values, [case.video for case in scored], draws, seed)
        for position, name in enumerate(names):
            interval = asdict(intervals[position]) if intervals else {"value": None, "low": None, "high": None}
            scores[name][group] = {
                **{key: _round(interval[key]) for key in ("value", "low", "high")},
                "n": len(members),
                "n_scored": len(scored),
                "n_videos": len({case.video for case in scored}),
            }
    return scores


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, DECIMALS)


def cell_of(predictions: Path) -> str | None:
    """The cell that a path ``…/predictions/<cell>/predictions.jsonl`` is of; None for a file kept elsewhere."""
    folder = Path(predictions).parent.parts
    depth = len(cells.AXES)
    if len(folder) <= depth or folder[-depth - 1] != "predictions":
        return None
    return str(cells.parse(Path(*folder[-depth:]).as_posix()))


def frames_changed(predictions: Iterable[Prediction]) -> dict[str, int]:
    """What models did to the frames they were given, and to how many questions' frames; most frequent first."""
    return dict(Counter(one.frames_note for one in predictions if one.frames_note).most_common())


def summary(
    cases: list[Case], frames: dict[str, int], answers: str, cell: str | None, draws: int, seed: int
) -> dict[str, Any]:
    """The content of scores.json."""
    names = list(metrics.OPEN) if answers == "open" else [metrics.CHOICE]
    return {
        "cell": cell,
        "n": len(cases),
        "n_videos": len({case.video for case in cases}),
        "statuses": dict(sorted(Counter(case.status for case in cases).items())),
        "frames_changed": frames,
        "metrics": score(cases, names, draws, seed),
        "settings": {"version": VERSION, "answers": answers, "draws": draws, "seed": seed, "level": stats.LEVEL},
    }


def step(args: argparse.Namespace) -> None:
    answers = prompting.read(args.prompt)["answers"]
    questions = read_questions(args.questions)
    predictions = jsonl.read_unique(args.predictions, Prediction, "key")
    check_keys(questions, predictions, args.predictions)
    try:
        cases = make_cases(questions, predictions, answers)
        frames = frames_changed(predictions.values())
        made = summary(cases, frames, answers, cell_of(args.predictions), args.draws, args.seed)
    except DataError as error:
        raise DataError(f"{args.questions}: {error}") from None
    jsonl.write(args.cases, cases)
    write_text(args.scores, json.dumps(made, ensure_ascii=False, indent=1) + "\n")


def at_least(lowest: int) -> Callable[[str], int]:
    """A type for argparse: whole numbers from ``lowest`` on."""

    def integer(text: str) -> int:
        value = int(text)
        if value < lowest:
            raise argparse.ArgumentTypeError(f"{value} is less than {lowest}")
        return value

    return integer


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--predictions", type=Path, required=True, help="Prediction records, one per question")
    parser.add_argument("--questions", type=Path, required=True, help="Question records of the data set")
    parser.add_argument(
        "--prompt", type=Path, required=True, help="config/prompts/<name>.yaml the answers were given to"
    )
    parser.add_argument("--draws", type=at_least(1), default=10_000, help="bootstrap draws (default: %(default)s)")
    parser.add_argument("--seed", type=at_least(0), default=0, help="of the bootstrap (default: %(default)s)")
    parser.add_argument("--scores", type=Path, required=True, help="scores.json to write")
    parser.add_argument("--cases", type=Path, required=True, help="cases.jsonl to write")
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
