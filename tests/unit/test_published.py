"""What the released scripts of the papers make of a judge's reply, with all their faults."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scripts.judge import published
from scripts.judge.published import LEFT_OUT, WRONG, Counted
from scripts.lib.records import Case, Judgement
from tests.unit.judged_sample import judgement

STOP_WRONG, STOP_LEFT = Counted(False, 0, stops=True), Counted(None, None, stops=True)


def counted(rule: str, reply: str, status: str = "parse_failed") -> Counted:
    return published.count(published.RULES[rule], judgement("k", status=status, raw=reply))


EGOTEXTVQA = [
    # as asked
    ("{'pred': 'yes', 'score': 5}", Counted(True, 5)),
    ("{'pred': 'no', 'score': 1}", Counted(False, 1)),
    ('{"pred": "yes", "score": 4}', Counted(True, 4)),
    ("  {'pred': 'yes', 'score': 4}", Counted(True, 4)),
    # E1: fenced, prefixed, cut, unquoted, JSON's own words
    ("```python\n{'pred': 'yes', 'score': 5}\n```", WRONG),
    ("Here it is: {'pred': 'yes', 'score': 5}", WRONG),
    ("{'pred': 'yes', 'score': 5", WRONG),
    ("{pred: yes, score: 5}", WRONG),
    ('{"pred": "yes", "score": null}', WRONG),
    ('{"pred": true, "score": 5}', WRONG),
    ("yes", WRONG),
    ("I can't help with that.", WRONG),
    ("{[]: 1}", WRONG),
    ("a\0b", WRONG),
    # E2: read, and no dict
    ("{'pred': 'yes', 'score': 5}, {'pred': 'no', 'score': 1}", STOP_WRONG),
    ("[{'pred': 'yes', 'score': 5}]", STOP_WRONG),
    ("'yes'", STOP_WRONG),
    ("None", STOP_WRONG),
    # E3: a dict whose values the means cannot take
    ("{'pred': 'yes', 'score': '4.8'}", STOP_WRONG),
    ("{'pred': 'yes', 'score': '5/5'}", STOP_WRONG),
    ("{'pred': 'yes', 'score': None}", STOP_WRONG),
    ("{'pred': True, 'score': 5}", STOP_WRONG),
    ("{'pred': None, 'score': 5}", STOP_WRONG),
    ("{'pred': 'yes', 'score': 1e999}", STOP_WRONG),
    ("{'pred': 'yes', 'score': " + "9" * 400 + "}", STOP_WRONG),
    # E4: words inside words; neither of them
    ("{'pred': 'not yes', 'score': 0}", Counted(True, 0)),
    ("{'pred': 'unknown', 'score': 2}", Counted(False, 2)),
    ("{'pred': 'YES.', 'score': 5}", Counted(True, 5)),
    ("{'pred': 'correct', 'score': 5}", Counted(None, 5)),
    # E5: no range, int() of whatever it is
    ("{'pred': 'yes', 'score': 7}", Counted(True, 7)),
    ("{'pred': 'no', 'score': -3}", Counted(False, -3)),
    ("{'pred': 'yes', 'score': 4.8}", Counted(True, 4)),
    ("{'pred': 'yes', 'score': '4'}", Counted(True, 4)),
    # keys that are not there
    ("{}", WRONG),
    ("{'Pred': 'yes', 'score': 5}", Counted(False, 5)),
    ("{'pred': 'yes'}", Counted(True, 0)),
]

MYEGO = [
    ('{"pred": "yes", "score": 5}', Counted(True, 5)),
    ('{"pred": "No", "score": 1}', Counted(False, 1)),
    ('\n {"pred": "Yes", "score": 4} ', Counted(True, 4)),
    ('```json\n{"pred": "yes", "score": 5}\n```', LEFT_OUT),
    ("{'pred': 'yes', 'score': 5}", LEFT_OUT),
    ('{"pred": "yes", "score": 5}, {"pred": "no", "score": 1}', LEFT_OUT),
    ('[{"pred": "yes", "score": 5}]', LEFT_OUT),
    ('"yes"', LEFT_OUT),
    ("null", LEFT_OUT),
    ('{"score": 5}', LEFT_OUT),
    ('{"pred": "error", "score": 5}', LEFT_OUT),
    ('{"pred": "yes"}', Counted(True, -1)),
    ('{"pred": "not yes", "score": 0}', Counted(False, 0)),
    ('{"pred": "yes ", "score": 5}', Counted(False, 5)),
    ('{"pred": "yes", "score": 7}', Counted(True, 7)),
    ('{"pred": "yes", "score": 4.8}', Counted(True, 4)),
    ('{"pred": "yes", "score": "4"}', Counted(True, 4)),
    ('{"pred": "yes", "score": "4.8"}', STOP_LEFT),
    ('{"pred": "yes", "score": null}', STOP_LEFT),
    ('{"pred": "yes", "score": NaN}', STOP_LEFT),
    ('{"pred": true, "score": 5}', STOP_LEFT),
    ('{"pred": null, "score": 5}', STOP_LEFT),
]


@pytest.mark.parametrize(("reply", "expected"), EGOTEXTVQA)
def test_egotextvqa(reply: str, expected: Counted) -> None:
    assert counted("egotextvqa", reply) == expected


@pytest.mark.parametrize(("reply", "expected"), MYEGO)
def test_myego(reply: str, expected: Counted) -> None:
    assert counted("myego", reply) == expected


def test_the_reply_counts_and_not_what_was_made_of_it() -> None:
    """A repaired judgement is ok; the script would have asked once."""
    repaired = judgement("k", "yes", 5, raw="Yes!", raw_repair="{'pred': 'yes', 'score': 5}", flags=["repaired"])
    assert published.count(published.RULES["egotextvqa"], repaired) == WRONG
    assert published.count(published.RULES["myego"], repaired) == LEFT_OUT


@pytest.mark.parametrize(
    ("judged", "egotextvqa", "myego"),
    [
        (judgement("k", status="no_answer"), WRONG, LEFT_OUT),
        (judgement("k", "no", 0, flags=["empty"]), WRONG, WRONG),
        (judgement("k", status="api_failed"), WRONG, LEFT_OUT),
        (judgement("k", status="content_filter"), WRONG, LEFT_OUT),
        (judgement("k", status="no_judgement"), WRONG, LEFT_OUT),
        (judgement("k", status="refused", raw="I must not."), WRONG, LEFT_OUT),
        # of people, rules, files: no reply
        (judgement("k", "yes", 4), Counted(True, 4), Counted(True, 4)),
        (judgement("k", "no", 3.5), Counted(False, 3), Counted(False, 3)),
        (judgement("k", "yes", None), Counted(True, None), Counted(True, None)),
    ],
)
def test_without_a_reply(judged: Judgement, egotextvqa: Counted, myego: Counted) -> None:
    assert published.count(published.RULES["egotextvqa"], judged) == egotextvqa
    assert published.count(published.RULES["myego"], judged) == myego


def test_means_by_group() -> None:
    replies = {
        "a": "{'pred': 'yes', 'score': 5}",
        "b": "{'pred': 'no', 'score': 2}",
        "c": "{'pred': 'correct', 'score': 4}",
        "d": "{'pred': 'yes', 'score': '4.8'}",
        "e": "no idea",
    }
    cases = [
        Case(
            key=k,
            video="v",
            category="x" if k < "d" else "y",
            subsets=["s"] * (k < "b"),
            status="",
            answer="",
            metrics={},
        )
        for k in replies
    ]
    judged = {key: judgement(key, status="parse_failed", raw=raw) for key, raw in replies.items()}
    made = published.scores("egotextvqa", cases, judged)
    assert made["judge_accuracy"] == {
        "all": {"value": 1 / 4, "n": 4},  # c is neither yes nor no
        "x": {"value": 1 / 2, "n": 2},
        "y": {"value": 0.0, "n": 2},
        "s": {"value": 1.0, "n": 1},
    }
    assert made["judge_score"]["all"] == {"value": 11 / 5, "n": 5}
    assert (made["rule"], made["would_stop"]) == ("egotextvqa", 1)
    assert made["note"].endswith(
        "1 replies would have ended the script with an error after all was judged; here counted as “no” with score 0."
    )
    theirs = published.scores("myego", cases, judged)
    assert theirs["judge_accuracy"]["all"] == theirs["judge_score"]["all"] == {"value": None, "n": 0}
    assert theirs["would_stop"] == 0 and "would have ended" not in theirs["note"]


literals = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["pred", "score", "x"]), inner),
    max_leaves=6,
)


@given(st.text() | literals.map(repr) | literals.map(lambda value: json.dumps(value, default=str)))
@example("(" * 50_000)
@example("-" * 9_000 + "1")
@example("[" * 9_000)
@example("{'a':" * 1_500)
@example("1" * 9_000)
@example("'\\d'")
@example("\ufeff{}")
@example("x" * published.MOST_CHARS + "y")
def test_any_reply_is_counted(reply: str) -> None:
    for rule in published.RULES:
        one = counted(rule, reply.encode("utf-8", "replace").decode())
        assert one.yes in (True, False, None)
        assert one.score is None or isinstance(one.score, int)
        assert not one.stops or (one.yes, one.score) == (
            published.RULES[rule].failure.yes,
            published.RULES[rule].failure.score,
        )
