"""Means over questions with intervals that know that the questions of one video are not independent.

Bootstrap over videos (clusters): a draw takes as many videos as there are, with replacement, and averages over all of
their questions (micro). EgoTextVQA has up to 17 questions on one video: an interval over questions would be too narrow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
CHUNK_COUNTS = 2_000_000
"""Counts held at a time (16 bytes each): bounds memory whatever the number of videos and draws."""


@dataclass(frozen=True)
class Interval:
    """A micro mean and its 95 % percentile interval; with one video the interval is the point (see ``n_videos``)."""

    value: float
    low: float
    high: float
    n: int
    n_videos: int


@dataclass(frozen=True)
class Difference:
    """Mean of a − b over the questions scored in both, its 95 % interval and two-sided p."""

    value: float
    low: float
    high: float
    p: float
    n: int
    n_videos: int


def bootstrap(
    values: Sequence[Sequence[float]] | Floats, videos: Sequence[str], draws: int, seed: int
) -> list[Interval]:
    """One interval per column of ``values``, all columns on the same draws.

    Args:
        values: questions × metrics.
        videos: the video of each question.

    Returns:
        As many intervals as metrics; none at all when there is no question.
    """
    if not len(videos):
        return []
    sums, counts = _by_video(np.asarray(values, dtype=np.float64), videos)
    points = sums.sum(axis=0) / counts.sum()
    means = _draw_means(sums, counts, draws, seed) if len(counts) > 1 else points[None, :]
    lows, highs = _percentiles(means)
    return [
        Interval(float(point), float(low), float(high), len(videos), len(counts))
        for point, low, high in zip(points, lows, highs, strict=True)
    ]


def paired_difference(
    a: Sequence[float], b: Sequence[float], videos: Sequence[str], draws: int, seed: int
) -> Difference | None:
    """Difference of two rows on the same questions; None when they share no question.

    p is twice the smaller share of draws on either side of no difference, one added to each count: it is never below
    2 / (draws + 1). A single video cannot say how videos differ: its p is 1.
    """
    if not len(videos):
        return None
    sums, counts = _by_video((np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64))[:, None], videos)
    means = _draw_means(sums, counts, draws, seed)
    lows, highs = _percentiles(means)
    tail = 1 + min(int((means >= 0).sum()), int((means <= 0).sum()))
    p = 1.0 if len(counts) == 1 else min(1.0, 2 * tail / (draws + 1))
    value = float(sums.sum() / counts.sum())
    return Difference(value, float(lows[0]), float(highs[0]), p, len(videos), len(counts))


def holm(ps: Sequence[float]) -> list[float]:
    """p-values corrected for having made so many comparisons (Holm's step-down), in the order given."""
    corrected = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = largest
    return corrected


def video_draws(n_videos: int, draws: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """How often each video is taken in each draw: blocks of draws × videos, ``draws`` rows in all."""
    rng = np.random.default_rng(seed)
    block = max(1, CHUNK_COUNTS // n_videos)
    for start in range(0, draws, block):
        rows = min(block, draws - start)
        taken = rng.integers(n_videos, size=(rows, n_videos), dtype=np.int64)
        taken += np.arange(rows, dtype=np.int64)[:, None] * n_videos
        yield np.bincount(taken.ravel(), minlength=rows * n_videos).reshape(rows, n_videos)


def _by_video(values: Floats, videos: Sequence[str]) -> tuple[Floats, Floats]:
    """Sums (videos × metrics) and number of questions (videos), ordered by video name whatever the questions' order."""
    names, index = np.unique(np.asarray(videos, dtype=object).astype(str), return_inverse=True)
    sums = np.zeros((len(names), values.shape[1]))
    np.add.at(sums, index, values)
    return sums, np.bincount(index, minlength=len(names)).astype(np.float64)


def _draw_means(sums: Floats, counts: Floats, draws: int, seed: int) -> Floats:
    """draws × metrics: the micro mean of each draw."""
    both = np.concatenate([sums, counts[:, None]], axis=1)
    totals = np.concatenate([taken.astype(np.float64) @ both for taken in video_draws(len(counts), draws, seed)])
    means: Floats = totals[:, :-1] / totals[:, -1:]
    return means


def _percentiles(means: Floats) -> tuple[Floats, Floats]:
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return low, high
