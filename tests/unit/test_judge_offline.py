"""Judges without a server: rules on words, and option letters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.judges import exact, find, lexical, option_letter
from scripts.judges.protocol import Item, Run
from scripts.lib.records import Judgement, Prediction, Question
from scripts.lib.text import nfc

TEXT = st.text(max_size=60).map(nfc)


def run(kind: str, *asked: tuple[list[str], str], options: list[str] | None = None) -> list[Judgement]:
    """Judgements on (truths, answer) pairs; with options the truth is a letter."""
    items = []
    for at, (truths, answer) in enumerate(asked):
        chosen = {"answers": ["one"], "options": options, "ground_truth": truths[0]} if options else {"answers": truths}
        key = f"d/v/{at}"
        question = Question(key=key, video="v", question_id=str(at), question="what?", category="c", **chosen)
        items.append(Item(question, Prediction(key=key, status="ok", answer=answer)))
    return list(find(kind)(Run({"name": kind, "kind": kind}, items)))


@pytest.mark.parametrize(
    ("truths", "answer", "verdict", "score"),
    [
        (["Exit 12"], "exit 12", "yes", 5),
        (["Exit 12"], "Exit 12.", "yes", 5),
        (["café", "coffee shop"], "the coffee shop", "yes", 4),
        (["Exit 12"], "Exit 13", "yes", 4),  # seven letters, one of them wrong: that is what it is not comparable for
        (["left"], "right", "no", 0),
        (["EXIT"], "it says EXIT", "no", 3),
        (["出口"], "出口", "yes", 5),
        (["खुला है"], "बंद है", "no", 3),
        (["ทางออก"], "ทางเข้า", "no", 0),
        (["?"], "!", "yes", 5),  # no words in either
        (["EXIT"], "🚪", "no", 0),
    ],
)
def test_words_in_common(truths: list[str], answer: str, verdict: str, score: float) -> None:
    (made,) = run("lexical", (truths, answer))
    assert (made.status, made.verdict, made.score) == ("ok", verdict, score)


@given(TEXT.filter(str.strip), TEXT)
def test_words_in_common_judge_any_text_the_same_way_twice(truth: str, answer: str) -> None:
    first, again = run("lexical", ([truth], answer), ([truth], answer))
    assert (first.verdict, first.score) == (again.verdict, again.score)
    assert (first.verdict == "yes") == (lexical.likeness([truth], answer) >= lexical.RIGHT)
    assert first.verdict == "no" or (first.score is not None and first.score >= 4)
    assert run("lexical", ([truth], truth))[0].score == 5


@pytest.mark.parametrize(
    ("answer", "right"), [(" exit  12", True), ("EXIT\n12", True), ("exit 12.", False), ("exit", False)]
)
def test_same_words(answer: str, right: bool) -> None:
    (made,) = run("exact", (["no", "Exit 12"], answer))
    assert (made.verdict, made.score) == (("yes", 5) if right else ("no", 0))


@pytest.mark.parametrize(
    ("reply", "verdict", "named"),
    [
        ("(B)", "yes", True),
        ("Answer: b)", "yes", True),
        ("two", "yes", True),
        ("A", "no", True),
        ("A or B", "no", False),
        ("I can't tell", "no", False),
        ("D", "no", False),
    ],
)
def test_a_letter_or_nothing(reply: str, verdict: str, named: bool) -> None:
    (made,) = run("option_letter", (["B"], reply), options=["one", "two", "three"])
    assert (made.status, made.verdict, made.score) == ("ok", verdict, 5 if verdict == "yes" else 0)
    assert (made.detail == "") == named


@given(st.sampled_from("ABC"), TEXT)
def test_a_reply_without_a_letter_is_right_for_no_truth(truth: str, reply: str) -> None:
    options = ["one", "two", "three"]
    (made,) = run("option_letter", ([truth], reply), options=options)
    assert (made.verdict == "yes") == (option_letter.read_option(reply, options) == truth)


def test_each_says_its_version() -> None:
    assert {exact.VERSION, lexical.VERSION, option_letter.VERSION} == {1}
