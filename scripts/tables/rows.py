"""A table specification and the scores of its cells, put together: what every form of the table shows."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scripts.judge.score_cell import groups
from scripts.lib import jsonl, stats
from scripts.lib.cells import Cell, Entry, table_entries
from scripts.lib.errors import ConfigError, DataError
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
        """The label, after the section where there is one: unique in a table."""
        return f"{self.section} / {self.label}" if self.section else self.label


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
    check(spec)
    entries = table_entries(spec)
    cells = sorted({entry.cell for row in entries for entry in row if entry})
    made = {cell: read_scores(scores, cell, spec.get("allow_missing", False)) for cell in cells}
    found = {cell: content for cell, content in made.items() if content is not None}
    rows = [
        Row(row["label"], row.get("section", ""), [_number(spec, row["label"], entry, found) for entry in line])
        for row, line in zip(spec["rows"], entries, strict=True)
    ]
    return Table(
        spec,
        ranked(rows, [column.get("better", "higher") for column in spec["columns"]]),
        {cell: content["statuses"] for cell, content in found.items()},
        [cell for cell in cells if cell not in found],
        compare(spec, rows, scores, found),
        sorted({content["settings"]["draws"] for content in found.values()}),
    )


def check(spec: dict[str, Any]) -> None:
    """Refuse a table in which two columns, or two rows of a section, have one label.

    Raises:
        ConfigError: names the label.
    """
    columns = [column["label"] for column in spec["columns"]]
    rows = [Row(row["label"], row.get("section", ""), []).name for row in spec["rows"]]
    for kind, names in (("columns", columns), ("rows", rows)):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"table '{spec['name']}': two {kind} are called '{twice}'; rename one of them")


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
        needed = {"statuses", "metrics", "settings"} - set(content)
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
        better: for each column ``higher``, ``lower`` or ``none``. One value alone is not best.
    """
    marks: list[dict[str, int]] = []
    for position, direction in enumerate(better):
        values = {percent(v) for row in rows if (v := row.numbers[position].value) is not None}
        order = sorted(values, key=float, reverse=direction == "higher")
        marks.append(
            {} if direction == "none" or len(order) < 2 else {text: at for at, text in enumerate(order[:2], 1)}
        )
    return [
        replace(
            row,
            numbers=[
                replace(number, rank=0 if number.value is None else mark.get(percent(number.value), 0))
                for number, mark in zip(row.numbers, marks, strict=True)
            ],
        )
        for row in rows
    ]


def percent(value: float) -> str:
    """A value in 0–1 as it is printed."""
    return f"{100 * value:.1f}"


def compare(spec: dict[str, Any], rows: list[Row], scores: Path, found: dict[Cell, dict[str, Any]]) -> list[Comparison]:
    """The comparisons that the table asks for, p corrected over those that could be made.

    Raises:
        ConfigError: a row or column that isn't there, or two rows that show different things in the column.
        DataError: cases.jsonl is missing or malformed.
    """
    made = [_compare(spec, asked, rows, scores, found) for asked in spec.get("compare", [])]
    ps = iter(stats.holm([one.difference.p for one in made if one.difference]))
    return [replace(one, p_holm=next(ps)) if one.difference else one for one in made]


def _compare(
    spec: dict[str, Any], asked: dict[str, Any], rows: list[Row], scores: Path, found: dict[Cell, dict[str, Any]]
) -> Comparison:
    where = f"table '{spec['name']}': compare"
    columns = [column["label"] for column in spec["columns"]]
    named = {row.name: row for row in rows}
    for kind, name, known in (*(("row", row, named) for row in asked["rows"]), ("column", asked["column"], columns)):
        if name not in known:
            raise ConfigError(f"{where}: no {kind} '{name}'{did_you_mean(name, known)}")
    position = columns.index(asked["column"])
    a, b = (named[name].numbers[position].entry for name in asked["rows"])
    if a is None or b is None or (a.metric, a.group, a.cell.dataset) != (b.metric, b.group, b.cell.dataset):
        raise ConfigError(
            f"{where}: '{asked['rows'][0]}' and '{asked['rows'][1]}' don't both have column '{asked['column']}'"
            " with one metric, group and data set"
        )
    pair = (asked["rows"][0], asked["rows"][1])
    if a.cell not in found or b.cell not in found:
        return Comparison(pair, asked["column"], None)
    settings = found[a.cell]["settings"]
    return Comparison(pair, asked["column"], difference(scores, a, b, settings["draws"], settings["seed"]))


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
