"""What a model is asked and what it gives back. An adapter never learns which data set a question comes from.

An answerer takes a stream of requests and gives a stream of replies, drawing a request whenever it has room for it. So
one protocol serves models that answer one question at a time, in batches on a GPU, or many at once over a network.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scripts.lib.errors import EngineError
from scripts.lib.records import OcrFrame


@dataclass(frozen=True)
class Request:
    """One question with what the model may look at."""

    key: str
    """Names the request among those of a run; means nothing else."""
    frames: Sequence[NDArray[np.uint8]] = field(repr=False)
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
    """``ok``, ``unanswerable``, ``refused``, ``truncated`` or ``error:<kind>``."""
    raw: str = ""
    answer: str = ""
    detail: str = ""
    times: Sequence[float] = ()
    """Of the frames that went into the model."""
    times_told: str = ""
    """How the model was told these times: ``each``, ``rate`` (one number for all), ``none``; empty without frames."""
    height: int = 0
    width: int = 0
    visual_tokens: int | None = None
    frames_note: str = ""
    """What the model's own preprocessing did to the frames it was given (resized, dropped, doubled), in one line."""
    batch: int = 1
    """Questions answered together: another number may change a reply in its last digits."""
    seconds: float = 0.0
    """Of this question: its call, or its share of a batch."""
    attempts: int = 1
    tokens_in: int | None = None
    tokens_out: int | None = None
    dollars: float | None = None
    """What the reply cost by the price file; None where nothing is billed."""
    engine: str = ""


Answered: TypeAlias = tuple[Request, Reply]

Answerer: TypeAlias = Callable[[Iterable[Request]], Iterator[Answered]]
"""Answers every request of a stream exactly once, in any order, drawing no more of them than it is working on.

A failure of one question is a reply with an ``error:<kind>`` status, never an answer. EngineError says that no question
can be answered any more (no access, budget reached); what was answered before has been yielded by then.
"""

Loader: TypeAlias = Callable[[dict[str, Any], Path | None, int], Answerer]
"""``load(model, weights, seed)``: the content of the model's YAML, the folder of its weights, the seed for sampling."""

Conditions: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""``conditions(model)``: what beside the YAML can change an answer, say the GPU; part of a cache's fingerprint."""


def one_by_one(answer: Callable[[Request], Reply]) -> Answerer:
    """An answerer that puts each request to ``answer``; its EngineError becomes a reply ``error:engine``."""

    def answers(requests: Iterable[Request]) -> Iterator[Answered]:
        for request in requests:
            start = time.monotonic()
            try:
                reply = answer(request)
            except EngineError as error:
                reply = Reply("error:engine", detail=str(error))
            yield request, replace(reply, seconds=time.monotonic() - start)

    return answers
