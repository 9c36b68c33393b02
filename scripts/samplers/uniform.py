"""Evenly over everything before the question (all three papers' base line)."""

import math

import numpy as np

from scripts.samplers.common import TOLERANCE_S, Indices, Moments, Seconds, allowed, end, spread


def sample(times: Seconds, moments: Moments, *, n: int) -> Indices:
    """``uniform_n``: min(n, M) of the M allowed frames, nearest to evenly spaced times from the first to the last."""
    return spread(times, np.arange(allowed(times, moments)), n)


def sample_fps1(times: Seconds, moments: Moments, *, n: int) -> Indices:
    """``uniform_fps1_n``: as uniform, with no more frames than whole seconds from the first frame to the question
    (MyEgo: at most one frame a second, at most 32). The count takes the question's time as annotated, even where it
    is past the end.
    """
    asked = end(times) if moments.t_question is None else moments.t_question
    seconds = math.floor(asked - times[0] + TOLERANCE_S)
    return sample(times, moments, n=min(n, max(1, seconds)))
