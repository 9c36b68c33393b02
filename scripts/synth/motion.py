"""Where every text is on every frame: pure functions of a scenario's ``look``, used by the truth and by the renderer.

Positions are floats in pixels of the frame; the renderer rounds them, so truth and picture agree within a pixel.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scripts.lib.records import Box, ShownText

MOTIONS = ("rtl", "ltr", "ttb", "btt", "typewriter", "fade", "zoom")
FAINTEST = 0.05
"""Least share of its full opacity at which a fading text counts as visible (and is drawn)."""
ZOOM_FROM = 0.3
GROW_FROM = 0.15
LONGEST_GAP_S = 0.25
"""Between two logged boxes; twice a second would leave 4 px of a bobbing camera unseen."""
KINK_PX = 0.5


@dataclass(frozen=True)
class Pose:
    """How one text (a line, or a sign) is drawn on one frame."""

    item: int
    """Index into ``look["lines"]`` or ``look["signs"]``."""
    x: float
    y: float
    """Top left of the item's own frame of reference (a line's drawing origin, a sign's board)."""
    scale: float = 1.0
    alpha: float = 1.0
    characters: int | None = None
    """For a typewriter: how many are typed."""


def rolling_poses(look: dict[str, Any], width: int, height: int, frame: int) -> list[Pose]:
    """Poses of the visible lines of a rolling text (ViTexQA 0.B.2), in reading order."""
    motion = look["motion"]
    for page, (start, end) in enumerate(look["pages"]):
        if start <= frame < end:
            lines = [(k, line) for k, line in enumerate(look["lines"]) if line["page"] == page]
            u = (frame - start) / max(1, end - 1 - start)
            if motion in ("rtl", "ltr", "ttb", "btt"):
                return _scroll(look, lines, motion, width, height, u)
            return _page(look, lines, motion, page, frame - start)
    return []


def _scroll(
    look: dict[str, Any], lines: list[tuple[int, dict[str, Any]]], motion: str, width: int, height: int, u: float
) -> list[Pose]:
    """A block that crosses the frame from just outside to just outside; u in 0-1."""
    block_width, block_height = look["blocks"][0][2:]
    x, y = look["blocks"][0][:2]
    forward = u if motion in ("ltr", "ttb") else 1 - u
    if motion in ("rtl", "ltr"):
        x = -block_width + forward * (width + block_width)
    else:
        y = -block_height + forward * (height + block_height)
    margin = 0.2 * height  # a shadow may reach into the frame before its text does
    return [
        Pose(k, x + line["x"], y + line["y"])
        for k, line in lines
        if -margin < y + line["y"] + line["ink"][3] and y + line["y"] + line["ink"][1] < height + margin
    ]


def _page(
    look: dict[str, Any], lines: list[tuple[int, dict[str, Any]]], motion: str, page: int, since: int
) -> list[Pose]:
    """A page that is typed, faded in and out, or zoomed; ``since`` in frames since its start."""
    x, y, width, height = look["blocks"][page]
    start, end = look["pages"][page]
    ramp = look["ramps"][page]
    if motion == "typewriter":
        typed = math.floor((since + 1) / ramp * sum(len(line["text"]) for _, line in lines))
        poses = []
        for k, line in lines:
            shown = min(typed, len(line["text"]))
            typed -= shown
            if shown > 0:
                poses.append(Pose(k, x + line["x"], y + line["y"], characters=shown))
        return poses
    if motion == "fade":
        alpha = min(1.0, (since + 1) / ramp, (end - start - since) / ramp)
        return [Pose(k, x + line["x"], y + line["y"], alpha=alpha) for k, line in lines if alpha >= FAINTEST]
    scale = ZOOM_FROM + (1 - ZOOM_FROM) * smooth(since / ramp)
    centre_x, centre_y = x + width / 2, y + height / 2
    left, top = centre_x - scale * width / 2, centre_y - scale * height / 2
    return [Pose(k, left + scale * line["x"], top + scale * line["y"], scale) for k, line in lines]


def smooth(u: float) -> float:
    """0 to 1 with no jump of speed at either end; ``u`` is clamped to 0-1."""
    u = min(1.0, max(0.0, u))
    return u * u * (3 - 2 * u)


def camera(look: dict[str, Any], t: float) -> tuple[float, float]:
    """Top left of the view in the wide background, at ``t`` seconds: a slow pan with the bobbing of steps."""
    x0, y0 = look["camera"]["centre"]
    x = x0 + sum(a * math.sin(2 * math.pi * t / period + phase) for a, period, phase in look["camera"]["x"])
    y = y0 + sum(a * math.sin(2 * math.pi * t / period + phase) for a, period, phase in look["camera"]["y"])
    return x, y


def sign_poses(look: dict[str, Any], width: int, height: int, frame: int, fps: int) -> list[Pose]:
    """Poses of the boards that are out on a frame."""
    return [
        _sign_pose(k, sign, camera(look, frame / fps), width, height, frame)
        for k, sign in enumerate(look["signs"])
        if sign["start"] <= frame < sign["end"]
    ]


def _sign_pose(item: int, sign: dict[str, Any], view: tuple[float, float], width: int, height: int, frame: int) -> Pose:
    """A board fixed in the world, except while it comes and goes."""
    x, y = sign["anchor"][0] - view[0], sign["anchor"][1] - view[1]
    board_width, board_height = sign["board"]
    out_in = smooth((frame - sign["start"] + 1) / sign["entry"]["frames"])
    out_out = smooth((sign["end"] - frame) / sign["exit"]["frames"])
    out, kind = min((out_in, sign["entry"]["kind"]), (out_out, sign["exit"]["kind"]))
    if out >= 1:
        return Pose(item, x, y)
    if kind == "grow":
        scale = GROW_FROM + (1 - GROW_FROM) * out
        return Pose(item, x + board_width * (1 - scale) / 2, y + board_height * (1 - scale) / 2, scale)
    far_x = {"left": -board_width, "right": width}.get(kind, x)
    far_y = {"top": -board_height, "bottom": height}.get(kind, y)
    return Pose(item, far_x + (x - far_x) * out, far_y + (y - far_y) * out)


def ink_box(item: dict[str, Any], pose: Pose) -> Box:
    """The box around a text's visible ink on one frame, before clipping."""
    left, top, right, bottom = item["ink"] if pose.characters is None else item["inks"][pose.characters - 1]
    return (
        pose.x + pose.scale * left,
        pose.y + pose.scale * top,
        pose.x + pose.scale * right,
        pose.y + pose.scale * bottom,
    )


def clip(box: Box, width: int, height: int) -> Box | None:
    """The part of a box inside the frame; None when less than a pixel of it is."""
    left, top = max(0.0, box[0]), max(0.0, box[1])
    right, bottom = min(float(width), box[2]), min(float(height), box[3])
    return (left, top, right, bottom) if right - left >= 1 and bottom - top >= 1 else None


def shown_texts(
    items: list[dict[str, Any]], poses: Iterable[list[Pose]], width: int, height: int, fps: int
) -> list[ShownText]:
    """The truth: each item's text with its first and last visible frame's times and its boxes in between.

    Args:
        poses: for each frame from 0 on, the poses of what is visible.
    """
    seen: list[list[tuple[int, Box]]] = [[] for _ in items]
    for frame, present in enumerate(poses):
        for pose in present:
            box = clip(ink_box(items[pose.item], pose), width, height)
            if box:
                seen[pose.item].append((frame, box))
    return [
        ShownText(
            text=item["text"],
            t_start=boxes[0][0] / fps,
            t_end=boxes[-1][0] / fps,
            boxes=[(frame / fps, _rounded(box)) for frame, box in _thinned(boxes, round(LONGEST_GAP_S * fps))],
        )
        for item, boxes in zip(items, seen, strict=True)
        if boxes
    ]


def box_at(shown: ShownText, t: float) -> Box | None:
    """Where a text is at ``t`` seconds: on the straight line between two logged boxes; None when it is not shown."""
    after = next((k for k, (time, _) in enumerate(shown.boxes) if time >= t), None)
    if after is None or (after == 0 and shown.boxes[0][0] > t):
        return None
    (t1, b1), (t0, b0) = shown.boxes[after], shown.boxes[max(0, after - 1)]
    share = (t - t0) / (t1 - t0) if t1 > t0 else 1.0
    left, top, right, bottom = (a + share * (b - a) for a, b in zip(b0, b1, strict=True))
    return left, top, right, bottom


def _rounded(box: Box) -> Box:
    left, top, right, bottom = (round(side, 2) for side in box)
    return left, top, right, bottom


def _thinned(boxes: list[tuple[int, Box]], longest: int) -> list[tuple[int, Box]]:
    """Boxes at the ends, where the speed of a side changes, and at least every ``longest`` frames."""
    kept = [boxes[0]]
    for k in range(1, len(boxes) - 1):
        before, here, after = boxes[k - 1][1], boxes[k][1], boxes[k + 1][1]
        bends = any(abs(a - 2 * b + c) > KINK_PX for a, b, c in zip(before, here, after, strict=True))
        if bends or boxes[k][0] - kept[-1][0] >= longest:
            kept.append(boxes[k])
    return [*kept, boxes[-1]] if len(boxes) > 1 else kept
