"""JSON Lines of records: read with an error that names file and line, written whole or appended durably."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from scripts.lib.errors import DataError
from scripts.lib.files import atomic_path
from scripts.lib.records import Record

R = TypeVar("R", bound=Record)


def dumps(value: object) -> str:
    """One line of JSON: keys in their own order, non-ASCII kept readable."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse(kind: type[R], line: str, where: str) -> R:
    """Read one line into a record.

    Raises:
        DataError: malformed JSON, or a field that is missing, unknown or of the wrong type.
    """
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the line"
        raise DataError(f"{where}: {kind.__name__} field {field}: {first['msg']}") from None


def read(path: Path, kind: type[R]) -> Iterator[R]:
    """Yield the records of a file, in order; blank lines are skipped, and so is the mark that Windows puts first.

    Raises:
        DataError: the file is missing or not UTF-8, or a line is not such a record.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file; run the rule that makes it, or check the path")
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield parse(kind, line, f"{path}:{number}")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); convert the file") from None


def read_unique(path: Path, kind: type[R], key: str) -> dict[str, R]:
    """Read a file into ``{record.<key>: record}``.

    Raises:
        DataError: as ``read``, or when a key occurs twice.
    """
    found: dict[str, R] = {}
    for record in read(path, kind):
        name = getattr(record, key)
        if name in found:
            raise DataError(f"{path}: {kind.__name__} {key} '{name}' occurs twice; remove one of the lines")
        found[name] = record
    return found


def write(path: Path, records: Iterable[Record]) -> int:
    """Write records whole or not at all; return how many."""
    count = 0
    with atomic_path(Path(path)) as temporary, temporary.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(record.model_dump_json() + "\n")
            count += 1
    return count
