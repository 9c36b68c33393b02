"""Have the answers of one cell judged.

Reads predictions.jsonl (one Prediction per question) and questions.jsonl (Question). Writes judgements.jsonl, one
Judgement per question, in their order. What judges is a file in config/judges:

  llm             a language model behind a server of OpenAI's protocol, call by call or as batches
  lexical, exact  rules on words, without network; not comparable with a paper's judge
  option_letter   multiple choice: the letter that a reply names
  human           people's ratings, from filled-in sheets (scripts.agree.build_rating_sheet)
  elsewhere       judgements that somebody else published

A blank answer is wrong without asking (flag empty). A prediction that is no answer (a failure) is not judged. A server
that fails makes no judgement: the job ends with one line and keeps what it has, and the next run judges only the rest.

    python -m scripts.judge.judge_cell --judge config/judges/lexical.yaml --predictions predictions.jsonl \\
        --questions resources/datasets/DATASET/questions.jsonl --judgements judgements.jsonl
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.infer import prompting
from scripts.judge.scoring import cell_of
from scripts.judges import find
from scripts.judges.protocol import Item, Run
from scripts.lib import cli, config, jsonl
from scripts.lib.errors import ConfigError
from scripts.lib.questions import check_keys, read_questions
from scripts.lib.records import Judgement, Prediction, Question
from scripts.models import pins

VERSION = 1
"""Raise it when the same reply gives another judgement."""


def judge_all(
    questions: dict[str, Question], predictions: dict[str, Prediction], run: dict[str, Any], kind: str
) -> list[Judgement]:
    """One judgement per question, in their order.

    Args:
        run: what ``Run`` takes beside the items.
    """
    made: dict[str, Judgement] = {}
    blank, items = [], []
    for key, question in questions.items():
        prediction = predictions[key]
        if not prediction.scored:
            made[key] = Judgement(key=key, status="no_answer", detail=f"the prediction is {prediction.status}")
        elif not prediction.answer.strip():
            blank.append(key)
        else:
            items.append(Item(question, prediction))
    if items:
        made |= {one.key: one for one in find(kind)(Run(items=items, **run))}
    given = [one.score for one in made.values() if one.status == "ok"]
    lowest = None if given and set(given) == {None} else 0  # a judge that gives no scores gives none here
    made |= {key: Judgement(key=key, status="ok", verdict="no", score=lowest, flags=["empty"]) for key in blank}
    return [made[key] for key in questions]


def read_run(args: argparse.Namespace) -> dict[str, Any]:
    """The checked settings of a judge.

    Raises:
        ConfigError: settings that don't fit together, or a judge of which no version is pinned.
    """
    judge = config.read_file("judge", args.judge)
    run = {"judge": judge, "cell": cell_of(args.predictions), "files": tuple(args.files)}
    if judge["kind"] in ("human", "elsewhere") and not args.files:
        raise ConfigError(f"{args.judge}: reads files; list them there, and pass them with --files")
    if judge["kind"] != "llm":
        return run
    pins.check(judge, [judge["name"]] if args.allow_unpinned else [], "judges")
    if args.prompt is None:
        raise ConfigError(f"{args.judge}: a language model needs --prompt config/prompts/{judge['prompt']}.yaml")
    read = {
        key: config.read(file, file.parent / "schemas" / f"{name}.schema.yaml")
        for key, name, file in (("limits", "remote", args.remote), ("prices", "prices", args.prices))
    }
    told = {"prompt": prompting.read(args.prompt, "judge"), "ledger": args.spent, "cache": args.cache}
    return {**run, "llm": {**read, **told, "judgements": args.judgements, "seed": args.seed}}


def summary(judgements: Sequence[Judgement]) -> str:
    """``40 answers: 38 ok (12 yes), 2 parse_failed; $0.01``."""
    counts = Counter(one.status for one in judgements)
    yes = sum(one.verdict == "yes" for one in judgements)
    parts = [
        f"{count} {status}" + (f" ({yes} yes)" if status == "ok" else "") for status, count in counts.most_common()
    ]
    bill = sum(one.dollars or 0.0 for one in judgements)
    return f"{len(judgements)} answers: {', '.join(parts)}" + (f"; ${bill:.2f}" if bill else "")


def step(args: argparse.Namespace) -> None:
    run = read_run(args)
    questions = read_questions(args.questions)
    predictions = jsonl.read_unique(args.predictions, Prediction, "key")
    check_keys(questions, predictions, args.predictions)
    judgements = judge_all(questions, predictions, run, run["judge"]["kind"])
    jsonl.write(args.judgements, judgements)
    print(f"{args.judgements}: {summary(judgements)}", file=sys.stderr)


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--judge", type=Path, required=True, help="config/judges/<name>.yaml")
    parser.add_argument("--predictions", type=Path, required=True, help="Prediction records, one per question")
    parser.add_argument("--questions", type=Path, required=True, help="Question records of the data set")
    parser.add_argument("--files", type=Path, nargs="*", default=[], help="for human: sheets; elsewhere: the one file")
    parser.add_argument("--prompt", type=Path, help="for llm: config/prompts/<name>.yaml with task: judge")
    parser.add_argument("--allow-unpinned", action="store_true", help="ask a model of which no version is known")
    parser.add_argument("--remote", type=Path, default=Path("config/remote.yaml"), help="budget and retries of APIs")
    parser.add_argument("--prices", type=Path, default=Path("config/prices.yaml"), help="what APIs bill")
    parser.add_argument(
        "--spent", type=Path, default=Path("resources/cache/spent.jsonl"), help="where spending is added up"
    )
    parser.add_argument(
        "--cache", type=Path, default=Path("resources/cache/judgements"), help="folder where replies are kept"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sample that is judged twice (default: %(default)s)")
    parser.add_argument("--judgements", type=Path, required=True, help="judgements.jsonl to write")
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
