"""Scenarios of first-person walks past painted signs, with timestamped questions (ours: a stand-in for the egocentric
data sets, whose videos cannot be shipped). All that is random about one clip is drawn here, and the truth computed."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from scripts.lib.records import Question, Scenario
from scripts.lib.text import nfc
from scripts.synth import fonts, motion, words
from scripts.synth.backgrounds import Image, picture_look
from scripts.synth.rolling import log_uniform, rgb

WORDING = {
    "now": "What does the sign say now?",
    "first": "What did the first sign say?",
    "previous": "What did the sign before this one say?",
}
CURRENT_S = 2.0
"""A question within this time of its answer is of the subset ``current``, a later one ``previous``."""
OPTIONS = 5
WORLD = (1.5, 1.25)
"""Size of the background in frames; the camera never looks past its edge."""
LEAST_GAP_S = 0.3
WIDTH, PAIRED_WIDTH = 0.5, 0.3
"""Widest board, in frame widths: alone, and with another beside it."""


def scenario(
    source: dict[str, Any],
    dataset: str,
    index: int,
    seed: int,
    faces: Sequence[fonts.Face],
    language: str,
    images: Sequence[Image],
) -> Scenario:
    """Draw clip ``index`` from ``seed``.

    Args:
        source: the ``source`` part of the data set's YAML.
        faces: each sign takes one of them.
        images: the user's backgrounds; empty for procedural ones.
    """
    rng = Random(seed)
    width, height, fps = source["width"], source["height"], rng.randint(*source["fps"])
    frames = round(fps * log_uniform(rng, *source["duration_s"]))
    tone = rng.choice(("dark", "light"))
    look: dict[str, Any] = {
        "language": language,
        "camera": _camera(rng, width, height),
        "world": [2 * round(width * WORLD[0] / 2), 2 * round(height * WORLD[1] / 2)],
        "background": picture_look(rng, tone, images),
        "overlay": {"colour": rgb(rng.random(), rng.random(), rng.random()), "alpha": round(rng.uniform(0, 0.3), 3)},
        "noise_sigma": rng.choice((0.0, round(rng.uniform(1.0, 3.0), 2))),
    }
    spans = _spans(rng, rng.randint(*source["signs"]), frames, fps)
    look["signs"] = _signs(rng, source, spans, faces, look, fps)
    poses = (motion.sign_poses(look, width, height, frame, fps) for frame in range(frames))
    return Scenario(
        id=f"signs_{index:03}",
        dataset=dataset,
        kind="signs",
        seed=seed,
        width=width,
        height=height,
        fps=fps,
        duration_s=frames / fps,
        texts=motion.shown_texts(look["signs"], poses, width, height, fps),
        look=look,
    )


def _camera(rng: Random, width: int, height: int) -> dict[str, Any]:
    """A slow pan and the bobbing of steps: sums of (amplitude in px, period in s, phase)."""
    step = rng.uniform(0.5, 0.7)

    def wave(amplitude: float, period: float) -> list[float]:
        return [round(amplitude, 3), round(period, 3), round(rng.uniform(0, 2 * math.pi), 4)]

    return {
        "centre": [round(width * (WORLD[0] - 1) / 2), round(height * (WORLD[1] - 1) / 2)],
        "x": [
            wave(width * rng.uniform(0.06, 0.13), rng.uniform(10, 18)),
            wave(width * rng.uniform(0.002, 0.005), 2 * step),
        ],
        "y": [
            wave(height * rng.uniform(0.01, 0.03), rng.uniform(7, 12)),
            wave(height * rng.uniform(0.004, 0.009), step),
        ],
    }


def _spans(rng: Random, count: int, frames: int, fps: int) -> list[tuple[int, int]]:
    """First frame and end of each sign: 2-3.5 s each, gaps between them, now and then a pair that overlaps in time.

    A clip too short for ``count`` signs has fewer.
    """
    lasting = [round(fps * rng.uniform(2.0, 3.5)) for _ in range(count)]
    least = math.ceil(LEAST_GAP_S * fps)
    while len(lasting) > 1 and sum(lasting) + least * (len(lasting) + 1) > frames:
        lasting.pop()
    gaps = [least] * (len(lasting) + 1)
    free = max(0, frames - sum(lasting) - sum(gaps))
    weights = [rng.uniform(0.3, 1.0) for _ in gaps]
    gaps = [gap + int(free * weight / sum(weights)) for gap, weight in zip(gaps, weights, strict=True)]
    spans, at, joined = [], 0, 0
    for k, length in enumerate(lasting):
        overlap = rng.random() < 0.3 and k >= 3 and joined < k - 1
        at += gaps[k]
        if overlap:
            joined = k
            at = spans[-1][1] - round(fps * rng.uniform(0.5, 0.9))
        spans.append((at, min(frames, at + length)))
        at += length
    return spans


def _signs(
    rng: Random,
    source: dict[str, Any],
    spans: list[tuple[int, int]],
    faces: Sequence[fonts.Face],
    look: dict[str, Any],
    fps: int,
) -> list[dict[str, Any]]:
    """Boards with distinct words, each at a place that it keeps inside the frame until it leaves."""
    drawn = words.draw(rng, look["language"], 9 * len(spans))
    pool = [word for word in dict.fromkeys(drawn) if len(word) > 2]
    signs: list[dict[str, Any]] = []
    for k, (start, end) in enumerate(spans):
        chosen = pool[3 * k : 3 * k + rng.randint(1, 3)]
        text = nfc(rng.choice((str.upper, str.lower, str.title))(" ".join(chosen)))
        half, split = _half(rng, spans, k, signs, look, source, fps)
        sign = _board(rng, text, rng.choice(faces), source, PAIRED_WIDTH if half else WIDTH)
        sign |= {"half": half, "start": start, "end": end, "entry": _passage(rng, fps), "exit": _passage(rng, fps)}
        sign["anchor"] = _anchor(rng, sign, split, source, look, fps)
        signs.append(sign)
    return signs


def _half(
    rng: Random,
    spans: list[tuple[int, int]],
    k: int,
    signs: list[dict[str, Any]],
    look: dict[str, Any],
    source: dict[str, Any],
    fps: int,
) -> tuple[str, float]:
    """Which half of the frame a sign has to keep to because another one is out at the same time (empty for either), and
    where in the world the halves meet."""
    for first in (k - 1, k):
        if 0 <= first < len(spans) - 1 and spans[first + 1][0] < spans[first][1]:
            middle = (spans[first + 1][0] + spans[first][1]) / 2 / fps
            split = motion.camera(look, middle)[0] + source["width"] / 2
            other = {"left": "right", "right": "left"}
            return (other[signs[k - 1]["half"]] if first < k else rng.choice(("left", "right"))), split
    return "", 0.0


def _passage(rng: Random, fps: int) -> dict[str, Any]:
    """How a sign comes or goes."""
    kind = rng.choice(("grow", "grow", "left", "right", "top", "bottom"))
    return {"kind": kind, "frames": max(1, round(fps * rng.uniform(0.3, 0.5)))}


def _board(rng: Random, text: str, face: fonts.Face, source: dict[str, Any], widest: float) -> dict[str, Any]:
    """A painted board around one line of text, in letters small enough for at most ``widest`` of the frame's width."""
    size = round(log_uniform(rng, *source["font_size"]))
    limit = widest * source["width"]
    while True:
        left, top, right, bottom = (round(side) for side in fonts.load(face.path, size).getbbox(text))
        pad = round(size * 0.5)
        if right - left + 2 * pad <= limit or size <= 8:
            break
        size = min(size - 1, int(size * limit / (right - left + 2 * pad)))
    hue = rng.random()
    dark, light = (
        rgb(hue, rng.uniform(0.5, 1), rng.uniform(0.1, 0.45)),
        rgb(hue, rng.uniform(0, 0.25), rng.uniform(0.9, 1)),
    )
    paint, letters = rng.choice(((dark, light), (light, dark)))
    return {
        "text": text,
        "font": {"family": face.family, "file": face.file, "size": size},
        "board": [2 * ((right - left + 2 * pad + 1) // 2), 2 * ((bottom - top + 2 * pad + 1) // 2)],
        "origin": [pad - left, pad - top],
        "ink": [pad, pad, pad + right - left, pad + bottom - top],
        "paint": {"board": paint, "letters": letters, "border": max(1, round(size * rng.uniform(0.06, 0.12)))},
    }


def _anchor(
    rng: Random, sign: dict[str, Any], split: float, source: dict[str, Any], look: dict[str, Any], fps: int
) -> list[int]:
    """A place in the world at which the board stays in view, and in its half of it, all its time."""
    views = [motion.camera(look, frame / fps) for frame in range(sign["start"], sign["end"])]
    anchor = []
    for axis, side in enumerate(("width", "height")):
        margin = 0.015 * source[side]
        low = max(view[axis] for view in views) + margin
        high = min(view[axis] for view in views) + source[side] - sign["board"][axis] - margin
        if axis == 0 and sign["half"] == "left":
            high = min(high, split - sign["board"][0] - 2)
        if axis == 0 and sign["half"] == "right":
            low = max(low, split + 2)
        anchor.append(round(rng.uniform(low, high) if low <= high else (low + high) / 2))
    return anchor


@dataclass(frozen=True)
class Window:
    """When one sign can be read, in seconds; ``alone`` says that no other sign is out meanwhile."""

    text: str
    start: float
    end: float
    alone: bool


def windows(made: Scenario) -> list[Window]:
    """For each sign, the time between its coming and its going."""
    signs: list[dict[str, Any]] = made.look["signs"]  # type: ignore[assignment]
    found = []
    for k, sign in enumerate(signs):
        others = signs[:k] + signs[k + 1 :]
        alone = all(other["end"] <= sign["start"] or other["start"] >= sign["end"] for other in others)
        start = sign["start"] + sign["entry"]["frames"]
        last = sign["end"] - sign["exit"]["frames"]
        found.append(Window(sign["text"], start / made.fps, last / made.fps, alone))
    return found


def questions(made: Scenario, counts: dict[str, int]) -> list[Question]:
    """Timestamped questions, in order of time; every one is asked while exactly one sign is out.

    Args:
        counts: how many of each category (``now``, ``first``, ``previous``); a clip with few signs has fewer.
    """
    rng = Random(f"questions {made.seed}")
    seen = windows(made)
    asked = []
    for category in WORDING:
        pairs = _pairs(category, seen)
        for answer, at in rng.sample(pairs, min(counts[category], len(pairs))):
            share = rng.uniform(0.35, 1.0)
            asked.append((at.start + share * (at.end - at.start), category, answer))
    asked.sort(key=lambda question: question[0])
    return [_question(rng, made, str(k), seen, *question) for k, question in enumerate(asked)]


def _pairs(category: str, seen: list[Window]) -> list[tuple[Window, Window]]:
    """(sign asked about, sign that is out when it is asked) for all that can be asked without doubt."""
    if category == "now":
        return [(window, window) for window in seen if window.alone]
    if category == "first":
        return [(seen[0], at) for at in seen[2:] if at.alone and seen[0].alone]
    return [(before, at) for before, at in itertools.pairwise(seen) if before.alone and at.alone]


def _question(
    rng: Random, made: Scenario, name: str, seen: list[Window], t_question: float, category: str, answer: Window
) -> Question:
    t_question = round(t_question, 3)
    t_answer = round(answer.start if category == "now" else (answer.start + answer.end) / 2, 3)
    options = _options(rng, answer.text, [window.text for window in seen], str(made.look["language"]))
    return Question(
        key=f"{made.dataset}/{made.id}/{name}",
        video=made.id,
        question_id=name,
        question=WORDING[category],
        answers=[answer.text],
        options=options,
        ground_truth=chr(65 + options.index(answer.text)),
        t_question=t_question,
        t_answer=t_answer,
        qa_times=[t_answer, t_question],
        evidence=[(round(answer.start, 3), round(min(answer.end, t_question), 3))],
        category=category,
        subsets=["current" if t_question - t_answer < CURRENT_S else "previous"],
        domain="Synthetic",
    )


def _options(rng: Random, truth: str, shown: list[str], language: str) -> list[str]:
    """The truth and four others, first from the clip's other signs, then made of other words; in seeded order."""
    others = list(dict.fromkeys(text for text in shown if text != truth))
    rng.shuffle(others)
    options = [truth, *others[: OPTIONS - 1]]
    while len(options) < OPTIONS:
        made = " ".join(words.draw(rng, language, len(truth.split())))
        made = nfc(made.upper() if truth.isupper() else made.title() if truth.istitle() else made)
        if made.casefold() not in {option.casefold() for option in options}:
            options.append(made)
    rng.shuffle(options)
    return options
