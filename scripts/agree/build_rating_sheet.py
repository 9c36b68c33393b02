"""Draw answers of cells for people to rate: a sheet for spreadsheets, a form for browsers, and the key to both.

    python -m scripts.agree.build_rating_sheet --agreement config/agreement/demo.yaml \\
        --predictions results/predictions --datasets resources/datasets \\
        --sheet sheet.csv --form sheet.html --key key.json

Give every rater the CSV or the form (one file, works without network); neither says which model an answer is of. List
the files that come back under `sheets` in the agreement's file. The key says whose answer each row is; raters don't
need it.
"""

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

from scripts.agree import sheets
from scripts.agree.answers import Answer, Answered, draw, write_key
from scripts.lib import cells, cli, config, jsonl
from scripts.lib.files import write_text
from scripts.lib.pages import embed
from scripts.lib.questions import check_keys, read_questions
from scripts.lib.records import Prediction

PAGE = Path(__file__).parent / "page"
VERSION = 1
"""Raise it when the same answers make another sheet."""


def read_cell(cell: cells.Cell, predictions: Path, datasets: Path) -> Answered:
    """The questions of a cell with their predictions, by key.

    Raises:
        DataError: a file is missing or malformed, or they don't fit together.
    """
    questions = read_questions(datasets / cell.dataset / "questions.jsonl")
    file = predictions / cell.path / "predictions.jsonl"
    made = jsonl.read_unique(file, Prediction, "key")
    check_keys(questions, made, file)
    return {key: (question, made[key]) for key, question in questions.items()}


def form(answers: Sequence[Answer]) -> str:
    """The page. What a rater enters is kept in the browser under the name of this draw."""
    sheet = {
        "name": hashlib.sha256(" ".join(one.id for one in answers).encode()).hexdigest()[:16],
        "columns": sheets.COLUMNS,
        "guarded": sheets.PROTECTED,
        "rows": [{key: getattr(one, key) for key in ("id", "question", "truth", "answer")} for one in answers],
    }
    parts = {
        name: (PAGE / f"form.{kind}").read_text(encoding="utf-8") for name, kind in (("style", "css"), ("script", "js"))
    }
    template = Template((PAGE / "form.html").read_text(encoding="utf-8"))
    return template.substitute(parts, data=embed("sheet", sheet))


def step(args: argparse.Namespace) -> None:
    agreement = config.read_file("agreement", args.agreement)
    asked = cells.rated_cells(agreement).values()
    answered = {str(cell): read_cell(cell, args.predictions, args.datasets) for cell in asked}
    answers = draw(answered, agreement["n"], agreement["seed"], agreement.get("same_questions", True))
    sheets.write_sheet(args.sheet, answers)
    write_text(args.form, form(answers))
    write_key(args.key, answers)
    print(f"{args.sheet}: {len(answers)} answers of {len(answered)} cells to rate", file=sys.stderr)


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--agreement", type=Path, required=True, help="config/agreement/<name>.yaml")
    parser.add_argument("--predictions", type=Path, required=True, help="folder of cells with predictions.jsonl")
    parser.add_argument("--datasets", type=Path, required=True, help="folder of data sets with questions.jsonl")
    parser.add_argument("--sheet", type=Path, required=True, help="CSV to write")
    parser.add_argument("--form", type=Path, required=True, help="HTML to write")
    parser.add_argument("--key", type=Path, required=True, help="JSON to write")
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
