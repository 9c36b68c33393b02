"""Rating sheets: one CSV that spreadsheets open, and reading it again after people and spreadsheets had their way.

What a spreadsheet does by itself is put up with: another separator, other line ends, 4.0 for 4, TRUE for yes. What
changes a meaning is refused, with file, row (the header is row 1) and column.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.agree.answers import Answer
from scripts.lib.errors import DataError
from scripts.lib.files import atomic_path
from scripts.lib.records import Verdict
from scripts.lib.text import nfc

COLUMNS = ("id", "question", "correct answer", "answer", "verdict", "score", "comment", "rater")
SEPARATORS = (",", ";", "\t")
VERDICTS: dict[str, Verdict] = {
    "yes": "yes", "y": "yes", "true": "yes", "no": "no", "n": "no", "false": "no",
}  # fmt: skip
SCORE = re.compile(r"([0-5])(?:[.,]0+)?")
PROTECTED = (
    r"^(?:[=+\-@＝＋－＠' \t\r\n]"  # a formula to spreadsheets, or begins as a protected cell does
    r"|(?=[^0-9]*[0-9])[^ ]+(?: [^ ]+){0,4}(?![\s\S])"  # up to five words with a digit: a number, a time or a date
    r"|(?:[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])(?![\s\S]))"
)
"""Texts that get an apostrophe before them, so that a spreadsheet neither runs nor rewrites them. The form's script
takes this pattern too, so it must mean the same in Python and JavaScript."""


@dataclass(frozen=True)
class Rating:
    """What one person said of one answer: a row of a sheet with a verdict and a score."""

    id: str
    verdict: Verdict
    score: float
    """0-5, a whole number."""
    rater: str
    comment: str
    question: str
    truth: str
    answer: str
    """These three as the sheet has them, apostrophes taken away."""
    file: Path
    row: int

    @property
    def place(self) -> str:
        return f"{self.file}: row {self.row}"

    @property
    def by(self) -> str:
        """Who rated, whatever the capital letters."""
        return self.rater.casefold()


def protect(text: str) -> str:
    """A text as a cell of the sheet has it; see PROTECTED."""
    return f"'{text}" if re.match(PROTECTED, text) else text


def unprotect(cell: str) -> str:
    """The text of a cell that ``protect`` made, or that somebody typed."""
    return cell[1:] if cell.startswith("'") and re.match(PROTECTED, cell[1:]) else cell


def write_sheet(path: Path, answers: Iterable[Answer]) -> None:
    """Write a sheet to fill in. UTF-8 with a byte order mark, without which spreadsheets guess another encoding."""
    rows = [[one.id, *map(protect, (one.question, one.truth, one.answer)), "", "", "", ""] for one in answers]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows([COLUMNS, *rows])
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.getvalue().encode("utf-8-sig"))


def read_sheet(path: Path) -> list[Rating]:
    """The ratings of a sheet; rows without verdict and score are none.

    Raises:
        DataError: no such file, not a sheet, a row that can't be meant, or one that a person rated twice differently.
    """
    path = Path(path)
    header, rows = _table(_text(path), path)
    ratings = [
        rating
        for number, cells in rows
        if (rating := _rating(dict(zip(header, cells, strict=True)), path, number)) is not None
    ]
    return [one for found in by_answer(ratings).values() for one in found]


def by_answer(ratings: Iterable[Rating]) -> dict[str, list[Rating]]:
    """The ratings of each answer by its id, one of each rater.

    Raises:
        DataError: somebody rated an answer twice, differently.
    """
    found: dict[str, dict[str, Rating]] = {}
    for one in ratings:
        first = found.setdefault(one.id, {}).setdefault(one.by, one)
        if (first.verdict, first.score) != (one.verdict, one.score):
            raise DataError(
                f"{one.place}: id: '{one.rater}' rated {one.id} differently in {first.file.name}, row {first.row};"
                " ask which one holds, and clear the other"
            )
    return {id_: list(of.values()) for id_, of in found.items()}


def check_known(ratings: Iterable[Rating], answers: Mapping[str, Answer], key: Path) -> None:
    """Refuse ratings of answers that nobody was asked to rate, or beside changed texts.

    Raises:
        DataError: names the first one.
    """
    for one in ratings:
        if one.id not in answers:
            raise DataError(
                f"{one.place}: id: '{one.id}' is not in {key}: the sheet is of another draw, or the answers were made"
                " anew since; have the present sheet rated, or take out the row"
            )
        check_texts(one, answers[one.id])


def check_texts(rating: Rating, answer: Answer) -> None:
    """Refuse a rating beside a question or an answer that somebody changed.

    Raises:
        DataError: names the column.
    """
    columns = dict(zip(("question", "truth", "answer"), COLUMNS[1:4], strict=True))
    for name, column in columns.items():
        if _plain(getattr(rating, name)) != _plain(getattr(answer, name)):
            raise DataError(
                f"{rating.place}: {column}: is {getattr(rating, name)[:60]!r}, and was {getattr(answer, name)[:60]!r};"
                " put the text back if it was rated as it was, else clear the rating"
            )


def _plain(text: str) -> str:
    """A text without what spreadsheets change in it: apostrophes before it, white space, control characters."""
    words = nfc(text).split()
    return " ".join("".join(c for c in word if unicodedata.category(c) != "Cc") for word in words).lstrip("' ")


def _text(path: Path) -> str:
    if not path.is_file():
        raise DataError(f"{path}: no such file; correct the list of sheets")
    content = path.read_bytes()
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8; save it from the spreadsheet as 'CSV UTF-8'") from None


def _table(text: str, path: Path) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The names of the columns, and the number and the cells of each row that has any."""
    tried = [_records(text, separator, path) for separator in SEPARATORS]
    headers = [[" ".join(name.split()).casefold() for name in rows[0]] if rows else [] for rows in tried]
    best = max(range(len(tried)), key=lambda at: len(set(headers[at]) & set(COLUMNS)))
    for column in COLUMNS:
        if headers[best].count(column) != 1:
            many = "two columns" if column in headers[best] else "no column"
            raise DataError(f"{path}: row 1: {many} '{column}'; a sheet has {', '.join(COLUMNS)}")
    return headers[best], _rows(tried[best], len(headers[best]), path)


def _records(text: str, separator: str, path: Path) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error as error:
        raise DataError(f"{path}: not readable as CSV: {error}; save it again from the spreadsheet") from None


def _rows(records: list[list[str]], width: int, path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, cells in enumerate(records[1:], 2):
        if any(cell.strip() for cell in cells[width:]):
            raise DataError(f"{path}: row {number}: more cells than the header has; put quotes around the texts")
        if any(cell.strip() for cell in cells):
            yield number, (cells + [""] * width)[:width]


def _rating(row: Mapping[str, str], path: Path, number: int) -> Rating | None:
    """The rating of a row; None where there is none.

    Raises:
        DataError: half a rating, one that contradicts itself, or one of nobody or of no answer.
    """
    verdict, score = (unprotect(row[name].strip()).strip() for name in ("verdict", "score"))
    if not verdict and not score:
        return None
    where = f"{path}: row {number}"
    if verdict.casefold() not in VERDICTS:
        raise DataError(f"{where}: verdict: {verdict[:60]!r} is neither yes nor no; a rating needs one of them")
    if not SCORE.fullmatch(score):
        raise DataError(f"{where}: score: {score[:60]!r} is no whole number from 0 to 5; a rating needs one")
    said, points = VERDICTS[verdict.casefold()], int(score[0])
    if (said, points) in (("yes", 0), ("no", 5)):
        raise DataError(f"{where}: score: {said} and {points} contradict each other; ask the rater")
    texts = {name: nfc(unprotect(row[name])) for name in ("comment", *COLUMNS[1:4])}
    rater = " ".join(nfc(unprotect(row["rater"].strip())).split())
    if not rater:
        raise DataError(f"{where}: rater: is empty; write the rater's name into every row that is rated")
    if not row["id"].strip():
        raise DataError(f"{where}: id: is empty; copy it from the sheet as it was given out")
    return Rating(
        id=unprotect(row["id"].strip()),
        verdict=said,
        score=points,
        rater=rater,
        comment=texts["comment"],
        question=texts["question"],
        truth=texts["correct answer"],
        answer=texts["answer"],
        file=path,
        row=number,
    )
