"""Statistics of agreement: worked examples, plain recomputation, and where they are undefined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.agree.agreement import Estimate, Pair, cohen, cohen_quadratic, fleiss, mean, pearson

VERDICTS = st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1]), st.sampled_from("abc")), min_size=1)
SCORES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from("abc")), min_size=1)


def pair(a, b) -> Pair:
    return Pair(np.array(a, dtype=float), np.array(b, dtype=float))


def videos(count: int) -> list[str]:
    return [f"v{at}" for at in range(count)]


def test_cohens_own_kind_of_table() -> None:
    """20 both yes, 15 both no, 5 and 10 apart: 0.7 observed, 0.5 by chance."""
    a = [1] * 20 + [1] * 5 + [0] * 10 + [0] * 15
    b = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    got = cohen([pair(a, b)], videos(50), 500, 0)
    assert got.value == pytest.approx(0.4)
    assert got.low is not None
    assert got.high is not None
    assert got.low < 0.4 < got.high
    assert (got.n, got.n_videos) == (50, 50)


def test_fleiss_by_hand() -> None:
    """Three raters, four answers, 3, 2, 0 and 1 of them yes: P = 2/3; half of all yes: 1/2 by chance."""
    assert fleiss([3, 2, 0, 1], 3, videos(4), 100, 0).value == pytest.approx((2 / 3 - 1 / 2) / (1 / 2))


def test_of_two_raters_scotts_pi_is_what_fleiss_gives() -> None:
    """With equal shares of yes, Cohen's and Fleiss' are the same."""
    a, b = [1, 1, 0, 0, 1, 0], [1, 0, 1, 0, 1, 0]
    both = fleiss([x + y for x, y in zip(a, b, strict=True)], 2, videos(6), 100, 0)
    assert both.value == pytest.approx(cohen([pair(a, b)], videos(6), 100, 0).value)


@given(SCORES)
def test_pearson_is_numpys(rated: list[tuple[int, int, str]]) -> None:
    a, b, of = zip(*rated, strict=True)
    got = pearson(pair(a, b), of, 20, 0)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert got.value is None
    else:
        assert got.value == pytest.approx(float(np.corrcoef(a, b)[0, 1]), abs=1e-9)


@given(VERDICTS)
def test_kappa_of_verdicts_recomputed(rated: list[tuple[int, int, str]]) -> None:
    a, b, of = zip(*rated, strict=True)
    observed = sum(x == y for x, y in zip(a, b, strict=True)) / len(a)
    chance = sum((a.count(kind) / len(a)) * (b.count(kind) / len(b)) for kind in (0, 1))
    got = cohen([pair(a, b)], of, 20, 0)
    assert got.value == (pytest.approx((observed - chance) / (1 - chance)) if chance < 1 else None)
    # With two categories, squared distances weigh nothing differently.
    assert got.value == cohen_quadratic([pair(a, b)], of, 20, 0).value or got.value == pytest.approx(
        cohen_quadratic([pair(a, b)], of, 20, 0).value
    )


@given(SCORES)
def test_quadratic_kappa_recomputed_over_the_table_of_scores(rated: list[tuple[int, int, str]]) -> None:
    a, b, of = zip(*rated, strict=True)
    table = np.zeros((6, 6))
    for x, y in zip(a, b, strict=True):
        table[x, y] += 1 / len(a)
    weights = np.subtract.outer(np.arange(6), np.arange(6)) ** 2
    chance = float((weights * np.outer(table.sum(1), table.sum(0))).sum())
    got = cohen_quadratic([pair(a, b)], of, 20, 0)
    expected = pytest.approx(1 - float((weights * table).sum()) / chance, abs=1e-9) if chance > 1e-12 else None
    assert got.value == expected


@given(VERDICTS)
def test_agreement_does_not_hang_on_who_is_first_nor_on_the_order(rated: list[tuple[int, int, str]]) -> None:
    a, b, of = zip(*rated, strict=True)
    first = vars(cohen([pair(a, b)], of, 50, 3)).values()
    swapped = vars(cohen([pair(b, a)], of, 50, 3)).values()
    turned = vars(cohen([pair(a[::-1], b[::-1])], of[::-1], 50, 3)).values()
    for one, other, third in zip(first, swapped, turned, strict=True):
        assert one is other is third is None or one == pytest.approx(other) == pytest.approx(third)


def test_the_mean_over_pairs_is_that_of_each_alone() -> None:
    rng = np.random.default_rng(0)
    raters = rng.integers(0, 2, (3, 60)).astype(float)
    raters[2, :20] = np.nan  # the third came late
    pairs = [pair(raters[0], raters[1]), pair(raters[0], raters[2]), pair(raters[1], raters[2])]
    alone = [cohen([one], videos(60), 100, 0) for one in pairs]
    together = cohen(pairs, videos(60), 100, 0)
    assert together.value == pytest.approx(np.mean([one.value for one in alone]))
    assert [one.n for one in alone] == [60, 40, 40]


def test_intervals_know_that_answers_of_one_video_go_together() -> None:
    rng = np.random.default_rng(1)
    a = np.repeat(rng.integers(0, 2, 20), 10)
    b = np.where(np.repeat(rng.random(20) < 0.3, 10), 1 - a, a)
    apart = cohen([pair(a, b)], videos(200), 2000, 0)
    together = cohen([pair(a, b)], [f"v{at // 10}" for at in range(200)], 2000, 0)
    assert together.high - together.low > 2 * (apart.high - apart.low)  # type: ignore[operator]
    assert mean(a, [f"v{at // 10}" for at in range(200)], 100, 0).n_videos == 20


def test_undefined_is_none() -> None:
    nothing = Estimate(None, None, None, 0, 0)
    assert cohen([], [], 10, 0) == nothing
    assert cohen([pair([np.nan], [1])], ["v"], 10, 0) == nothing
    assert cohen([pair([1, 1], [1, 1])], videos(2), 10, 0).value is None, "no chance to differ"
    assert pearson(pair([1, 1, 1], [1, 2, 3]), videos(3), 10, 0).value is None
    assert fleiss([3, 3], 3, videos(2), 10, 0).value is None
    one_video = cohen([pair([1, 0], [1, 0])], ["v", "v"], 10, 0)
    assert (one_video.value, one_video.low) == (1.0, None)
