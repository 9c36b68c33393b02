"""A table specification and the scores of its cells, put together: what every form of the table shows."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scripts.judge.scoring import groups
from scripts.lib import jsonl, metrics, stats
from scripts.lib.cells import Entry, Scored, row_name, table_entries, table_scores
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.plan import check_layout
from scripts.lib.records import MACRO, Case
from scripts.lib.text import did_you_mean

NEEDED = {"statuses", "frames_changed", "metrics", "cost", "settings"}
NEEDED_OF_A_JUDGE = {"judge_title", "judge_note", "judgements", "flags", "as_published", "again"}
"""What a table reads of scores.json."""


@dataclass(frozen=True)
class Number:
    """One number of a table."""

    entry: Entry | None
    """None: the row doesn't have this column, by design."""
    score: dict[str, Any] | None
    """``value``, ``low``, ``high`` (0–1, or 0–5 of judge_score; None where nothing was scored), ``n``, ``n_scored``,
    ``n_videos`` and ``detectable``; None: the cell has no scores."""
    rank: int = 0
    """Within the column: 1 best, 2 second, 0 neither."""
    pair: dict[str, Any] | None = None
    """Scores of ``pair_metric``, which the column prints beside its own; None where it prints none."""
    pair_metric: str = ""
    published: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By metric, ``rule``, ``value`` and ``n`` as a released script counts; empty where no such script is known."""

    @property
    def value(self) -> float | None:
        return self.score["value"] if self.score else None

    @property
    def complete(self) -> bool:
        """Whether every question of the group was scored."""
        return self.score is not None and self.score["n"] == self.score["n_scored"]


@dataclass(frozen=True)
class Row:
    """One row."""

    label: str
    section: str
    numbers: list[Number]

    @property
    def name(self) -> str:
        """What ``compare`` and the notes call it: unique in a table."""
        return row_name({"section": self.section, "label": self.label})


@dataclass(frozen=True)
class Comparison:
    """Row a minus row b in one column, on the questions scored in both; no difference where they share none."""

    rows: tuple[str, str]
    column: str
    metric: str
    difference: stats.Difference | None
    p_holm: float | None = None
    missing: bool = False
    """One of the rows has no scores yet."""


@dataclass(frozen=True)
class Table:
    """Everything that any form of the table says."""

    spec: dict[str, Any]
    rows: list[Row]
    found: dict[Scored, dict[str, Any]]
    """Content of every scores.json that there is."""
    missing: list[Scored]
    comparisons: list[Comparison]

    @property
    def draws(self) -> list[int]:
        """Of the bootstrap: one, unless the cells were scored under different settings."""
        return sorted({content["settings"]["draws"] for content in self.found.values()})


def build(spec: dict[str, Any], results: Path) -> Table:
    """The table with its numbers, ranked.

    Args:
        spec: checked content of a table's YAML (lib.config).
        results: folder of ``scores/<cell>/`` and ``judged/<judge>/<cell>/``, with scores.json and cases.jsonl.

    Raises:
        ConfigError: the specification contradicts itself or names a metric or group that a cell doesn't have.
        DataError: a cell has no scores (unless the table says ``allow_missing``), or they can't be read.
    """
    check_layout(spec)
    wanted = table_scores(spec)
    made = {scored: read_scores(results, scored, spec.get("allow_missing", False)) for scored in wanted}
    found = {scored: content for scored, content in made.items() if content is not None}
    rows = [
        Row(
            row["label"],
            row.get("section", ""),
            [
                _number(f"table '{spec['name']}': row '{row_name(row)}'", entry, column.get("pair", ""), found)
                for entry, column in zip(line, spec["columns"], strict=True)
            ],
        )
        for row, line in zip(spec["rows"], table_entries(spec), strict=True)
    ]
    return Table(
        spec,
        ranked(rows, [column.get("better", "higher") for column in spec["columns"]]),
        found,
        [scored for scored in wanted if scored not in found],
        compare(spec, rows, results, found),
    )


def read_scores(results: Path, scored: Scored, allow_missing: bool) -> dict[str, Any] | None:
    """The content of scores.json, or None where there is none and that is allowed.

    Raises:
        DataError: the file is missing or not what score_cell or score_judgements writes.
    """
    path = Path(results) / scored.folder / "scores.json"
    rule = "score_judgements" if scored.judge else "score_cell"
    if not path.is_file():
        if allow_missing:
            return None
        raise DataError(f"{path}: no scores for cell {scored}; make them with: snakemake {path}")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        lacking = (NEEDED | NEEDED_OF_A_JUDGE if scored.judge else NEEDED) - set(content)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: not JSON ({error}); run {rule} again") from None
    if lacking:
        raise DataError(f"{path}: no '{min(lacking)}' in it; run {rule} again")
    return content


def _number(where: str, entry: Entry | None, pair: str, found: dict[Scored, dict[str, Any]]) -> Number:
    """What a table shows of one entry.

    Args:
        where: table and row, for messages.
        pair: metric to stand beside the entry's own; empty = none.

    Raises:
        ConfigError: the cell has no such metric or group.
    """
    if entry is None or entry.scored not in found:
        return Number(entry, None)
    content = found[entry.scored]
    score = _score(where, entry, entry.metric, content)
    beside = _score(where, entry, pair, content) if pair else None
    return Number(
        entry, score, pair=beside, pair_metric=pair, published=_published(entry, [entry.metric, pair], content)
    )


def _score(where: str, entry: Entry, metric: str, content: dict[str, Any]) -> dict[str, Any]:
    of = content["metrics"]
    for kind, name, known in (("metric", metric, of), ("group", entry.group, of.get(metric, {}))):
        if name not in known:
            raise ConfigError(f"{where}: cell {entry.scored} has no {kind} '{name}'{did_you_mean(name, known)}")
    score: dict[str, Any] = of[metric][entry.group]
    return score


def _published(entry: Entry, names: list[str], content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a released script makes of the same judgements; it has no mean over categories."""
    counted = content.get("as_published") or {}
    return {
        name: {"rule": counted["rule"], **counted[name][entry.group]}
        for name in names
        if entry.group in counted.get(name, {})
    }


def ranked(rows: list[Row], better: list[str]) -> list[Row]:
    """The rows with the best (1) and second (2) value of each column marked, equal where they are printed equal.

    Args:
        better: for each column ``higher``, ``lower`` or ``none``. One value alone is not best, and a number that lacks
            questions is never marked: the missing ones may have been the hard ones. Nor is any in a column whose
            numbers are of several metrics, judges, groups or data sets.
    """
    marks: list[dict[str, int]] = []
    for position, direction in enumerate(better):
        of_column = [row.numbers[position] for row in rows]
        values = {text for number in of_column if (text := _rankable(number))} if _comparable(of_column) else set()
        order = sorted(values, key=float, reverse=direction == "higher")
        marks.append(
            {} if direction == "none" or len(order) < 2 else {text: at for at, text in enumerate(order[:2], 1)}
        )
    return [
        replace(
            row,
            numbers=[
                replace(number, rank=mark.get(_rankable(number), 0))
                for number, mark in zip(row.numbers, marks, strict=True)
            ],
        )
        for row in rows
    ]


def _comparable(numbers: list[Number]) -> bool:
    entries = [number.entry for number in numbers if number.entry]
    return len({(one.metric, one.judge, one.group, one.cell.dataset) for one in entries}) < 2


def _rankable(number: Number) -> str:
    """The number as printed; empty where it can't be ranked."""
    if number.entry is None or number.value is None or not number.complete:
        return ""
    return metrics.shown(number.entry.metric, number.value)


def compare(
    spec: dict[str, Any], rows: list[Row], results: Path, found: dict[Scored, dict[str, Any]]
) -> list[Comparison]:
    """The comparisons that the table asks for (checked by lib.plan), p corrected over those that could be made.

    Raises:
        DataError: cases.jsonl is missing or malformed.
    """
    columns = [column["label"] for column in spec["columns"]]
    made = [_compare(asked, columns.index(asked["column"]), rows, results, found) for asked in spec.get("compare", [])]
    ps = iter(stats.holm([one.difference.p for one in made if one.difference]))
    return [replace(one, p_holm=next(ps)) if one.difference else one for one in made]


def _compare(
    asked: dict[str, Any], position: int, rows: list[Row], results: Path, found: dict[Scored, dict[str, Any]]
) -> Comparison:
    named = {row.name: row for row in rows}
    first, second = asked["rows"]
    a, b = (named[name].numbers[position].entry for name in (first, second))
    metric = a.metric if a else ""
    if a is None or b is None or a.scored not in found or b.scored not in found:
        return Comparison((first, second), asked["column"], metric, None, missing=True)
    settings = found[a.scored]["settings"]
    between = difference(results, a, b, settings["draws"], settings["seed"])
    return Comparison((first, second), asked["column"], metric, between)


def difference(results: Path, a: Entry, b: Entry, draws: int, seed: int) -> stats.Difference | None:
    """Entry a minus entry b on the questions of their group that were scored in both cells; None without any."""
    of_a, of_b = (scored_cases(results, entry) for entry in (a, b))
    shared = [key for key in of_a if key in of_b]
    return stats.paired_difference(
        [of_a[key].metrics[a.metric] for key in shared],
        [of_b[key].metrics[b.metric] for key in shared],
        [of_a[key].video for key in shared],
        draws,
        seed,
        strata=[of_a[key].category for key in shared] if a.group == MACRO else None,
    )


def scored_cases(results: Path, entry: Entry) -> dict[str, Case]:
    """The cases of an entry's group that have its metric, by key; the group ``macro`` is made of all of them.

    Raises:
        DataError: cases.jsonl is missing or malformed.
    """
    path = Path(results) / entry.scored.folder / "cases.jsonl"
    cases = list(jsonl.read_unique(path, Case, "key").values())
    members = cases if entry.group == MACRO else groups(cases).get(entry.group, [])
    return {case.key: case for case in members if entry.metric in case.metrics}
