"""Text-free backgrounds: procedural pictures or the user's own, in sequences joined by dissolves, wipes and slides."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from scripts.lib.errors import ConfigError, DataError
from scripts.synth.sprites import Planes, planes_of, yuv

Pixels = npt.NDArray[np.uint8]
Field = npt.NDArray[np.float32]
KINDS = ("grid", "gradient", "noise")
JOINS = ("dissolve", "wipe", "slide")
DIRECTIONS = ("left", "right", "up", "down")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")


@dataclass(frozen=True)
class Image:
    """A user's picture, named as a scenario names it."""

    file: str
    sha256: str


def images(folder: Path | None) -> list[Image]:
    """The pictures of a user's folder, sorted by name; none for None (procedural).

    Raises:
        ConfigError: the folder is missing or has no picture.
    """
    if folder is None:
        return []
    files = (
        sorted(path for path in Path(folder).iterdir() if path.suffix.lower() in SUFFIXES) if folder.is_dir() else []
    )
    if not files:
        raise ConfigError(
            f"{folder}: no {', '.join(SUFFIXES)} file there; put pictures in it or set `backgrounds: procedural`"
        )
    return [Image(path.name, hashlib.sha256(path.read_bytes()).hexdigest()[:16]) for path in files]


def background_looks(
    rng: Random, tone: str, frames: int, fps: int, each_s: list[float], pictures: Sequence[Image]
) -> dict[str, Any]:
    """Draw which backgrounds follow each other, and how and when they change.

    Args:
        each_s: shortest and longest time one of them stays.
    Returns:
        ``backgrounds`` and ``joins``; join k leads from background k to k + 1 over ``frames`` frames from ``start`` on.
    """
    looks, joins, at = [picture_look(rng, tone, pictures)], [], 0
    while True:
        at += round(fps * rng.uniform(*each_s))
        lasting = round(fps * rng.uniform(0.5, 1.0))
        if at + lasting + fps >= frames:
            return {"backgrounds": looks, "joins": joins}
        kind, direction = rng.choice(JOINS), rng.choice(DIRECTIONS)
        joins.append({"start": at, "frames": lasting, "kind": kind, "direction": direction})
        looks.append(picture_look(rng, tone, pictures))
        at += lasting


def picture_look(rng: Random, tone: str, pictures: Sequence[Image]) -> dict[str, Any]:
    """Draw one background."""
    seed = rng.randrange(2**32)
    if pictures:
        picture = rng.choice(pictures)
        return {"kind": "image", "file": picture.file, "sha256": picture.sha256, "seed": seed}
    return {"kind": rng.choice(KINDS), "tone": tone, "seed": seed}


def picture(look: dict[str, Any], width: int, height: int, folder: Path | None) -> Pixels:
    """The background of a look as RGB, shape (height, width, 3).

    Raises:
        DataError: a user's picture is gone, changed or unreadable.
    """
    import cv2

    if look["kind"] == "image":
        return _photo(look, width, height, folder)
    rng = np.random.default_rng(look["seed"])
    low, high = (15, 115) if look["tone"] == "dark" else (150, 245)
    # smooth pictures: a quarter of the size holds all there is in them, at a sixteenth of the work
    made = _drawn(rng, look["kind"], low, high, -(-width // 4), -(-height // 4))
    pixels: Pixels = cv2.resize(made.astype(np.uint8), (width, height), interpolation=cv2.INTER_LINEAR)
    return pixels


def finished(pixels: Pixels, overlay: dict[str, Any], sigma: float, seed: int) -> Planes:
    """A background under its overlay and one fixed field of Gaussian noise in its luma (new noise on every frame would
    make the encoder four times slower and the file twenty times larger)."""
    import cv2

    levels = np.arange(256)
    share = overlay["alpha"]
    tables = [np.rint((1 - share) * levels + share * part).astype(np.uint8) for part in yuv(overlay["colour"])]
    y, u, v = (cv2.LUT(plane, table) for plane, table in zip(planes_of(pixels), tables, strict=True))
    if sigma:
        field = np.random.default_rng([seed, 1]).standard_normal(y.shape, dtype=np.float32)
        y = cv2.add(y, field * np.float32(sigma), dtype=cv2.CV_8U).astype(np.uint8, copy=False)
    return y, u, v


def _drawn(rng: np.random.Generator, kind: str, low: float, high: float, width: int, height: int) -> Field:
    """A procedural picture, 0-255, shape (height, width, 3)."""
    if kind == "grid":
        return _upsampled(rng.uniform(low, high, (rng.integers(3, 7), rng.integers(4, 10), 3)), width, height)
    if kind == "gradient":
        return _gradient(rng, low, high, width, height)
    return _smooth_noise(rng, low, high, width, height)


def _upsampled(grid: npt.NDArray[np.float64], width: int, height: int) -> Field:
    import cv2

    made: Field = np.clip(cv2.resize(grid.astype(np.float32), (width, height), interpolation=cv2.INTER_CUBIC), 0, 255)
    return made


def _gradient(rng: np.random.Generator, low: float, high: float, width: int, height: int) -> Field:
    stops = rng.uniform(low, high, (3, 3))
    angle = rng.uniform(0, 2 * np.pi)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    along = np.cos(angle) * x / width + np.sin(angle) * y / height
    along = (along - along.min()) / (along.max() - along.min())
    channels = [np.interp(along, (0, 0.5, 1), stops[:, k]) for k in range(3)]
    return np.stack(channels, axis=-1).astype(np.float32)


def _smooth_noise(rng: np.random.Generator, low: float, high: float, width: int, height: int) -> Field:
    """Octaves of random fields, mixing two colours."""
    import cv2

    mix = np.zeros((height, width), np.float32)
    for octave in range(4):
        field = rng.random((2 + 2**octave, 3 + 2**octave), dtype=np.float32)
        mix += cv2.resize(field, (width, height), interpolation=cv2.INTER_CUBIC) / 2**octave
    mix = ((mix - mix.min()) / (mix.max() - mix.min()))[..., None]
    first, second = rng.uniform(low, high, (2, 3)).astype(np.float32)
    made: Field = first + (second - first) * mix
    return made


def _photo(look: dict[str, Any], width: int, height: int, folder: Path | None) -> Pixels:
    """A user's picture, scaled to cover the frame and cut to it around the centre."""
    import cv2

    path = Path(folder or "") / look["file"]
    if not path.is_file():
        raise DataError(f"{path}: the background is gone; put it back or run build_scenarios again")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest()[:16] != look["sha256"]:
        raise DataError(f"{path}: not the picture the scenario was made with; put it back or run build_scenarios again")
    read = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if read is None:
        raise DataError(f"{path}: not readable as a picture; remove it and run build_scenarios again")
    scale = max(width / read.shape[1], height / read.shape[0])
    size = max(width, round(read.shape[1] * scale)), max(height, round(read.shape[0] * scale))
    scaled = cv2.resize(read, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    return np.ascontiguousarray(scaled[top : top + height, left : left + width, ::-1])
