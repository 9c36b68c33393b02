"""The same words: an answer is right if it is a truth, case and white space aside.

Not comparable with any paper's judge.
"""

from collections.abc import Iterator

from scripts.judges.protocol import Run
from scripts.lib import metrics
from scripts.lib.records import Judgement

VERSION = 1
"""Raise it when the same answer gets another judgement."""


def judge(run: Run) -> Iterator[Judgement]:
    """Yes and 5, or no and 0."""
    for item in run.items:
        right = metrics.exact_match(item.question.answers, item.prediction.answer) == 1
        yield Judgement(
            key=item.key, status="ok", verdict="yes" if right else "no", score=5 if right else 0, judge="rules"
        )
