"""Rows of files that other programs wrote: answers, or judgements of them, one of each question.

JSON (a list of rows, or {"data": [rows]} alone or in a list), JSON Lines, or CSV. Numbers are the strings they are
written as, so that 8.1 and 8.10 stay two ids. A change by which a file is read differently raises VERSION of
fetch_predictions and of the judge ``elsewhere``.
"""

import csv
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.lib.errors import DataError
from scripts.lib.records import Question
from scripts.lib.text import nfc, whole

WHOLE = re.compile(r"(-?\d+)\.0+")
"""A whole number as programs write it that hold ids as decimals."""

Row = dict[str, Any]
Pair = tuple[str, str]
"""Id of the video, id of the question."""


@dataclass(frozen=True)
class Keys:
    """Which keys of a file's rows have what."""

    file: Path
    video: str
    question: str
    settings: tuple[str, str]
    """What sets ``video`` and ``question``, for messages."""
    same: tuple[str, ...]
    """What two rows of one question must agree in."""


@dataclass
class Match:
    """The rows of a file that are of questions of a data set."""

    rows: dict[str, tuple[int, Row]] = field(default_factory=dict)
    """Key of the question to number and content of its row."""
    repeated: int = 0
    """Rows that say the same as an earlier one."""
    foreign: list[Pair] = field(default_factory=list)
    """Of rows whose question is not in the data set."""
    other_words: list[int] = field(default_factory=list)
    """Numbers of rows that have the question in other words."""


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, numbers in them as the strings they are written as.

    Raises:
        DataError: no such file, not UTF-8, or none of the formats; names the place.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; put the answers there, or correct the path in the YAML that names it")
    try:
        text = path.read_bytes().decode("utf-8-sig")  # line ends inside a reply stay as they are
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); convert the file") from None
    rows = _csv_rows(text, path) if path.suffix.lower() == ".csv" else _json_rows(text, path)
    if not rows:
        raise DataError(f"{path}: no row in it; check the file")
    return [{key: whole(value) if isinstance(value, str) else value for key, value in row.items()} for row in rows]


def _csv_rows(text: str, path: Path) -> list[Row]:
    csv.field_size_limit(sys.maxsize)  # a reply with its thoughts passes the 131072 characters of the default
    try:
        found = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise DataError(f"{path}: not readable as CSV: {error}; check its quotes") from None
    for number, row in enumerate(found, 1):
        if None in row:
            raise DataError(f"{path}: row {number}: more fields than the header has; put quotes around the text")
    return found


def _json_rows(text: str, path: Path) -> list[Row]:
    try:
        content = _loads(text)
    except json.JSONDecodeError as error:
        content = list(_json_lines(text, path, error))
    if isinstance(content, list) and len(content) == 1:
        content = content[0]
    if isinstance(content, dict):
        content = content["data"] if isinstance(content.get("data"), list) else [content]
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise DataError(
            f'{path}: not a list of rows, nor {{"data": [rows]}}; a row is an object with the ids and the reply'
        )
    return content


def _json_lines(text: str, path: Path, whole: json.JSONDecodeError) -> Iterator[Any]:
    """One value a line. Only ``\\n`` ends a line: JSON may hold other characters that end lines elsewhere."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for place, (number, line) in enumerate(lines):
        try:
            yield _loads(line)
        except json.JSONDecodeError as error:
            # A file whose first line is no JSON by itself is one value that is broken somewhere.
            where, what = (number, error) if place else (whole.lineno, whole)
            raise DataError(f"{path}: line {where}: not JSON ({what.msg}); correct or remove it") from None


def _loads(text: str) -> Any:
    """JSON with numbers as they are written; what is no number (NaN, as tables write what is missing) is none."""
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def plain(name: str) -> str:
    """An id without the ``.0`` of a whole number."""
    found = WHOLE.fullmatch(name)
    return found.group(1) if found else name


def match(rows: Sequence[Row], questions: Mapping[str, Question], keys: Keys) -> Match:
    """Find the question of every row.

    Raises:
        DataError: a row without one of its ids; two rows that differ on one question; no row of this data set.
    """
    exact = {(one.video, one.question_id): key for key, one in questions.items()}
    near: dict[Pair, list[str]] = {}
    for (video, name), key in exact.items():
        near.setdefault((plain(video), plain(name)), []).append(key)
    found = Match()
    for number, row in enumerate(rows, 1):
        video, name = ids(row, number, keys)
        alike = near.get((plain(video), plain(name)), [])
        which = exact.get((video, name)) or (alike[0] if len(alike) == 1 else None)
        if which is None:
            found.foreign.append((video, name))
        elif which in found.rows:
            _check_same(found.rows[which], (number, row), keys)
            found.repeated += 1
        else:
            found.rows[which] = number, row
            if other_words(row, questions[which]):
                found.other_words.append(number)
    if not found.rows:
        raise DataError(_strangers(found.foreign, questions, keys))
    return found


def ids(row: Row, number: int, keys: Keys) -> Pair:
    """The video's and the question's id of a row.

    Raises:
        DataError: one of them is not there, or is neither text nor a number.
    """
    names = []
    for key, setting in zip((keys.video, keys.question), keys.settings, strict=True):
        name = row.get(key)
        if not isinstance(name, str) or not name.strip():
            raise DataError(
                f"{keys.file}: row {number}: no id in '{key}' (it has: {', '.join(map(str, row))}); set {setting}, or"
                " correct the row"
            )
        names.append(nfc(name.strip()))
    return names[0], names[1]


def _check_same(first: tuple[int, Row], second: tuple[int, Row], keys: Keys) -> None:
    (earlier, one), (later, other) = first, second
    if any(one.get(key) != other.get(key) for key in keys.same):
        video, name = ids(one, earlier, keys)
        raise DataError(
            f"{keys.file}: rows {earlier} and {later} answer question '{name}' of video '{video}' differently;"
            " remove one of them"
        )


def other_words(row: Row, question: Question) -> bool:
    """Whether the row has the question, and in other words; letter case and white space are no difference."""
    asked = row.get("question")
    return isinstance(asked, str) and _words(asked) != _words(question.question)


def _words(text: str) -> list[str]:
    return nfc(text).casefold().split()


def _strangers(foreign: Sequence[Pair], questions: Mapping[str, Question], keys: Keys) -> str:
    ours = next(iter(questions.values()))
    video, name = foreign[0]
    return (
        f"{keys.file}: none of its {len(foreign)} rows is of a question of this data set; its first has video"
        f" '{video}' ({keys.video}) and question '{name}' ({keys.question}), the data set's first has video"
        f" '{ours.video}' and question '{ours.question_id}'; take the file of this data set, or set"
        f" {' and '.join(keys.settings)}"
    )


def remarks(found: Match, questions: Mapping[str, Question]) -> Iterator[str]:
    """What is worth knowing about a file beside what is in it, one line each."""
    total = len(found.rows) + found.repeated + len(found.foreign)
    yield f"{total} rows, {len(found.rows)} of the {len(questions)} questions found"
    if found.foreign:
        first = "video '{}', question '{}'".format(*found.foreign[0])
        yield f"{len(found.foreign)} rows of no question of this data set, the first of {first}"
    if found.repeated:
        yield f"{found.repeated} rows say what an earlier row says"
    if found.other_words:
        by_number = {number: (key, row) for key, (number, row) in found.rows.items()}
        key, row = by_number[found.other_words[0]]
        yield (
            f"{len(found.other_words)} rows ask in other words, as another version of the annotations would; row"
            f" {found.other_words[0]} has '{row['question']}', {key} has '{questions[key].question}'"
        )
