"""What the compiled LCS and the counted bootstrap save, as ratios measured in one run (times depend on the machine).

python -m benchmarks.metrics
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from scripts.lib import metrics, stats

LENGTH = 2000
QUESTIONS, VIDEOS, DRAWS = 7064, 1507, 10_000
NAIVE_DRAWS = 10
CATEGORIES, ROWS = 12, 12


def cpu_s(work: Callable[[], object], least_s: float = 0.2) -> float:
    """CPU seconds of one call, averaged over as many as take ``least_s``."""
    calls, start = 0, time.process_time()
    while (spent := time.process_time() - start) < least_s or not calls:
        work()
        calls += 1
    return spent / calls


def python_lcs(a: str, b: str) -> int:
    """Length of the longest common subsequence by the textbook's table, row by row."""
    row = [0] * (len(b) + 1)
    for x in a:
        diagonal = 0
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], diagonal + 1 if x == y else max(row[j], row[j - 1])
    return row[-1]


def naive_bootstrap(values: list[float], videos: list[str], draws: int) -> tuple[float, float]:
    """The same interval with a loop over draws and videos."""
    rng = random.Random(0)
    by_video: dict[str, list[float]] = defaultdict(list)
    for value, video in zip(values, videos, strict=True):
        by_video[video].append(value)
    groups = list(by_video.values())
    means = []
    for _ in range(draws):
        taken = [value for group in rng.choices(groups, k=len(groups)) for value in group]
        means.append(sum(taken) / len(taken))
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def lcs() -> None:
    rng = random.Random(0)
    reference, answer = ("".join(rng.choices("abcdefgh ijklmé", k=LENGTH)) for _ in range(2))
    assert metrics.rouge_l([reference], answer) == python_lcs(reference, answer) / LENGTH
    fast = cpu_s(lambda: metrics.rouge_l([reference], answer))
    slow = cpu_s(lambda: python_lcs(reference, answer))
    print(f"character LCS {LENGTH} x {LENGTH}: {fast:.2g} s, pure Python {slow:.2g} s, ratio {slow / fast:,.0f}")


def bootstrap() -> None:
    rng = np.random.default_rng(0)
    values = rng.random(QUESTIONS)
    videos = [f"v{at % VIDEOS}" for at in range(QUESTIONS)]
    fast = cpu_s(lambda: stats.bootstrap(values[:, None], videos, DRAWS, 0))
    seven = cpu_s(lambda: stats.bootstrap(np.tile(values[:, None], 7), videos, DRAWS, 0))
    kinds = [f"c{at % CATEGORIES}" for at in range(QUESTIONS)]
    macro = cpu_s(lambda: stats.bootstrap(values[:, None], videos, DRAWS, 0, strata=kinds))
    keys = [str(at) for at in range(QUESTIONS)]
    rows = {f"row {at}": dict(zip(keys, rng.random(QUESTIONS).tolist(), strict=True)) for at in range(ROWS)}
    video_of = dict(zip(keys, videos, strict=True))
    pairs = cpu_s(lambda: stats.compare_all(rows, video_of, DRAWS, 0))
    listed = values.tolist()
    slow = cpu_s(lambda: naive_bootstrap(listed, videos, NAIVE_DRAWS)) * DRAWS / NAIVE_DRAWS
    print(
        f"bootstrap {QUESTIONS} questions, {VIDEOS} videos, {DRAWS} draws: {fast:.2g} s, loop {slow:.2g} s"
        f" (scaled up from {NAIVE_DRAWS} draws), ratio {slow / fast:,.0f}; seven metrics at once cost"
        f" {seven / fast:.1f} times one, the macro mean of {CATEGORIES} categories {macro / fast:.1f} times, all"
        f" {ROWS * (ROWS - 1) // 2} pairs of {ROWS} rows {pairs / fast:.1f} times"
    )


if __name__ == "__main__":
    lcs()
    bootstrap()
