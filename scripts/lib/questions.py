"""The questions of a data set, as every step reads them."""

from pathlib import Path

from scripts.lib import jsonl
from scripts.lib.errors import DataError
from scripts.lib.records import Question


def read_questions(path: Path) -> dict[str, Question]:
    """The questions of a file by key, in the order of the file.

    Raises:
        DataError: as ``scripts.lib.jsonl.read_unique``, or no question at all.
    """
    found = jsonl.read_unique(path, Question, "key")
    if not found:
        raise DataError(f"{path}: no question in it; check the data set, or rerun the rule that makes this file")
    return found
