"""Tables from scores: ranks, n used/n, dashes, comparisons, all four forms, and the tables this repository ships."""

import csv
import json
from pathlib import Path

import pytest
import yaml

from scripts.lib import metrics, stats
from scripts.lib.cells import JUDGED, Cell, Entry
from scripts.tables import footnotes, make_table, printed, rows
from tests.unit import table_sample as sample

ENTRY = Entry(Cell("signs", "reader", "uniform_4", "native", "v_q"), "exact_match", "all")


def spec(**changes) -> dict:
    base = {
        "title": "Signs | now & then",
        "caption": "50% of “signs” & more",
        "defaults": {"dataset": "signs", "resolution": "native", "prompt": "v_q", "metric": "exact_match"},
        "columns": [
            {"label": "all", "heading": "All", "over": "Exact"},
            {"label": "now", "heading": "Now", "over": "Exact", "group": "now"},
            {"label": "choice", "prompt": "v_q_options", "metric": "accuracy"},
        ],
        "rows": [
            {"section": "Größe_1", "label": "four", "model": "reader", "sampler": "uniform_4"},
            {"section": "Größe_1", "label": "one", "model": "reader", "sampler": "uniform_1"},
            {"label": "other", "model": "blind", "sampler": "uniform_1", "only": ["all", "now"]},
        ],
        "compare": [
            {"rows": ["Größe_1 / four", "Größe_1 / one"], "column": "all"},
            {"rows": ["other", "Größe_1 / one"], "column": "now"},
        ],
    }
    return base | changes


def make(folder: Path, table: dict, status: dict[int, str] | None = None, skip: str = "") -> list[str]:
    """Score the cells of the table and write the four forms; return the command line of make_table."""
    asked = sample.questions(12)
    choices = sample.questions(12, options=True)
    for cell, wrong in {
        "signs/reader/uniform_4/native/v_q": {1},
        "signs/reader/uniform_1/native/v_q": {0, 1, 2, 3, 5, 6, 7},
        "signs/blind/uniform_1/native/v_q": set(range(12)),
    }.items():
        if cell != skip:
            sample.score(folder, cell, asked, sample.predictions(asked, wrong, status))
    for cell in ("signs/reader/uniform_4/native/v_q_options", "signs/reader/uniform_1/native/v_q_options"):
        sample.score(folder, cell, choices, sample.predictions(choices))
    sample.config(folder, table)
    out = folder / "out"
    command = ["--table", str(folder / "config/tables/p/t.yaml"), "--results", str(folder)]
    for option, suffix in (("tex", "tex"), ("csv", "csv"), ("json", "json"), ("markdown", "md")):
        command += [f"--{option}", str(out / f"t.{suffix}")]
    return command


def text(folder: Path, suffix: str) -> str:
    return (folder / f"out/t.{suffix}").read_text(encoding="utf-8")


def test_four_forms_of_one_table(tmp_path: Path) -> None:
    assert make_table.main(make(tmp_path, spec())) == 0
    tex, markdown, made = text(tmp_path, "tex"), text(tmp_path, "md"), json.loads(text(tmp_path, "json"))
    assert r"\caption{50\% of {``}signs{''} \& more}" in tex
    assert r"\multicolumn{4}{c}{Exact} & \multicolumn{2}{c}{} \\" in tex
    assert r"\textit{Gr\"{o}{\ss{}}e\_1}" in tex.replace(r"\ss{}", r"{\ss{}}")
    assert r"four & \textbf{91.7} & {\scriptsize {[}" in tex
    assert r"one & \underline{41.7} &" in tex
    assert tex.isascii()
    assert "| Größe_1 / four | **91.7** [" in markdown
    assert "**Signs \\| now & then**" in markdown
    assert "| other | 0.0 [0.0, 0.0] | 0.0 [0.0, 0.0] | — |" in markdown
    states = [[entry["state"] for entry in row["entries"]] for row in made["rows"]]
    assert states == [["scored"] * 3, ["scored"] * 3, ["scored", "scored", "not_asked"]]
    first = made["rows"][0]["entries"][0]
    assert (first["text"], first["used"], first["rank"]) == ("91.7", "", 1)
    assert first["cell"] == "signs/reader/uniform_4/native/v_q"
    assert made["spec"]["name"] == "p/t"
    lines = list(csv.DictReader(text(tmp_path, "csv").splitlines()))
    assert len(lines) == 8
    assert float(lines[0]["value"]) == round(11 / 12, 6)
    assert (lines[1]["group"], lines[1]["n"], lines[1]["n_scored"]) == ("now", "4", "4")


def test_equal_values_share_a_rank_and_a_lone_value_is_not_best(tmp_path: Path) -> None:
    command = make(tmp_path, spec())
    assert make_table.main(command) == 0
    made = json.loads(text(tmp_path, "json"))
    assert [row["entries"][2]["rank"] for row in made["rows"]] == [0, 0, 0]  # both 100.0: no best
    assert [row["entries"][1]["rank"] for row in made["rows"]] == [1, 2, 0]


def test_ranks_follow_the_direction() -> None:
    def row(value: float | None) -> rows.Row:
        score = {"value": value, "low": 0.0, "high": 1.0, "n": 1, "n_scored": 1, "n_videos": 2}
        return rows.Row("x", "", [rows.Number(ENTRY, score)])

    def partial(value: float) -> rows.Row:
        score = {"value": value, "low": 0.0, "high": 1.0, "n": 40, "n_scored": 1, "n_videos": 1}
        return rows.Row("x", "", [rows.Number(ENTRY, score)])

    table = [row(0.2), row(0.9), row(0.20001), row(None), row(0.5)]
    assert [r.numbers[0].rank for r in rows.ranked(table, ["higher"])] == [0, 1, 0, 0, 2]
    assert [r.numbers[0].rank for r in rows.ranked(table, ["lower"])] == [1, 0, 1, 0, 2]
    assert [r.numbers[0].rank for r in rows.ranked(table, ["none"])] == [0, 0, 0, 0, 0]
    lucky = [partial(1.0), row(0.9), row(0.8), row(0.7)]
    assert [r.numbers[0].rank for r in rows.ranked(lucky, ["higher"])] == [0, 1, 2, 0]
    assert [r.numbers[0].rank for r in rows.ranked([partial(0.1), row(0.9), row(0.8)], ["lower"])] == [0, 2, 1]
    assert [r.numbers[0].rank for r in rows.ranked([partial(0.1), row(0.9)], ["higher"])] == [0, 0]  # alone


def test_n_is_said_once_when_all_is_scored_and_beside_the_number_when_not(tmp_path: Path) -> None:
    table = spec(compare=[])
    assert make_table.main(make(tmp_path / "whole", table)) == 0
    whole = text(tmp_path / "whole", "md")
    assert "n = 12 questions of 4 videos (Exact: All, choice); 4 questions of 4 videos (Exact: Now)" in whole
    assert "12/12" not in whole
    assert "In each column the best value is bold and" in whole
    status = {0: "error:video_undecodable", 3: "unanswerable"}
    assert make_table.main(make(tmp_path / "part", table, status)) == 0
    part = text(tmp_path / "part", "md")
    assert "] 11/12 |" in part
    assert "] 3/4 |" in part
    assert "In each column the best value of those with every question scored is bold and" in part
    here = "in Exact: All, Exact: Now"
    assert (
        f"- An answer, and scored: Größe_1 / four (1 unanswerable {here}); Größe_1 / one (1 unanswerable {here});"
        " other (1 unanswerable).\n" in part
    )
    assert f"- Not scored: Größe_1 / four (1 error:video_undecodable {here}); Größe_1 / one (" in part
    made = json.loads(text(tmp_path / "part", "json"))["rows"]
    assert [row["entries"][0]["used"] for row in made] == ["11/12"] * 3
    assert [row["entries"][0]["rank"] for row in made] == [0, 0, 0]
    assert "11/12" in text(tmp_path / "part", "tex")


def test_a_row_whose_frames_the_model_changed_says_so_in_every_form(tmp_path: Path) -> None:
    command = make(tmp_path, spec())
    asked, cell = sample.questions(12), "signs/reader/uniform_1/native/v_q"
    kinds = ["resized 720x1280 to 448x784"] * 7 + ["2 of 16 frames dropped"] * 3 + ["last frame doubled"] + [""]
    changed = [
        one.model_copy(update={"frames_note": note}) for one, note in zip(sample.predictions(asked), kinds, strict=True)
    ]
    sample.score(tmp_path, cell, asked, changed)
    assert make_table.main(command) == 0
    said = (
        "Frames as the model's own preprocessing changed them: Größe_1 / one: resized 720x1280 to 448x784 (7 answers),"
        " 2 of 16 frames dropped (3 answers), 1 more kinds."
    )
    found = json.loads(text(tmp_path, "json"))
    assert said in found["footnotes"] and said in text(tmp_path, "md")
    assert found["frames_changed"] == {
        cell: {"resized 720x1280 to 448x784": 7, "2 of 16 frames dropped": 3, "last frame doubled": 1}
    }
    assert "resized 720x1280 to 448x784" in text(tmp_path, "tex")


def test_comparisons_are_paired_and_corrected(tmp_path: Path) -> None:
    assert make_table.main(make(tmp_path, spec())) == 0
    first, second = json.loads(text(tmp_path, "json"))["comparisons"]
    assert first["value"] == pytest.approx(0.5)
    assert first["n"] == 12
    assert second["value"] == pytest.approx(-0.25)
    assert second["n"] == 4
    assert first["p_holm"] == pytest.approx(min(1.0, 2 * first["p"]))
    assert "“Größe_1 / four” minus “Größe_1 / one” in Exact: All: +50.0 [" in text(tmp_path, "md")
    told = "Differences (only questions scored in both), with p after Holm's correction:"
    assert told in text(tmp_path, "md")
    assert told in json.loads(text(tmp_path, "json"))["footnotes"]
    assert "after Holm" in text(tmp_path, "tex")


def test_no_difference_at_all_has_p_1(tmp_path: Path) -> None:
    table = spec(compare=[{"rows": ["Größe_1 / four", "Größe_1 / one"], "column": "choice"}])
    assert make_table.main(make(tmp_path, table)) == 0
    (one,) = json.loads(text(tmp_path, "json"))["comparisons"]
    assert (one["value"], one["p"], one["p_holm"]) == (0.0, 1.0, 1.0)
    said = "“Größe_1 / four” minus “Größe_1 / one” in choice: 0.0 [0.0, 0.0], p = 1 (12 questions of 4 videos)."
    assert said in text(tmp_path, "md")
    assert "Differences (only questions scored in both):\n" in text(tmp_path, "md")


def test_an_interval_of_no_width_is_not_left_uncommented(tmp_path: Path) -> None:
    note = "An interval of no width means that all draws agreed, not that the value is certain."
    assert make_table.main(make(tmp_path, spec())) == 0
    assert "0.0 [0.0, 0.0]" in text(tmp_path, "md")
    assert note in text(tmp_path, "md")
    assert note in text(tmp_path, "tex").replace("{,}", ",")
    assert note in json.loads(text(tmp_path, "json"))["footnotes"]


@pytest.mark.parametrize(
    ("low", "high", "n_videos", "told"),
    [
        (1.0, 1.0, 8, True),
        (0.99996, 1.0, 99, True),
        (0.99, 1.0, 8, False),
        (1.0, 1.0, 100, False),
        (1.0, 1.0, 1, False),
    ],
)
def test_which_intervals_have_no_width(low: float, high: float, n_videos: int, told: bool) -> None:
    score = {"value": 1.0, "low": low, "high": high, "n": n_videos, "n_scored": n_videos, "n_videos": n_videos}
    row = rows.Row("r", "", [rows.Number(ENTRY, score)])
    found = rows.Table({"columns": [{"label": "c"}]}, [row], {}, [], [])
    assert any("no width" in note for note in footnotes.notes(found)) is told


def test_a_difference_of_no_width_is_told_too() -> None:
    pair = rows.Comparison(("a", "b"), "c", "exact_match", stats.Difference(1.0, 1.0, 1.0, 0.01, 9, 9, 0.0), 0.01)
    found = rows.Table({"columns": [{"label": "c"}]}, [], {}, [], [pair])
    assert any("no width" in note for note in footnotes.notes(found))
    assert (
        footnotes.notes(found)[-1]
        == "“a” minus “b” in c: +100.0 [+100.0, +100.0], p = 0.010 (9 questions of 9 videos)."
    )


def test_missing_scores_stop_or_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = "signs/blind/uniform_1/native/v_q"
    assert make_table.main(make(tmp_path / "a", spec(), skip=cell)) == 1
    said = capsys.readouterr().err
    assert f"no scores for cell {cell}" in said
    assert f"snakemake {tmp_path}/a/scores/{cell}/scores.json" in said
    assert not (tmp_path / "a/out").exists()
    assert make_table.main(make(tmp_path / "b", spec(allow_missing=True), skip=cell)) == 0
    assert "| other | –† | –† | — |" in text(tmp_path / "b", "md")
    assert f"† No scores yet for: {cell}." in text(tmp_path / "b", "md")
    assert r"other & {--}$\dagger$ & " in text(tmp_path / "b", "tex")
    assert ": no scores yet." in text(tmp_path / "b", "md")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": [{"label": "x", "group": "nwo"}]}, "no group 'nwo' (did you mean 'now'?)"),
        ({"columns": [{"label": "x", "metric": "accuracy"}]}, "has no metric 'accuracy'"),
        ({"columns": [{"label": "x", "metric": "exact"}]}, "'exact' is not known (did you mean 'exact_match'?)"),
        ({"columns": [{"label": "x", "metrik": "exact"}]}, "unknown key 'metrik' (did you mean 'metric'?)"),
        ({"columns": [{"label": "x"}, {"label": "x"}]}, "two columns are called 'x'"),
        ({"rows": [{"label": "r", "model": "blind", "sampler": "uniform_1"}] * 2}, "two rows are called 'r'"),
        ({"rows": [{"label": "r", "model": "blind", "sampler": "uniform_1", "only": ["al"]}]}, "no column 'al'"),
        ({"rows": [{"label": "r", "model": "blind"}]}, "names no sampler"),
        ({"compare": [{"rows": ["other", "fuor"], "column": "all"}]}, "compare: no row 'fuor'"),
        ({"compare": [{"rows": ["other", "Größe_1 / one"], "column": "choice"}]}, "don't both have column 'choice'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict, message: str) -> None:
    base = {"compare": []} if "rows" in change or "columns" in change else {}
    if "columns" in change:
        base["rows"] = [{"label": "r", "model": "blind", "sampler": "uniform_1"}]
    assert make_table.main(make(tmp_path, spec(**(base | change)))) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert message in said
    assert said.count("\n") == 1


def test_one_video_has_no_interval() -> None:
    score = {"value": 0.5, "low": 0.5, "high": 0.5, "n": 2, "n_scored": 2, "n_videos": 1}
    assert printed.interval(rows.Number(ENTRY, score)) == ""


def test_schema_knows_exactly_the_metrics_there_are() -> None:
    schema = yaml.safe_load((sample.ROOT / "config/schemas/table.schema.yaml").read_text(encoding="utf-8"))
    assert schema["properties"]["defaults"]["properties"]["metric"]["enum"] == list(
        dict.fromkeys([*metrics.NAMES, *JUDGED])
    )
