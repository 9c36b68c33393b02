"""Raters against the judge and each other, from filled-in sheets to the table."""

import csv
import json

import pytest

from scripts.agree.answers import read_key
from scripts.judges import find
from scripts.judges.protocol import Item, Run
from scripts.lib import jsonl
from scripts.lib.errors import DataError
from scripts.lib.records import Prediction
from tests.unit import agree_sample as sample


@pytest.fixture
def root(tmp_path):
    sample.make_sheet(sample.build(tmp_path))
    return tmp_path


def number(root, row):
    """Of the question that a row is about."""
    return int(read_key(root / "key.json")[row["id"]].key.rpartition("/")[2])


def like_judge(root):
    return lambda _, row: ("no", 1) if number(root, row) % 2 else ("yes", 4)


def found(folder):
    rows = json.loads((folder / "agreement.json").read_text(encoding="utf-8"))["rows"]
    return {(row["group"], row["who"], row["what"]): row for row in rows}


def test_three_raters_who_say_what_the_judge_says(root):
    sheets = [sample.fill(root / "sheet.csv", root / f"{name}.csv", name, like_judge(root)) for name in ("A", "B", "C")]
    rows = found(sample.compare(root, *sheets))
    for what in ("Pearson, verdicts", "Pearson, scores", "Cohen's kappa, verdicts", "weighted kappa, scores"):
        assert rows["All", "Judge and people", what]["value"] == pytest.approx(1)
    assert rows["All", "People", "Fleiss' kappa, verdicts"]["value"] == pytest.approx(1)
    assert rows["All", "People", "accuracy"]["value"] == rows["All", "Judge", "accuracy"]["value"]
    assert [rows[group, "People", "accuracy"]["n"] for group in ("All", *sample.LABELS)] == [30, 15, 15]
    assert ("One", "Rater 1 and Rater 2", "Cohen's kappa, verdicts") in rows
    assert ("Two", "Rater 3 and Judge", "weighted kappa, scores") in rows


def test_numbers_by_hand(root):
    """One always says yes and 4; another agrees with the judge, and rates only the first ten rows."""
    judge = like_judge(root)
    sheets = [
        sample.fill(root / "sheet.csv", root / "a.csv", "Ann", lambda _at, _row: ("yes", 4)),
        sample.fill(root / "sheet.csv", root / "b.csv", "Bo", lambda at, row: judge(at, row) if at < 10 else None),
    ]
    folder = sample.compare(root, *sheets)
    rows = found(folder)
    key = list(read_key(root / "key.json").values())
    even = [int(one.key.rpartition("/")[2]) % 2 == 0 for one in key]
    people = [1.0 if right or at >= 10 else 0.5 for at, right in enumerate(even)]
    assert rows["All", "People", "accuracy"]["value"] == pytest.approx(sum(people) / 30)
    assert rows["All", "Judge", "accuracy"]["value"] == pytest.approx(sum(even) / 30)
    assert rows["All", "Rater 1 and Judge", "Cohen's kappa, verdicts"]["value"] == 0
    assert rows["All", "Rater 2 and Judge", "Cohen's kappa, verdicts"]["value"] == 1
    assert rows["All", "Rater 2 and Judge", "Cohen's kappa, verdicts"]["n"] == 10
    assert rows["All", "Judge and people", "Cohen's kappa, verdicts"]["value"] == pytest.approx(0.5)
    assert rows["All", "People", "Fleiss' kappa, verdicts"]["n"] == 10
    content = json.loads((folder / "agreement.json").read_text(encoding="utf-8"))
    assert content["answers_by_number_of_raters"] == {"1": 20, "2": 10}
    lines = list(csv.DictReader((folder / "agreement.csv").open(encoding="utf-8")))
    assert len(lines) == len(content["rows"])
    markdown = (folder / "agreement.md").read_text(encoding="utf-8")
    assert "30 answers were given out; rated: 20 by 1 of 2, 10 by 2 of 2." in markdown
    assert "Ann" not in markdown + (folder / "agreement.tex").read_text(encoding="utf-8")
    assert r"\label{tab:agreement-a}" in (folder / "agreement.tex").read_text(encoding="utf-8")
    assert r"People \& judge" in (folder / "agreement.tex").read_text(encoding="utf-8")


def test_raters_who_share_no_answer_are_left_out_of_the_mean_and_named(root):
    judge = like_judge(root)
    shares = {"A": range(0, 20), "B": range(10, 30), "C": range(20, 30)}
    sheets = [
        sample.fill(
            root / "sheet.csv",
            root / f"{name}.csv",
            name,
            lambda at, row, own=own: judge(at, row) if at in own else None,
        )
        for name, own in shares.items()
    ]
    rows = found(sample.compare(root, *sheets))
    assert rows["All", "People", "Cohen's kappa, verdicts"]["value"] == pytest.approx(1)
    assert rows["All", "Rater 1 and Rater 3", "Cohen's kappa, verdicts"]["value"] is None
    notes = (root / "agreement.md").read_text(encoding="utf-8")
    assert "– Nothing to compare where no answer was rated by all of those named." in notes


def test_one_rater_is_compared_with_the_judge_alone(root):
    rows = found(sample.compare(root, sample.fill(root / "sheet.csv", root / "a.csv", "A", like_judge(root))))
    assert rows["All", "Judge and people", "Pearson, scores"]["value"] == pytest.approx(1)
    assert rows["All", "People", "Cohen's kappa, verdicts"]["value"] is None
    assert "One rater" in (root / "agreement.md").read_text(encoding="utf-8")


def test_answers_that_the_judge_has_no_verdict_of_are_counted(root):
    file = root / "results/judgements/far" / sample.CELLS[0] / "judgements.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    made = [json.loads(line) for line in lines]
    made[1] |= {"status": "parse_failed", "verdict": None, "score": None}
    file.write_text("".join(json.dumps(one) + "\n" for one in made), encoding="utf-8")
    rows = found(
        sample.compare(root, sample.fill(root / "sheet.csv", root / "a.csv", "A", lambda _at, _row: ("no", 1)))
    )
    assert rows["All", "People", "accuracy"]["n"] == 29
    assert "Without a verdict of the judge: 1 parse_failed." in (root / "agreement.md").read_text(encoding="utf-8")


def test_a_row_of_another_draw_and_a_changed_text_are_refused(root, capsys):
    filled = sample.fill(root / "sheet.csv", root / "a.csv", "A", like_judge(root))
    text = filled.read_text(encoding="utf-8-sig")
    first = sample.rows(filled)[0]["id"]
    filled.write_text(text.replace(first, "a0000000000000000"), encoding="utf-8-sig", newline="")
    sample.compare(root, filled, code=1)
    assert f"{filled}: row 2: id: 'a0000000000000000' is not in" in capsys.readouterr().err
    filled.write_text(text.replace("What is", "Where is"), encoding="utf-8-sig", newline="")
    sample.compare(root, filled, code=1)
    assert "row 2: question: is 'Where is" in capsys.readouterr().err


def test_empty_sheets_are_no_raters(root, capsys):
    sample.compare(root, root / "sheet.csv", code=1)
    assert "no row of its sheets has a verdict and a score" in capsys.readouterr().err


# People as the judge.


def people(root, *filled, cell=sample.CELLS[0]):
    asked = {one.key: one for one in sample.questions()}
    made = jsonl.read_unique(root / "results/predictions" / cell / "predictions.jsonl", Prediction, "key")
    items = [Item(asked[key], one) for key, one in made.items() if one.scored]
    run = Run({"name": "people", "kind": "human"}, items, cell, tuple(filled))
    return {one.key: one for one in find("human")(run)}


def test_the_majority_is_the_verdict_and_the_mean_the_score(root):
    says = {"A": ("yes", 5), "B": ("yes", 3), "C": ("no", 1)}
    sheets = [
        sample.fill(root / "sheet.csv", root / f"{name}.csv", name, lambda _at, _row, said=said: said)
        for name, said in says.items()
    ]
    made = people(root, *sheets)
    rated = [one for one in made.values() if one.status == "ok"]
    assert {(one.verdict, one.score) for one in rated} == {("yes", 3.0)}
    assert (len(rated), len(made)) == (15, 20)
    assert {one.detail for one in made.values() if one.status != "ok"} == {"nobody rated it"}
    tied = people(root, *sheets[1:])
    assert {one.status for one in tied.values()} == {"no_judgement"}
    assert "1 said yes and as many no" in {one.detail for one in tied.values()}


def test_a_rating_of_another_answer_is_none_of_this_one(root):
    sheet = sample.fill(root / "sheet.csv", root / "a.csv", "A", lambda _at, _row: ("yes", 4))
    other = people(root, sheet, cell=sample.CELLS[1])
    assert sum(one.status == "ok" for one in other.values()) == 15
    file = root / "results/predictions" / sample.CELLS[1] / "predictions.jsonl"
    jsonl.write(file, [
        one.model_copy(update={"answer": one.answer + "!"}) for one in jsonl.read(file, Prediction)
    ])  # fmt: skip
    assert {one.status for one in people(root, sheet, cell=sample.CELLS[1]).values()} == {"no_judgement"}


def test_people_need_a_cell(root):
    run = Run({"name": "people", "kind": "human"}, [], None, ())
    with pytest.raises(DataError, match="these predictions are of none"):
        list(find("human")(run))
