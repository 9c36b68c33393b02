"""Judgements counted as a paper's released script counts them, beside the correct way: to see what that changes.

  egotextvqa   gpt_eval.py of zhousheng97/EgoTextVQA: a reply is a Python literal; whatever goes wrong is "no" with
               score 0; a "yes" anywhere in pred is yes, else a "no" anywhere is no, else the question is in the score
               only
  myego        eval.py of Ryougetsu3606/MyEgo: a reply is JSON, without a fence; whatever goes wrong is left out; pred
               is yes or it is not; a score that the reply doesn't have is −1

Both are micro means, and both take int() of the score without looking at its range. Where a script would end with an
error once all is judged, the reply is counted like any other failure of that script, and the number of such replies is
told. Where there is no reply (people, rules and files judge; nobody is asked about a blank answer), verdict and score
are counted as if they were one.
"""

import ast
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.judge.scoring import groups
from scripts.lib.records import Case, Judgement

MOST_CHARS = 10_000
"""Of a reply: Python's reader of literals needs memory far beyond the text. Longer ones are no verdicts."""


@dataclass(frozen=True)
class Counted:
    """How a script counts one question."""

    yes: bool | None
    """None: not in the accuracy."""
    score: int | None
    """None: not in the mean."""
    stops: bool = False
    """The script would end with an error here."""


@dataclass(frozen=True)
class Rule:
    """One released script."""

    failure: Counted
    """What it makes of a failure, and of a question whose model failed."""
    read: Callable[[str], Any]
    """A reply; None where it can't be read."""
    count: Callable[[Any], Counted]
    """What was read. Raises TypeError, ValueError, OverflowError or AttributeError where the script would."""
    note: str


WRONG, LEFT_OUT = Counted(False, 0), Counted(None, None)
STOPPING = (AttributeError, TypeError, ValueError, OverflowError)


def read_literal(reply: str) -> Any:
    """A Python literal; an empty dict where it is none, as in EgoTextVQA's script."""
    if len(reply) > MOST_CHARS:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backslashes that mean nothing
            return ast.literal_eval(reply)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return {}


def count_egotextvqa(read: Any) -> Counted:
    verdict = read.get("pred", "no").lower()
    yes = True if "yes" in verdict else False if "no" in verdict else None
    return Counted(yes, int(read.get("score", 0)))


def read_json(reply: str) -> Any:
    """A JSON object; None where it is none, or says so itself."""
    try:
        read = json.loads(reply)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) and read.get("pred", "error") != "error" else None


def count_myego(read: Any) -> Counted:
    if read is None:
        return LEFT_OUT
    return Counted(read["pred"].lower() == "yes", int(read.get("score", -1)))


RULES: Mapping[str, Rule] = {
    "egotextvqa": Rule(
        WRONG,
        read_literal,
        count_egotextvqa,
        "As EgoTextVQA's released script counts: a reply that is no Python dict, and every other failure, is “no” with"
        " score 0; “yes” anywhere in pred is yes; micro means.",
    ),
    "myego": Rule(
        LEFT_OUT,
        read_json,
        count_myego,
        "As MyEgo's released script counts: a reply that is no JSON, and every other failure, is left out; micro means."
        " So is here a question whose model failed, at which that script ends with an error.",
    ),
}


def count(rule: Rule, judgement: Judgement) -> Counted:
    """How a script counts one question; never an exception."""
    if judgement.raw:
        read = rule.read(judgement.raw)
    elif judgement.status == "ok":
        read = {"pred": judgement.verdict, "score": 0 if judgement.score is None else judgement.score}
    else:
        return rule.failure
    try:
        counted = rule.count(read)
        float(counted.score or 0)  # a mean has no room for an integer of 400 digits
    except STOPPING:
        return Counted(rule.failure.yes, rule.failure.score, stops=True)
    scoreless = not judgement.raw and judgement.score is None
    return Counted(counted.yes, None) if scoreless else counted


def scores(name: str, cases: list[Case], judgements: Mapping[str, Judgement]) -> dict[str, Any]:
    """``as_published`` of scores.json: by group, ``value`` (accuracy in 0–1, score in 0–5 or whatever the judge said)
    and ``n``, the questions that are in it.

    Args:
        name: a key of RULES.
    """
    rule = RULES[name]
    counted = {case.key: count(rule, judgements[case.key]) for case in cases}
    of = {group: [counted[case.key] for case in members] for group, members in groups(cases).items()}
    stops = sum(one.stops for one in counted.values())
    told = "counted as “no” with score 0" if rule.failure == WRONG else "left out"
    ends = f" {stops} replies would have ended the script with an error after all was judged; here {told}."
    return {
        "rule": name,
        "judge_accuracy": {group: _mean(one.yes for one in members) for group, members in of.items()},
        "judge_score": {group: _mean(one.score for one in members) for group, members in of.items()},
        "would_stop": stops,
        "note": rule.note + (ends if stops else ""),
    }


def _mean(values: Iterable[bool | int | None]) -> dict[str, float | int | None]:
    known = [value for value in values if value is not None]
    try:
        value = sum(known) / len(known) if known else None
    except OverflowError:  # whole numbers of any size, and no mean of them
        value = None
    return {"value": value, "n": len(known)}
