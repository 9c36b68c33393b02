"""A cell of the evaluation grid and its path: the only code that knows the axes."""

import re
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from scripts.lib.errors import ConfigError
from scripts.lib.text import did_you_mean


@dataclass(frozen=True, order=True)
class Cell:
    """One model answering one data set's questions on frames of one sampler at one resolution with one prompt."""

    dataset: str
    model: str
    sampler: str
    resolution: str
    prompt: str

    @property
    def path(self) -> Path:
        """``dataset/model/sampler/resolution/prompt``, relative."""
        return Path(*astuple(self))

    def __str__(self) -> str:
        return self.path.as_posix()


AXES = tuple(field.name for field in fields(Cell))
PATTERN = "/".join(f"{{{axis}}}" for axis in AXES)
"""The path of any cell, with a wildcard for every axis."""


def parse(text: str) -> Cell:
    """The cell of a path written by ``Cell.path``."""
    parts = Path(text).parts
    if len(parts) != len(AXES):
        raise ConfigError(f"cell '{text}' is not of the form {'/'.join(AXES)}")
    return Cell(*parts)


SHARD = r"([1-9]\d*)of([1-9]\d*)"
"""The name of a shard."""


def shard_names(count: int) -> list[str]:
    """``1of3``, ``2of3``, ``3of3``: the parts in which a cell is answered, side by side."""
    return [f"{number}of{count}" for number in range(1, count + 1)]


def parse_shard(text: str) -> tuple[int, int]:
    """Number and count of a name that ``shard_names`` made.

    Raises:
        ConfigError: not such a name, or a number that is not between 1 and the count.
    """
    match = re.fullmatch(SHARD, text)
    if not match or int(match[1]) > int(match[2]):
        raise ConfigError(f"shard '{text}' is not of the form 2of4")
    return int(match[1]), int(match[2])


JUDGED = ("judge_accuracy", "judge_score")
"""The metrics that a judge gives (share of yes, mean of 0-5); the others come from comparing texts."""


@dataclass(frozen=True, order=True)
class Scored:
    """Scores of one cell: by the metrics of text, or by a judge."""

    cell: Cell
    judge: str = ""
    """Name of a file in config/judges; empty = no judge."""

    @property
    def folder(self) -> Path:
        """Of its scores.json and cases.jsonl, below results/."""
        return Path("judged", self.judge, self.cell.path) if self.judge else Path("scores", self.cell.path)

    def __str__(self) -> str:
        return f"{self.cell}, judged by {self.judge}" if self.judge else str(self.cell)


@dataclass(frozen=True)
class Entry:
    """One number of a table: which cell it comes from and what is read off its scores."""

    cell: Cell
    metric: str
    group: str
    """``all``, ``macro`` (mean over the categories), or a category or subset of the data set."""
    judge: str = ""
    """Of a metric in JUDGED; empty for the others."""

    @property
    def scored(self) -> Scored:
        return Scored(self.cell, self.judge)


def row_name(row: dict[str, Any]) -> str:
    """The label of a table's row, after the section where there is one: unique in a table, and what compare names."""
    return f"{row['section']} / {row['label']}" if row.get("section") else str(row["label"])


def table_entries(table: dict[str, Any]) -> list[list[Entry | None]]:
    """Rows of entries of a table specification: ``defaults``, overlaid by the column, overlaid by the row.

    None stands where the row's ``only`` leaves the column out: there the table shows a dash by design.

    Raises:
        ConfigError: an axis is set nowhere for some entry, or ``only`` names no column.
    """
    return [[_entry(table, row, column) for column in table["columns"]] for row in table["rows"]]


def _entry(table: dict[str, Any], row: dict[str, Any], column: dict[str, Any]) -> Entry | None:
    labels = [each["label"] for each in table["columns"]]
    unknown = [label for label in row.get("only", []) if label not in labels]
    if unknown:
        raise ConfigError(
            f"table '{table['name']}': row '{row_name(row)}': only: no column"
            f" '{unknown[0]}'{did_you_mean(unknown[0], labels)}"
        )
    if column["label"] not in row.get("only", labels):
        return None
    chosen = {**table.get("defaults", {}), **column, **row}
    judged = chosen.get("metric") in JUDGED
    missing = [key for key in (*AXES, "metric", *(("judge",) if judged else ())) if key not in chosen]
    if missing:
        raise ConfigError(
            f"table '{table['name']}': row '{row_name(row)}', column '{column['label']}' names no {missing[0]};"
            " set it in defaults, the row or the column"
        )
    cell = Cell(*(chosen[axis] for axis in AXES))
    return Entry(cell, chosen["metric"], chosen.get("group", "all"), chosen["judge"] if judged else "")


def table_cells(table: dict[str, Any]) -> list[Cell]:
    """The distinct cells that a table asks for, sorted."""
    return sorted({scored.cell for scored in table_scores(table)})


def table_scores(table: dict[str, Any]) -> list[Scored]:
    """The distinct scores that a table asks for, sorted."""
    return sorted({entry.scored for row in table_entries(table) for entry in row if entry})


def rated_cells(agreement: dict[str, Any]) -> dict[str, Cell]:
    """Label to cell of a file in config/agreement, in its order.

    Raises:
        ConfigError: two cells of one label, or one cell twice.
    """
    named: dict[str, Cell] = {}
    for one in agreement["cells"]:
        cell = Cell(*(one[axis] for axis in AXES))
        if one["label"] in named or cell in named.values():
            raise ConfigError(f"agreement '{agreement['name']}': '{one['label']}' ({cell}) is there twice; remove one")
        named[one["label"]] = cell
    return named


def check_names(cell: Cell, known: dict[str, set[str]], where: str) -> None:
    """Refuse a cell whose axis names a file that does not exist.

    Args:
        known: axis to the names that have a file under config/; an axis that isn't there is not checked.
        where: the table that asks, for the message.
    """
    for axis in AXES:
        name = getattr(cell, axis)
        if axis in known and name not in known[axis]:
            raise ConfigError(f"{where}: no {axis} '{name}'{did_you_mean(name, known[axis])}")
