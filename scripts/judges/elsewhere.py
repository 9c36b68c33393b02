"""Judgements that were made elsewhere, by another judge or at another time: a file with a verdict on each answer.

`fields` of the judge's file names the keys of a row: `verdict` (yes or no, true or false), `score` (0-5), and, where a
row has it, `answer`: what was judged. That is compared with our answer, letter case and line breaks aside (EgoTextVQA's
script takes these away before it asks), and a verdict on another answer is none on ours. Rows and ids are read as those
of answers made elsewhere (scripts/lib/rows.py).
"""

import json
import math
import sys
from collections.abc import Iterator
from typing import Any

from scripts.judges.protocol import Item, Run
from scripts.judges.replies import VERDICTS
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.files import sha256
from scripts.lib.records import Judgement
from scripts.lib.rows import Keys, Row, match, read_rows, remarks
from scripts.lib.text import nfc

VERSION = 1
"""Raise it when the same file gives other judgements."""


def judge(run: Run) -> Iterator[Judgement]:
    """One judgement per item: ``no_judgement`` where the file has none of this answer, ``parse_failed`` where it has
    something that is no verdict.

    Raises:
        ConfigError: not one file, but several or none.
        DataError: what ``read_rows`` and ``match`` refuse, or a file in which no row has a key that is named.
    """
    if len(run.files) != 1:
        raise ConfigError(f"judge {run.judge['name']}: {len(run.files)} files for one cell; name one for each model")
    fields = run.judge["fields"]
    keys = keys_of(run)
    rows = read_rows(keys.file)
    for setting, key in fields.items():
        if not any(key in row for row in rows):
            has = ", ".join(map(str, rows[0]))
            raise DataError(f"{keys.file}: no row has '{key}' (the first has: {has}); set fields.{setting}")
    questions = {item.key: item.question for item in run.items}
    found = match(rows, questions, keys)
    for line in remarks(found, questions):
        print(f"{keys.file}: {line}", file=sys.stderr)
    by = f"{keys.file.name} {sha256(keys.file)[:16]}"
    for item in run.items:
        number, row = found.rows.get(item.key, (0, None))
        made = {"status": "no_judgement", "detail": "no row"} if row is None else read(item, row, fields)
        detail = f"{keys.file.name}{f', row {number}' if row else ''}: {made['detail']}" if made.get("detail") else ""
        yield Judgement(key=item.key, **{**made, "detail": detail}, judge=by)


def keys_of(run: Run) -> Keys:
    """Where a row has its ids; two rows on one question must not differ in what is read of them."""
    fields = run.judge["fields"]
    same = tuple(fields[name] for name in ("verdict", "score", "answer") if name in fields)
    video, question = fields.get("video", "video_id"), fields.get("question", "question_id")
    return Keys(run.files[0], video, question, ("fields.video", "fields.question"), same)


def read(item: Item, row: Row, fields: dict[str, str]) -> dict[str, Any]:
    """Status, verdict and score, or detail, of the judgement in a row."""
    if "answer" in fields:
        judged = plain(text_of(row.get(fields["answer"])))
        if judged not in (plain(item.prediction.raw), plain(item.prediction.answer)):
            return {"status": "no_judgement", "detail": f"is of another answer, {judged[:80]!r}"}
    verdict, score = (text_of(row.get(fields[name])).strip() for name in ("verdict", "score"))
    if not verdict:
        return {"status": "no_judgement", "detail": f"nothing in '{fields['verdict']}'"}
    if verdict.lower() not in VERDICTS:
        return {"status": "parse_failed", "detail": f"'{fields['verdict']}' is {verdict[:80]!r}, neither yes nor no"}
    value = read_score(score)
    if value is None and score:
        return {"status": "parse_failed", "detail": f"'{fields['score']}' is {score[:80]!r}, no number from 0 to 5"}
    return {"status": "ok", "verdict": VERDICTS[verdict.lower()], "score": value}


def read_score(text: str) -> float | None:
    """A number from 0 to 5; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= 5 else None


def text_of(value: object) -> str:
    """What a row holds as text; truth values and lists as JSON writes them."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def plain(answer: str) -> str:
    """An answer as EgoTextVQA's script shows it to its judge, and without what surrounds it."""
    one_line = answer.replace("\n", "").replace("\r", "")
    return nfc(nfc(one_line).lower()).strip()
