"""Scores of one cell: what is scored and what is only counted, groups, refusals to go on, and the same bytes again."""

import json
from pathlib import Path

import pytest

from scripts.judge import score_cell, scoring
from scripts.lib import jsonl
from scripts.lib.errors import DataError
from scripts.lib.records import Case
from tests.unit import table_sample as sample

CELL = "signs/reader/uniform_4/native/v_q"
CHOICE = "signs/reader/uniform_4/native/v_q_options"


def read(folder: Path) -> dict:
    return json.loads((folder / "scores.json").read_text(encoding="utf-8"))


def test_means_groups_and_intervals(tmp_path: Path) -> None:
    asked = sample.questions(12)
    scores = read(sample.score(tmp_path, CELL, asked, sample.predictions(asked, wrong={0, 3, 4})))
    assert scores["cell"] == CELL
    assert (scores["n"], scores["n_videos"], scores["statuses"]) == (12, 4, {"ok": 12})
    exact = scores["metrics"]["exact_match"]
    assert list(exact) == ["all", "macro", "first", "now", "previous", "current", "subset:previous"]
    assert exact["all"]["value"] == 0.75
    assert exact["now"]["value"] == 0.5  # questions 0, 3, 6, 9
    assert exact["first"]["value"] == 0.75
    assert exact["previous"]["value"] == 1.0
    assert exact["subset:previous"]["n"] == 8
    assert exact["macro"]["n"] == exact["macro"]["n_scored"] == 12
    assert exact["all"]["low"] < 0.75 < exact["all"]["high"]
    assert 0 < exact["all"]["detectable"] < 1
    assert scores["settings"] == {
        "version": score_cell.VERSION,
        "answers": "open",
        "draws": sample.DRAWS,
        "seed": 3,
        "level": 0.95,
    }


def test_failures_are_counted_and_never_scored(tmp_path: Path) -> None:
    asked = sample.questions(12)
    status = {0: "error:video_undecodable", 1: "refused", 2: "truncated", 3: "unanswerable"}
    out = sample.score(tmp_path, CELL, asked, sample.predictions(asked, wrong={0, 1, 2, 3}, status=status))
    scores = read(out)
    counted = {"error:video_undecodable": 1, "ok": 8, "refused": 1, "truncated": 1, "unanswerable": 1}
    assert scores["statuses"] == counted
    assert scores["metrics"]["exact_match"]["all"] | dict.fromkeys(("low", "high", "detectable"), 0) == {
        "value": round(8 / 9, 6),
        "low": 0,
        "high": 0,
        "detectable": 0,
        "n": 12,
        "n_scored": 9,
        "n_videos": 4,
    }
    cases = list(jsonl.read(out / "cases.jsonl", Case))
    assert [case.key for case in cases] == [question.key for question in asked]
    assert [bool(case.metrics) for case in cases] == [False, False, False] + [True] * 9


def test_nothing_scored_is_null_not_zero(tmp_path: Path) -> None:
    asked = sample.questions(3)
    status = dict.fromkeys(range(3), "error:engine")
    scores = read(sample.score(tmp_path, CELL, asked, sample.predictions(asked, status=status)))
    nothing = dict.fromkeys(("value", "low", "high", "detectable"))
    for group in ("all", "macro", "now"):
        n = 1 if group == "now" else 3
        assert scores["metrics"]["rouge_l"][group] == {**nothing, "n": n, "n_scored": 0, "n_videos": 0}


def case(at: int, category: str, value: float | None, video: str = "") -> Case:
    metrics = {} if value is None else {"m": value}
    video = video or f"v{at}"
    return Case(key=f"k{at}", video=video, category=category, subsets=[], status="ok", answer="", metrics=metrics)


def test_every_category_weighs_the_same_in_macro() -> None:
    """Micro, the large category decides; what was not scored has no category's mean."""
    large = [case(at, "large", 1.0) for at in range(8)]
    small = [case(at, "small", 0.0) for at in range(8, 10)]
    lost = [case(at, "lost", None) for at in range(10, 13)]
    made = scoring.score([*large, *small, *lost], ["m"], 200, 0)["m"]
    assert (made["all"]["value"], made["macro"]["value"]) == (0.8, 0.5)
    assert made["macro"]["low"] <= 0.5 <= made["macro"]["high"]
    assert (made["macro"]["n"], made["macro"]["n_scored"], made["macro"]["n_videos"]) == (13, 10, 10)
    assert made["lost"]["value"] is None


def test_the_difference_that_would_be_found() -> None:
    """Of independent videos: sqrt(2) * (1.960 + 0.842) standard errors; of one video, nobody can say."""
    share, n = 0.3, 400
    cases = [case(at, "c", float(at < share * n)) for at in range(n)]
    found = scoring.score(cases, ["m"], 4000, 1)["m"]["all"]["detectable"]
    assert found == pytest.approx(2**0.5 * 2.8016 * (share * (1 - share) / n) ** 0.5, rel=0.05)
    one = scoring.score([case(at, "c", at % 2, "v") for at in range(9)], ["m"], 50, 1)["m"]
    assert (one["all"]["detectable"], one["macro"]["detectable"]) == (None, None)


def test_a_metric_that_some_cases_lack() -> None:
    cases = [case(0, "c", 1.0), case(1, "c", 0.0), case(2, "c", 1.0)]
    cases[0] = cases[0].model_copy(update={"metrics": {"m": 1.0, "n": 4.0}})
    made = scoring.score(cases, ["n", "m"], 50, 0)
    assert list(made) == ["n", "m"]
    assert (made["n"]["all"]["value"], made["n"]["all"]["n_scored"]) == (4.0, 1)
    assert (made["m"]["all"]["value"], made["m"]["all"]["n_scored"]) == (round(2 / 3, 6), 3)


def test_cost_is_summed_and_unknown_where_nobody_counted(tmp_path: Path) -> None:
    asked = sample.questions(4)
    answered = sample.predictions(asked)
    free = read(sample.score(tmp_path / "free", CELL, asked, answered))
    assert free["cost"] == {"answers": {"tokens_in": None, "tokens_out": None, "dollars": None, "seconds": None}}
    bill = [{"tokens_in": 100, "tokens_out": 0, "dollars": 0.1, "seconds": 0.25}, {"tokens_in": 11, "dollars": 0.2}]
    for at, one in enumerate(bill):
        answered[at] = answered[at].model_copy(update=one)
    billed = read(sample.score(tmp_path / "billed", CELL, asked, answered))
    assert billed["cost"] == {"answers": {"tokens_in": 111, "tokens_out": 0, "dollars": 0.3, "seconds": 0.25}}


def test_options_are_scored_by_letter(tmp_path: Path) -> None:
    asked = sample.questions(12, options=True)
    scores = read(sample.score(tmp_path, CHOICE, asked, sample.predictions(asked, wrong={5})))
    assert list(scores["metrics"]) == ["accuracy"]
    assert scores["metrics"]["accuracy"]["all"]["value"] == round(11 / 12, 6)


def test_same_bytes_again_and_no_cell_elsewhere(tmp_path: Path) -> None:
    asked = sample.questions(12)
    answered = sample.predictions(asked, wrong={1})
    out = sample.score(tmp_path, CELL, asked, answered)
    first = [(out / name).read_bytes() for name in ("scores.json", "cases.jsonl")]
    sample.score(tmp_path, CELL, asked, answered)
    assert [(out / name).read_bytes() for name in ("scores.json", "cases.jsonl")] == first
    assert score_cell.cell_of(Path("elsewhere/predictions.jsonl")) is None
    assert score_cell.cell_of(Path("a/b/c/d/e/f/predictions.jsonl")) is None


@pytest.mark.parametrize("fault", ["missing", "unknown", "twice", "no_options"])
def test_faults_name_the_question(tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str) -> None:
    asked = sample.questions(4, options=fault not in ("no_options",))
    answered = sample.predictions(asked)
    sample.score(tmp_path, CELL, asked, answered)
    key = asked[1].key
    if fault == "missing":
        del answered[1]
    elif fault == "twice":
        answered.append(answered[1])
    elif fault == "unknown":
        key = "signs/vidéo 9/q1"
        answered.append(answered[1].model_copy(update={"key": key}))
    else:
        key = asked[0].key
    jsonl.write(tmp_path / "predictions" / CHOICE / "predictions.jsonl", answered)
    prompt = tmp_path / "config/prompts/v_q_options.yaml"
    assert score_cell.main(sample.command(tmp_path, CHOICE, prompt)) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert f"'{key}'" in said
    assert not (tmp_path / "scores" / CHOICE / "scores.json").exists()


def test_no_questions_at_all_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = sample.questions(4)
    sample.score(tmp_path, CELL, asked, sample.predictions(asked))
    (tmp_path / "questions.jsonl").write_text("", encoding="utf-8")
    assert score_cell.main(sample.command(tmp_path, CELL, tmp_path / "config/prompts/v_q.yaml")) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}/questions.jsonl: no question in it")


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--draws", "0", "argument --draws: 0 is less than 1"),
        ("--draws", "-5", "argument --draws: -5 is less than 1"),
        ("--draws", "viele", "argument --draws: invalid integer value: 'viele'"),
        ("--seed", "-1", "argument --seed: -1 is less than 0"),
    ],
)
def test_numbers_that_make_no_sense_are_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, complaint: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        score_cell.main([*sample.command(tmp_path, CELL, tmp_path / "p.yaml"), option, value])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(complaint)


@pytest.mark.parametrize("name", ["all", "macro"])
def test_a_group_with_a_name_that_means_something_else_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=f"'{name}', which means"):
        scoring.groups([case(0, name, None)])
    with pytest.raises(DataError, match=f"'{name}', which means"):
        scoring.groups([case(0, "c", None).model_copy(update={"subsets": [name]})])
