"""Tables of judged scores: pairs, means over categories, what could not be judged, two countings, cost."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from scripts.lib import cells
from scripts.lib.cells import Entry
from scripts.lib.records import Judgement
from scripts.tables import footnotes, make_pdf, make_table, rows
from tests.unit import judged_sample
from tests.unit import table_sample as sample
from tests.unit.judged_sample import judgement

FOUR = "signs/reader/uniform_4/native/v_q"
ONE = "signs/reader/uniform_1/native/v_q"
TITLE = r"Größe_1 {x} & 50% <b>|*\input{y}"
NOTE = "“Größe” is of this test alone."
JUDGE = {"title": TITLE, "kind": "exact", "note": NOTE, "published_rule": "egotextvqa"}
WRONG = {FOUR: {0, 3, 6, 9}, ONE: {0, 1, 2, 3, 4, 6}}
"""Of 10 questions: 4 of category now (every third), 3 of first and 3 of previous."""


def spec(**changes) -> dict:
    base = {
        "title": "Judged",
        "caption": "Judged signs",
        "defaults": {"dataset": "signs", "resolution": "native", "prompt": "v_q", "model": "reader", "judge": "rules"},
        "columns": [
            {"label": "words", "metric": "exact_match"},
            {"label": "acc", "metric": "judge_accuracy", "pair": "judge_score", "over": "Judge"},
            {"label": "macro", "metric": "judge_accuracy", "group": "macro", "over": "Judge"},
            {"label": "score", "metric": "judge_score", "over": "Judge"},
        ],
        "rows": [{"label": "four", "sampler": "uniform_4"}, {"label": "one", "sampler": "uniform_1"}],
    }
    return base | changes


def make(folder: Path, table: dict, other: dict[int, Judgement] | None = None, **more) -> list[str]:
    """Score and judge both cells of the table; return the command line of make_table.

    Args:
        other: judgements of the cell FOUR that are not plain ones.
        more: ``skip``, a cell that is not judged; ``status``, of predictions; ``judge``, another judge's content.
    """
    asked = sample.questions(10)
    for cell, wrong in WRONG.items():
        answered = sample.predictions(asked, wrong, more.get("status"))
        if "dollars" in more:
            answered = [one.model_copy(update={"dollars": more["dollars"], "tokens_in": 100}) for one in answered]
        sample.score(folder, cell, asked, answered)
        judged = judged_sample.judgements(asked, wrong, other if cell == FOUR else None)
        judged = [one.model_copy(update=more.get("spent", {})) for one in judged]
        if cell != more.get("skip"):
            sample.judge(folder, "rules", more.get("judge", JUDGE), cell, judged)
    return command(folder, table)


def command(folder: Path, table: dict) -> list[str]:
    sample.config(folder, table)
    made = ["--table", str(folder / "config/tables/p/t.yaml"), "--results", str(folder)]
    for option, suffix in (("tex", "tex"), ("csv", "csv"), ("json", "json"), ("markdown", "md")):
        made += [f"--{option}", str(folder / f"out/t.{suffix}")]
    return made


def text(folder: Path, suffix: str) -> str:
    return (folder / f"out/t.{suffix}").read_text(encoding="utf-8")


def content(folder: Path) -> dict:
    return json.loads(text(folder, "json"))


def test_four_forms_of_judged_numbers(tmp_path: Path) -> None:
    assert make_table.main(make(tmp_path, spec())) == 0
    four, one = (line for line in text(tmp_path, "md").splitlines() if line.startswith(("| four", "| one")))
    cells = [cell.strip().split(" [")[0] for cell in four.strip("|").split("|")]
    assert cells == ["four", "**60.0**", "**60.0** / 3.4", "**66.7**", "**3.4**"]
    assert "<u>40.0</u> / 2.6 [" in one
    tex = text(tmp_path, "tex")
    assert r"\textbf{60.0} / 3.4 & {\scriptsize {[}" in tex
    assert tex.isascii()
    assert r"\input{y}" not in tex
    first = content(tmp_path)["rows"][0]["entries"][1]
    assert (first["cell"], first["judge"], first["metric"]) == (FOUR, "rules", "judge_accuracy")
    assert (first["value"], first["text"], first["rank"]) == (0.6, "60.0 / 3.4", 1)
    assert (first["pair"]["metric"], first["pair"]["value"], first["pair"]["n_scored"]) == ("judge_score", 3.4, 10)
    assert first["pair"]["low"] <= 3.4 <= first["pair"]["high"]
    lines = list(csv.DictReader(text(tmp_path, "csv").splitlines()))
    of_four = [(line["column"], line["judge"], line["metric"], line["group"], line["value"]) for line in lines[:5]]
    assert of_four == [
        ("words", "", "exact_match", "all", "0.6"),
        ("acc", "rules", "judge_accuracy", "all", "0.6"),
        ("acc", "rules", "judge_score", "all", "3.4"),
        ("macro", "rules", "judge_accuracy", "macro", "0.666667"),
        ("score", "rules", "judge_score", "all", "3.4"),
    ]


def test_the_notes_say_how_to_read_it_and_who_judged(tmp_path: Path) -> None:
    assert make_table.main(make(tmp_path, spec())) == 0
    notes = content(tmp_path)["footnotes"]
    assert notes[0].startswith(
        "Per cent and scores of 0–5, with 95 % intervals from a bootstrap over videos (200 draws)."
    )
    assert notes[1] == "Of two values, interval and rank are those of the first, which is in per cent."
    assert notes[2] == "Mean over the categories, each of the same weight: Judge: macro."
    assert f"Judged by {TITLE} in Judge: acc, Judge: macro, Judge: score. {NOTE}" in notes
    assert not any(note.startswith("Not judged") for note in notes)
    assert r"\\input{y}" in text(tmp_path, "md")


def test_scores_alone_are_not_called_per_cent(tmp_path: Path) -> None:
    table = spec(columns=[{"label": "score", "metric": "judge_score"}])
    assert make_table.main(make(tmp_path, table)) == 0
    notes = content(tmp_path)["footnotes"]
    assert notes[0].startswith("Scores of 0–5, with 95 % intervals")
    assert f"Judged by {TITLE}. {NOTE}" in notes


def test_what_could_not_be_judged_is_counted_and_the_number_is_incomplete(tmp_path: Path) -> None:
    keys = [one.key for one in sample.questions(10)]
    other = {at: judgement(keys[at], status="parse_failed") for at in (1, 2)}
    other |= {4: judgement(keys[4], status="refused"), 5: judgement(keys[5], flags=["cut", "repaired"])}
    other |= {7: judgement(keys[7], flags=["cut"]), 8: judgement(keys[8], status="no_answer")}
    table = spec(columns=[column for column in spec()["columns"] if column["label"] != "words"])
    made = make(tmp_path, table, other | {8: judgement(keys[8], "yes", 5)})
    assert make_table.main(made) == 0
    entries = content(tmp_path)["rows"][0]["entries"]
    assert [entry["used"] for entry in entries] == ["7/10"] * 3
    assert [entry["rank"] for entry in entries] == [0, 0, 0]
    assert entries[0]["value"] == pytest.approx(3 / 7)
    notes = content(tmp_path)["footnotes"]
    assert "Not judged: four (2 parse_failed, 1 refused of 10)." in notes
    assert not any(note.startswith("Not scored") for note in notes)
    assert (
        f"Judged by {TITLE}. Of 20 judgements: answer cut (2), verdict read when asked for again (1). {NOTE}" in notes
    )


def test_metrics_of_text_beside_them_are_complete_all_the_same(tmp_path: Path) -> None:
    keys = [one.key for one in sample.questions(10)]
    made = make(tmp_path, spec(), {1: judgement(keys[1], status="content_filter")})
    assert make_table.main(made) == 0
    assert "Not judged: four (1 content_filter of 10)." in content(tmp_path)["footnotes"]
    assert [entry["used"] for entry in content(tmp_path)["rows"][0]["entries"]] == ["", "9/10", "9/10", "9/10"]


def test_the_flip_rate_is_that_of_all_cells_of_the_judge(tmp_path: Path) -> None:
    asked = sample.questions(10)
    other = {1: judgement(asked[1].key, again_verdict="yes", again_score=5)}
    other[2] = judgement(asked[2].key, again_verdict="no", again_score=1)
    assert make_table.main(make(tmp_path, spec(), other)) == 0
    found = content(tmp_path)
    (note,) = [note for note in found["footnotes"] if "Judged twice" in note]
    assert "Judged twice: 2 answers, verdict flipped in 50.0 %." in note
    of = found["judges"][f"{FOUR}, judged by rules"]
    assert (of["judge"], of["judge_title"], of["again"]["flipped"]) == ("rules", TITLE, 1)


def test_the_published_counting_is_in_the_json_alone(tmp_path: Path) -> None:
    keys = [one.key for one in sample.questions(10)]
    other = {1: judgement(keys[1], status="parse_failed", raw="well, maybe")}
    assert make_table.main(make(tmp_path, spec(), other)) == 0
    words, acc, macro, score = content(tmp_path)["rows"][0]["entries"]
    assert words["as_published"] is None
    assert acc["as_published"] == {"rule": "egotextvqa", "value": 0.5, "n": 10}
    assert acc["pair"]["as_published"] == {"rule": "egotextvqa", "value": 2.9, "n": 10}
    assert macro["as_published"] is None  # the script has no such mean
    assert score["as_published"] == acc["pair"]["as_published"]
    assert acc["text"].startswith("55.6 / ")
    for form in ("tex", "csv", "md"):
        assert "50.0 / " not in text(tmp_path, form)
        assert "published" not in text(tmp_path, form)


def test_a_pair_without_scores_shows_a_dash(tmp_path: Path) -> None:
    asked = sample.questions(10)
    other = {at: judgement(one.key, "yes", None) for at, one in enumerate(asked)}
    table = spec(columns=[{"label": "acc", "metric": "judge_accuracy", "pair": "judge_score"}])
    assert make_table.main(make(tmp_path, table, other)) == 0
    assert "| four | **100.0** / – [100.0, 100.0] |" in text(tmp_path, "md")
    pair = content(tmp_path)["rows"][0]["entries"][0]["pair"]
    assert (pair["value"], pair["n_scored"]) == (None, 0)


def test_a_pair_of_fewer_questions_says_of_how_many(tmp_path: Path) -> None:
    asked = sample.questions(10)
    other = {at: judgement(asked[at].key, "yes", None) for at in (1, 2)}
    table = spec(columns=[{"label": "acc", "metric": "judge_accuracy", "pair": "judge_score"}])
    assert make_table.main(make(tmp_path, table, other)) == 0
    (line,) = [line for line in text(tmp_path, "md").splitlines() if line.startswith("| four")]
    assert line.endswith(" 10 and 8/10 |")


def test_rows_of_several_judges_are_not_ranked_with_each_other() -> None:
    def row(model: str, judge: str, value: float) -> rows.Row:
        entry = Entry(cells.parse(f"d/{model}/s/r/p"), "judge_accuracy", "all", judge)
        score = {"value": value, "n": 4, "n_scored": 4, "n_videos": 2}
        return rows.Row(model, "", [rows.Number(entry, score)])

    def ranks(*judges: str) -> list[int]:
        made = [row(f"m{at}", judge, 1 - at / 4) for at, judge in enumerate(judges)]
        return [one.numbers[0].rank for one in rows.ranked(made, ["higher"])]

    assert ranks("words", "words", "words") == [1, 2, 0]
    assert ranks("words", "far", "words") == [0, 0, 0]


def test_answers_without_a_score_are_in_no_difference_of_scores(tmp_path: Path) -> None:
    asked = sample.questions(10)
    other = {at: judgement(asked[at].key, "yes", None) for at in (1, 2)}
    compared = [{"rows": ["four", "one"], "column": column} for column in ("acc", "score")]
    assert make_table.main(make(tmp_path, spec(compare=compared), other)) == 0
    assert [one["n"] for one in content(tmp_path)["comparisons"]] == [10, 8]


def test_a_pair_of_a_metric_of_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = spec(columns=[{"label": "words", "metric": "exact_match", "pair": "judge_score"}])
    assert make_table.main(make(tmp_path, table)) == 1
    assert "column 'words' has a pair, and its metric in row 'four' is exact_match" in capsys.readouterr().err


def test_missing_judgements_stop_or_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_table.main(make(tmp_path / "a", spec(), skip=ONE)) == 1
    said = capsys.readouterr().err
    assert f"no scores for cell {ONE}, judged by rules" in said
    assert f"snakemake {tmp_path}/a/judged/rules/{ONE}/scores.json" in said
    assert not (tmp_path / "a/out").exists()
    table = spec(allow_missing=True, compare=[{"rows": ["four", "one"], "column": "acc"}])
    assert make_table.main(make(tmp_path / "b", table, skip=ONE)) == 0
    (line,) = [line for line in text(tmp_path / "b", "md").splitlines() if line.startswith("| one")]
    assert line.startswith("| one | <u>40.0</u> [")
    assert line.endswith("| –† | –† | –† |")
    assert f"† No scores yet for: {ONE}, judged by rules." in text(tmp_path / "b", "md")
    assert content(tmp_path / "b")["missing"] == [f"{ONE}, judged by rules"]
    assert ": no scores yet." in text(tmp_path / "b", "md")
    states = [entry["state"] for entry in content(tmp_path / "b")["rows"][1]["entries"]]
    assert states == ["scored", "missing", "missing", "missing"]


def test_differences_are_in_the_metric_s_own_unit_and_over_the_macro_mean(tmp_path: Path) -> None:
    asked = [{"rows": ["four", "one"], "column": column} for column in ("acc", "macro", "score")]
    assert make_table.main(make(tmp_path, spec(compare=asked))) == 0
    acc, macro, score = content(tmp_path)["comparisons"]
    assert [one["metric"] for one in (acc, macro, score)] == ["judge_accuracy", "judge_accuracy", "judge_score"]
    assert acc["value"] == pytest.approx(0.2)
    # now: 1 of 4 right instead of 0; first: 1 of 3 instead of 3; previous: 2 of 3 instead of 3
    assert macro["value"] == pytest.approx((-1 / 4 + 2 / 3 + 1 / 3) / 3)
    assert score["value"] == pytest.approx(0.8)
    assert all(one["detectable"] > 0 for one in (acc, macro, score))
    notes = content(tmp_path)["footnotes"]
    (line,) = [note for note in notes if "in Judge: score" in note and "minus" in note]
    assert line.startswith("“four” minus “one” in Judge: score: +0.8 [")
    assert line.endswith(f"(10 questions of 4 videos; detectable: {score['detectable']:.1f}).")
    assert f"detectable: {100 * acc['detectable']:.1f})" in text(tmp_path, "md")
    assert notes[-1] == footnotes.DETECTABLE


def test_two_judges_are_told_apart(tmp_path: Path) -> None:
    columns = [
        {"label": "rules", "metric": "judge_accuracy"},
        {"label": "people", "metric": "judge_accuracy", "judge": "people"},
    ]
    made = make(tmp_path, spec(columns=columns))
    asked = sample.questions(10)
    for cell in WRONG:
        sample.judge(tmp_path, "people", {"title": "Raters", "kind": "exact"}, cell, judged_sample.judgements(asked))
    assert make_table.main(made) == 0
    notes = content(tmp_path)["footnotes"]
    assert "Judged by Raters in people." in notes
    assert f"Judged by {TITLE} in rules. {NOTE}" in notes
    by_row = [{"label": "four", "sampler": "uniform_4"}, {"label": "one", "sampler": "uniform_1", "judge": "people"}]
    assert make_table.main(command(tmp_path, spec(columns=columns[:1], rows=by_row))) == 0
    notes = content(tmp_path)["footnotes"]
    assert "Judged by Raters in one." in notes
    assert f"Judged by {TITLE} in four. {NOTE}" in notes


def test_what_it_cost_is_summed_once_per_cell(tmp_path: Path) -> None:
    spent = {"tokens_in": 30_000, "tokens_out": 10, "dollars": 0.01, "calls": 1}
    assert make_table.main(make(tmp_path, spec(), dollars=0.05, spent=spent)) == 0
    cost = content(tmp_path)["cost"]
    assert cost["total"] == {
        "answers": {"tokens_in": 2000, "tokens_out": None, "dollars": 1.0},
        "judging": {"tokens_in": 600_000, "tokens_out": 200, "dollars": 0.2},
    }
    assert cost["scored"][FOUR] == {"answers": {"tokens_in": 1000, "tokens_out": None, "dollars": 0.5}}
    assert cost["scored"][f"{FOUR}, judged by rules"]["judging"]["dollars"] == 0.1
    line = "- Cost: $1.00 for answers, $0.20 for judging (20 judgements, 600,200 tokens).\n"
    assert text(tmp_path, "md").endswith(line)
    assert "Cost" not in text(tmp_path, "tex")
    assert not any("Cost" in note for note in content(tmp_path)["footnotes"])


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, ""),
        ({"spent": {"tokens_in": 5, "tokens_out": 1}}, "Cost: judging: 20 judgements, 120 tokens."),
        ({"dollars": 0.00001}, "Cost: less than $0.01 for answers."),
        ({"spent": {"dollars": 60.0}}, "Cost: $1,200.00 for judging (20 judgements)."),
    ],
)
def test_only_known_costs_are_told(tmp_path: Path, more: dict, line: str) -> None:
    assert make_table.main(make(tmp_path, spec(), **more)) == 0
    assert ("Cost" in text(tmp_path, "md")) == bool(line)
    assert not line or text(tmp_path, "md").endswith(f"- {line}\n")


@pytest.mark.parametrize(
    ("path", "key", "rule"),
    [(f"scores/{FOUR}", "cost", "score_cell"), (f"judged/rules/{FOUR}", "flags", "score_judgements")],
)
def test_scores_of_an_older_version_name_the_rule_to_run(
    tmp_path: Path, capsys, path: str, key: str, rule: str
) -> None:
    made = make(tmp_path, spec())
    scores = tmp_path / path / "scores.json"
    older = json.loads(scores.read_text(encoding="utf-8"))
    del older[key]
    scores.write_text(json.dumps(older), encoding="utf-8")
    assert make_table.main(made) == 1
    assert f"{scores}: no '{key}' in it; run {rule} again" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["pdflatex", "lualatex", "tectonic"])
def test_a_judged_table_is_typeset(tmp_path: Path, engine: str) -> None:
    path = shutil.which(engine)
    if path is None:
        pytest.skip(f"no {engine} on PATH")
    keys = [one.key for one in sample.questions(10)]
    other = {1: judgement(keys[1], status="parse_failed"), 5: judgement(keys[5], flags=["two_verdicts", "defused"])}
    table = spec(compare=[{"rows": ["four", "one"], "column": "macro"}])
    assert make_table.main(make(tmp_path, table, other)) == 0
    make_pdf.typeset(text(tmp_path, "tex"), tmp_path / "t.pdf", path)
    assert (tmp_path / "t.pdf").read_bytes().startswith(b"%PDF")
