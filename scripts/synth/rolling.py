"""Scenarios of rolling text (ViTexQA 0.B.2): all that is random about a video is drawn here, and the truth."""

import colorsys
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from scripts.lib.records import Question, Scenario
from scripts.synth import fonts, motion, words
from scripts.synth.backgrounds import Image, background_looks

if TYPE_CHECKING:
    from PIL import ImageFont

QUESTION = "What is the content of large text rolling or printing in the video?"
LINE_PITCH = 1.45
"""Distance between baselines, in ems."""
LINES_PER_PAGE = 3
WORDS_PER_PAGE = (6, 10)


def scenario(
    source: dict[str, Any],
    dataset: str,
    index: int,
    seed: int,
    face: fonts.Face,
    language: str,
    images: Sequence[Image],
) -> Scenario:
    """Draw video ``index``: its motion by turns, the rest from ``seed``.

    Args:
        source: the ``source`` part of the data set's YAML.
        images: the user's backgrounds; empty for procedural ones.
    """
    rng = Random(seed)
    kind = motion.MOTIONS[index % len(motion.MOTIONS)]
    width, height, fps = source["width"], source["height"], rng.randint(*source["fps"])
    frames = round(fps * log_uniform(rng, *source["duration_s"]))
    size = rng.randint(*source["font_size"])
    look = {"motion": kind, "language": language, "font": {"family": face.family, "file": face.file, "size": size}}
    room = Room(width, height, fps, frames, source["max_words"], source["sampling_gap_s"])
    look |= _layout(rng, kind, language, fonts.load(face.path, size), size, room)
    look |= _paint(rng, size, bool(images))
    look |= background_looks(rng, look["tone"], frames, fps, source["background_s"], images)
    poses = (motion.rolling_poses(look, width, height, frame) for frame in range(frames))
    return Scenario(
        id=f"{kind}_{index:03}",
        dataset=dataset,
        kind="rolling",
        seed=seed,
        width=width,
        height=height,
        fps=fps,
        duration_s=frames / fps,
        texts=motion.shown_texts(look["lines"], poses, width, height, fps),
        look=look,
    )


def question(made: Scenario) -> Question:
    """The one question of a rolling video (ViTexQA 0.C.2); its answer is the whole text."""
    return Question(
        key=f"{made.dataset}/{made.id}/0",
        video=made.id,
        question_id="0",
        question=QUESTION,
        answers=[" ".join(line["text"] for line in made.look["lines"])],  # type: ignore[attr-defined]
        evidence=[(min(text.t_start for text in made.texts), max(text.t_end for text in made.texts))],
        category="RollingText",
        subsets=[str(made.look["motion"])],
        domain="Synthetic",
    )


@dataclass(frozen=True)
class Room:
    """What a text has to fit into."""

    width: int
    height: int
    fps: int
    frames: int
    max_words: int
    gap_s: float
    """Longest distance between two sampled frames at which a scroll must still be stitched together."""


def log_uniform(rng: Random, low: float, high: float) -> float:
    """A draw whose logarithm is uniform: as many short ones as long ones."""
    return low * (high / low) ** rng.random()


def _layout(
    rng: Random, kind: str, language: str, font: "ImageFont.FreeTypeFont", size: int, room: Room
) -> dict[str, Any]:
    """Lines, blocks, pages and ramps (in frames) of one motion."""
    if kind in ("rtl", "ltr"):
        return _one_line(rng, language, font, room)
    if kind in ("ttb", "btt"):
        return _column(rng, language, font, size, room)
    return _pages(rng, kind, language, font, size, room)


def _one_line(rng: Random, language: str, font: "ImageFont.FreeTypeFont", room: Room) -> dict[str, Any]:
    """One line that crosses the frame; its length sets the speed. Two samples in a row share at least half of what the
    frame shows beside its longest word, so reading at 1 / gap_s frames a second can stitch it."""
    drawn = words.draw(rng, language, room.max_words)
    longest = max(font.getlength(word) for word in drawn)
    speed = min(rng.uniform(0.20, 0.32) * room.width, 0.5 * (room.width - longest) / room.gap_s)
    travel = max(speed, 1.0) * room.frames / room.fps
    count = max(1, _most(lambda n: font.getlength(" ".join(drawn[:n])) + room.width <= travel, len(drawn)))
    lines, block = _block([drawn[:count]], font, 0, "left")
    y = rng.uniform(0.1, 0.9) * (room.height - block[1])
    return {"lines": lines, "blocks": [[0, round(y), *block]], "pages": [[0, room.frames]], "ramps": [1]}


def _column(rng: Random, language: str, font: "ImageFont.FreeTypeFont", size: int, room: Room) -> dict[str, Any]:
    """Lines that cross the frame vertically, as slowly as ``_one_line``."""
    drawn = words.draw(rng, language, room.max_words)
    pitch = LINE_PITCH * size
    speed = min(rng.uniform(0.12, 0.22) * room.height, 0.5 * (room.height - pitch) / room.gap_s)
    wrapped = _wrap(drawn, font, 0.8 * room.width)
    fit = max(1, int((max(speed, 1.0) * room.frames / room.fps - room.height) / pitch))
    lines, block = _block(wrapped[:fit], font, pitch, rng.choice(("left", "centre")))
    x = rng.uniform(0.05, 0.95) * (room.width - block[0])
    return {"lines": lines, "blocks": [[round(x), 0, *block]], "pages": [[0, room.frames]], "ramps": [1]}


def _pages(
    rng: Random, kind: str, language: str, font: "ImageFont.FreeTypeFont", size: int, room: Room
) -> dict[str, Any]:
    """Pages of a few lines, one after the other, each held long enough to be read once complete."""
    seconds = room.frames / room.fps
    count = max(1, min(round(seconds / rng.uniform(4.5, 7.0)), room.max_words // WORDS_PER_PAGE[0]))
    bounds = [round(k * room.frames / count) for k in range(count + 1)]
    look: dict[str, Any] = {"lines": [], "blocks": [], "pages": [], "ramps": []}
    left = room.max_words
    for page, (start, end) in enumerate(itertools.pairwise(bounds)):
        most = max(1, left // (count - page))
        drawn = words.draw(rng, language, min(most, rng.randint(*WORDS_PER_PAGE)))
        wrapped = _wrap(drawn, font, 0.8 * room.width)[:LINES_PER_PAGE]
        left -= sum(map(len, wrapped))
        lines, block = _block(wrapped, font, LINE_PITCH * size, "left" if kind == "typewriter" else "centre")
        x = rng.uniform(0.3, 0.7) * (room.width - block[0])
        y = rng.uniform(0.2, 0.8) * (room.height - block[1])
        for line in lines:
            if kind == "typewriter":
                line["inks"] = [list(font.getbbox(line["text"][:n].rstrip())) for n in range(1, len(line["text"]) + 1)]
            look["lines"].append(line | {"page": page})
        look["blocks"].append([round(x), round(y), *block])
        look["pages"].append([start, end])
        look["ramps"].append(_ramp(kind, end - start, room.fps))
    return look


def _ramp(kind: str, frames: int, fps: int) -> int:
    """Frames until a page is complete: all but the hold of a typed one, the ends of the others."""
    if kind == "typewriter":
        return max(1, round(0.7 * frames))
    return max(1, min(round(0.3 * frames), round(1.5 * fps)))


def _most(fits: Any, limit: int) -> int:
    """The largest n up to ``limit`` with fits(n), for a ``fits`` that turns false once (0 when it never holds)."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _wrap(drawn: list[str], font: "ImageFont.FreeTypeFont", width: float) -> list[list[str]]:
    """Words into lines no wider than ``width`` (a single word may be)."""
    lines: list[list[str]] = [[]]
    for word in drawn:
        if lines[-1] and font.getlength(" ".join([*lines[-1], word])) > width:
            lines.append([])
        lines[-1].append(word)
    return lines


def _block(
    wrapped: list[list[str]], font: "ImageFont.FreeTypeFont", pitch: float, align: str
) -> tuple[list[dict[str, Any]], list[int]]:
    """Lines with their drawing origins inside a block, and the block's (width, height), which hugs the ink."""
    texts = [" ".join(line) for line in wrapped]
    inks = [[round(side) for side in font.getbbox(text)] for text in texts]
    width = max(right - left for left, _, right, _ in inks)
    lines = []
    for k, (text, ink) in enumerate(zip(texts, inks, strict=True)):
        indent = (width - (ink[2] - ink[0])) // 2 if align == "centre" else 0
        lines.append({"text": text, "page": 0, "x": indent - ink[0], "y": round(k * pitch) - inks[0][1], "ink": ink})
    return lines, [width, lines[-1]["y"] + inks[-1][3]]


def _paint(rng: Random, size: int, photos: bool) -> dict[str, Any]:
    """Colours that stand out: a light text on dark, or a dark one on light. A photo needs more overlay for that."""
    tone = rng.choice(("dark", "light"))
    hue, back_hue = rng.random(), rng.random()
    light, dark = (rng.uniform(0, 0.35), rng.uniform(0.92, 1)), (rng.uniform(0.3, 1), rng.uniform(0.05, 0.25))
    overlay = rng.uniform(0.45, 0.6) if photos else rng.choice((0.0, rng.uniform(0.05, 0.3)))
    return {
        "tone": tone,
        "colour": rgb(hue, *(light if tone == "dark" else dark)),
        "opacity": round(rng.uniform(0.85, 1.0), 3),
        "shadow": {
            "offset": rng.randint(0, max(1, size // 14)),
            "blur": round(rng.uniform(0.5, 2.5), 2),
            "colour": rgb(back_hue, *(dark if tone == "dark" else light)),
            "alpha": round(rng.uniform(0.3, 0.8), 3),
        },
        "overlay": {"colour": rgb(back_hue, *(dark if tone == "dark" else light)), "alpha": round(overlay, 3)},
        "noise_sigma": rng.choice((0.0, round(rng.uniform(1.5, 5.0), 2))),
    }


def rgb(hue: float, saturation: float, value: float) -> list[int]:
    """A colour as three numbers 0-255."""
    return [round(255 * part) for part in colorsys.hsv_to_rgb(hue, saturation, value)]
