"""How far raters agree, with 95 % intervals by bootstrap over videos.

Every statistic here is a function of sums over answers, so a draw of videos is a weighted sum of what each video adds:
10,000 draws are one matrix product. A statistic that is undefined (everybody always said the same, so there is nothing
to agree on by chance or not) is None; draws in which it is so are left out of the interval, and there is no interval
where they are more than half.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scripts.lib import stats

Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""From totals (draws × sums) to values (draws); NaN where undefined."""
LEAST = 1e-12
"""Below it, a variance or a chance to differ is none."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; None where undefined, or, of the interval, where there is one video."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    """Answers."""
    n_videos: int


@dataclass(frozen=True)
class Pair:
    """What two raters said of the answers of a group; NaN where one of them has not rated it."""

    a: Floats
    b: Floats


def mean(values: Sequence[float], videos: Sequence[str], draws: int, seed: int) -> Estimate:
    """Of values that are all there."""
    column = np.asarray(values, dtype=np.float64)
    return _estimate(np.stack([np.ones_like(column), column], axis=1), videos, lambda t: t[:, 1] / t[:, 0], draws, seed)


def pearson(pair: Pair, videos: Sequence[str], draws: int, seed: int) -> Estimate:
    """Correlation of two raters' numbers, on the answers that both rated."""
    return _of_pairs([pair], _six, _correlation, videos, draws, seed)


def cohen(pairs: Sequence[Pair], videos: Sequence[str], draws: int, seed: int) -> Estimate:
    """Cohen's kappa of verdicts (1 = yes, 0 = no), the mean over pairs of raters; of EgoTextVQA's Appendix C."""
    return _of_pairs(pairs, _six, _kappa, videos, draws, seed)


def cohen_quadratic(pairs: Sequence[Pair], videos: Sequence[str], draws: int, seed: int) -> Estimate:
    """Cohen's kappa of scores with quadratic weights, the mean over pairs: 1 and 2 differ less than 1 and 5."""
    return _of_pairs(pairs, _six, _kappa_quadratic, videos, draws, seed)


def fleiss(yes: Sequence[int], raters: int, videos: Sequence[str], draws: int, seed: int) -> Estimate:
    """Fleiss' kappa of verdicts.

    Args:
        yes: how many of the raters said yes, for each answer that all of them rated.
        raters: how many they are, at least 2.
    """
    said = np.asarray(yes, dtype=np.float64)
    alike = (said * (said - 1) + (raters - said) * (raters - said - 1)) / (raters * (raters - 1))

    def kappa(totals: Floats) -> Floats:
        observed, share = totals[:, 1] / totals[:, 0], totals[:, 2] / totals[:, 0]
        return _beyond_chance(observed, share**2 + (1 - share) ** 2)

    return _estimate(np.stack([np.ones_like(said), alike, said / raters], axis=1), videos, kappa, draws, seed)


def _of_pairs(
    pairs: Sequence[Pair],
    sums: Callable[[Pair], Floats],
    statistic: Statistic,
    videos: Sequence[str],
    draws: int,
    seed: int,
) -> Estimate:
    """The mean of a statistic over the pairs that have an answer in common."""
    pairs = [pair for pair in pairs if (~np.isnan(pair.a) & ~np.isnan(pair.b)).any()]
    if not pairs:
        return Estimate(None, None, None, 0, 0)
    found = [sums(pair) for pair in pairs]
    width = found[0].shape[1]

    def average(totals: Floats) -> Floats:
        values = [statistic(totals[:, at : at + width]) for at in range(0, totals.shape[1], width)]
        averaged: Floats = np.mean(values, axis=0)
        return averaged

    return _estimate(np.concatenate(found, axis=1), videos, average, draws, seed)


def _six(pair: Pair) -> Floats:
    """answers × (1, a, b, a², b², ab), zeros where one of them said nothing."""
    both = ~(np.isnan(pair.a) | np.isnan(pair.b))
    a, b = np.where(both, pair.a, 0.0), np.where(both, pair.b, 0.0)
    return np.stack([both.astype(np.float64), a, b, a * a, b * b, a * b], axis=1)


def _correlation(totals: Floats) -> Floats:
    mean_a, mean_b, square_a, square_b, product = _means(totals)
    spread = (square_a - mean_a**2) * (square_b - mean_b**2)
    return _divided(product - mean_a * mean_b, np.sqrt(np.where(spread > LEAST, spread, np.nan)))


def _kappa(totals: Floats) -> Floats:
    yes_a, yes_b, _, _, both = _means(totals)
    observed = 1 - yes_a - yes_b + 2 * both
    return _beyond_chance(observed, yes_a * yes_b + (1 - yes_a) * (1 - yes_b))


def _kappa_quadratic(totals: Floats) -> Floats:
    mean_a, mean_b, square_a, square_b, product = _means(totals)
    observed, by_chance = square_a + square_b - 2 * product, square_a + square_b - 2 * mean_a * mean_b
    return 1 - _divided(observed, np.where(by_chance > LEAST, by_chance, np.nan))


def _means(totals: Floats) -> tuple[Floats, ...]:
    return tuple(_divided(totals[:, at], totals[:, 0]) for at in range(1, 6))


def _beyond_chance(observed: Floats, by_chance: Floats) -> Floats:
    return _divided(observed - by_chance, np.where(1 - by_chance > LEAST, 1 - by_chance, np.nan))


def _divided(value: Floats, by: Floats) -> Floats:
    quotient: Floats = value / np.where(by == 0, np.nan, by)
    return quotient


def _estimate(sums: Floats, videos: Sequence[str], statistic: Statistic, draws: int, seed: int) -> Estimate:
    """
    Args:
        sums: answers × what the statistic is made of; an answer whose row is all zeros counts for nothing.
    """
    used = np.flatnonzero(sums.any(axis=1))
    names, at = np.unique(np.asarray(videos, dtype=object).astype(str)[used], return_inverse=True)
    if not len(used):
        return Estimate(None, None, None, 0, 0)
    by_video = np.zeros((len(names), sums.shape[1]))
    np.add.at(by_video, at, sums[used])
    value = float(statistic(by_video.sum(axis=0, keepdims=True))[0])
    low = high = None
    if np.isfinite(value) and len(names) > 1:
        blocks = [
            statistic(taken.astype(np.float64) @ by_video) for taken in stats.video_draws(len(names), draws, seed)
        ]
        drawn = np.concatenate(blocks)
        drawn = drawn[np.isfinite(drawn)]
        if 2 * len(drawn) > draws:
            tail = 100 * (1 - stats.LEVEL) / 2
            low, high = (float(end) for end in np.percentile(drawn, [tail, 100 - tail]))
    return Estimate(value if np.isfinite(value) else None, low, high, len(used), len(names))
