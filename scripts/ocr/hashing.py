"""How much two frames differ: a hash of the whole picture, and a measure that also sees small text.

The 64-bit hash answers "is this another scene?". A word of small letters can move or change without a bit of it
changing, so "can no text have changed?" is asked of every tile of the picture.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Luma = npt.NDArray[np.uint8]
"""Brightness, height x width."""
Hash = npt.NDArray[np.bool_]
"""64 bits."""


def luma(frame: npt.NDArray[np.uint8]) -> Luma:
    """Brightness of an RGB frame (height x width x 3)."""
    import cv2

    return np.asarray(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY))


def perceptual_hash(plane: Luma) -> Hash:
    """Which of the 64 lowest frequencies lie above their median, in two stages: averaging at once from the full size to
    32 x 32 costs five times as much."""
    import cv2

    half = cv2.resize(plane, (320, 180), interpolation=cv2.INTER_AREA)
    small = cv2.resize(half, (32, 32), interpolation=cv2.INTER_AREA)
    low = cv2.dct(small.astype(np.float32))[:8, :8].ravel()
    return np.asarray(low > np.median(low))


def hamming(a: Hash, b: Hash) -> int:
    """Number of bits that differ."""
    return int(np.count_nonzero(a != b))


def tile_difference(a: Luma, b: Luma, tile: int) -> float:
    """Largest mean absolute difference of a ``tile`` x ``tile`` square, 0-255; infinite for planes of unlike size."""
    import cv2

    if a.shape != b.shape:
        return float("inf")
    height, width = a.shape
    size = (max(1, round(width / tile)), max(1, round(height / tile)))
    return float(cv2.resize(cv2.absdiff(a, b), size, interpolation=cv2.INTER_AREA).max())


def find_alike(plane: Luma, seen: Iterable[tuple[int, Luma]], alike: dict[str, Any]) -> int | None:
    """The number of a frame already read from which this one can hold no other text, or None.

    Args:
        seen: (number, brightness) of the frames read so far; the first that fits is taken.
        alike: the ``alike`` part of config/ocr.yaml.
    """
    for number, other in seen:
        if tile_difference(plane, other, alike["tile"]) <= alike["max_difference"]:
            return number
    return None
