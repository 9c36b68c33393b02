"""Take in a data set of your own: a folder of videos and a file of questions.

In config/datasets/<name>.yaml:

    source: {kind: local, videos: data/mine/videos, questions: data/mine/questions.jsonl}

The file holds one Question record a line; key, video, question_id, question, answers and category are required:

    {"key": "mine/walk_1/q1", "video": "walk_1", "question_id": "q1", "question": "What does the sign say?",
     "answers": ["Cafe"], "category": "signs", "t_question": 12.5}

``key`` is data set/video/question_id; a video's id is its file name without suffix (mp4, mkv, webm, avi, mov, in any
subfolder). A question whose video is not in the folder stays: it is counted as an error, never as a wrong answer.
"""

import argparse
from pathlib import Path

from scripts.lib import cli, config, jsonl
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.records import Question, Source
from scripts.lib.text import nfc

SUFFIXES = {".mp4", ".mkv", ".webm", ".avi", ".mov"}


def find_videos(folder: Path) -> dict[str, Path]:
    """Video id (NFC) to file, sorted by id; hidden files are passed over.

    Raises:
        DataError: no such folder, no video in it, or two files with the same id.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; correct source.videos in the data set's YAML")
    found: dict[str, Path] = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix.lower() not in SUFFIXES or file.name.startswith(".") or not file.is_file():
            continue
        video = nfc(file.stem)
        if video in found:
            raise DataError(f"{file}: the id '{video}' is taken by {found[video]}; rename one of the files")
        found[video] = file
    if not found:
        raise DataError(f"{folder}: no video in it ({', '.join(sorted(SUFFIXES))}); correct source.videos")
    return dict(sorted(found.items()))


def read_questions(path: Path, dataset: str) -> list[Question]:
    """The questions in the order of the file.

    Raises:
        DataError: the file is missing or empty, a line is not a Question, or a key is wrong or given twice.
    """
    questions = list(jsonl.read_unique(path, Question, "key").values())
    if not questions:
        raise DataError(f"{path}: no questions in it; write one Question record a line")
    for question in questions:
        due = f"{dataset}/{question.video}/{question.question_id}"
        if question.key != due:
            raise DataError(
                f"{path}: Question field key: '{question.key}' must be '{due}' (data set/video/question_id)"
            )
    return questions


def manifest(videos: dict[str, Path], questions: list[Question], source: str, licence: str) -> list[Source]:
    """A line for each video found, then one for each that only a question names."""
    found = [Source(id=video, path=str(path), source=source, licence=licence) for video, path in videos.items()]
    absent = sorted({question.video for question in questions} - set(videos))
    return found + [Source(id=one, path="", status="missing:other", source=source, licence=licence) for one in absent]


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--dataset", type=Path, required=True, help="YAML under config/datasets/ of kind local")
    parser.add_argument("--manifest", type=Path, required=True, help="manifest.jsonl to write (Source records)")
    parser.add_argument("--questions", type=Path, required=True, help="questions.jsonl to write (Question records)")
    return parser


def step(args: argparse.Namespace) -> None:
    dataset = config.read_file("dataset", args.dataset)
    source = dataset["source"]
    if source["kind"] != "local":
        raise ConfigError(
            f"{args.dataset}: source.kind is '{source['kind']}', which is rendered, not fetched; use local"
        )
    questions = read_questions(Path(source["questions"]), dataset["name"])
    sources = manifest(find_videos(Path(source["videos"])), questions, f"local: {source['videos']}", dataset["licence"])
    jsonl.write(args.manifest, sources)
    jsonl.write(args.questions, questions)


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
