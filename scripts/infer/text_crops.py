"""Scene text enlarged on frames whose size stays (EgoTextVQA section 5 Q3, Table 6): cut, enlarge, put back.

A text is cut along its own line from the shrunken frame, enlarged to the model's input size, and put back over itself
at ``scale`` times its size, around its own centre. In between the enlarged pictures are in a *crops file*: a zip with
one PNG each and ``index.jsonl``, a line per frame that was looked at.
"""

import functools
import hashlib
import json
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scripts.lib import jsonl
from scripts.lib.cache import fingerprint
from scripts.lib.errors import DataError
from scripts.lib.files import atomic_path
from scripts.lib.records import Id, OcrFrame, Record

VERSION = 1
"""Raise it when a code change can change what is cut, enlarged or put back: it belongs to the key of an answer."""
SMALLEST = 4
"""Pixels: of a text with a shorter side nothing could be made out on the shrunken frame."""
FINER = 2
"""Samples per pixel of a slanted text where it is turned: at one, turning alone would blur it."""
ON_END = 1.5
"""From this height for its width on, a text is a line that stands on end: it is laid down, as OCR engines do."""
INDEX = "index.jsonl"
DAY_ONE = (1980, 1, 1, 0, 0, 0)

Image = npt.NDArray[np.uint8]
Quad = npt.NDArray[np.float64]
"""Corners of a rectangle, 4 x 2 (x, y), clockwise from the text's top left. Pixel i covers i to i + 1."""


@dataclass(frozen=True)
class Piece:
    """A text as it is on a frame."""

    quad: Quad
    """In pixels of the shrunken frame."""
    image: Image
    """Height x width x 3, RGB; a slanted text has ``FINER`` samples per pixel."""
    text: str
    """As the OCR read it."""


@dataclass(frozen=True)
class Crop:
    """An enlarged text and where it belongs."""

    quad: Quad
    """Where the text was on the shrunken frame, in its pixels."""
    image: Image
    """Height x width x 3, RGB."""
    frame_size: tuple[int, int]
    """Height and width of that frame."""


class Place(Record):
    """Where one picture of a crops file belongs."""

    quad: list[tuple[float, float]]
    name: str
    """Of the PNG, without suffix: the digest of its pixels."""


class FrameCrops(Record):
    """A line of ``index.jsonl``: all enlarged texts of one frame; an empty list says that it was read and has none."""

    video: Id
    frame: int
    height: int = 0
    width: int = 0
    """Of the shrunken frame; 0 where nothing was cut."""
    crops: list[Place]


def cut(frame: Image, read: OcrFrame) -> tuple[list[Piece], int]:
    """The texts of one frame, each along its own line, and how many were left out as too small or outside the picture.

    Args:
        frame: the shrunken frame, height x width x 3, RGB.
        read: its text, with boxes in pixels of the source frame; the aspect may differ (``square`` resolutions).
    """
    height, width = frame.shape[:2]
    pieces = []
    for box in read.boxes:
        polygon = np.array(box.polygon, np.float64) * (width / read.width, height / read.height)
        quad = rectangle(polygon)
        across, down = sides(quad)
        x, y = quad.mean(axis=0)
        if min(across, down) >= SMALLEST and 0 <= x < width and 0 <= y < height:
            pieces.append(Piece(quad, _lifted(frame, quad), box.text))
    return pieces, len(read.boxes) - len(pieces)


def rectangle(polygon: npt.NDArray[np.float64]) -> Quad:
    """The rectangle along a text's line around its polygon (n x 2 corners).

    Of four corners the first two are the text's upper edge; any other number gets an upright rectangle. One that rises
    by less than a pixel over its length is upright too, on whole pixels, so that cutting it resamples nothing. A line
    that stands on end begins at its upper right corner: it reads from above.
    """
    along = polygon[1] - polygon[0] + polygon[2] - polygon[3] if len(polygon) == 4 else np.zeros(2)
    length = float(np.hypot(*along))
    right = along / length if length else np.array([1.0, 0.0])
    down = np.array([-right[1], right[0]])
    reach = polygon @ np.stack([right, down], axis=1)
    (left, top), (end, bottom) = reach.min(axis=0), reach.max(axis=0)
    slant = min(abs(right))
    if slant * max(end - left, bottom - top) < 1:
        right, down = np.round(right), np.round(down)
        reach = polygon @ np.stack([right, down], axis=1)
        (left, top), (end, bottom) = np.floor(reach.min(axis=0) + 1e-6), np.ceil(reach.max(axis=0) - 1e-6)
    corners = [(left, top), (end, top), (end, bottom), (left, bottom)]
    quad = np.array([x * right + y * down for x, y in corners]).round(2) + 0.0
    return np.roll(quad, -1, axis=0) if bottom - top >= ON_END * (end - left) else quad


def on_pixels(quad: Quad) -> bool:
    """Whether a rectangle is upright on whole pixels."""
    return bool((np.round(quad) == quad).all())


def sides(quad: Quad) -> tuple[float, float]:
    """Length along the text and height across it, in pixels."""
    return float(np.hypot(*(quad[1] - quad[0]))), float(np.hypot(*(quad[3] - quad[0])))


def _lifted(frame: Image, quad: Quad) -> Image:
    """What a rectangle of the frame shows, laid straight; beyond the border the last pixels go on."""
    import cv2

    finer = 1 if on_pixels(quad) else FINER
    width, height = (round(finer * side) for side in sides(quad))
    x = (np.arange(width) + 0.5) / width
    y = ((np.arange(height) + 0.5) / height)[:, None]
    at = quad[0] + x[None, :, None] * (quad[1] - quad[0]) + y[:, :, None] * (quad[3] - quad[0]) - 0.5
    return _sampled(frame, at[..., 0], at[..., 1], cv2.INTER_CUBIC)


def _sampled(image: Image, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], how: int) -> Image:
    import cv2

    found = cv2.remap(image, x.astype(np.float32), y.astype(np.float32), how, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(found, np.uint8)


def enlarge_lanczos(patch: Image, height: int, width: int) -> Image:
    """A text (height x width x 3) by Lanczos interpolation over 8 x 8 pixels; a side that is longer already stays."""
    return fit(patch, max(height, patch.shape[0]), max(width, patch.shape[1]))


def fit(image: Image, height: int, width: int) -> Image:
    """A picture at this size: sides that shrink are averaged, those that grow are interpolated (Lanczos)."""
    import cv2

    # In two steps, because areas are averaged only where both sides shrink
    least = min(height, image.shape[0]), min(width, image.shape[1])
    if least != image.shape[:2]:
        image = np.asarray(cv2.resize(image, least[::-1], interpolation=cv2.INTER_AREA), np.uint8)
    if (height, width) != image.shape[:2]:
        image = np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_LANCZOS4), np.uint8)
    return image


def paste(frame: Image, crops: Sequence[Crop], scale: float) -> Image:
    """The frame with every text over itself, ``scale`` times its size around its own centre (Table 6, column Scale).

    Larger texts go first, so that none hides a smaller one. Pixels outside the scaled rectangles stay as they are.

    Args:
        frame: height x width x 3, RGB; it is not changed.

    Raises:
        DataError: a text was cut from a frame of another size.
    """
    shown = frame.copy()
    for crop in sorted(crops, key=lambda crop: -float(np.prod(sides(crop.quad)))):
        if crop.frame_size != frame.shape[:2]:
            was, now = ("x".join(map(str, size)) for size in (crop.frame_size, frame.shape[:2]))
            raise DataError(f"enlarged text of a frame of {was} pixels on one of {now}; rerun build_text_crops")
        _put(shown, crop, scale)
    return shown


def _put(frame: Image, crop: Crop, scale: float) -> None:
    """Write one text into the frame."""
    import cv2

    centre = crop.quad.mean(axis=0)
    quad = centre + scale * (crop.quad - centre)
    if on_pixels(crop.quad):  # it stays so
        quad = np.round(quad)
    across, down = sides(quad)
    if not across or not down:
        return
    finer = 1 if on_pixels(quad) else FINER
    image = fit(crop.image, max(1, round(finer * down)), max(1, round(finer * across)))
    left, top = np.clip(np.floor(quad.min(axis=0)).astype(int), 0, None)
    right, bottom = np.minimum(np.ceil(quad.max(axis=0)).astype(int), frame.shape[1::-1])
    if right <= left or bottom <= top:
        return
    x, y = np.meshgrid(np.arange(left, right) + 0.5 - quad[0][0], np.arange(top, bottom) + 0.5 - quad[0][1])
    along, across_it = (quad[1] - quad[0]) / across, (quad[3] - quad[0]) / down
    u, v = x * along[0] + y * along[1], x * across_it[0] + y * across_it[1]
    inside = (u >= 0) & (u < across) & (v >= 0) & (v < down)
    drawn = _sampled(image, u * image.shape[1] / across - 0.5, v * image.shape[0] / down - 0.5, cv2.INTER_LINEAR)
    frame[top:bottom, left:right][inside] = drawn[inside]


@dataclass(frozen=True)
class Packed:
    """One text as it goes between processes and into a crops file."""

    quad: Quad
    name: str
    png: bytes
    text: str


def pack(quad: Quad, image: Image, text: str) -> Packed:
    """A text with its picture (height x width x 3, RGB) as PNG; the name depends on its pixels alone."""
    import cv2

    name = hashlib.sha256(f"{image.shape}".encode() + np.ascontiguousarray(image).tobytes()).hexdigest()[:32]
    return Packed(quad, name, cv2.imencode(".png", image[:, :, ::-1])[1].tobytes(), text)


def unpack(png: bytes) -> Image:
    """The picture (height x width x 3, RGB) of a PNG.

    Raises:
        DataError: not a PNG.
    """
    import cv2

    found = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR) if png else None
    if found is None:
        raise DataError("not a PNG")
    return np.ascontiguousarray(found[:, :, ::-1])


@dataclass(frozen=True)
class Cut:
    """All texts of one frame on their way into a crops file."""

    video: str
    frame: int
    size: tuple[int, int]
    """Height and width of the shrunken frame; zeros where it has no text and was not decoded."""
    crops: list[Packed]

    @property
    def line(self) -> FrameCrops:
        places = [Place(quad=[(float(x), float(y)) for x, y in crop.quad], name=crop.name) for crop in self.crops]
        height, width = self.size
        return FrameCrops(video=self.video, frame=self.frame, height=height, width=width, crops=places)


def write(path: Path, frames: Iterable[Cut]) -> None:
    """Write a crops file, whole or not at all; the same frames in the same order give the same bytes."""
    lines, names = [], set()
    with atomic_path(Path(path)) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as file:
        for frame in frames:
            lines.append(frame.line.model_dump_json() + "\n")
            for crop in frame.crops:
                if crop.name not in names:
                    names.add(crop.name)
                    file.writestr(_entry(f"{crop.name}.png"), crop.png)
        file.writestr(_entry(INDEX), "".join(lines))


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, DAY_ONE)
    entry.external_attr = 0o644 << 16
    return entry


class Crops:
    """A crops file open for reading: its index in memory, pictures from disk when asked for. Pickles as its path.

    Raises:
        DataError: no such file, or not a crops file.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._lines: dict[tuple[str, int], bytes] = {}
        try:
            self._zip = zipfile.ZipFile(self.path)
            for line in self._zip.read(INDEX).splitlines():
                about = json.loads(line)
                self._lines[about["video"], about["frame"]] = line  # the rest is read when asked for: it is large
        except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
            why = "no such file" if isinstance(error, FileNotFoundError) else "not a file of enlarged texts"
            raise DataError(f"{self.path}: {why}; rerun build_text_crops") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return open_crops, (self.path,)

    def of(self, video: str, frame: int) -> list[Crop]:
        """The enlarged texts of a frame; empty where it was read and has none.

        Raises:
            DataError: the frame's text was never cut, or its picture is broken.
        """
        line = self._line(video, frame)
        if line is None:
            why = "its text was not read, it could not be decoded, or the frames were planned anew"
            raise DataError(f"{self.path}: no frame {frame} of {video}: {why}; rerun build_text_crops")
        return [Crop(np.array(place.quad), self._image(place.name), (line.height, line.width)) for place in line.crops]

    def identity(self, video: str, frames: Sequence[int]) -> str:
        """16 hex digits of what would be put on these frames; one that is missing counts as such and raises nothing."""
        lines = [self._lines.get((video, frame)) for frame in frames]
        return fingerprint(VERSION, [line and line.decode() for line in lines])

    def _line(self, video: str, frame: int) -> FrameCrops | None:
        found = self._lines.get((video, frame))
        return found and jsonl.parse(FrameCrops, found.decode(), f"{self.path}: {INDEX}")

    def _image(self, name: str) -> Image:
        try:
            return unpack(self._zip.read(f"{name}.png"))
        except (OSError, zipfile.BadZipFile, KeyError, DataError):
            raise DataError(f"{self.path}: {name}.png is missing or broken; rerun build_text_crops") from None


def open_crops(path: Path) -> Crops:
    """A crops file, opened once per process however often it is asked for.

    Raises:
        DataError: as ``Crops``.
    """
    path = Path(path)
    about = path.stat() if path.is_file() else None
    return _opened(path, about and (about.st_ino, about.st_mtime_ns, about.st_size))


@functools.lru_cache(maxsize=4)
def _opened(path: Path, _state: tuple[int, int, int] | None) -> Crops:
    return Crops(path)
