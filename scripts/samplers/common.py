"""What all samplers share: the moments of a question, the frames it may see, and the choice nearest to given times.

Every sampler takes ``times``, the presentation times of all frames of one video (seconds, strictly rising, one or
more), and returns frame indices (int64): sorted, distinct, never empty, none later than the question.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

VERSION = 2
"""Raise it when a change of any sampler chooses other frames: all frame plans are made anew."""
TOLERANCE_S = 1e-6
"""Times written with few digits (0.1 s) or made by division (1/30 s) count as equal within this."""


@dataclass(frozen=True)
class Moments:
    """What a sampler may know about one question."""

    t_question: float | None = None
    """When it is asked; None means after the whole video."""
    t_answer: float | None = None
    qa_times: tuple[float, ...] = ()
    evidence: tuple[tuple[float, float], ...] = ()
    """Spans during which what answers the question can be seen."""
    keyframes: Indices | None = None
    """Frame indices of the video's keyframes, sorted."""
    text_amount: dict[int, int] | None = field(default=None, hash=False)
    """Characters that OCR read, by index of each frame that was read."""
    seed: int = 0
    """Of this question, for samplers that draw."""


class LacksMomentError(Exception):
    """The question lacks what the sampler needs: it is counted as ``error:no_<what>``, never sampled in another way."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def allowed(times: Seconds, moments: Moments) -> int:
    """How many frames, from the first, are shown no later than the question; 1 where none is."""
    if moments.t_question is None:
        return len(times)
    return max(1, int(np.searchsorted(times, moments.t_question + TOLERANCE_S, side="right")))


def end(times: Seconds) -> float:
    """When the last frame stops being shown, taking it to stay as long as frames do on average."""
    return float(times[-1] + (times[-1] - times[0]) / max(1, len(times) - 1))


def asked_at(times: Seconds, moments: Moments) -> float:
    """The question's time; before the first frame it counts as that frame's time, after the end as the end."""
    asked = end(times) if moments.t_question is None else moments.t_question
    return float(np.clip(asked, times[0], end(times)))


def within(times: Seconds, limit: int, start: float, stop: float) -> Indices:
    """The frames below index ``limit`` that are shown first within [start, stop]."""
    inside = (times[:limit] >= start - TOLERANCE_S) & (times[:limit] <= stop + TOLERANCE_S)
    return np.flatnonzero(inside).astype(np.int64)


def spread(times: Seconds, candidates: Indices, n: int) -> Indices:
    """min(n, len(candidates)) distinct candidates nearest to evenly spaced times from the first to the last of them.

    One frame alone is the first candidate, as ``linspace`` has it.
    """
    k = min(n, len(candidates))
    shown = times[candidates]
    return candidates[nearest(shown, np.linspace(shown[0], shown[-1], k))] if k else candidates[:0]


def nearest(times: Seconds, targets: Seconds) -> Indices:
    """One distinct index into ``times`` for each of the rising ``targets`` (no more than there are times), rising.

    Each is the nearest to its target, the earlier of two that are equally near. Where that would take a frame twice,
    the choice is the one with the least sum of squared distances, the earliest of those that are equally good.
    """
    after = np.clip(np.searchsorted(times, targets), 1, max(1, len(times) - 1))
    before = after - 1
    if len(times) == 1:
        after = before
    late = times[after] - targets + TOLERANCE_S < targets - times[before]
    chosen = np.where(late, after, before).astype(np.int64)
    return chosen if (np.diff(chosen) > 0).all() else _least_squares(times, targets)


def _least_squares(times: Seconds, targets: Seconds) -> Indices:
    """The strictly rising choice with the least sum of squared distances, by dynamic programming over targets."""
    spare = len(times) - len(targets)
    choices = []
    total = np.zeros(spare + 1)
    for place, target in enumerate(targets):  # target number i can only take frames i ... i + spare
        cost = total + (times[place : place + spare + 1] - target) ** 2
        # total[j] becomes the best over this and all earlier frames, choice[j] which frame gives it
        total = np.minimum.accumulate(cost)
        improves = np.concatenate([[True], cost[1:] < total[:-1]])
        choices.append(np.maximum.accumulate(np.where(improves, np.arange(spare + 1), 0)))
    offset = spare
    chosen = np.empty(len(targets), dtype=np.int64)
    for place in range(len(targets) - 1, -1, -1):
        offset = int(choices[place][offset])
        chosen[place] = place + offset
    return chosen
