"""Frames of a scenario, composed in planes of YUV 4:2:0 and ready for the encoder."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.lib.records import Scenario
from scripts.synth import backgrounds, fonts, motion, sprites
from scripts.synth.sprites import Area, Plane, Planes

if TYPE_CHECKING:
    import av

Painter = Callable[[int, Planes], None]
"""Draws frame k into planes that still hold the frame it drew last."""


def frames(
    scenario: Scenario, faces: Sequence[fonts.Face], folder: Path | None, count: int | None = None
) -> Iterator["av.VideoFrame"]:
    """Yield the frames of a scenario in order, with their presentation times (1 / fps apart, from 0 on).

    It is one frame, drawn over and over, because most of a picture stays: encode or copy it before asking for the next.

    Args:
        faces: the installed fonts.
        folder: the user's backgrounds, if any.
        count: stop after so many.
    Raises:
        ConfigError: a font that the scenario names is not installed.
        DataError: a user's background is gone or changed.
    """
    import av

    made = rolling_painter if scenario.kind == "rolling" else sign_painter
    paint = made(scenario, faces, folder)
    total = round(scenario.duration_s * scenario.fps)
    frame = av.VideoFrame(scenario.width, scenario.height, "yuv420p")
    planes = _views(frame)
    for k in range(total if count is None else min(count, total)):
        paint(k, planes)
        frame.pts = k
        yield frame


def _views(frame: "av.VideoFrame") -> Planes:
    """Writable arrays over a frame's own memory."""
    y, u, v = (
        np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]  # type: ignore[call-overload]
        for plane in frame.planes
    )
    return y, u, v


class Backdrop:
    """A sequence of backgrounds; holds two at a time, so a long video needs no more memory than a short one."""

    def __init__(self, scenario: Scenario, folder: Path | None) -> None:
        self.look: dict[str, Any] = scenario.look
        self.size, self.folder = (scenario.width, scenario.height), folder
        self._made: dict[int, Planes] = {}

    def _picture(self, k: int) -> Planes:
        if k not in self._made:
            look = self.look["backgrounds"][k]
            plain = backgrounds.picture(look, *self.size, self.folder)
            self._made = {other: planes for other, planes in self._made.items() if other == k - 1}
            self._made[k] = backgrounds.finished(plain, self.look["overlay"], self.look["noise_sigma"], look["seed"])
        return self._made[k]

    def at(self, frame: int) -> int | None:
        """Which background a frame shows, or None while one gives way to the next."""
        k = sum(join["start"] <= frame for join in self.look["joins"])
        return None if k and frame < self.look["joins"][k - 1]["start"] + self.look["joins"][k - 1]["frames"] else k

    def draw(self, frame: int, planes: Planes, part: Area | None = None) -> None:
        """Draw the background of a frame, or ``part`` of it."""
        k = self.at(frame)
        if k is not None:
            for target, source, area in zip(planes, self._picture(k), _parts(part), strict=True):
                target[area] = source[area]
            return
        k = sum(join["start"] <= frame for join in self.look["joins"])
        join = self.look["joins"][k - 1]
        share = (frame - join["start"] + 1) / (join["frames"] + 1)
        for target, old, new in zip(planes, self._picture(k - 1), self._picture(k), strict=True):
            target[...] = joined(join["kind"], join["direction"], old, new, share)


def _parts(area: Area | None) -> list[tuple[slice, slice]]:
    """The slices of Y, U and V that cover an area of the frame."""
    if area is None:
        return [(slice(None), slice(None))] * 3
    left, top, right, bottom = area
    chroma = slice(top // 2, (bottom + 1) // 2), slice(left // 2, (right + 1) // 2)
    return [(slice(top, bottom), slice(left, right)), chroma, chroma]


def joined(kind: str, direction: str, old: Plane, new: Plane, share: float) -> Plane:
    """One plane on the way from ``old`` to ``new``: a dissolve, a wipe, or a slide of the new one over the old one.

    Args:
        direction: where the edge of the new picture moves to.
        share: of the way, 0-1.
    """
    import cv2

    if kind == "dissolve":
        return cv2.addWeighted(new, share, old, 1 - share, 0).astype(np.uint8, copy=False)
    axis = 1 if direction in ("left", "right") else 0
    side = old.shape[axis]
    entered = round(side * share)
    a, b = (np.moveaxis(plane, axis, 0) for plane in (old, new))
    parts = {
        ("wipe", True): (b[:entered], a[entered:]),
        ("wipe", False): (a[: side - entered], b[side - entered :]),
        ("slide", True): (b[side - entered :], a[: side - entered]),
        ("slide", False): (a[entered:], b[:entered]),
    }[kind, direction in ("right", "down")]
    return np.moveaxis(np.concatenate(parts), 0, axis)


def rolling_painter(scenario: Scenario, faces: Sequence[fonts.Face], folder: Path | None) -> Painter:
    """Draws a rolling text over its backgrounds; only what the text covered before is drawn anew where nothing else
    changes."""
    look: dict[str, Any] = scenario.look
    face = fonts.resolve(faces, look["font"]["family"], look["font"]["file"])
    font = fonts.load(face.path, look["font"]["size"])
    backdrop = Backdrop(scenario, folder)
    made: dict[int, sprites.Sprite] = {}
    shown: tuple[int | None, list[motion.Pose]] = None, []
    covered: list[Area] = []

    def sprite(k: int) -> sprites.Sprite:
        if k not in made:
            page = look["lines"][k]["page"]
            for other in [other for other in made if look["lines"][other]["page"] < page]:
                del made[other]
            made[k] = sprites.text_sprite(
                font, look["lines"][k]["text"], look["colour"], look["opacity"], look["shadow"]
            )
        return made[k]

    def paint(frame: int, planes: Planes) -> None:
        nonlocal shown, covered
        poses, back = motion.rolling_poses(look, scenario.width, scenario.height, frame), backdrop.at(frame)
        if back is not None and shown == (back, poses):
            return
        if back is None or back != shown[0]:
            backdrop.draw(frame, planes)
        elif covered:
            lefts, tops, rights, bottoms = zip(*covered, strict=True)
            backdrop.draw(frame, planes, (min(lefts), min(tops), max(rights), max(bottoms)))
        drawn = [_draw_line(sprite(pose.item), look["lines"][pose.item], pose, planes) for pose in poses]
        covered = [area for area in drawn if area]
        shown = back, poses

    return paint


def _draw_line(sprite: sprites.Sprite, line: dict[str, Any], pose: motion.Pose, planes: Planes) -> Area | None:
    if pose.scale < 1:
        return sprite.blit_scaled(planes, pose.x, pose.y, pose.scale)
    if pose.characters is not None and pose.characters < len(line["text"]):
        return sprite.blit(planes, pose.x, pose.y, width=line["inks"][pose.characters - 1][2])
    return sprite.blit(planes, pose.x, pose.y, pose.alpha)


def sign_painter(scenario: Scenario, faces: Sequence[fonts.Face], folder: Path | None) -> Painter:
    """Draws the view of a moving camera on a wide background with boards in it."""
    look: dict[str, Any] = scenario.look
    plain = backgrounds.picture(look["background"], *look["world"], folder)
    luma, *wide = backgrounds.finished(plain, look["overlay"], look["noise_sigma"], look["background"]["seed"])
    # the view starts at any pixel, and a chroma sample covers two: one variant for each parity
    chroma = {(x, y): [shifted(plane, x, y) for plane in wide] for x in (0, 1) for y in (0, 1)}
    made: dict[int, sprites.Sprite] = {}

    def sprite(k: int) -> sprites.Sprite:
        if k not in made:
            named = look["signs"][k]["font"]
            face = fonts.resolve(faces, named["family"], named["file"])
            made[k] = sprites.sign_sprite(fonts.load(face.path, named["size"]), look["signs"][k])
        return made[k]

    def paint(frame: int, planes: Planes) -> None:
        view_x, view_y = motion.camera(look, frame / scenario.fps)
        x, y = round(view_x), round(view_y)
        planes[0][...] = luma[y : y + scenario.height, x : x + scenario.width]
        rows, columns = slice(y // 2, y // 2 + scenario.height // 2), slice(x // 2, x // 2 + scenario.width // 2)
        for target, source in zip(planes[1:], chroma[x & 1, y & 1], strict=True):
            target[...] = source[rows, columns]
        # a board moves by whole pixels with the view, or it would tremble against the wall behind it
        for pose in motion.sign_poses(look, scenario.width, scenario.height, frame, scenario.fps):
            if pose.scale < 1:
                sprite(pose.item).blit_scaled(planes, pose.x, pose.y, pose.scale)
            else:
                sprite(pose.item).blit(planes, pose.x + view_x - x, pose.y + view_y - y)

    return paint


def shifted(plane: Plane, x: int, y: int) -> Plane:
    """A chroma plane moved left by ``x`` and up by ``y`` pixels of luma (0 or 1): half a sample is the mean of two."""
    across = _mean(plane, np.roll(plane, -1, 1)) if x else plane
    return _mean(across, np.roll(across, -1, 0)) if y else across


def _mean(first: Plane, second: Plane) -> Plane:
    import cv2

    return cv2.addWeighted(first, 0.5, second, 0.5, 0).astype(np.uint8, copy=False)
