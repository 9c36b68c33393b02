"""People judge: the majority of their verdicts and the mean of their scores, from filled-in rating sheets.

The sheets are those of scripts.agree.build_rating_sheet (docs/judging.md, Agreement). A rating belongs to one answer of
one cell: what was rated beside another answer to the same question counts for nothing.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from scripts.agree.answers import answer_of, opaque_id
from scripts.agree.sheets import Rating, by_answer, check_texts, read_sheet
from scripts.judges.protocol import Item, Run
from scripts.lib.errors import DataError
from scripts.lib.records import Judgement

VERSION = 1
"""Raise it when the same sheets give other judgements."""


def judge(run: Run) -> Iterator[Judgement]:
    """One judgement per item; ``no_judgement`` where nobody rated it, or as many said yes as no.

    Raises:
        DataError: a sheet can't be read, somebody rated an answer twice, differently, or the texts beside a rating are
            not those of the answer; or nothing says which cell this is, which the ids in the sheets depend on.
    """
    if run.cell is None:
        raise DataError(
            f"judge {run.judge['name']}: ratings are of the answers of a cell, and these predictions are of none; keep"
            " them in results/predictions/DATASET/MODEL/SAMPLER/RESOLUTION/PROMPT/"
        )
    ratings = by_answer(rating for path in run.files for rating in read_sheet(path))
    ids = {item.key: opaque_id(run.cell, item.key, item.prediction.answer) for item in run.items}
    rated = sum(id_ in ratings for id_ in ids.values())
    print(f"judge {run.judge['name']}: {rated} of {len(ids)} answers were rated", file=sys.stderr)
    for item in run.items:
        yield judged(run.cell, item, ratings.get(ids[item.key], []))


def judged(cell: str, item: Item, ratings: Sequence[Rating]) -> Judgement:
    """What the ratings of one answer come to. Raises DataError where one is beside another text."""
    for rating in ratings:
        check_texts(rating, answer_of(cell, item.question, item.prediction))
    verdicts = Counter(rating.verdict for rating in ratings).most_common()
    people = "people: " + ", ".join(sorted(rating.rater for rating in ratings))
    if not verdicts:
        return Judgement(key=item.key, status="no_judgement", detail="nobody rated it")
    if len(verdicts) > 1 and verdicts[0][1] == verdicts[1][1]:
        detail = f"{verdicts[0][1]} said yes and as many no"
        return Judgement(key=item.key, status="no_judgement", detail=detail, judge=people)
    score = sum(rating.score for rating in ratings) / len(ratings)
    return Judgement(key=item.key, status="ok", verdict=verdicts[0][0], score=score, judge=people)
