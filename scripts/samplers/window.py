"""Over the last seconds before the question: EgoTextVQA's and MyEgo's question-aware sampling.

A question asked after the end of the video counts as asked at the end.
"""

import math

import numpy as np

from scripts.samplers.common import TOLERANCE_S, Indices, Moments, Seconds, allowed, asked_at, nearest, spread, within


def sample_fixed(times: Seconds, moments: Moments, *, seconds: float, n: int) -> Indices:
    """``fixed_<d>s_n``: evenly over the frames of the last ``seconds`` before the question; the last allowed frame
    where none is so recent.
    """
    limit = allowed(times, moments)
    asked = asked_at(times, moments)
    recent = within(times, limit, asked - seconds, asked)
    return spread(times, recent, n) if len(recent) else np.array([limit - 1], dtype=np.int64)


def sample_backward_1fps(times: Seconds, moments: Moments, *, n: int) -> Indices:
    """``backward_1fps_n``: the frames nearest to the question's time and to 1, 2, … seconds before it; at most n,
    none from before the first frame, oldest first.
    """
    limit = allowed(times, moments)
    asked = asked_at(times, moments)
    k = min(n, math.floor(asked - times[0] + TOLERANCE_S) + 1, limit)
    return nearest(times[:limit], asked - np.arange(k - 1, -1, -1.0))
