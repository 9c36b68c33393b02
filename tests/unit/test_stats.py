"""Intervals over videos: against a slow loop, against known coverage, and in the corners."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib import stats

VIDEOS = ["ü1", "a", "a", "b", "c", "c", "c", "d", "e", "ü1"]
VALUES = [0.0, 1.0, 0.5, 0.2, 0.9, 1.0, 0.8, 0.1, 0.4, 0.3]


def naive(values: list[float], videos: list[str], draws: int, seed: int) -> tuple[float, float]:
    """The same interval, question by question."""
    rng = random.Random(seed)
    names = sorted(set(videos))
    means = []
    for _ in range(draws):
        taken = [
            v for name in rng.choices(names, k=len(names)) for v, at in zip(values, videos, strict=True) if at == name
        ]
        means.append(sum(taken) / len(taken))
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def test_agrees_with_a_slow_reference() -> None:
    (got,) = stats.bootstrap([[v] for v in VALUES], VIDEOS, 10_000, 0)
    low, high = naive(VALUES, VIDEOS, 4_000, 1)
    assert got.value == pytest.approx(sum(VALUES) / len(VALUES))
    assert got.low == pytest.approx(low, abs=0.03)
    assert got.high == pytest.approx(high, abs=0.03)
    assert (got.n, got.n_videos) == (10, 6)


def test_seeded_and_blind_to_the_order_of_questions() -> None:
    order = [3, 0, 9, 5, 1, 2, 8, 7, 6, 4]
    first = stats.bootstrap([[v] for v in VALUES], VIDEOS, 500, 7)
    again = stats.bootstrap([[VALUES[i]] for i in order], [VIDEOS[i] for i in order], 500, 7)
    assert first[0].low == pytest.approx(again[0].low, abs=1e-12)
    assert first[0].high == pytest.approx(again[0].high, abs=1e-12)
    assert stats.bootstrap([[v] for v in VALUES], VIDEOS, 500, 8) != first


def test_blocks_do_not_change_the_number_of_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "CHUNK_COUNTS", 25)
    blocks = list(stats.video_draws(6, 11, 0))
    assert sum(map(len, blocks)) == 11
    assert len(blocks) > 1
    assert all((block.sum(axis=1) == 6).all() for block in blocks)


def test_questions_of_one_video_widen_the_interval() -> None:
    values = [[float(video % 2)] for video in range(40) for _ in range(10)]
    clustered = stats.bootstrap(values, [f"v{video}" for video in range(40) for _ in range(10)], 2000, 0)[0]
    independent = stats.bootstrap(values, [f"q{at}" for at in range(400)], 2000, 0)[0]
    assert clustered.high - clustered.low > 2.5 * (independent.high - independent.low)


def test_coverage_on_simulated_videos() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for trial in range(150):
        level = rng.normal(0.5, 0.15, size=40)
        counts = rng.integers(1, 6, size=40)
        videos = [f"v{v}" for v, n in enumerate(counts) for _ in range(n)]
        values = [[level[v] + rng.normal(0, 0.1)] for v, n in enumerate(counts) for _ in range(n)]
        got = stats.bootstrap(values, videos, 400, trial)[0]
        held += got.low <= 0.5 <= got.high
    assert 0.87 <= held / 150 <= 0.99


def test_one_video_and_no_question() -> None:
    (got,) = stats.bootstrap([[0.1], [0.2], [0.4]], ["v"] * 3, 100, 0)
    assert got.low == got.value == got.high
    assert got.n_videos == 1
    assert stats.bootstrap([], [], 100, 0) == []
    assert stats.paired_difference([], [], [], 100, 0) is None
    alone = stats.paired_difference([1.0], [0.0], ["v"], 100, 0)
    assert alone is not None
    assert alone.p == 1.0


def test_paired_difference_sees_what_separate_intervals_do_not() -> None:
    rng = np.random.default_rng(0)
    b = rng.random(200)
    a = b + 0.02 + rng.normal(0, 0.05, 200)
    videos = [f"v{at // 4}" for at in range(200)]
    got = stats.paired_difference(a.tolist(), b.tolist(), videos, 2000, 0)
    assert got is not None
    assert got.value == pytest.approx(float((a - b).mean()))
    assert 0 < got.low < got.value < got.high
    assert got.p < 0.01
    opposite = stats.paired_difference(b.tolist(), a.tolist(), videos, 2000, 0)
    assert opposite is not None
    assert (opposite.value, opposite.low) == (pytest.approx(-got.value), pytest.approx(-got.high))
    assert opposite.p == got.p


def test_macro_is_the_mean_of_the_categories_means_against_a_slow_reference() -> None:
    strata = list("aabbbaacca")
    (got,) = stats.bootstrap([[v] for v in VALUES], VIDEOS, 10_000, 0, strata=strata)
    rng, names, means = random.Random(2), sorted(set(VIDEOS)), []
    rows = list(zip(VALUES, VIDEOS, strata, strict=True))

    def macro(taken: list[str]) -> float:
        of = {kind: [v for name in taken for v, at, k in rows if (at, k) == (name, kind)] for kind in "abc"}
        shares = [sum(some) / len(some) for some in of.values() if some]
        return sum(shares) / len(shares)

    means = [macro(rng.choices(names, k=len(names))) for _ in range(4_000)]
    low, high = np.percentile(means, [2.5, 97.5])
    assert got.value == pytest.approx(macro(names))
    assert got.value != pytest.approx(sum(VALUES) / len(VALUES))
    assert (got.low, got.high) == (pytest.approx(float(low), abs=0.03), pytest.approx(float(high), abs=0.03))
    assert got.se == pytest.approx(float(np.std(means)), rel=0.1)


def test_one_category_or_equal_ones_need_no_macro() -> None:
    micro = stats.bootstrap([[v] for v in VALUES], VIDEOS, 300, 4)
    assert stats.bootstrap([[v] for v in VALUES], VIDEOS, 300, 4, strata=["x"] * len(VALUES)) == micro


def test_the_smallest_detectable_difference_is_found_in_four_of_five_studies() -> None:
    rng, found, trials, noise = np.random.default_rng(5), 0, 300, 0.3
    effect = stats.detectable(noise / 60**0.5)
    for trial in range(trials):
        a = effect + rng.normal(0, noise, 60)
        got = stats.paired_difference(a, [0.0] * 60, [f"v{at}" for at in range(60)], 400, trial)
        assert got is not None
        assert got.detectable == pytest.approx(effect, rel=0.4)
        found += got.p <= 0.05
    assert 0.72 <= found / trials <= 0.88


def test_all_pairs_are_compared_as_each_would_be_alone() -> None:
    rng = np.random.default_rng(1)
    keys = [f"q{at}" for at in range(40)]
    video_of = {key: f"v{at % 7}" for at, key in enumerate(keys)}
    kind_of = {key: "abc"[at % 3] for at, key in enumerate(keys)}
    rows = {name: dict(zip(keys, rng.random(40), strict=True)) for name in ("one", "two", "three")}
    rows["part"] = {key: rows["one"][key] + 0.2 for key in keys[:11]}
    rows["other"] = {"elsewhere": 1.0}
    for strata_of in (None, kind_of):
        made = stats.compare_all(rows, video_of, 400, 3, strata_of)
        assert [pair[:2] for pair in made[:4]] == [
            *(("one", "two"), ("one", "three"), ("one", "part"), ("one", "other"))
        ]
        ps = iter(stats.holm([found.p for *_, found, _ in made if found]))
        for a, b, found, p_holm in made:
            shared = sorted(rows[a].keys() & rows[b].keys())
            alone = stats.paired_difference(
                [rows[a][key] for key in shared],
                [rows[b][key] for key in shared],
                [video_of[key] for key in shared],
                400,
                3,
                strata=[strata_of[key] for key in shared] if strata_of else None,
            )
            assert (found is None) == (alone is None) == ("other" in (a, b))
            if found and alone:
                for name in ("value", "low", "high", "p", "n", "n_videos", "se"):
                    assert getattr(found, name) == pytest.approx(getattr(alone, name)), (a, b, name)
                assert p_holm == next(ps)
            else:
                assert p_holm is None


def test_thirds_that_add_up_to_nothing_are_no_difference() -> None:
    """A macro difference of 1/3 + 1/6 - 1/2 in every draw, whichever way the machine rounds it."""
    kinds = list("aaabbbbbbcc")
    a = [1, 0, 0, 1, 0, 0, 0, 0, 0, -1, 0]
    got = stats.paired_difference(a * 2, [0] * 22, ["u"] * 11 + ["v"] * 11, 200, 0, strata=kinds * 2)
    assert got is not None
    assert got.p == 1.0


@pytest.mark.parametrize("n_videos", [2, 3, 5, 10, 40])
def test_rows_that_do_not_differ_are_told_apart_as_seldom_as_promised(n_videos: int) -> None:
    """At any number of videos, with more questions on some than on others, micro and macro."""
    rng, trials = np.random.default_rng(n_videos), 400
    rejected = {"micro": 0, "macro": 0}
    for trial in range(trials):
        videos = [f"v{v}" for v in range(n_videos) for _ in range(1 + v % 4)]
        level = dict(zip(dict.fromkeys(videos), rng.normal(0, 1, n_videos), strict=True))
        a = [level[video] + rng.normal(0, 0.5) for video in videos]
        for kind, strata in (("micro", None), ("macro", ["ab"[at % 2] for at in range(len(videos))])):
            got = stats.paired_difference(a, [0.0] * len(a), videos, 199, trial, strata=strata)
            assert got is not None
            rejected[kind] += got.p <= 0.05
    assert max(rejected.values()) / trials <= 0.08


def test_p_is_no_smaller_than_so_few_videos_can_make_it() -> None:
    for n_videos in (1, 2, 3, 4):
        videos = [f"v{v}" for v in range(n_videos) for _ in range(3)]
        got = stats.paired_difference([1.0] * len(videos), [0.0] * len(videos), videos, 4000, 0)
        assert got is not None
        assert got.p == pytest.approx(2.0 ** (1 - n_videos), abs=0.03)


def test_many_pairs_of_rows_that_differ_widely_are_still_told_apart() -> None:
    keys = [f"q{at}" for at in range(60)]
    rows = {f"r{row}": {key: 100.0 * row + at % 7 for at, key in enumerate(keys)} for row in range(25)}
    made = stats.compare_all(rows, {key: key for key in keys}, 10_000, 0)
    assert max(p for *_, p in made if p is not None) < 0.05


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [(0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0), (5, 10, 0.2366, 0.7634), (1, 353, 0.0005, 0.0159)],
)
def test_wilson(count: int, n: int, low: float, high: float) -> None:
    assert stats.proportion(count, n) == (count / n, pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_no_difference_is_not_significant() -> None:
    got = stats.paired_difference(VALUES, VALUES, VIDEOS, 500, 0)
    assert got is not None
    assert (got.value, got.low, got.high, got.p) == (0.0, 0.0, 0.0, 1.0)


def test_holm() -> None:
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.9, 0.8]) == [1.0, 1.0]
    assert stats.holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_only_raises_and_keeps_the_order(ps: list[float]) -> None:
    corrected = stats.holm(ps)
    assert all(p <= c <= 1 for p, c in zip(ps, corrected, strict=True))
    ordered = [c for _, c in sorted(zip(ps, corrected, strict=True))]
    assert ordered == sorted(ordered)


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from("abcé")), min_size=1, max_size=12))
def test_interval_lies_within_the_values(pairs: list[tuple[float, str]]) -> None:
    values, videos = [[v] for v, _ in pairs], [name for _, name in pairs]
    got = stats.bootstrap(values, videos, 50, 0)[0]
    lowest, highest = min(v for v, _ in pairs), max(v for v, _ in pairs)
    assert lowest - 1e-9 <= got.low <= got.high <= highest + 1e-9
