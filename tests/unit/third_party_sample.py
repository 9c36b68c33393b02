"""The annotations of EgoTextVQA, and the folder with answers that another project published, where they are at hand."""

import json
from collections.abc import Iterator

from scripts.lib.records import Question
from tests.conftest import ROOT

SHARED = ROOT.parent / "shared" / "data"
ANNOTATIONS, THEIRS = SHARED / "egotextvqa" / "data", SHARED / "third_party_predictions"


def egotextvqa(part: str) -> Iterator[Question]:
    """The annotations of one part as questions, ids as the files write them, without the zero of whole numbers."""
    text = (ANNOTATIONS / f"egotextvqa_{part}" / "total.json").read_text(encoding="utf-8")
    for one in json.loads(text, parse_int=str, parse_float=str)[0]["data"]:
        video, name = (one[key].removesuffix(".0") for key in ("video_id", "question_id"))
        yield Question(
            key=f"egotextvqa_{part}/{video}/{name}",
            video=video,
            question_id=name,
            question=one["question"],
            answers=[one["correct_answer"]],
            category=one["question_type"],
        )
