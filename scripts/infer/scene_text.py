"""The text on a question's frames in words, for prompts that tell a model what OCR has read (EgoTextVQA, Table 17)."""

import re
import unicodedata
from collections.abc import Sequence

from scripts.lib.records import OcrBox, OcrFrame
from scripts.lib.text import nfc

VERSION = 1
"""Raise it when the words that a model reads change."""
NOTHING = "(no text found)"
SAME_LINE = 0.5
"""A box whose middle is within this share of the first one's height from the first one's middle is on its line."""

MARK = re.compile(r"<(?=[|/]|[^\W\d])")
"""Where a mark of a model's own format may begin: ``<|im_end|>``, ``</s>``, ``<image>``. "<3" and "a < b" are none."""


def text(frames: Sequence[OcrFrame], numbered: bool = False) -> str:
    """All text on the frames, each frame's in reading order.

    Args:
        frames: oldest first, as they are shown.
        numbered: for a model that sees the frames too: Table 17's sentence for each of them, counted from 0. Otherwise
            one line for each moment, ``[t=12.0s] "EXIT", "Main St"``; frames in a row with the same text are one span
            ``[t=3.0-7.0s]``, and frames without text have no line.

    Returns:
        NFC text; ``(no text found)`` where no frame has any.
    """
    read = [(frame.t, listed(frame.boxes)) for frame in frames]
    if not any(words for _, words in read):
        return NOTHING
    if numbered:
        return " ".join(
            f"The scene texts in Frame {number} include: {words or NOTHING}." for number, (_, words) in enumerate(read)
        )
    return "\n".join(f"[t={span(start, end)}s] {words}" for start, end, words in spans(read) if words)


def spans(read: Sequence[tuple[float, str]]) -> list[tuple[float, float, str]]:
    """(time, text) joined to (first time, last time, text) wherever frames in a row have the same text."""
    joined: list[tuple[float, float, str]] = []
    for t, words in read:
        if joined and joined[-1][2] == words:
            joined[-1] = (joined[-1][0], t, words)
        else:
            joined.append((t, t, words))
    return joined


def span(start: float, end: float) -> str:
    """``12.0``, or ``3.0-7.0`` where the two differ as written."""
    first, last = (f"{round(t, 1) + 0.0:.1f}" for t in (start, end))  # adding 0 makes -0.0 plain
    return first if first == last else f"{first}-{last}"


def listed(boxes: Sequence[OcrBox]) -> str:
    """The texts as ``written``, in double quotes, in reading order; empty ones are left out."""
    words = (written(box.text) for box in reading_order(boxes))
    return ", ".join(f'"{word}"' for word in words if word)


def written(read: str) -> str:
    """A text so that it is nothing but text to a model: no control characters, no double quotes, no format's marks.

    White space becomes one space, ``"`` becomes ``'``, and a space breaks what could be a mark: ``< |im_end|>``.
    """
    seen = (char for char in read if char.isspace() or unicodedata.category(char) not in ("Cc", "Cf"))
    words = " ".join(nfc("".join(seen)).split())
    return MARK.sub("< ", words.replace('"', "'"))


def reading_order(boxes: Sequence[OcrBox]) -> list[OcrBox]:
    """Line by line from the top, each from the left, whatever order the boxes come in.

    A line is the topmost box left (by its middle) and all whose middle is about as high; lines are read as if upright.
    """
    rest = sorted(boxes, key=lambda box: (*_middle(box), box.box, box.text))
    ordered: list[OcrBox] = []
    while rest:
        top = rest[0]
        reach = _middle(top)[0] + SAME_LINE * (top.box[3] - top.box[1])
        line = [box for box in rest if _middle(box)[0] <= reach]
        ordered += sorted(line, key=lambda box: (box.box[0], box.box, box.text))
        rest = rest[len(line) :]
    return ordered


def _middle(box: OcrBox) -> tuple[float, float]:
    """Height of the middle, then its place from the left."""
    left, top, right, bottom = box.box
    return (top + bottom) / 2, (left + right) / 2
