"""Score the answers of one cell against the references of its data set.

Reads predictions.jsonl (one Prediction per question) and questions.jsonl (Question). Writes cases.jsonl, one Case per
question with its value in every metric, and scores.json with the micro mean of every metric over all questions, each
category and each subset, the mean over the categories (macro), and their 95 % intervals by bootstrap over videos. All
values are in 0–1. Beside them stand the counts of every status and what the answers cost.

A prompt with `answers: open` is scored by the text metrics of scripts/lib/metrics.py, one with `answers: option` by
`accuracy` of the option read from the reply (scripts.judges.option_letter.py). Only answers are scored (status ok or
unanswerable); failures are counted by status and never enter a mean.

    python -m scripts.judge.score_cell --predictions results/predictions/CELL/predictions.jsonl \\
        --questions resources/datasets/DATASET/questions.jsonl --prompt config/prompts/v_q.yaml \\
        --scores scores.json --cases cases.jsonl
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts.infer import prompting
from scripts.judge.scoring import add_options, cell_of, cost, frames_changed, score, statuses
from scripts.judges.option_letter import read_option
from scripts.lib import cli, jsonl, metrics, stats
from scripts.lib.errors import DataError
from scripts.lib.files import write_text
from scripts.lib.questions import check_keys, read_questions
from scripts.lib.records import Case, Prediction, Question

VERSION = 3
"""Of the scoring: raise it when a metric, a mean or the way an answer is read changes."""


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


def summary(
    cases: list[Case],
    frames: dict[str, int],
    answers: str,
    cell: str | None,
    draws: int,
    seed: int,
    predictions: Iterable[Prediction] = (),
) -> dict[str, Any]:
    """The content of scores.json.

    Args:
        predictions: whose cost is summed up.
    """
    names = list(metrics.OPEN) if answers == "open" else [metrics.CHOICE]
    return {
        "cell": cell,
        "n": len(cases),
        "n_videos": len({case.video for case in cases}),
        "statuses": statuses(cases),
        "frames_changed": frames,
        "metrics": score(cases, names, draws, seed),
        "cost": {"answers": cost(predictions)},
        "settings": {"version": VERSION, "answers": answers, "draws": draws, "seed": seed, "level": stats.LEVEL},
    }


def step(args: argparse.Namespace) -> None:
    answers = prompting.read(args.prompt)["answers"]
    questions = read_questions(args.questions)
    predictions = jsonl.read_unique(args.predictions, Prediction, "key")
    check_keys(questions, predictions, args.predictions)
    all_of_them = predictions.values()
    try:
        cases = make_cases(questions, predictions, answers)
        frames, cell = frames_changed(all_of_them), cell_of(args.predictions)
        made = summary(cases, frames, answers, cell, args.draws, args.seed, all_of_them)
    except DataError as error:
        raise DataError(f"{args.questions}: {error}") from None
    jsonl.write(args.cases, cases)
    write_text(args.scores, json.dumps(made, ensure_ascii=False, indent=1) + "\n")


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument(
        "--prompt", type=Path, required=True, help="config/prompts/<name>.yaml the answers were given to"
    )
    add_options(parser)
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
