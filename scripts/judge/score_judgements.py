"""Score one cell by what a judge made of its answers.

Reads judgements.jsonl (one Judgement per question) beside predictions.jsonl and questions.jsonl. Writes cases.jsonl,
one Case per question, and scores.json:

  metrics        judge_accuracy (share of yes, 0–1) and judge_score (mean, 0–5): over all questions, each category and
                 each subset (micro), and as the mean over the categories (macro), with 95 % intervals by bootstrap
                 over videos. Only judgements that could be made count; the others are counted by status, never as wrong
  as_published   the same judgements counted as the judge's released script does (`published_rule` of the judge's file)
  again          how often the verdict flipped among the answers that were judged twice
  cost           tokens, dollars and seconds, of the answers and of judging them

    python -m scripts.judge.score_judgements --judge config/judges/egotextvqa.yaml \\
        --judgements results/judgements/egotextvqa/CELL/judgements.jsonl \\
        --predictions results/predictions/CELL/predictions.jsonl \\
        --questions resources/datasets/DATASET/questions.jsonl --scores scores.json --cases cases.jsonl
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts.judge import published
from scripts.judge.scoring import DECIMALS, add_options, cell_of, cost, frames_changed, score, statuses
from scripts.lib import cli, config, jsonl, stats
from scripts.lib.cells import JUDGED
from scripts.lib.errors import DataError
from scripts.lib.files import write_text
from scripts.lib.questions import check_keys, read_questions
from scripts.lib.records import Case, Judgement, Prediction, Question

VERSION = 1
"""Raise it when a mean, or a rule of a released script, is taken differently."""
ACCURACY, SCORE = JUDGED


def measured(judgement: Judgement) -> dict[str, float]:
    """Both metrics of one judgement; no score where the judge gives none, nothing at all where it could not be made."""
    if judgement.status != "ok":
        return {}
    value = {ACCURACY: float(judgement.verdict == "yes")}
    return value if judgement.score is None else {**value, SCORE: judgement.score}


def status_of(prediction: Prediction, judgement: Judgement) -> str:
    """The prediction's status, or ``judge:<status>`` where the answer is one and the judgement could not be made.

    Raises:
        DataError: an answer that counts as none, or a judgement of what is no answer.
    """
    if prediction.scored == (judgement.status == "no_answer"):
        raise DataError(
            f"judgement '{judgement.key}' is {judgement.status} and its prediction {prediction.status}: the files are"
            " of different runs; run judge_cell again"
        )
    return prediction.status if judgement.status in ("ok", "no_answer") else f"judge:{judgement.status}"


def make_cases(
    questions: dict[str, Question], predictions: dict[str, Prediction], judgements: dict[str, Judgement]
) -> list[Case]:
    """One case per question, in question order; metrics only where the judgement is ``ok``.

    Raises:
        DataError: see ``status_of``.
    """
    return [
        Case(
            key=key,
            video=question.video,
            category=question.category,
            subsets=question.subsets,
            status=status_of(predictions[key], judgements[key]),
            answer=predictions[key].answer,
            metrics=measured(judgements[key]),
        )
        for key, question in questions.items()
    ]


def judged_again(judgements: Iterable[Judgement]) -> dict[str, Any] | None:
    """How often a second judging gave the other verdict (``rate`` with its 95 % Wilson interval), and the mean change
    of the score, whichever way (0–5); None where nothing was judged twice."""
    twice = [one for one in judgements if one.status == "ok" and one.again_verdict is not None]
    if not twice:
        return None
    flipped = sum(one.verdict != one.again_verdict for one in twice)
    rate, low, high = (round(value, DECIMALS) for value in stats.proportion(flipped, len(twice)))
    changes = [
        abs(one.score - one.again_score) for one in twice if one.score is not None and one.again_score is not None
    ]
    change = round(sum(changes) / len(changes), DECIMALS) if changes else None
    return {"n": len(twice), "flipped": flipped, "rate": rate, "low": low, "high": high, "score_change": change}


def summary(
    judge: dict[str, Any],
    cases: list[Case],
    predictions: dict[str, Prediction],
    judgements: dict[str, Judgement],
    cell: str | None,
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """The content of scores.json.

    Args:
        judge: content of a file in config/judges, with its ``name``.
        predictions, judgements: by key; one of each for every case.
    """
    made, rule = list(judgements.values()), judge.get("published_rule")
    asked = sum(any((one.calls, one.tokens_in, one.dollars)) for one in made)
    judging = {**cost(made), "calls": sum(one.calls for one in made), "asked": asked}
    return {
        "cell": cell,
        "judge": judge["name"],
        "judge_title": judge["title"],
        "judge_note": judge.get("note", ""),
        "n": len(cases),
        "n_videos": len({case.video for case in cases}),
        "statuses": statuses(cases),
        "judgements": dict(sorted(Counter(one.status for one in made).items())),
        "flags": dict(sorted(Counter(flag for one in made for flag in one.flags).items())),
        "frames_changed": frames_changed(predictions.values()),
        "metrics": score(cases, list(JUDGED), draws, seed),
        "as_published": published.scores(rule, cases, judgements) if rule else None,
        "again": judged_again(made),
        "cost": {"answers": cost(predictions.values()), "judging": judging},
        "settings": {"version": VERSION, "judge": judge["name"], "draws": draws, "seed": seed, "level": stats.LEVEL},
    }


def step(args: argparse.Namespace) -> None:
    judge = config.read_file("judge", args.judge)
    questions = read_questions(args.questions)
    predictions = jsonl.read_unique(args.predictions, Prediction, "key")
    judgements = jsonl.read_unique(args.judgements, Judgement, "key")
    check_keys(questions, predictions, args.predictions)
    check_keys(questions, judgements, args.judgements, "judgement", "judge_cell")
    try:
        cases = make_cases(questions, predictions, judgements)
    except DataError as error:
        raise DataError(f"{args.judgements}: {error}") from None
    try:
        made = summary(judge, cases, predictions, judgements, cell_of(args.predictions), args.draws, args.seed)
    except DataError as error:
        raise DataError(f"{args.questions}: {error}") from None
    jsonl.write(args.cases, cases)
    write_text(args.scores, json.dumps(made, ensure_ascii=False, indent=1) + "\n")


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--judge", type=Path, required=True, help="config/judges/<name>.yaml that judged")
    parser.add_argument("--judgements", type=Path, required=True, help="Judgement records, one per question")
    add_options(parser)
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
