"""Judged scores: only what could be judged counts, the rest is counted; the published rule beside it; the cost."""

import json
from pathlib import Path

import pytest

from scripts.judge import score_judgements
from scripts.lib import jsonl
from scripts.lib.records import Case
from tests.unit import judged_sample as sample
from tests.unit.judged_sample import judgement
from tests.unit.table_sample import predictions, questions


def test_means_of_verdicts_and_scores(tmp_path: Path) -> None:
    asked = questions(12)
    scores, out = sample.score(tmp_path, asked, predictions(asked), sample.judgements(asked, wrong={0, 3, 4}))
    assert (scores["cell"], scores["judge"]) == (sample.CELL, "rules")
    assert (scores["judge_title"], scores["judge_note"]) == ("Rules of a test", "For a test alone.")
    assert (scores["n"], scores["n_videos"], scores["statuses"]) == (12, 4, {"ok": 12})
    assert (scores["judgements"], scores["flags"], scores["again"]) == ({"ok": 12}, {}, None)
    accuracy, points = scores["metrics"]["judge_accuracy"], scores["metrics"]["judge_score"]
    assert list(scores["metrics"]) == ["judge_accuracy", "judge_score"]
    assert list(accuracy) == ["all", "macro", "first", "now", "previous", "current", "subset:previous"]
    assert [accuracy[group]["value"] for group in ("all", "macro", "first", "now", "previous")] == [
        *(0.75, 0.75),
        *(0.75, 0.5, 1.0),
    ]
    assert (points["all"]["value"], points["now"]["value"]) == (4.0, 3.0)
    assert points["all"]["low"] < 4 < points["all"]["high"] <= 5
    assert scores["settings"] == {"version": 1, "judge": "rules", "draws": 200, "seed": 3, "level": 0.95}
    cases = list(jsonl.read(out / "cases.jsonl", Case))
    assert [one.key for one in cases] == [one.key for one in asked]
    assert cases[0].metrics == {"judge_accuracy": 0.0, "judge_score": 1.0}
    assert (cases[1].status, cases[1].answer, cases[1].video) == ("ok", "Café Zürich", "vidéo 1")


def test_what_could_not_be_judged_is_counted_and_never_wrong(tmp_path: Path) -> None:
    """One of each status in four good answers: the mean stays 1."""
    asked = questions(12)
    answered = predictions(asked, status={0: "error:engine", 1: "truncated", 2: "unanswerable"})
    failures = ["parse_failed", "refused", "content_filter", "api_failed", "no_judgement"]
    other = {at: judgement(asked[at].key, status="no_answer") for at in (0, 1)}
    other |= {at: judgement(asked[at].key, status=status) for at, status in enumerate(failures, 3)}
    scores, out = sample.score(tmp_path, asked, answered, sample.judgements(asked, other=other))
    assert scores["statuses"] == {
        "error:engine": 1,
        **{f"judge:{status}": 1 for status in sorted(failures)},
        "ok": 4,
        "truncated": 1,
        "unanswerable": 1,
    }
    assert scores["judgements"] == {**dict.fromkeys(failures, 1), "no_answer": 2, "ok": 5}
    whole = scores["metrics"]["judge_accuracy"]["all"]
    assert (whole["value"], whole["n"], whole["n_scored"]) == (1.0, 12, 5)
    published = scores["as_published"]
    assert published["judge_accuracy"]["all"] == {"value": 5 / 12, "n": 12}
    assert published["judge_score"]["all"] == {"value": 25 / 12, "n": 12}
    cases = {one.key: one for one in jsonl.read(out / "cases.jsonl", Case)}
    assert [cases[asked[at].key].status for at in (0, 2, 3)] == ["error:engine", "unanswerable", "judge:parse_failed"]
    assert cases[asked[3].key].metrics == {}


def test_both_rules_side_by_side(tmp_path: Path) -> None:
    asked = questions(4)
    judge = {**sample.JUDGE, "published_rule": "myego"}
    judged = [
        judgement(asked[0].key, "yes", 5, raw='{"pred": "yes", "score": 5}'),
        judgement(asked[1].key, "yes", 4, raw='```json\n{"pred": "yes", "score": 4}\n```'),
        judgement(asked[2].key, "no", 0, flags=["empty"]),
        judgement(asked[3].key, status="parse_failed", raw='{"pred": "yes", "score": "4.8 of 5"}'),
    ]
    scores, _ = sample.score(tmp_path, asked, predictions(asked), judged, judge=judge)
    assert scores["metrics"]["judge_accuracy"]["all"]["value"] == round(2 / 3, 6)
    assert scores["metrics"]["judge_score"]["all"]["value"] == 3.0
    published = scores["as_published"]
    assert (published["rule"], published["would_stop"]) == ("myego", 1)
    assert published["judge_accuracy"]["all"] == {"value": 0.5, "n": 2}
    assert published["judge_score"]["all"] == {"value": 2.5, "n": 2}
    assert list(published["judge_score"]) == ["all", "first", "now", "previous", "current", "subset:previous"]
    assert "1 replies would have ended the script" in published["note"]


def test_no_published_rule_and_no_scores(tmp_path: Path) -> None:
    asked = questions(4)
    judged = [judgement(one.key, "yes", None) for one in asked[:3]] + [judgement(asked[3].key, "no", 2)]
    scores, _ = sample.score(tmp_path, asked, predictions(asked), judged, judge={"title": "R", "kind": "exact"})
    assert (scores["as_published"], scores["judge_note"]) == (None, "")
    of = {name: scores["metrics"][name]["all"] for name in scores["metrics"]}
    assert (of["judge_accuracy"]["value"], of["judge_accuracy"]["n_scored"]) == (0.75, 4)
    assert (of["judge_score"]["value"], of["judge_score"]["n_scored"], of["judge_score"]["n"]) == (2.0, 1, 4)


def test_judged_twice(tmp_path: Path) -> None:
    asked = questions(12)
    again = {at: judgement(asked[at].key, "yes", 5, again_verdict="yes", again_score=4) for at in range(6)}
    again[6] = judgement(asked[6].key, "yes", 5, again_verdict="no", again_score=1)
    again[7] = judgement(asked[7].key, "no", 1, again_verdict="yes")
    again[8] = judgement(asked[8].key, "no", 1, again_verdict="no", again_score=2)
    again[9] = judgement(asked[9].key, status="parse_failed", again_verdict="no", again_score=0)
    scores, _ = sample.score(tmp_path, asked, predictions(asked), sample.judgements(asked, other=again))
    made = scores["again"]
    assert (made["n"], made["flipped"], made["rate"]) == (9, 2, round(2 / 9, 6))
    # Wilson, by hand: centre (2 + z²/2) / (9 + z²), z = 1.96
    assert (made["low"], made["high"]) == (pytest.approx(0.0632, abs=1e-4), pytest.approx(0.5474, abs=1e-4))
    assert made["score_change"] == round((6 * 1 + 4 + 1) / 8, 6)


def test_flags_and_costs(tmp_path: Path) -> None:
    asked = questions(4)
    answered = predictions(asked)
    answered[0] = answered[0].model_copy(update={"tokens_in": 500, "dollars": 0.002, "seconds": 2.5})
    bill = {"tokens_in": 300, "tokens_out": 14, "dollars": 0.0001, "seconds": 1.0, "calls": 2}
    judged = sample.judgements(asked)
    judged[0] = judgement(asked[0].key, flags=["cut", "two_verdicts"], **bill)
    judged[1] = judgement(asked[1].key, flags=["cut"], **{**bill, "calls": 1})
    scores, _ = sample.score(tmp_path, asked, answered, judged)
    assert scores["flags"] == {"cut": 2, "two_verdicts": 1}
    assert scores["cost"] == {
        "answers": {"tokens_in": 500, "tokens_out": None, "dollars": 0.002, "seconds": 2.5},
        "judging": {"tokens_in": 600, "tokens_out": 28, "dollars": 0.0002, "seconds": 2.0, "calls": 3, "asked": 2},
    }


def test_same_bytes_again(tmp_path: Path) -> None:
    asked = questions(12)
    given = asked, predictions(asked), sample.judgements(asked, wrong={1})
    _, out = sample.score(tmp_path, *given)
    first = [(out / name).read_bytes() for name in ("scores.json", "cases.jsonl")]
    sample.score(tmp_path, *given)
    assert [(out / name).read_bytes() for name in ("scores.json", "cases.jsonl")] == first


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no prediction", "predictions.jsonl: no prediction for question '{1}'; run run_cell again"),
        ("no judgement", "judgements.jsonl: no judgement for question '{1}'; run judge_cell again"),
        ("judgement of nothing", "judgements.jsonl: judgement 'signs/x/y' is of no question of this data set"),
        ("twice", "judgements.jsonl: Judgement key '{1}' occurs twice"),
        ("judged a failure", "judgements.jsonl: judgement '{1}' is ok and its prediction error:engine"),
        ("answer since", "judgements.jsonl: judgement '{1}' is no_answer and its prediction ok"),
    ],
)
def test_files_of_different_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str, words: str) -> None:
    asked = questions(4)
    answered = predictions(asked, status={1: "error:engine"} if fault == "judged a failure" else {})
    judged = sample.judgements(asked)
    if fault == "no prediction":
        del answered[1]
    elif fault == "no judgement":
        del judged[1]
    elif fault == "twice":
        judged.append(judged[1])
    elif fault == "judgement of nothing":
        judged.append(judgement("signs/x/y"))
    elif fault == "answer since":
        judged[1] = judgement(asked[1].key, status="no_answer")
    arguments = sample.command(tmp_path, asked, answered, judged)
    assert score_judgements.main(arguments) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and words.replace("{1}", asked[1].key) in said
    assert not (tmp_path / "judged").exists()


def test_an_unknown_rule_is_refused_by_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = questions(2)
    given = asked, predictions(asked), sample.judgements(asked)
    arguments = sample.command(tmp_path, *given, judge={**sample.JUDGE, "published_rule": "egotextqa"})
    assert score_judgements.main(arguments) == 1
    assert "did you mean 'egotextvqa'?" in capsys.readouterr().err


def test_the_rules_of_the_schema_are_those_that_there_are() -> None:
    from scripts.judge.published import RULES
    from tests.unit.table_sample import ROOT

    text = (ROOT / "config/schemas/judge.schema.yaml").read_text(encoding="utf-8")
    assert f"enum: [{', '.join(RULES)}]" in text


def test_numbers_are_json(tmp_path: Path) -> None:
    """No NaN or infinity, whatever a judge replied."""
    asked = questions(2)
    judged = [judgement(one.key, "yes", 5, raw="{'pred': 'yes', 'score': 1e999}") for one in asked]
    _, out = sample.score(tmp_path, asked, predictions(asked), judged)
    text = (out / "scores.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=pytest.fail)["as_published"]["would_stop"] == 2
