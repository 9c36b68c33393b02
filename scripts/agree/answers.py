"""The answers that people rate: how they are drawn, what raters see of them, and the key from a row to its answer."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

from scripts.lib.errors import DataError
from scripts.lib.files import write_text
from scripts.lib.jsonl import dumps
from scripts.lib.records import Prediction, Question

MOST_SHOWN = 4000
"""Characters of a question, truth or answer in a sheet: a spreadsheet's cell holds 32767, a rater's patience less."""
CUT = " […]"
Answered = Mapping[str, tuple[Question, Prediction]]
"""The questions of one cell by key, each with its prediction."""


@dataclass(frozen=True)
class Answer:
    """One answer of one cell, as raters see it and as the key finds it again."""

    id: str
    cell: str
    key: str
    video: str
    """``dataset/video``."""
    question: str
    truth: str
    """All of them, with `` / `` between them, as judges are told them."""
    answer: str


def answer_of(cell: str, question: Question, prediction: Prediction) -> Answer:
    """What raters see of an answer; each text cut at MOST_SHOWN.

    Args:
        cell: ``dataset/model/sampler/resolution/prompt``.
    """
    return Answer(
        id=opaque_id(cell, question.key, prediction.answer),
        cell=cell,
        key=question.key,
        video=f"{cell.partition('/')[0]}/{question.video}",
        question=_shown(question.question),
        truth=_shown(" / ".join(question.answers)),
        answer=_shown(prediction.answer),
    )


def opaque_id(cell: str, key: str, answer: str) -> str:
    """Names an answer without saying whose it is; another answer to the same question has another id.

    ``a`` and 16 hexadecimal digits: without the letter, a spreadsheet would take some of them for numbers.
    """
    return "a" + _digest(cell, key, answer)[:16]


def _digest(*parts: str | int) -> str:
    return hashlib.sha256(dumps(parts).encode()).hexdigest()


def _shown(text: str) -> str:
    """Cut, and with a blank before what would be a formula to a spreadsheet that splits at semicolons or tabs."""
    cut = text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + CUT
    return re.sub(r"(?<=[;\t])(?=[=+\-@＝＋－＠])", " ", cut)


def draw(answered: Mapping[str, Answered], n: int, seed: int, same_questions: bool) -> list[Answer]:
    """Draw ``n`` questions of each cell, or all where there are fewer, in an order that mixes cells and questions.

    Only answers are drawn: neither failures nor blank ones, which are wrong without asking anybody. A question's place
    in the draw hangs on the seed and its key alone, so a larger ``n`` keeps those drawn before.

    Args:
        answered: by cell.
        same_questions: of every cell, among those that all of them answered.

    Raises:
        DataError: nothing to draw from.
    """
    answers = {
        cell: {key for key, (_, one) in found.items() if one.scored and one.answer.strip()}
        for cell, found in answered.items()
    }
    if same_questions:
        common = set.intersection(*answers.values())
        answers = dict.fromkeys(answers, common)
    empty = next((cell for cell, keys in answers.items() if not keys), None)
    if empty is not None:
        remedy = "; set same_questions: false, or take cells with the same questions" if same_questions else ""
        raise DataError(f"no answered question {'of all cells' if same_questions else f'of {empty}'} to rate{remedy}")
    drawn = [
        answer_of(cell, *answered[cell][key])
        for cell, keys in answers.items()
        for key in sorted(keys, key=lambda key: _digest(seed, "" if same_questions else cell, key))[:n]
    ]
    return sorted(drawn, key=lambda one: _digest(seed, one.id))


def write_key(path: Path, answers: Iterable[Answer]) -> None:
    """Write which row is whose answer: for the comparison, not for raters."""
    write_text(path, json.dumps([asdict(one) for one in answers], ensure_ascii=False, indent=1) + "\n")


def read_key(path: Path) -> dict[str, Answer]:
    """The answers of a key by id, in the order of the sheet.

    Raises:
        DataError: no such file, or not one that ``write_key`` wrote.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; run build_rating_sheet, which writes it beside the sheet")
    try:
        found = [Answer(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError):
        found = []
    if not found or not all(isinstance(value, str) for one in found for value in astuple(one)):
        names = ", ".join(field.name for field in fields(Answer))
        raise DataError(f"{path}: not a list of rows with {names}; run build_rating_sheet again")
    return {one.id: one for one in found}
