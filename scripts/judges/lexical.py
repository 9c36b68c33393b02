"""Words in common: a judge without network, for the demo and for a first look. Not comparable with any paper's judge.

It knows letters and words and nothing of meaning: “left” for “right” shares letters with it, and “it says EXIT” is no
“EXIT” to it.
"""

import math
from collections.abc import Iterator

from scripts.judges.protocol import Run
from scripts.lib import metrics
from scripts.lib.records import Judgement

VERSION = 1
"""Raise it when the same answer gets another judgement."""
RIGHT = 0.8
"""Likeness from which on an answer is called right."""


def likeness(references: list[str], answer: str) -> float:
    """0-1: the larger of F1 over words and ANLS (letters, 0 below a half), best over the references."""
    return max(metrics.rouge_l_word_f1(references, answer), metrics.anls(references, answer))


def judge(run: Run) -> Iterator[Judgement]:
    """Yes where the likeness is RIGHT or more; the score is it times 5, to the nearest whole number, halves up."""
    for item in run.items:
        alike = likeness(item.question.answers, item.prediction.answer)
        yield Judgement(
            key=item.key,
            status="ok",
            verdict="yes" if alike >= RIGHT else "no",
            score=math.floor(5 * alike + 0.5),
            judge="rules",
        )
