"""Means over questions with intervals that know that the questions of one video are not independent.

Bootstrap over videos (clusters): a draw takes as many videos as there are, with replacement, and averages over all of
their questions (micro), or over the means of their categories (macro: strata are given). EgoTextVQA has up to 17
questions on one video: an interval over questions would be too narrow.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
Z_LEVEL = 1.959964
"""Standard errors on either side of a value that hold so much of a normal distribution."""
Z_POWER = 0.841621
"""Standard errors above the threshold at which 80 % are found."""
DIGITS = 12
"""Of a difference: an error of rounding must not say that it is larger than another."""
CHUNK_COUNTS = 2_000_000
"""Counts held at a time (16 bytes each): bounds memory whatever the number of videos and draws."""


@dataclass(frozen=True)
class Interval:
    """A mean, its 95 % percentile interval and its standard error; with one video the interval is the point (see
    ``n_videos``)."""

    value: float
    low: float
    high: float
    n: int
    n_videos: int
    se: float


@dataclass(frozen=True)
class Difference:
    """Mean of a − b over the questions scored in both, its 95 % interval, two-sided p and standard error."""

    value: float
    low: float
    high: float
    p: float
    n: int
    n_videos: int
    se: float

    @property
    def detectable(self) -> float:
        return detectable(self.se)


def bootstrap(
    values: Sequence[Sequence[float]] | Floats,
    videos: Sequence[str],
    draws: int,
    seed: int,
    strata: Sequence[str] | None = None,
) -> list[Interval]:
    """One interval per column of ``values``, all columns on the same draws.

    Args:
        values: questions × metrics.
        videos: the video of each question.
        strata: the category of each question, for the macro mean: that over the categories' means, each of the same
            weight. A draw averages over those that it has any question of. None: the micro mean.

    Returns:
        As many intervals as metrics; none at all when there is no question.
    """
    if not len(videos):
        return []
    points, means, n_videos = _draw(np.asarray(values, dtype=np.float64), videos, draws, seed, strata)
    lows, highs = _percentiles(means)
    errors = means.std(axis=0)
    return [
        Interval(float(point), float(low), float(high), len(videos), n_videos, float(error))
        for point, low, high, error in zip(points, lows, highs, errors, strict=True)
    ]


def paired_difference(
    a: Sequence[float],
    b: Sequence[float],
    videos: Sequence[str],
    draws: int,
    seed: int,
    strata: Sequence[str] | None = None,
) -> Difference | None:
    """Difference of two rows on the same questions; None when they share no question.

    p is the share of draws in which swapping the two rows on whole videos, each by the toss of a coin, gives as large a
    difference, this one counted among them: it holds for any number of videos, and is never below 1 / (draws + 1) nor,
    by much, below 2 to the power of 1 − videos.
    """
    if not len(videos):
        return None
    between = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return _differences(between[:, None], videos, draws, seed, strata)[0]


def compare_all(
    rows: Mapping[str, Mapping[str, float]],
    video_of: Mapping[str, str],
    draws: int,
    seed: int,
    strata_of: Mapping[str, str] | None = None,
) -> list[tuple[str, str, Difference | None, float | None]]:
    """Every pair of rows, in their order: names, a − b on the questions of both, and p after Holm's correction for the
    number of pairs; None and None where two rows share no question.

    Args:
        rows: name to question to value.
        video_of: question to video.
        strata_of: question to category, for macro means.
    """
    pairs = list(combinations(rows, 2))
    alike: dict[tuple[str, ...], list[tuple[str, str]]] = defaultdict(list)
    for a, b in pairs:
        alike[tuple(sorted(rows[a].keys() & rows[b].keys()))].append((a, b))
    found: dict[tuple[str, str], Difference] = {}
    for keys, together in alike.items():  # pairs on the same questions share their draws, which are what takes long
        if keys:
            between = np.array([[rows[a][key] - rows[b][key] for a, b in together] for key in keys])
            strata = [strata_of[key] for key in keys] if strata_of else None
            made = _differences(between, [video_of[key] for key in keys], draws, seed, strata)
            found.update(zip(together, made, strict=True))
    corrected = dict(zip(found, holm([one.p for one in found.values()]), strict=True))
    return [(a, b, found.get((a, b)), corrected.get((a, b))) for a, b in pairs]


def detectable(se: float) -> float:
    """The smallest true difference that is found in 80 of 100 studies like this one, at 5 %, two-sided.

    Args:
        se: standard error of the difference.
    """
    return (Z_LEVEL + Z_POWER) * se


def proportion(count: int, n: int) -> tuple[float, float, float]:
    """A share of n ≥ 1 independent cases, with Wilson's 95 % interval, which holds for 0 of 20 as well."""
    share, z = count / n, Z_LEVEL
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return share, max(0.0, middle - half), min(1.0, middle + half)


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


def _differences(
    between: Floats, videos: Sequence[str], draws: int, seed: int, strata: Sequence[str] | None
) -> list[Difference]:
    """One per column of ``between`` (questions × pairs)."""
    points, means, n_videos = _draw(between, videos, draws, seed, strata)
    lows, highs = _percentiles(means)
    as_large = _swapped(*_by_video(between, videos, strata), draws, seed).round(DIGITS) >= np.abs(points).round(DIGITS)
    columns = (points, lows, highs, (1 + as_large.sum(axis=0)) / (draws + 1), means.std(axis=0))
    return [
        Difference(value, low, high, p, len(videos), n_videos, error)
        for value, low, high, p, error in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _draw(
    values: Floats, videos: Sequence[str], draws: int, seed: int, strata: Sequence[str] | None
) -> tuple[Floats, Floats, int]:
    """The means (metrics), those of each draw (draws × metrics) and the number of videos; of one video, one draw."""
    sums, counts = _by_video(values, videos, strata)
    every = np.ones((1, len(sums)))
    points = _means(every, sums, counts)[0]
    if len(sums) == 1:
        return points, points[None, :], 1
    taken = (block.astype(np.float64) for block in video_draws(len(sums), draws, seed))
    return points, np.concatenate([_means(block, sums, counts) for block in taken]), len(sums)


def _swapped(sums: Floats, counts: Floats, draws: int, seed: int) -> Floats:
    """draws × pairs: size of the difference with the rows swapped on some of the videos.

    Args:
        sums, counts: as ``_by_video`` has them, of differences.
    """
    rng = np.random.default_rng(seed)
    n_videos, n_strata, n_pairs = sums.shape
    flat, asked = sums.reshape(n_videos, -1), counts.sum(axis=0)
    block = max(1, CHUNK_COUNTS // n_videos)
    found = []
    for start in range(0, draws, block):
        signs = 2.0 * rng.integers(2, size=(min(block, draws - start), n_videos)) - 1
        totals = (signs @ flat).reshape(len(signs), n_strata, n_pairs)
        found.append(np.abs((totals / asked[:, None]).mean(axis=1)))
    return np.concatenate(found)


def _by_video(values: Floats, videos: Sequence[str], strata: Sequence[str] | None) -> tuple[Floats, Floats]:
    """Sums (videos × strata × metrics) and numbers of questions (videos × strata), ordered by the videos' names,
    whatever the questions' order."""
    names, video = np.unique(np.asarray(videos, dtype=object).astype(str), return_inverse=True)
    kinds, stratum = np.unique(np.asarray(strata or [""] * len(videos), dtype=object).astype(str), return_inverse=True)
    sums = np.zeros((len(names), len(kinds), values.shape[1]))
    counts = np.zeros((len(names), len(kinds)))
    np.add.at(sums, (video, stratum), values)
    np.add.at(counts, (video, stratum), 1)
    return sums, counts


def _means(taken: Floats, sums: Floats, counts: Floats) -> Floats:
    """draws × metrics: the mean over the strata that a draw has questions of.

    Args:
        taken: draws × videos, how often a draw takes a video.
    """
    n_videos, n_strata, n_metrics = sums.shape
    totals = (taken @ sums.reshape(n_videos, -1)).reshape(len(taken), n_strata, n_metrics)
    asked = taken @ counts
    has = asked > 0
    shares = np.divide(totals, asked[:, :, None], out=np.zeros_like(totals), where=has[:, :, None])
    means: Floats = shares.sum(axis=1) / has.sum(axis=1)[:, None]
    return means


def _percentiles(means: Floats) -> tuple[Floats, Floats]:
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return low, high
