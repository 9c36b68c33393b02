"""What a model is asked and what it gives back. An adapter never learns which data set a question comes from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scripts.lib.records import OcrFrame


@dataclass(frozen=True)
class Request:
    """One question with what the model may look at."""

    frames: Sequence[NDArray[np.uint8]]
    """Upright RGB, height x width x 3, oldest first; empty for models that read text only and for blind prompts."""
    times: Sequence[float]
    """Presentation time of each sampled frame in seconds, also where ``frames`` is empty because only text is read."""
    system: str
    """System message; empty for none."""
    prompt: str
    """The finished user message."""
    question: str
    options: Sequence[str] | None
    """Texts without letters where a letter is asked for; None for an open answer."""
    ocr: Sequence[OcrFrame] | None = None
    """The text on each sampled frame, for models that need ``ocr``."""


@dataclass(frozen=True)
class Reply:
    """What came back. Sizes and times are those really used, after the model's own preprocessing."""

    status: str
    """``ok``, ``unanswerable``, ``truncated`` or ``error:<kind>``."""
    raw: str = ""
    answer: str = ""
    detail: str = ""
    times: Sequence[float] = ()
    height: int = 0
    width: int = 0
    visual_tokens: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    engine: str = ""


Answerer: TypeAlias = Callable[[Request], Reply]
"""Answers one request. Raises EngineError when the engine fails; never turns a failure into an answer."""

Loader: TypeAlias = Callable[[dict[str, Any], Path | None, int], Answerer]
"""``load(model, weights, seed)``: the content of the model's YAML, the folder of its weights, the seed for sampling."""

Conditions: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""``conditions(model)``: what beside the YAML can change an answer, say the GPU; part of a cache's fingerprint."""
