"""Rating sheets: drawn the same way each time, filled in by people and spreadsheets, and read again."""

import csv
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.agree.answers import read_key
from scripts.agree.sheets import protect, read_sheet, unprotect
from scripts.lib.errors import DataError
from tests.unit import agree_sample as sample


def yes(at, row):
    return ("yes", 4) if at % 3 else ("no", 1)


def test_a_sheet_is_drawn_the_same_way_and_a_larger_one_keeps_its_rows(tmp_path):
    small = sample.rows(sample.make_sheet(sample.build(tmp_path / "small", 5)))
    again = sample.rows(sample.make_sheet(sample.build(tmp_path / "again", 5)))
    large = sample.rows(sample.make_sheet(sample.build(tmp_path / "large", 9)))
    other = sample.rows(sample.make_sheet(sample.build(tmp_path / "other", 5, seed=4)))
    assert small == again
    assert len(small) == 10
    assert {row["id"] for row in small} < {row["id"] for row in large}
    assert [row["id"] for row in small] != [row["id"] for row in other]
    assert all(re.fullmatch(r"a[0-9a-f]{16}", row["id"]) for row in large)


def test_both_cells_have_the_same_questions_and_no_failures(tmp_path):
    sample.make_sheet(sample.build(tmp_path))
    key = read_key(tmp_path / "key.json").values()
    by_cell = {cell: sorted(one.key for one in key if one.cell == cell) for cell in sample.CELLS}
    assert by_cell[sample.CELLS[0]] == by_cell[sample.CELLS[1]]
    assert len(by_cell[sample.CELLS[0]]) == 15, "those that the second did not answer are left out"
    assert {one.video for one in key} == {f"d/v{at}" for at in range(5)}


def test_a_sheet_does_not_tell_whose_answers_they_are(tmp_path):
    sheet = sample.make_sheet(sample.build(tmp_path))
    for file in (sheet, tmp_path / "sheet.html"):
        text = file.read_text(encoding="utf-8")
        assert "d/one" not in text
        assert "d/two" not in text
    assert {row["verdict"] + row["score"] + row["rater"] for row in sample.rows(sheet)} == {""}


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({}, lambda text: text),
        ({"delimiter": ";"}, lambda text: text),
        ({"delimiter": "\t", "lineterminator": "\n"}, lambda text: text),
        ({}, lambda text: re.sub(r"(?<=,)4(?=,)", "4.0", text).replace(",yes,", ",TRUE,").replace(",no,", ",FALSE,")),
        ({}, lambda text: text.replace(",4,", ',"4,0",')),
        ({}, lambda text: text.replace("rater", " Rater ").replace("correct answer", "Correct Answer")),
    ],
    ids=["as it is", "semicolons", "tabs", "numbers and truth values", "decimal comma", "headings"],
)
def test_what_spreadsheets_do_to_a_sheet_changes_nothing(tmp_path, options, change):
    sheet = sample.make_sheet(sample.build(tmp_path))
    plain = read_sheet(sample.fill(sheet, tmp_path / "plain.csv", "Ann", yes))
    filled = sample.fill(sheet, tmp_path / "filled.csv", "Ann", yes, **options)
    filled.write_text(change(filled.read_text(encoding="utf-8")), encoding="utf-8", newline="")
    found = read_sheet(filled)
    assert [(one.id, one.verdict, one.score, one.answer) for one in found] == [
        (one.id, one.verdict, one.score, one.answer) for one in plain
    ]
    assert len(found) == 30
    key = read_key(tmp_path / "key.json")
    assert all(one.answer == key[one.id].answer for one in found)


def test_utf_16_of_a_spreadsheet_is_read(tmp_path):
    sheet = sample.make_sheet(sample.build(tmp_path))
    filled = sample.fill(sheet, tmp_path / "f.csv", "Ann", yes, delimiter="\t")
    filled.write_bytes(filled.read_bytes().decode("utf-8-sig").encode("utf-16"))
    assert len(read_sheet(filled)) == 30


@pytest.mark.parametrize(
    ("said", "rater", "message"),
    [
        (("yes", ""), "Ann", "row 2: score: '' is no whole number from 0 to 5"),
        (("", "3"), "Ann", "row 2: verdict: '' is neither yes nor no"),
        (("maybe", "3"), "Ann", "row 2: verdict: 'maybe' is neither yes nor no"),
        (("yes", "6"), "Ann", "row 2: score: '6' is no whole number from 0 to 5"),
        (("yes", "3.5"), "Ann", "row 2: score: '3.5' is no whole number"),
        (("yes", "0"), "Ann", "row 2: score: yes and 0 contradict each other"),
        (("no", "5"), "Ann", "row 2: score: no and 5 contradict each other"),
        (("yes", "4"), " ", "row 2: rater: is empty"),
    ],
)
def test_half_ratings_and_contradictions_are_refused_with_their_row(tmp_path, said, rater, message):
    sheet = sample.make_sheet(sample.build(tmp_path))
    filled = sample.fill(sheet, tmp_path / "f.csv", rater, lambda at, _row: None if at else said)
    with pytest.raises(DataError, match=re.escape(f"{filled}: {message}")):
        read_sheet(filled)


def test_a_missing_column_and_a_missing_file_are_named(tmp_path):
    sheet = sample.make_sheet(sample.build(tmp_path))
    with pytest.raises(DataError, match="no such file"):
        read_sheet(tmp_path / "none.csv")
    sheet.write_text(sheet.read_text(encoding="utf-8").replace("verdict", "judgment"), encoding="utf-8")
    with pytest.raises(DataError, match="row 1: no column 'verdict'"):
        read_sheet(sheet)


def test_somebody_who_rates_an_answer_twice_differently_is_asked(tmp_path):
    sheet = sample.make_sheet(sample.build(tmp_path))
    filled = sample.fill(sheet, tmp_path / "f.csv", "Ann", yes)
    lines = filled.read_bytes().decode("utf-8-sig").split("\r\n")
    row = sample.rows(filled)[0]
    other = [row["id"], row["question"], row["correct answer"], row["answer"], "yes", "5", "", "ANN"]
    more = ",".join('"' + cell.replace('"', '""') + '"' for cell in other)
    filled.write_bytes("\r\n".join([*lines[:-1], more, ""]).encode("utf-8-sig"))
    with pytest.raises(DataError, match=rf"'ANN' rated {row['id']} differently in f.csv, row 2"):
        read_sheet(filled)


@given(st.text())
def test_protected_text_comes_back(text):
    assert unprotect(protect(text)) == text
    assert not re.match(r"[=+\-@]", protect(text))


def test_no_cell_is_a_formula_wherever_a_spreadsheet_splits(tmp_path):
    sheet = sample.make_sheet(sample.build(tmp_path))
    for separator in ",;\t":
        cells = [
            cell
            for row in csv.reader(sheet.open(encoding="utf-8-sig", newline=""), delimiter=separator)
            for cell in row
        ]
        assert not [cell for cell in cells if cell[:1] in tuple("=+-@")], separator


def test_a_key_that_is_none_is_named(tmp_path):
    for content in ("", "[]", "{}", json.dumps([{"id": "a"}]), json.dumps([{"id": 1}])):
        (tmp_path / "key.json").write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match="not a list of rows"):
            read_key(tmp_path / "key.json")


def test_cells_without_a_common_answer_say_what_to_do(tmp_path, capsys):
    root = sample.build(tmp_path, count=1)  # the second cell has none
    with pytest.raises(AssertionError):
        sample.make_sheet(root)
    assert "no answered question of all cells to rate; set same_questions: false" in capsys.readouterr().err
