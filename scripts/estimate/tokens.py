"""Tokens of one question: what a model reads and writes, and so what an API bills."""

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass

from scripts.estimate.sizes import Yaml


@dataclass(frozen=True)
class Tokens:
    """Of one question."""

    frames: float = 0
    """Visual tokens."""
    text: float = 0
    """Prompt, question and told text; 0 for models whose file doesn't say, which is only asked of APIs."""
    new: float = 0
    """Of the reply, thoughts included."""
    most_new: float = 0
    """Where the reply is cut."""

    @property
    def read(self) -> float:
        return self.frames + self.text

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))

    def times(self, count: float) -> "Tokens":
        """Of so many questions."""
        return Tokens(*(count * each for each in astuple(self)))


def visual_tokens(model: Yaml, take: Callable[[str], float], frames: float, pixels: Callable[[], float]) -> float:
    """Of one question.

    Args:
        take: a figure of the model's ``cost``, by its key.
        frames: that the model sees.
        pixels: of one of them, before the model's own limits; asked only where they matter.
    """
    cost = model["cost"]
    if not frames or not {"tokens_per_frame", "pixels_per_token"} & set(cost):
        return 0.0
    if "tokens_per_frame" in cost:
        each = take("tokens_per_frame")
    else:
        limits = model.get("input", {})
        used = max(limits.get("min_pixels", 0), min(pixels(), limits.get("max_pixels", math.inf)))
        each = used / take("pixels_per_token")
    shared = take("frames_per_token") if "frames_per_token" in cost else 1.0
    # The last of an odd number of frames stands twice.
    return each * (math.ceil(frames / shared) if shared > 1 else frames)
