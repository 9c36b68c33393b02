"""What score_cell and score_judgements share: groups of questions, means with intervals, and what the answers cost.

A change here that changes a number raises VERSION of both.
"""

import argparse
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scripts.lib import cells, cli, stats
from scripts.lib.errors import DataError
from scripts.lib.records import ALL, MACRO, Case, Judgement, Prediction

DECIMALS = 6
"""Of the values in scores.json: beyond any use, and short of where machines differ in adding up."""
COUNTED = {"tokens_in": 0, "tokens_out": 0, "dollars": DECIMALS, "seconds": 3}
"""What a record says of its cost, and the decimals of the sum."""


def groups(cases: list[Case]) -> dict[str, list[Case]]:
    """The cases of ``all``, of each category and of each subset.

    A subset that shares its name with a category (MyEgo's "previous" beside a question about the previous sign) is
    named ``subset:<name>``. ``macro`` is no group of questions but another mean over all of them: see ``score``.

    Raises:
        DataError: a category or subset is called ``all`` or ``macro``.
    """
    categories = sorted({case.category for case in cases})
    subsets = sorted({subset for case in cases for subset in case.subsets})
    for name, meaning in ((ALL, "every question"), (MACRO, "the mean over the categories")):
        if name in (*categories, *subsets):
            raise DataError(f"a category or subset is called '{name}', which means {meaning}; rename it")
    named = {f"subset:{name}" if name in categories else name: name for name in subsets}
    return {
        ALL: cases,
        **{name: [case for case in cases if case.category == name] for name in categories},
        **{shown: [case for case in cases if name in case.subsets] for shown, name in named.items()},
    }


def score(cases: list[Case], names: list[str], draws: int, seed: int) -> dict[str, dict[str, Any]]:
    """Metric to group to ``value``, ``low``, ``high``, ``detectable``, ``n``, ``n_scored`` and ``n_videos`` (of those
    scored).

    Groups are those of ``groups`` with their micro means, and ``macro``: the mean over the categories in which anything
    was scored, each of the same weight. ``value``, ``low`` and ``high`` are null where nothing could be scored.
    ``detectable`` is the smallest difference to another row of such an interval, on other videos, that would be found
    with 80 % power; null where fewer than two videos were scored, or all draws agree.
    """
    of = groups(cases)
    scores: dict[str, dict[str, Any]] = {name: {} for name in names}
    for group, members in {ALL: cases, MACRO: cases, **of}.items():
        for together, scored in _scored_alike(members, names):
            values = [[case.metrics[name] for name in together] for case in scored]
            videos = [case.video for case in scored]
            strata = [case.category for case in scored] if group == MACRO else None
            intervals = stats.bootstrap(values, videos, draws, seed, strata=strata)
            counts = {"n": len(members), "n_scored": len(scored), "n_videos": len(set(videos))}
            for position, name in enumerate(together):
                scores[name][group] = {**_numbers(intervals[position] if intervals else None), **counts}
    return scores


def _scored_alike(members: list[Case], names: list[str]) -> Iterator[tuple[list[str], list[Case]]]:
    """Metrics that the same cases have, with these cases: one bootstrap serves them."""
    alike: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        alike.setdefault(tuple(at for at, case in enumerate(members) if name in case.metrics), []).append(name)
    for positions, together in alike.items():
        yield together, [members[at] for at in positions]


def _numbers(interval: stats.Interval | None) -> dict[str, float | None]:
    if interval is None:
        return dict.fromkeys(("value", "low", "high", "detectable"))
    # Where all draws agree nothing is known of how videos differ.
    detectable = stats.detectable(math.sqrt(2) * interval.se) if round(interval.se, DECIMALS) else None
    return {
        **{key: round(getattr(interval, key), DECIMALS) for key in ("value", "low", "high")},
        "detectable": None if detectable is None else round(detectable, DECIMALS),
    }


def cost(records: Iterable[Prediction | Judgement]) -> dict[str, float | int | None]:
    """Sums of tokens, dollars and seconds; None where no record has any: nobody counted."""
    found = list(records)
    sums: dict[str, float | int | None] = {}
    for name, decimals in COUNTED.items():
        counted = [value for record in found if (value := getattr(record, name)) is not None]
        total = sum(counted)
        # A record without a clock says 0 s.
        nobody = not counted or (name == "seconds" and not total)
        sums[name] = None if nobody else round(total, decimals) if decimals else total
    return sums


def cell_of(predictions: Path) -> str | None:
    """The cell that a path ``…/predictions/<cell>/predictions.jsonl`` is of; None for a file kept elsewhere."""
    folder = Path(predictions).parent.parts
    depth = len(cells.AXES)
    if len(folder) <= depth or folder[-depth - 1] != "predictions":
        return None
    return str(cells.parse(Path(*folder[-depth:]).as_posix()))


def statuses(cases: Iterable[Case]) -> dict[str, int]:
    """How many cases have each status, by name."""
    return dict(sorted(Counter(case.status for case in cases).items()))


def frames_changed(predictions: Iterable[Prediction]) -> dict[str, int]:
    """What models did to the frames they were given, and to how many questions' frames; most frequent first."""
    return dict(Counter(one.frames_note for one in predictions if one.frames_note).most_common())


def add_options(parser: argparse.ArgumentParser) -> None:
    """What both steps ask for beside what is scored."""
    parser.add_argument("--questions", type=Path, required=True, help="Question records of the data set")
    parser.add_argument("--predictions", type=Path, required=True, help="Prediction records, one per question")
    parser.add_argument("--draws", type=cli.at_least(1), default=10_000, help="bootstrap draws (default: %(default)s)")
    parser.add_argument("--seed", type=cli.at_least(0), default=0, help="of the bootstrap (default: %(default)s)")
    parser.add_argument("--scores", type=Path, required=True, help="scores.json to write")
    parser.add_argument("--cases", type=Path, required=True, help="cases.jsonl to write")
