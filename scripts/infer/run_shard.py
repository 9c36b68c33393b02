"""One shard of a cell: run_cell on a share of the videos, so that several jobs answer one large cell side by side.

The share depends on the questions alone, not on their order: a video's questions stay together, and shares hold about
as many questions each (they differ by at most the questions of one video). With more shards than videos some are empty.

Statuses, the cache and going on after a kill are as in run_cell (see its --help). Answers are kept by what was asked,
not by shard: another number of shards finds them, and so does run_cell.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from scripts.infer.answer import answer_questions
from scripts.infer.cell import add_arguments, read_cell, read_inputs
from scripts.lib import cli
from scripts.lib.cells import parse_shard
from scripts.lib.records import Question


def share(questions: Sequence[Question], number: int, count: int) -> list[Question]:
    """The questions of shard ``number`` (from 1) of ``count``, in their order.

    Videos go to whichever shard has fewest questions so far, those with most questions first.
    """
    asked = Counter(one.video for one in questions)
    loads = [0] * count
    mine = set()
    for video in sorted(asked, key=lambda name: (-asked[name], name)):
        least = loads.index(min(loads))
        loads[least] += asked[video]
        if least == number - 1:
            mine.add(video)
    return [one for one in questions if one.video in mine]


def build_parser() -> argparse.ArgumentParser:
    parser = add_arguments(cli.parser(__doc__))
    parser.add_argument("--shard", required=True, help="which of how many, e.g. 2of4")
    return parser


def step(args: argparse.Namespace) -> None:
    number, count = parse_shard(args.shard)
    cell = read_cell(args)
    inputs = read_inputs(args, cell)
    mine = replace(inputs, questions=share(inputs.questions, number, count))
    answer_questions(args, cell, mine, f"run_shard {args.shard}")


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
