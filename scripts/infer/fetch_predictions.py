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
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.infer import prompting
from scripts.infer.summary import summary
from scripts.lib import cli, config, jsonl
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.files import sha256
from scripts.lib.questions import read_questions
from scripts.lib.records import Prediction, Question
from scripts.lib.rows import Keys, Match, Row, match, read_rows, remarks
from scripts.models.answers import END_OF_THINKING, answer_text, is_unanswerable

VERSION = 1
"""Raise it when a file is read or matched differently."""


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

    @property
    def keys(self) -> Keys:
        settings = ("predictions.video_field", "predictions.question_field")
        return Keys(self.file, self.video_field, self.question_field, settings, (self.answer_field,))


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
    found = match(rows, questions, settings.keys)
    for line in (*remarks(found, questions), *about_thoughts(found, settings)):
        print(f"{settings.file}: {line}", file=sys.stderr)
    about = {"engine": f"elsewhere: {settings.source}", "model_revision": digest[:16]}
    made = [
        read_reply(question, found.rows.get(key, (0, None))[1], answers, settings)
        for key, question in questions.items()
    ]
    return [one.model_copy(update=about) for one in made]


def about_thoughts(found: Match, settings: Settings) -> Iterator[str]:
    """A line where the answers have thoughts in them that nobody spoke of."""
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
