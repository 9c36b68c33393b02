"""The judged results that another project published, counted again: every number of its table, to the last decimal.

The table is in the README of petkokp/EgoTextVQA: 685 questions of both parts of EgoTextVQA, judged by Gemini, whose
verdicts stand in the files. It heads the indoor types "Outdoor" and the other way round, and has the "others" of both
parts, pooled, in both halves. The answers come from the files with the verdicts, too: those of one model are of another
run than the file of its predictions.
"""

from pathlib import Path

import pytest

from scripts.infer import fetch_predictions
from scripts.judge import score_judgements
from scripts.judge.judge_cell import judge_all
from scripts.lib.records import Prediction, Question
from tests.unit.third_party_sample import ANNOTATIONS, THEIRS, egotextvqa

pytestmark = pytest.mark.skipif(
    not THEIRS.is_dir() or not ANNOTATIONS.is_dir(), reason=f"no {THEIRS} and {ANNOTATIONS} here"
)

KEY = "gemini-2.5-flash"
"""Under which the files have the answer: the name of the judge, not of the model."""
FIELDS = {"verdict": "acc", "score": "score", "answer": KEY}
HALVES = {
    "headed Outdoor": ("hands-on", "kitchen", "shopping", "gameplay", "book-related", "others"),
    "headed Indoor": ("location", "direction", "description", "intention reasoning", "others"),
}
PRINTED = {
    "Instruct": {
        "headed Outdoor": (0.0548, 0.3744),
        "hands-on": (0.0556, 0.3472),
        "kitchen": (0.0303, 0.2121),
        "shopping": (0.0000, 0.0000),
        "gameplay": (0.0000, 0.0541),
        "book-related": (0.1579, 0.9474),
        "others": (0.0303, 0.3636),
        "headed Indoor": (0.1142, 0.6673),
        "location": (0.1406, 0.8281),
        "direction": (0.1111, 0.6239),
        "description": (0.1343, 0.7388),
        "intention reasoning": (0.0805, 0.4943),
    },
    "Thinking": {
        "headed Outdoor": (0.0411, 0.2557),
        "hands-on": (0.0278, 0.1944),
        "kitchen": (0.0303, 0.2424),
        "shopping": (0.0000, 0.0000),
        "gameplay": (0.0000, 0.0541),
        "book-related": (0.1579, 0.8158),
        "others": (0.0000, 0.0303),
        "headed Indoor": (0.1142, 0.6132),
        "location": (0.1250, 0.6641),
        "direction": (0.1624, 0.8632),
        "description": (0.1045, 0.5970),
        "intention reasoning": (0.0920, 0.4483),
    },
}
"""Accuracy and score, as printed."""


def results(model: str) -> Path:
    return THEIRS / f"Qwen3-VL-2B-{model}_results.json"


def both_parts() -> dict[str, Question]:
    """All questions of EgoTextVQA, with the halves of that table as subsets."""
    questions = [*egotextvqa("indoor"), *egotextvqa("outdoor")]
    halves = {one.key: [name for name, types in HALVES.items() if one.category in types] for one in questions}
    return {one.key: one.model_copy(update={"subsets": halves[one.key]}) for one in questions}


def predictions(model: str, questions: dict[str, Question], **settings) -> dict[str, Prediction]:
    given = fetch_predictions.Settings(results(model), KEY, source="a fork's own run", **settings)
    return {one.key: one for one in fetch_predictions.build(given, Path("m.yaml"), questions, "open")}


def scores(model: str, questions: dict[str, Question], answered: dict[str, Prediction]) -> dict:
    judge = {"name": "theirs", "title": "Gemini 2.5 Flash", "kind": "elsewhere", "fields": FIELDS}
    judge["published_rule"] = "egotextvqa"
    run = {"judge": judge, "cell": None, "files": (results(model),)}
    judged = judge_all(questions, answered, run, "elsewhere")
    cases = score_judgements.make_cases(questions, answered, {one.key: one for one in judged})
    by_key = {one.key: one for one in judged}
    return score_judgements.summary(judge, cases, answered, by_key, None, draws=100, seed=0)


def rounded(groups: dict[str, dict]) -> dict[str, float]:
    """As the README prints: four decimals."""
    return {name: round(group["value"], 4) for name, group in groups.items() if group["value"] is not None}


def column(table: dict[str, tuple[float, float]], which: int) -> dict[str, float]:
    return {name: numbers[which] for name, numbers in table.items()}


@pytest.mark.parametrize("model", PRINTED)
def test_every_number_of_their_table(model: str) -> None:
    """The published rule and the correct one agree here, because no reply in these files failed."""
    everything = both_parts()
    answered = predictions(model, everything)
    asked = {key: one for key, one in everything.items() if answered[key].status != "error:not_in_file"}
    assert len(asked) == 685
    made = scores(model, asked, {key: answered[key] for key in asked})
    assert made["statuses"] == made["judgements"] == {"ok": 685}
    published = made["as_published"]
    for at, metric in enumerate(("judge_accuracy", "judge_score")):
        theirs, ours = rounded(published[metric]), rounded(made["metrics"][metric])
        assert {name: theirs[name] for name in PRINTED[model]} == column(PRINTED[model], at)
        assert {name: ours[name] for name in PRINTED[model]} == column(PRINTED[model], at)
        assert {group["n"] for name, group in published[metric].items() if name == "all"} == {685}
    assert published["would_stop"] == 0
    assert [published["judge_score"][half]["n"] for half in HALVES] == [219, 499]


@pytest.mark.parametrize("model", PRINTED)
def test_in_the_whole_data_set_what_was_not_asked_is_not_wrong(model: str) -> None:
    """Correct, 685 of 7,064 questions give the same numbers; as published, the rest are failures and wrong."""
    questions = both_parts()
    made = scores(model, questions, predictions(model, questions))
    assert made["statuses"] == {"error:not_in_file": 7064 - 685, "ok": 685}
    for at, metric in enumerate(("judge_accuracy", "judge_score")):
        ours = rounded(made["metrics"][metric])
        assert {name: ours[name] for name in PRINTED[model]} == column(PRINTED[model], at)
    whole = made["as_published"]["judge_accuracy"]["all"]
    assert whole["n"] == 7064 and 0 < whole["value"] < 0.02


def test_replies_that_were_cut_in_their_thoughts_are_no_answers() -> None:
    """43 of the thinking model's. Their judge was asked about the thoughts; here they are counted and not judged."""
    questions = both_parts()
    made = scores("Thinking", questions, predictions("Thinking", questions, thinking=True))
    assert made["statuses"] == {"error:not_in_file": 7064 - 685, "ok": 642, "truncated": 43}
    assert made["judgements"] == {"no_answer": 7064 - 642, "ok": 642}


def test_verdicts_on_answers_of_another_run_are_refused() -> None:
    """The file of this model's predictions has other words in 100 of 685 rows."""
    questions = both_parts()
    file = THEIRS / "Qwen3-VL-2B-Instruct_predictions.json"
    settings = fetch_predictions.Settings(file, KEY)
    answered = {one.key: one for one in fetch_predictions.build(settings, Path("m.yaml"), questions, "open")}
    made = scores("Instruct", questions, answered)
    assert made["judgements"] == {"no_answer": 7064 - 685, "no_judgement": 100, "ok": 585}
