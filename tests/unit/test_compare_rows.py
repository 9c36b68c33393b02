"""All pairs of rows of one column: the same differences as the table's own, and no row that vanishes."""

import csv
import json
from pathlib import Path

import pytest

from scripts.tables import compare_rows, make_table
from tests.unit import judged_sample
from tests.unit import table_sample as sample
from tests.unit.test_tables_judged import command as table_command

CELLS = {"four": "uniform_4", "one": "uniform_1", "two": "uniform_2"}
WRONG = {"four": {0, 3, 6, 9}, "one": {0, 1, 2, 3, 4, 6}, "two": {0, 3, 6, 9}}
JUDGE = {"title": "Rules", "kind": "exact"}


def spec(**changes) -> dict:
    base = {
        "title": "Signs",
        "caption": "Signs",
        "defaults": {"dataset": "signs", "resolution": "native", "prompt": "v_q", "model": "reader", "judge": "rules"},
        "columns": [
            {"label": "words", "metric": "exact_match"},
            {"label": "macro", "metric": "judge_accuracy", "group": "macro"},
            {"label": "score", "heading": "Score", "metric": "judge_score"},
        ],
        "rows": [{"label": label, "sampler": sampler} for label, sampler in CELLS.items()],
    }
    return base | changes


def cell(name: str) -> str:
    return f"signs/reader/{CELLS[name]}/native/v_q"


def make(folder: Path, table: dict, scored: list[str] | None = None) -> list[str]:
    """Score and judge cells (all, or those named); return the start of the command line."""
    asked = sample.questions(10)
    for name in CELLS if scored is None else scored:
        sample.score(folder, cell(name), asked, sample.predictions(asked, WRONG[name]))
        sample.judge(folder, "rules", JUDGE, cell(name), judged_sample.judgements(asked, WRONG[name]))
    sample.config(folder, table)
    return ["--table", str(folder / "config/tables/p/t.yaml"), "--results", str(folder)]


def lines_of(folder: Path, command: list[str], column: str) -> list[dict[str, str]]:
    out = folder / "pairs.csv"
    assert compare_rows.main([*command, "--column", column, "--csv", str(out)]) == 0
    return list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("column", ["words", "macro", "score"])
def test_pairs_are_those_that_the_table_would_make(tmp_path: Path, column: str) -> None:
    pairs = [("four", "one"), ("four", "two"), ("one", "two")]
    table = spec(compare=[{"rows": list(pair), "column": column} for pair in pairs])
    command = make(tmp_path, table)
    assert make_table.main(table_command(tmp_path, table)) == 0
    made = json.loads((tmp_path / "out/t.json").read_text(encoding="utf-8"))["comparisons"]
    found = lines_of(tmp_path, command, column)
    assert [(line["row_a"], line["row_b"]) for line in found] == pairs
    for line, one in zip(found, made, strict=True):
        for name in ("value", "low", "high", "p", "p_holm"):
            assert float(line[name]) == pytest.approx(one[name]), name
        assert (line["n"], line["n_videos"]) == (str(one["n"]), str(one["n_videos"]))
        assert float(line["detectable"] or 0) == pytest.approx(one["detectable"] or 0)
    assert float(found[0]["value"]) > 0
    assert (float(found[1]["value"]), found[1]["p"], found[1]["detectable"]) == (0.0, "1.0", "")


def test_the_list_has_a_line_for_each_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare_rows.main([*make(tmp_path, spec()), "--column", "score"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Score: row minus row")
    assert lines[1].startswith("four − one  +0.8  [")
    assert ", corrected p = " in lines[1]
    assert "detectable: " in lines[1]
    assert lines[1].endswith("10 questions of 4 videos")
    assert lines[2].startswith("four − two  0.0   [0.0, 0.0]")
    assert lines[2].count("p = 1") == 2
    assert len(lines) == 5


def test_rows_in_no_pair_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*spec()["rows"], {"label": "again", "sampler": "uniform_4"}]
    rows.append({"label": "other", "sampler": "uniform_4", "only": ["words"]})
    command = make(tmp_path, spec(rows=rows), ["four", "two"])
    assert [line["row_b"] for line in lines_of(tmp_path, command, "score")] == ["two"]
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "Not compared:",
        f"one: no scores yet for {cell('one')}, judged by rules",
        "again: the same cell as four",
        "other: not part of this column",
    ]


@pytest.mark.parametrize("scored", [[], ["four"]])
def test_fewer_than_two_rows_are_no_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str], scored: list[str]) -> None:
    assert lines_of(tmp_path, make(tmp_path, spec(), scored), "score") == []
    said = capsys.readouterr().out
    assert "No pair to compare" in said
    assert said.count("no scores yet") == 3 - len(scored)


def test_rows_without_a_common_question_have_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = make(tmp_path, spec())
    asked = sample.questions(10)
    for name, failed in (("four", range(5)), ("one", range(5, 10))):
        answered = sample.predictions(asked, status=dict.fromkeys(failed, "error:engine"))
        sample.score(tmp_path, cell(name), asked, answered)
    first, *others = lines_of(tmp_path, command, "words")
    assert [first[name] for name in ("value", "p", "p_holm", "n")] == [""] * 4
    assert [line["n"] for line in others] == ["5", "5"]
    assert "four − one  no question scored in both" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "column", "message"),
    [
        ({}, "scor", "no column 'scor' (did you mean 'score'?)"),
        (
            {"rows": [{"label": "a", "sampler": "uniform_4"}, {"label": "b", "sampler": "uniform_1", "group": "now"}]},
            "words",
            "'a' and 'b' differ in group (all, now)",
        ),
        (
            {"rows": [{"label": "a", "sampler": "uniform_4"}, {"label": "b", "sampler": "uniform_1", "judge": "x"}]},
            "score",
            "'a' and 'b' differ in judge (rules, x)",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], change, column, message) -> None:
    assert compare_rows.main([*make(tmp_path, spec(**change)), "--column", column]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
