"""The questions of a data set, as every step reads them."""

from collections.abc import Mapping
from pathlib import Path

from scripts.lib import jsonl
from scripts.lib.errors import DataError
from scripts.lib.records import Judgement, Prediction, Question


def read_questions(path: Path) -> dict[str, Question]:
    """The questions of a file by key, in the order of the file.

    Raises:
        DataError: as ``scripts.lib.jsonl.read_unique``, or no question at all.
    """
    found = jsonl.read_unique(path, Question, "key")
    if not found:
        raise DataError(f"{path}: no question in it; check the data set, or rerun the rule that makes this file")
    return found


def check_keys(
    questions: Mapping[str, Question],
    found: Mapping[str, Prediction | Judgement],
    where: Path,
    what: str = "prediction",
    rule: str = "run_cell",
) -> None:
    """Refuse predictions, or judgements, that are not one for each question.

    Args:
        what: what these records are, for the message.
        rule: what makes them.

    Raises:
        DataError: names the first key without a record or without a question.
    """
    missing = next((key for key in questions if key not in found), None)
    if missing is not None:
        raise DataError(f"{where}: no {what} for question '{missing}'; run {rule} again, it makes what is missing")
    unknown = next((key for key in found if key not in questions), None)
    if unknown is not None:
        raise DataError(f"{where}: {what} '{unknown}' is of no question of this data set; check --questions")
