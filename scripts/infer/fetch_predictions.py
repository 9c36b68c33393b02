"""Answers that were made elsewhere, by another program, by people, by the authors of a paper, as one cell of ours.

A model whose YAML has `adapter: predictions` names a file of answers:

  predictions:
    file: shared/answers.json     JSON (a list of rows, or {"data": [rows]} alone or in a list), JSON Lines, or CSV
    answer_field: reply           key or column of the reply
    video_field: video_id         of the video's id, and
    question_field: question_id   of the question's; these are the names taken when nothing is said
    thinking: true                the answer is what follows </think>, with or without an opening <think>
    revision: 3f...               sha256 of the file; another file is refused
    source: who made it and how

Ids are compared as they are written, as strings: 8.1 is "8.1", and neither is "8.10". One thing is forgiven, because
programs that hold ids as decimals write it: a whole number with .0 is the number, so 8.0 and "8.0" find question "8",
unless the data set has an "8.0" beside it. A file may hold answers to several data sets; rows of others are counted and
left out. Every question gets exactly one line, in the order of the questions. Statuses:

  ok, unanswerable      an answer, right or wrong ("unanswerable" is one)
  truncated             no </think> in the reply of a thinking model: it was cut before it came to an answer
  error:no_answer       the row's answer is null, missing or blank
  error:not_in_file     no row for this question
  error:no_options      a letter is asked for and the question has no options

Where a row has the words of its question (`question`), they are compared, letter case aside; other words tell of
another version of the annotations, and the log shows the first. Which frames were seen, and at what size, nobody knows
here.

    python -m scripts.infer.fetch_predictions --model config/models/human.yaml --prompt config/prompts/v_q.yaml \\
        --questions resources/datasets/DATASET/questions.jsonl --predictions predictions.jsonl
"""

import argparse
import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.infer import prompting
from scripts.infer.summary import summary
from scripts.lib import cli, config, jsonl
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.files import sha256
from scripts.lib.questions import read_questions
from scripts.lib.records import Prediction, Question
from scripts.lib.text import nfc
from scripts.models.answers import END_OF_THINKING, answer_text, is_unanswerable

VERSION = 1
"""Raise it when a file is read or matched differently."""
WHOLE = re.compile(r"(-?\d+)\.0+")
"""A whole number as programs write it that hold ids as decimals."""

Row = dict[str, Any]
Pair = tuple[str, str]
"""Id of the video, id of the question."""


@dataclass(frozen=True)
class Settings:
    """The block ``predictions`` of a model's YAML."""

    file: Path
    answer_field: str
    video_field: str = "video_id"
    question_field: str = "question_id"
    thinking: bool = False
    revision: str = ""
    source: str = "not said"


@dataclass
class Match:
    """The rows of a file that answer questions of a data set."""

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
        raise DataError(f"{path}: no such file; put the answers there, or correct predictions.file of the model")
    try:
        text = path.read_bytes().decode("utf-8-sig")  # line ends inside a reply stay as they are
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); convert the file") from None
    rows = _csv_rows(text, path) if path.suffix.lower() == ".csv" else _json_rows(text, path)
    if not rows:
        raise DataError(f"{path}: no row in it; check the file")
    return [{key: _whole(value) if isinstance(value, str) else value for key, value in row.items()} for row in rows]


def _whole(text: str) -> str:
    """Halves of characters, as a reply has that was cut inside an emoji, become U+FFFD: no file can hold them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=lambda _: None)


def plain(name: str) -> str:
    """An id without the ``.0`` of a whole number."""
    found = WHOLE.fullmatch(name)
    return found.group(1) if found else name


def match(rows: Sequence[Row], questions: Mapping[str, Question], settings: Settings) -> Match:
    """Find the question of every row.

    Raises:
        DataError: a row without one of its ids; two rows that answer one question differently; no row of this data set.
    """
    exact = {(one.video, one.question_id): key for key, one in questions.items()}
    near: dict[Pair, list[str]] = {}
    for (video, name), key in exact.items():
        near.setdefault((plain(video), plain(name)), []).append(key)
    found = Match()
    for number, row in enumerate(rows, 1):
        video, name = ids(row, number, settings)
        alike = near.get((plain(video), plain(name)), [])
        key = exact.get((video, name)) or (alike[0] if len(alike) == 1 else None)
        if key is None:
            found.foreign.append((video, name))
        elif key in found.rows:
            _same_answer(found.rows[key], (number, row), settings)
            found.repeated += 1
        else:
            found.rows[key] = number, row
            if other_words(row, questions[key]):
                found.other_words.append(number)
    if not found.rows:
        raise DataError(_strangers(found.foreign, questions, settings))
    return found


def ids(row: Row, number: int, settings: Settings) -> Pair:
    """The video's and the question's id of a row.

    Raises:
        DataError: one of them is not there, or is neither text nor a number.
    """
    names = []
    for option in ("video_field", "question_field"):
        key = getattr(settings, option)
        name = row.get(key)
        if not isinstance(name, str) or not name.strip():
            raise DataError(
                f"{settings.file}: row {number}: no id in '{key}' (it has: {', '.join(map(str, row))}); set"
                f" predictions.{option}, or correct the row"
            )
        names.append(nfc(name.strip()))
    return names[0], names[1]


def _same_answer(first: tuple[int, Row], second: tuple[int, Row], settings: Settings) -> None:
    (earlier, one), (later, other) = first, second
    if one.get(settings.answer_field) != other.get(settings.answer_field):
        video, name = ids(one, earlier, settings)
        raise DataError(
            f"{settings.file}: rows {earlier} and {later} answer question '{name}' of video '{video}' differently;"
            " remove one of them"
        )


def other_words(row: Row, question: Question) -> bool:
    """Whether the row has the question, and in other words; letter case and white space are no difference."""
    asked = row.get("question")
    return isinstance(asked, str) and _words(asked) != _words(question.question)


def _words(text: str) -> list[str]:
    return nfc(text).casefold().split()


def _strangers(foreign: Sequence[Pair], questions: Mapping[str, Question], settings: Settings) -> str:
    ours = next(iter(questions.values()))
    video, name = foreign[0]
    return (
        f"{settings.file}: none of its {len(foreign)} rows is of a question of this data set; its first has video"
        f" '{video}' ({settings.video_field}) and question '{name}' ({settings.question_field}), the data set's first"
        f" has video '{ours.video}' and question '{ours.question_id}'; take the file of this data set, or set"
        " predictions.video_field and question_field"
    )


def read_reply(question: Question, row: Row | None, answers: str, settings: Settings) -> Prediction:
    """The prediction that a row is for its question.

    Args:
        row: None where the file has none.
        answers: ``open`` or ``option``, as the prompt says.

    Raises:
        DataError: the answer is neither text, a number nor a truth value.
    """
    if answers == "option" and question.options is None:
        return Prediction(key=question.key, status="error:no_options", detail="the prompt asks for a letter")
    if row is None:
        return Prediction(key=question.key, status="error:not_in_file", detail=f"no row in {settings.file}")
    given = row.get(settings.answer_field)
    if given is None or (isinstance(given, str) and not given.strip()):
        detail = f"nothing in '{settings.answer_field}' of its row in {settings.file}"
        return Prediction(key=question.key, status="error:no_answer", detail=detail)
    if not isinstance(given, str | bool):
        raise DataError(
            f"{settings.file}: question '{question.question_id}' of video '{question.video}': '{settings.answer_field}'"
            f" is no text but {json.dumps(given, ensure_ascii=False)[:80]}; set predictions.answer_field"
        )
    raw = given if isinstance(given, str) else str(given).lower()  # as JSON writes it
    answer = answer_text(raw, settings.thinking)
    if settings.thinking and END_OF_THINKING not in raw:
        status = "truncated"
    else:
        status = "unanswerable" if is_unanswerable(answer) else "ok"
    return Prediction(key=question.key, status=status, raw=raw, answer=answer)


def check_revision(found: str, settings: Settings, model: Path) -> None:
    """Refuse a file that is not the one meant.

    Raises:
        ConfigError: its sha256 is not ``predictions.revision``.
    """
    if settings.revision and settings.revision != found:
        raise ConfigError(
            f"{settings.file}: its sha256 is {found}, and {model} means {settings.revision}; take that one,"
            " or correct predictions.revision"
        )


def read_model(path: Path) -> Settings:
    """The settings of ``config/models/<name>.yaml``.

    Raises:
        ConfigError: what the schema refuses, or a model of another adapter.
    """
    model = config.read_file("model", path)
    if model["adapter"] != "predictions":
        raise ConfigError(
            f"{path}: adapter '{model['adapter']}' answers by itself; this reads models of adapter predictions"
        )
    block = model["predictions"]
    return Settings(**{**block, "file": Path(block["file"])})


def build(settings: Settings, model: Path, questions: Mapping[str, Question], answers: str) -> list[Prediction]:
    """The predictions of all questions, in their order; what is worth knowing about the file goes to stderr.

    Raises:
        ConfigError, DataError: what ``check_revision``, ``read_rows``, ``match`` and ``read_reply`` refuse.
    """
    rows = read_rows(settings.file)
    digest = sha256(settings.file)
    check_revision(digest, settings, model)
    if not any(settings.answer_field in row for row in rows):
        raise DataError(
            f"{settings.file}: no row has '{settings.answer_field}' (the first has: {', '.join(map(str, rows[0]))});"
            " set predictions.answer_field"
        )
    found = match(rows, questions, settings)
    for line in remarks(found, questions, settings):
        print(f"{settings.file}: {line}", file=sys.stderr)
    about = {"engine": f"elsewhere: {settings.source}", "model_revision": digest[:16]}
    made = [
        read_reply(question, found.rows.get(key, (0, None))[1], answers, settings)
        for key, question in questions.items()
    ]
    return [one.model_copy(update=about) for one in made]


def remarks(found: Match, questions: Mapping[str, Question], settings: Settings) -> Iterator[str]:
    """What is worth knowing about a file, one line each."""
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
    replies = Counter(END_OF_THINKING in str(row.get(settings.answer_field)) for _, row in found.rows.values())
    if replies[True] and not settings.thinking:
        yield f"{replies[True]} answers have {END_OF_THINKING} in them, taken whole; predictions.thinking splits there"


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="config/models/<name>.yaml, of adapter predictions")
    parser.add_argument(
        "--prompt", type=Path, required=True, help="config/prompts/<name>.yaml: open answers or letters"
    )
    parser.add_argument("--questions", type=Path, required=True, help="questions.jsonl of the data set")
    parser.add_argument("--predictions", type=Path, required=True, help="predictions.jsonl to write")
    return parser


def step(args: argparse.Namespace) -> None:
    answers = prompting.read(args.prompt)["answers"]
    made = build(read_model(args.model), args.model, read_questions(args.questions), answers)
    jsonl.write(args.predictions, made)
    print(f"{args.predictions}: {summary(made)}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
