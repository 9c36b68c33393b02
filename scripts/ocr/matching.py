"""When are two readings the same text? Pure measures on texts and boxes, used by tracks.py.

Boxes are (left, top, right, bottom) in pixels. A *unit* is the piece by which rolling text is joined: a word, or one
character of a script that is written without spaces. Joining by characters everywhere loses letters at the seams.
"""

import unicodedata

from rapidfuzz.distance import Levenshtein

from scripts.lib.records import Box

SPACELESS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x9FFF),  # Han, kana and their punctuation
    (0xF900, 0xFAFF),
    (0xFF00, 0xFFEF),
    (0x20000, 0x3FFFF),
)
LEAST_SEAM = 4
"""Characters that must repeat before two readings are joined: fewer occur by chance."""


def similarity(a: str, b: str) -> float:
    """1 - edit distance / longer length; 1 for two empty texts."""
    return Levenshtein.normalized_similarity(a, b)


def spaceless(character: str) -> bool:
    """Whether the character belongs to a script written without spaces between words."""
    return any(low <= ord(character) <= high for low, high in SPACELESS)


def units(text: str) -> list[str]:
    """Split a text into units, each with the space before it, so that joining them gives the text back."""
    found: list[str] = []
    for character in text:
        mark = unicodedata.category(character).startswith("M")
        starts = not found or (
            not mark
            and not (found[-1].isspace())
            and (character.isspace() or spaceless(character) or spaceless(found[-1].strip()[0]))
        )
        if starts:
            found.append(character)
        else:
            found[-1] += character
    return found


def joint(before: str, after: str) -> str:
    """What goes between two texts that follow each other: nothing inside a script without spaces, else a space."""
    return "" if before and after and spaceless(before[-1]) and spaceless(after[0]) else " "


def packed(parts: list[str]) -> str:
    """The units without any space: readings differ most often in their spaces."""
    return "".join("".join(parts).split())


def seam(first: list[str], second: list[str], least: float) -> int:
    """How many leading units of ``second`` repeat the last ones of ``first`` (0 = they do not follow each other).

    Args:
        least: least similarity of the repeated part.
    """
    best, best_score = 0, 0.0
    for count in range(1, len(second) + 1):
        head = packed(second[:count])
        if len(head) < LEAST_SEAM and count < len(second) and count < len(first):
            continue
        for taken in {count - 1, count, count + 1} & set(range(1, len(first) + 1)):
            likeness = similarity(packed(first[-taken:]), head)
            if likeness >= least and likeness * len(head) > best_score:
                best, best_score = count, likeness * len(head)
    return best


def contained(short: str, long: str, least: float) -> bool:
    """Whether ``short`` occurs in ``long`` but for a few misread characters; spaces do not count."""
    from rapidfuzz.fuzz import partial_ratio

    a, b = "".join(short.split()), "".join(long.split())
    return bool(a) and len(a) <= len(b) and partial_ratio(a, b) >= 100 * least


def starts_with(long: str, short: str, least: float) -> bool:
    """Whether ``long`` is ``short`` and more."""
    return len(long) > len(short) and similarity(long[: len(short)], short) >= least


def span_overlap(a0: float, a1: float, b0: float, b1: float) -> float:
    """Intersection over union of two intervals."""
    return max(0.0, min(a1, b1) - max(a0, b0)) / max(max(a1, b1) - min(a0, b0), 1e-9)


def rows_overlap(a: Box, b: Box) -> float:
    """How far two boxes share a row, 0-1."""
    return span_overlap(a[1], a[3], b[1], b[3])


def columns_overlap(a: Box, b: Box) -> float:
    """How far two boxes share a column, 0-1."""
    return span_overlap(a[0], a[2], b[0], b[2])


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes."""
    shared = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return shared / max(area - shared, 1e-9)


def inside_columns(inner: Box, outer: Box) -> float:
    """Which part of the inner box's width lies above or below the outer box, 0-1."""
    return max(0.0, min(inner[2], outer[2]) - max(inner[0], outer[0])) / max(inner[2] - inner[0], 1e-9)


def centre(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def reading_order(boxes: list[Box]) -> list[int]:
    """Indices of the boxes by rows from the top, and from left to right within a row."""
    by_height = sorted(range(len(boxes)), key=lambda index: centre(boxes[index])[1])
    rows: list[list[int]] = []
    for index in by_height:
        box = boxes[index]
        if rows and centre(box)[1] - centre(boxes[rows[-1][0]])[1] < (box[3] - box[1]) / 2:
            rows[-1].append(index)
        else:
            rows.append([index])
    return [index for row in rows for index in sorted(row, key=lambda item: boxes[item][0])]
