"""Write one table from the scores of its cells: LaTeX, CSV, JSON and Markdown.

The table's YAML names rows and columns; each number is a cell's metric over a group of questions, with its 95 %
interval. The best of a column is bold, the second underlined. Questions without an answer (broken video, refusal) are
never scored: n used/n stands beside the number and the reasons below the table. Rows listed under `compare` are tested
against each other on the questions that both answered. Of a judge's numbers the notes say who judged and what could
not be judged; the JSON has what a released script would make of the same judgements, and what everything cost.

A cell without scores stops this step, unless the YAML says `allow_missing: true`: then a dash with a footnote is shown.
"""

import argparse
from pathlib import Path

from scripts.lib import cli, config
from scripts.lib.files import write_text
from scripts.tables import formats, rows

VERSION = 2
"""Raise it when a change of the code under scripts/tables makes another table of the same scores."""


def step(args: argparse.Namespace) -> None:
    table = rows.build(config.read_file("table", args.table), args.results)
    write_text(args.tex, formats.to_latex(table))
    write_text(args.csv, formats.to_csv(table))
    write_text(args.json, formats.to_json(table))
    write_text(args.markdown, formats.to_markdown(table))


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--table", type=Path, required=True, help="config/tables/<paper>/<table>.yaml")
    parser.add_argument(
        "--results", type=Path, required=True, help="folder of scores/<cell>/ and judged/<judge>/<cell>/"
    )
    parser.add_argument("--tex", type=Path, required=True, help="table environment to \\input")
    parser.add_argument("--csv", type=Path, required=True, help="one line per number")
    parser.add_argument("--json", type=Path, required=True, help="everything, for programs")
    parser.add_argument("--markdown", type=Path, required=True, help="for the terminal and for pull requests")
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
