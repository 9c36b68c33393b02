"""A baseline without a neural language model: it answers with text that OCR found on the sampled frames.

It understands three temporal words in a question (``PICKS``) and nothing else: no places, colours, meanings, persons or
counting. Asked to choose, it takes the option most similar to what it read. It is a yardstick for how far reading alone
goes on a data set, and a fast way through the workflow. It looks at no pixels, so a reply has no frame size.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.lib.errors import ConfigError
from scripts.lib.records import OcrFrame
from scripts.models.protocol import Answerer, Reply, Request, one_by_one
from scripts.ocr import tracks as fusion

VERSION = "1"
PACKAGES = ("rapidfuzz",)

PICKS = (
    # Tried in this order, so that "before now" asks for what came before.
    ("previous", ("before", "previous", "previously", "earlier")),
    ("first", ("first", "beginning", "start")),
    ("now", ("now", "currently", "current", "at the moment")),
)
"""Which text a word in the question asks for; without any of them it is all text in reading order."""


def conditions(model: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - the same for every model
    """The version of the code that joins the text of the frames: another one may give other answers."""
    return {"fusion": fusion.VERSION}


def load(model: dict[str, Any], weights: Path | None, seed: int) -> Answerer:  # noqa: ARG001 - nothing random, no weights
    """An answerer with the fusion settings of ``model["ocr_settings"]`` (``tracks`` of config/ocr.yaml)."""
    settings = model["ocr_settings"]

    def answer(request: Request) -> Reply:
        if request.ocr is None:
            raise ConfigError("ocr_reader reads OCR text; pass --ocr, and a prompt that shows frames")
        text = pick(request.question, request.ocr, settings)
        if not text:
            return Reply("unanswerable", times=request.times)
        chosen = text if request.options is None else most_similar(text, request.options)
        return Reply("ok", raw=text, answer=chosen, times=request.times)

    return one_by_one(answer)


def asked_for(question: str) -> str:
    """``previous``, ``first``, ``now`` or ``all``."""
    for pick_name, words in PICKS:
        if re.search(rf"\b(?:{'|'.join(words)})\b", question, re.IGNORECASE):
            return pick_name
    return "all"


def pick(question: str, frames: Sequence[OcrFrame], settings: dict[str, Any]) -> str:
    """The text that the question asks for, empty where there is none.

    Args:
        frames: the sampled frames of one video, oldest first.
        settings: as ``scripts.ocr.tracks.merge`` takes them.

    ``now`` is the text on the last frame; ``first`` what appeared first; ``previous`` what went last before the newest
    text of the last frame came; ``all`` everything in reading order.
    """
    if not frames:
        return ""
    asked, last = asked_for(question), frames[-1]
    tracks = fusion.merge([last] if asked == "now" else list(frames), settings)
    if asked == "first":
        start = min((track.t_start for track in tracks), default=None)
        tracks = [track for track in tracks if track.t_start == start]
    elif asked == "previous":
        present = max((track.t_start for track in tracks if track.t_end >= last.t), default=last.t)
        gone = [track for track in tracks if track.t_end < present]
        end = max((track.t_end for track in gone), default=None)
        tracks = [track for track in gone if track.t_end == end]
    return fusion.reading(tracks)


def most_similar(text: str, options: Sequence[str]) -> str:
    """The letter of the option nearest to ``text`` (normalised Indel similarity, case ignored; the first of equals)."""
    from rapidfuzz.distance import Indel

    near = [Indel.normalized_similarity(text.casefold(), option.casefold()) for option in options]
    return chr(ord("A") + near.index(max(near)))
