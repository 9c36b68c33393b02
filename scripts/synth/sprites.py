"""Drawn text and boards as premultiplied planes of YUV 4:2:0, blended straight into an encoder's frames.

Working in the encoder's own planes costs a fraction of what conversion from RGB does. BT.601, limited range.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL import ImageFont

Plane = npt.NDArray[np.uint8]
Planes = tuple[Plane, Plane, Plane]
"""Y (height, width), then U and V (height / 2, width / 2)."""
Field = npt.NDArray[np.float32]
Weights = npt.NDArray[np.uint16]

Area = tuple[int, int, int, int]
"""Left, top, right, bottom of a part of the frame, in whole pixels."""

OPAQUE = 256
"""Alpha runs 0-256, so that a weight of 256 leaves a pixel untouched and one multiplication and one shift blend it."""


def planes_of(rgb: Plane) -> Planes:
    """An RGB picture of even size as planes."""
    import cv2

    height, width = rgb.shape[:2]
    packed = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV_I420)
    chroma = packed[height:].reshape(2, height // 2, width // 2)
    return packed[:height], chroma[0], chroma[1]


@dataclass
class Layer:
    """One plane of a sprite: ``out = (in * keep + add) >> 8``, element by element."""

    keep: Weights
    add: Weights

    def resized(self, width: int, height: int) -> "Layer":
        """The layer at another size, for growing and zooming."""
        import cv2

        shrinks = width * 2 <= self.keep.shape[1]
        how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        size = (width, height)
        return Layer(cv2.resize(self.keep, size, interpolation=how), cv2.resize(self.add, size, interpolation=how))

    def blend(self, plane: Plane, x: int, y: int, alpha: float = 1.0, width: int | None = None) -> Area | None:
        """Draw into ``plane`` with the top left at (x, y), clipped; only the first ``width`` columns when given.

        Returns the area drawn in, None when all of it is outside.
        """
        import cv2

        height, full = self.keep.shape
        x0, y0 = max(0, x), max(0, y)
        x1 = min(plane.shape[1], x + (full if width is None else min(full, width)))
        y1 = min(plane.shape[0], y + height)
        if x1 <= x0 or y1 <= y0:
            return None
        part = slice(y0 - y, y1 - y), slice(x0 - x, x1 - x)
        target = plane[y0:y1, x0:x1]
        mixed = np.multiply(target, self.keep[part], dtype=np.uint16)
        mixed += self.add[part]
        mixed >>= 8
        if alpha < 1:
            target[...] = cv2.addWeighted(mixed.astype(np.uint8), alpha, target, 1 - alpha, 0)
        else:
            target[...] = mixed
        return x0, y0, x1, y1


@dataclass
class Sprite:
    """A drawn picture with transparency.

    Attributes:
        alpha: 0-1, shape (height, width).
        colours: Y, U and V, each multiplied by alpha, of the same shape.
        offset: of its top left from the item's own origin, in px.
        layers: by (column parity, row parity): at an odd position the chroma samples average other pixels.
    """

    alpha: Field
    colours: tuple[Field, Field, Field]
    offset: tuple[int, int]
    luma: Layer = field(init=False)
    layers: dict[tuple[int, int], tuple[Layer, Layer]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.luma = _layer(self.alpha, self.colours[0])

    def chroma(self, x: int, y: int) -> tuple[Layer, Layer]:
        """U and V for a sprite whose top left is at (x, y) of the frame."""
        parity = x & 1, y & 1
        if parity not in self.layers:
            alpha = _halved(self.alpha, *parity)
            u, v = (_layer(alpha, _halved(colour, *parity)) for colour in self.colours[1:])
            self.layers[parity] = u, v
        return self.layers[parity]

    def blit(self, planes: Planes, x: float, y: float, alpha: float = 1.0, width: float | None = None) -> Area | None:
        """Draw with the item's origin at (x, y); ``width`` px from the item's origin when it is cut short.

        Returns the area drawn in.
        """
        left, top = round(x) + self.offset[0], round(y) + self.offset[1]
        columns = None if width is None else round(width) - self.offset[0]
        area = self.luma.blend(planes[0], left, top, alpha, columns)
        half = None if columns is None else (columns + (left & 1) + 1) // 2
        for layer, plane in zip(self.chroma(left, top), planes[1:], strict=True):
            layer.blend(plane, left // 2, top // 2, alpha, half)
        return area

    def blit_scaled(self, planes: Planes, x: float, y: float, scale: float) -> Area | None:
        """Draw at another size, on even positions (half a chroma sample is not seen on something that grows)."""
        height, width = self.luma.keep.shape
        half_width, half_height = max(1, round(width * scale / 2)), max(1, round(height * scale / 2))
        left, top = round((x + scale * self.offset[0]) / 2), round((y + scale * self.offset[1]) / 2)
        area = self.luma.resized(2 * half_width, 2 * half_height).blend(planes[0], 2 * left, 2 * top)
        for layer, plane in zip(self.chroma(0, 0), planes[1:], strict=True):
            layer.resized(half_width, half_height).blend(plane, left, top)
        return area


def yuv(rgb: Sequence[int]) -> tuple[float, float, float]:
    """A colour as (Y, U, V)."""
    red, green, blue = (part / 255 for part in rgb)
    return (
        16 + 65.481 * red + 128.553 * green + 24.966 * blue,
        128 - 37.797 * red - 74.203 * green + 112.0 * blue,
        128 + 112.0 * red - 93.786 * green - 18.214 * blue,
    )


def _halved(plane: Field, left: int, top: int) -> Field:
    """Means of 2 x 2 pixels, after ``left`` empty columns and ``top`` empty rows."""
    import cv2

    height, width = plane.shape
    right, bottom = (width + left) & 1, (height + top) & 1
    padded = cv2.copyMakeBorder(plane, top, bottom, left, right, cv2.BORDER_CONSTANT, value=0.0)
    made: Field = cv2.resize(padded, (padded.shape[1] // 2, padded.shape[0] // 2), interpolation=cv2.INTER_AREA)
    return made


def _layer(alpha: Field, premultiplied: Field) -> Layer:
    whole = np.rint(alpha * OPAQUE)
    # the half that rounds the blend's shift is baked into what is added; more than 255 * alpha would overflow
    add = np.minimum(premultiplied * OPAQUE, 255 * whole) + 128
    return Layer((OPAQUE - whole).astype(np.uint16), add.astype(np.uint16))


def _painted(masks: Sequence[Field], paints: Sequence[Sequence[int]], offset: tuple[int, int]) -> Sprite:
    """Coloured masks, which add up to at most 1 at each pixel, cut to where there is any."""
    alpha = sum(masks[1:], masks[0])
    seen = alpha >= 1 / 255
    rows, columns = np.flatnonzero(seen.any(1)), np.flatnonzero(seen.any(0))
    cut = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)) if rows.size else (slice(0), slice(0))
    colours = [yuv(paint) for paint in paints]
    y, u, v = (
        sum((mask[cut] * np.float32(colour[k]) for mask, colour in zip(masks, colours, strict=True)), np.float32(0))
        for k in range(3)
    )
    start = (int(columns[0]), int(rows[0])) if rows.size else (0, 0)
    return Sprite(alpha[cut], (y, u, v), (offset[0] + start[0], offset[1] + start[1]))


def _drawn(font: "ImageFont.FreeTypeFont", text: str, size: tuple[int, int], at: tuple[int, int], blur: float) -> Field:
    """A text as coverage 0-1, blurred by ``blur`` px."""
    import cv2
    from PIL import Image, ImageDraw

    canvas = Image.new("L", size)
    ImageDraw.Draw(canvas).text(at, text, font=font, fill=255)
    made = np.asarray(canvas, np.float32) / 255
    return cv2.GaussianBlur(made, (0, 0), blur) if blur else made  # type: ignore[return-value]


def text_sprite(
    font: "ImageFont.FreeTypeFont", text: str, colour: list[int], opacity: float, shadow: dict[str, Any] | None
) -> Sprite:
    """One line of text over its shadow, cut to what is visible; the item's origin is where the font starts to draw."""
    left, top, right, bottom = (round(side) for side in font.getbbox(text))
    blur, drop = (shadow["blur"], shadow["offset"]) if shadow else (0, 0)
    pad = 2 + drop + round(3 * blur)
    size, at = (right - left + 2 * pad, bottom - top + 2 * pad), (pad - left, pad - top)
    masks, paints = [_drawn(font, text, size, at, 0) * np.float32(opacity)], [colour]
    if shadow:
        cast = _drawn(font, text, size, (at[0] + drop, at[1] + drop), blur)
        masks.append(cast * np.float32(shadow["alpha"]) * (1 - masks[0]))
        paints.append(shadow["colour"])
    return _painted(masks, paints, (left - pad, top - pad))


def sign_sprite(font: "ImageFont.FreeTypeFont", sign: dict[str, Any]) -> Sprite:
    """A painted board with its border and one line of text; the item's origin is the board's top left."""
    from PIL import Image, ImageDraw

    paint, (width, height) = sign["paint"], sign["board"]
    border = paint["border"]
    outline, letters = Image.new("L", (width, height)), Image.new("L", (width, height))
    ImageDraw.Draw(outline).rounded_rectangle((0, 0, width - 1, height - 1), 3 * border, fill=255)
    drawn = ImageDraw.Draw(letters)
    inner = (border, border, width - 1 - border, height - 1 - border)
    drawn.rounded_rectangle(inner, 2 * border, outline=255, width=border)
    drawn.text(tuple(sign["origin"]), sign["text"], font=font, fill=255)
    board, ink = (np.asarray(mask, np.float32) / 255 for mask in (outline, letters))
    return _painted([board * ink, board * (1 - ink)], [paint["letters"], paint["board"]], (0, 0))
