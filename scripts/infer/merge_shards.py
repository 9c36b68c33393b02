"""The shards of a cell as one file, as run_cell would have written it: one line per question, in their order.

Refused unless every question of the data set is there exactly once: shards of an older questions.jsonl, or of another
number of shards, don't make a cell.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.infer.summary import again, remedies, summary
from scripts.lib import cli, jsonl
from scripts.lib.errors import DataError
from scripts.lib.questions import read_questions
from scripts.lib.records import Prediction


def merge(keys: Iterable[str], shards: dict[Path, Sequence[Prediction]]) -> list[Prediction]:
    """The predictions of all shards in the order of the questions' keys.

    Raises:
        DataError: a question without a prediction, with two, or a prediction without its question.
    """
    wanted = dict.fromkeys(keys)
    found: dict[str, tuple[Prediction, Path]] = {}
    for file, predictions in shards.items():
        for one in predictions:
            if one.key not in wanted:
                raise DataError(f"{file}: no question '{one.key}' in the data set; {again(file)}")
            if one.key in found:
                raise DataError(f"{file}: '{one.key}' is in {found[one.key][1]} too; {again(*shards)}")
            found[one.key] = one, file
    missing = [key for key in wanted if key not in found]
    if missing:
        raise DataError(f"no shard has '{missing[0]}' ({len(missing)} missing of {len(wanted)}); {again(*shards)}")
    return [found[key][0] for key in wanted]


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--questions", type=Path, required=True, help="questions.jsonl of the data set")
    parser.add_argument("--shards", type=Path, nargs="+", required=True, help="all shards of the cell, by run_shard")
    parser.add_argument("--predictions", type=Path, required=True, help="predictions.jsonl to write")
    return parser


def step(args: argparse.Namespace) -> None:
    shards = {file: list(jsonl.read(file, Prediction)) for file in args.shards}
    predictions = merge(read_questions(args.questions), shards)
    jsonl.write(args.predictions, predictions)
    print(f"{args.predictions}: {summary(predictions)}", file=sys.stderr)
    for file, part in shards.items():
        for line in remedies(part, file, []):
            print(line, file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
