"""Two cells of answers with a judge's judgements, a sheet of them, and people who fill it in."""

import csv
import io
from pathlib import Path

import yaml

from scripts.agree import build_rating_sheet, compare_raters
from scripts.agree.sheets import COLUMNS
from scripts.lib import jsonl
from scripts.lib.records import Judgement, Prediction, Question
from tests.conftest import ROOT

CELLS = ("d/one/s/native/v_q", "d/two/s/native/v_q")
LABELS = ("One", "Two")
HARD = [
    "=HYPERLINK(\"http://x\")", "+1", "-3", "@cmd", "1/2", "3-4", "007", "4.0", "TRUE", "'quoted'",
    'say "hi", then\ngo;\tnow', "</script><b>no</b>",
    "go;=cmd|' /C calc'!A0", "a\t=1", "दुकान बंद", "ห้ามเข้า", "مخرج", "🚪👩🏽‍🚀", "12:30",
    "e\u0301t\u00e9", "a" * 5000, "None",
]  # fmt: skip


def questions(count: int = 20) -> list[Question]:
    return [
        Question(
            key=f"d/v{at % 5}/{at}",
            video=f"v{at % 5}",
            question_id=str(at),
            question=f"What is {HARD[at % len(HARD)]}?",
            answers=[HARD[-at % len(HARD)], "second"],
            category="c",
        )
        for at in range(count)
    ]


def build(root: Path, n: int = 100, count: int = 20, judge: str = "far", **changes) -> Path:
    """Results below ``root``; every fourth answer of the second cell is none; judged yes where the number is even."""
    asked = questions(count)
    jsonl.write(root / "resources/datasets/d/questions.jsonl", asked)
    for number, cell in enumerate(CELLS):
        made = [
            Prediction(key=one.key, status="ok", answer=HARD[(at + number) % len(HARD)])
            if not number or at % 4
            else Prediction(key=one.key, status="error:decode")
            for at, one in enumerate(asked)
        ]
        jsonl.write(root / "results/predictions" / cell / "predictions.jsonl", made)
        judged = [
            Judgement(key=one.key, status="ok", verdict="no" if at % 2 else "yes", score=1 if at % 2 else 4)
            if made[at].scored
            else Judgement(key=one.key, status="no_answer")
            for at, one in enumerate(asked)
        ]
        jsonl.write(root / "results/judgements" / judge / cell / "judgements.jsonl", judged)
    axes = ("dataset", "model", "sampler", "resolution", "prompt")
    cells = [
        {"label": label, **dict(zip(axes, cell.split("/"), strict=True))}
        for label, cell in zip(LABELS, CELLS, strict=True)
    ]
    agreement = {"title": "People & judge", "judge": judge, "cells": cells, "n": n, "seed": 3, "sheets": []}
    (root / "config/agreement").mkdir(parents=True, exist_ok=True)
    (root / "config/schemas").mkdir(exist_ok=True)
    schema = "agreement.schema.yaml"
    (root / "config/schemas" / schema).write_bytes((ROOT / "config/schemas" / schema).read_bytes())
    (root / "config/agreement/a.yaml").write_text(yaml.safe_dump(agreement | changes), encoding="utf-8")
    return root


def make_sheet(root: Path) -> Path:
    """Run build_rating_sheet; the sheet's path."""
    outputs = {name: str(root / file) for name, file in
               (("sheet", "sheet.csv"), ("form", "sheet.html"), ("key", "key.json"))}  # fmt: skip
    command = ["--agreement", str(root / "config/agreement/a.yaml"), "--predictions", str(root / "results/predictions")]
    command += ["--datasets", str(root / "resources/datasets")]
    for name, file in outputs.items():
        command += [f"--{name}", file]
    assert build_rating_sheet.main(command) == 0
    return root / "sheet.csv"


def rows(sheet: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(sheet.read_bytes().decode("utf-8-sig"), newline="")))


def fill(sheet: Path, path: Path, rater: str, say, **options) -> Path:
    """A filled-in copy.

    Args:
        say: of a row's number and the row, (verdict, score) or None.
        options: of csv.DictWriter.
    """
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, **options)
    writer.writeheader()
    for at, row in enumerate(rows(sheet)):
        said = say(at, row)
        if said:
            row |= {"verdict": said[0], "score": str(said[1]), "rater": rater}
        writer.writerow(row)
    path.write_bytes(out.getvalue().encode("utf-8-sig"))
    return path


def compare(root: Path, *filled: Path, code: int = 0) -> Path:
    """Run compare_raters; the folder of what it wrote."""
    command = ["--agreement", str(root / "config/agreement/a.yaml"), "--key", str(root / "key.json"), "--draws", "200"]
    command += ["--judgements", str(root / "results/judgements"), "--sheets", *map(str, filled)]
    for name, ending in (("json", "json"), ("csv", "csv"), ("markdown", "md"), ("tex", "tex")):
        command += [f"--{name}", str(root / f"agreement.{ending}")]
    assert compare_raters.main(command) == code
    return root
