"""A table specification and the scores of its cells, put together: what every form of the table shows."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scripts.judge.score_cell import groups
from scripts.lib import jsonl, stats
from scripts.lib.cells import Cell, Entry, row_name, table_entries
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.plan import check_layout
from scripts.lib.records import Case
from scripts.lib.text import did_you_mean


@dataclass(frozen=True)
class Number:
    """One number of a table."""

    entry: Entry | None
    """None: the row doesn't have this column, by design."""
    score: dict[str, Any] | None
    """``value``, ``low``, ``high`` (0–1; None where nothing was scored), ``n``, ``n_scored`` and
    ``n_videos``; None: the cell has no scores."""
    rank: int = 0
    """Within the column: 1 best, 2 second, 0 neither."""

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
    difference: stats.Difference | None
    p_holm: float | None = None


@dataclass(frozen=True)
class Table:
    """Everything that any form of the table says."""

    spec: dict[str, Any]
    rows: list[Row]
    statuses: dict[Cell, dict[str, int]]
    """Of the cells that have scores."""
    frames: dict[Cell, dict[str, int]]
    """What the models of these cells did to the frames they were given: note to number of questions."""
    missing: list[Cell]
    comparisons: list[Comparison]
    draws: list[int]
    """Of the bootstrap: one, unless the cells were scored under different settings."""


def build(spec: dict[str, Any], scores: Path) -> Table:
    """The table with its numbers, ranked.

    Args:
        spec: checked content of a table's YAML (lib.config).
        scores: root of ``<cell>/scores.json`` and ``<cell>/cases.jsonl``.

    Raises:
        ConfigError: the specification contradicts itself or names a metric or group that a cell doesn't have.
        DataError: a cell has no scores (unless the table says ``allow_missing``), or they can't be read.
    """
    check_layout(spec)
    entries = table_entries(spec)
    cells = sorted({entry.cell for row in entries for entry in row if entry})
    made = {cell: read_scores(scores, cell, spec.get("allow_missing", False)) for cell in cells}
    found = {cell: content for cell, content in made.items() if content is not None}
    rows = [
        Row(row["label"], row.get("section", ""), [_number(spec, row_name(row), entry, found) for entry in line])
        for row, line in zip(spec["rows"], entries, strict=True)
    ]
    return Table(
        spec,
        ranked(rows, [column.get("better", "higher") for column in spec["columns"]]),
        {cell: content["statuses"] for cell, content in found.items()},
        {cell: content["frames_changed"] for cell, content in found.items()},
        [cell for cell in cells if cell not in found],
        compare(spec, rows, scores, found),
        sorted({content["settings"]["draws"] for content in found.values()}),
    )


def read_scores(root: Path, cell: Cell, allow_missing: bool) -> dict[str, Any] | None:
    """scores.json of a cell, or None where there is none and that is allowed.

    Raises:
        DataError: the file is missing or not what score_cell writes.
    """
    path = Path(root) / cell.path / "scores.json"
    if not path.is_file():
        if allow_missing:
            return None
        raise DataError(f"{path}: no scores for cell {cell}; make them with: snakemake {path}")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        needed = {"statuses", "frames_changed", "metrics", "settings"} - set(content)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: not JSON ({error}); run score_cell again") from None
    if needed:
        raise DataError(f"{path}: no '{min(needed)}' in it; run score_cell again")
    return content


def _number(spec: dict[str, Any], row: str, entry: Entry | None, found: dict[Cell, dict[str, Any]]) -> Number:
    if entry is None or entry.cell not in found:
        return Number(entry, None)
    metrics = found[entry.cell]["metrics"]
    for kind, name, known in (
        ("metric", entry.metric, metrics),
        ("group", entry.group, metrics.get(entry.metric, {})),
    ):
        if name not in known:
            raise ConfigError(
                f"table '{spec['name']}': row '{row}': cell {entry.cell} has no {kind} '{name}'"
                f"{did_you_mean(name, known)}"
            )
    return Number(entry, metrics[entry.metric][entry.group])


def ranked(rows: list[Row], better: list[str]) -> list[Row]:
    """The rows with the best (1) and second (2) value of each column marked, equal where they are printed equal.

    Args:
        better: for each column ``higher``, ``lower`` or ``none``. One value alone is not best, and a number that lacks
            questions is never marked: the missing ones may have been the hard ones.
    """
    marks: list[dict[str, int]] = []
    for position, direction in enumerate(better):
        values = {text for row in rows if (text := _rankable(row.numbers[position]))}
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


def _rankable(number: Number) -> str:
    """The number as printed; empty where it can't be ranked."""
    return percent(number.value) if number.value is not None and number.complete else ""


def percent(value: float) -> str:
    """A value in 0–1 as it is printed."""
    return f"{100 * value:.1f}"


def compare(spec: dict[str, Any], rows: list[Row], scores: Path, found: dict[Cell, dict[str, Any]]) -> list[Comparison]:
    """The comparisons that the table asks for (checked by lib.plan), p corrected over those that could be made.

    Raises:
        DataError: cases.jsonl is missing or malformed.
    """
    columns = [column["label"] for column in spec["columns"]]
    made = [_compare(asked, columns.index(asked["column"]), rows, scores, found) for asked in spec.get("compare", [])]
    ps = iter(stats.holm([one.difference.p for one in made if one.difference]))
    return [replace(one, p_holm=next(ps)) if one.difference else one for one in made]


def _compare(
    asked: dict[str, Any], position: int, rows: list[Row], scores: Path, found: dict[Cell, dict[str, Any]]
) -> Comparison:
    named = {row.name: row for row in rows}
    first, second = asked["rows"]
    a, b = (named[name].numbers[position].entry for name in (first, second))
    if a is None or b is None or a.cell not in found or b.cell not in found:
        return Comparison((first, second), asked["column"], None)
    settings = found[a.cell]["settings"]
    return Comparison((first, second), asked["column"], difference(scores, a, b, settings["draws"], settings["seed"]))


def difference(scores: Path, a: Entry, b: Entry, draws: int, seed: int) -> stats.Difference | None:
    """Entry a minus entry b on the questions of their group that were scored in both cells; None without any."""
    of_a, of_b = (_scored(scores, entry) for entry in (a, b))
    shared = [key for key in of_a if key in of_b]
    return stats.paired_difference(
        [of_a[key].metrics[a.metric] for key in shared],
        [of_b[key].metrics[b.metric] for key in shared],
        [of_a[key].video for key in shared],
        draws,
        seed,
    )


def _scored(scores: Path, entry: Entry) -> dict[str, Case]:
    path = Path(scores) / entry.cell.path / "cases.jsonl"
    members = groups(list(jsonl.read_unique(path, Case, "key").values())).get(entry.group, [])
    return {case.key: case for case in members if case.metrics}
