"""Compare all rows of one column of a table with each other.

For each pair of rows: the difference on the questions that both have scored, its 95 % interval by bootstrap over
videos, p, p after Holm's correction for the number of pairs, and the smallest difference that would be found with 80 %
power (at 5 %, uncorrected). Differences are in points: per cent, or of a judge's score from 0 to 5.

    python -m scripts.tables.compare_rows --table config/tables/demo/signs.yaml --results results --column all

Rows without scores are named below the list. With --csv the same goes into a file, values in 0–1 (judge_score: 0–5).
"""

import argparse
import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from scripts.lib import cli, config, metrics, stats
from scripts.lib.cells import Entry
from scripts.lib.errors import ConfigError
from scripts.lib.files import write_text
from scripts.lib.records import MACRO, Case
from scripts.lib.text import did_you_mean
from scripts.tables import rows
from scripts.tables.footnotes import DETECTABLE, detectable
from scripts.tables.printed import heading, p_text, questions, signed

Pair = tuple[str, str, stats.Difference | None, float | None]
"""Row a, row b, a − b on the questions scored in both (none: they share no question), p after Holm's correction."""

ALIKE = ("metric", "group", "judge", "cell.dataset")
"""What the entries of two rows must share, or their difference says nothing."""


@dataclass(frozen=True)
class Compared:
    """All pairs of one column, and the rows that are in none of them."""

    column: dict[str, Any]
    metric: str
    group: str
    pairs: list[Pair]
    left_out: list[str]
    """A line for each row that is in no pair: which, and why."""


def compare(table: dict[str, Any], label: str, results: Path) -> Compared:
    """Every pair of the rows that have scores in a column, in the table's order.

    Raises:
        ConfigError: no such column, or its rows differ in more than model, sampler, resolution and prompt.
        DataError: scores can't be read.
    """
    labels = [column["label"] for column in table["columns"]]
    if label not in labels:
        raise ConfigError(f"table '{table['name']}': no column '{label}'{did_you_mean(label, labels)}")
    at = labels.index(label)
    built = rows.build({**table, "allow_missing": True, "compare": []}, results)
    entries = {row.name: row.numbers[at].entry for row in built.rows}
    _check_alike(f"table '{table['name']}': column '{label}'", entries)
    chosen, left_out = _choose(entries, built)
    cases = {name: rows.scored_cases(results, entry) for name, entry in chosen.items()}
    values = {name: {key: case.metrics[chosen[name].metric] for key, case in of.items()} for name, of in cases.items()}
    first = next(iter(chosen.values()), None)
    if first is None:
        return Compared(table["columns"][at], "", "", [], left_out)
    settings = built.found[first.scored]["settings"]
    known: dict[str, Case] = {key: case for of in cases.values() for key, case in of.items()}
    pairs = stats.compare_all(
        values,
        {key: case.video for key, case in known.items()},
        settings["draws"],
        settings["seed"],
        strata_of={key: case.category for key, case in known.items()} if first.group == MACRO else None,
    )
    return Compared(table["columns"][at], first.metric, first.group, list(pairs), left_out)


def _check_alike(where: str, entries: dict[str, Entry | None]) -> None:
    asked = {name: entry for name, entry in entries.items() if entry}
    for name, entry in asked.items():
        first, other = next(iter(asked.items()))
        for what in ALIKE:
            values = [attrgetter(what)(one) for one in (other, entry)]
            if values[0] != values[1]:
                raise ConfigError(
                    f"{where}: '{first}' and '{name}' differ in {what.rpartition('.')[2]} ({values[0]}, {values[1]});"
                    " choose a column in which all rows have the same"
                )


def _choose(entries: dict[str, Entry | None], built: rows.Table) -> tuple[dict[str, Entry], list[str]]:
    """The rows to compare, and a line for each of the others."""
    chosen: dict[str, Entry] = {}
    left_out = []
    for name, entry in entries.items():
        same = next((other for other, of in chosen.items() if of == entry), None)
        if entry is None:
            left_out.append(f"{name}: not part of this column")
        elif entry.scored not in built.found:
            left_out.append(f"{name}: no scores yet for {entry.scored}")
        elif same is not None:
            left_out.append(f"{name}: the same cell as {same}")
        else:
            chosen[name] = entry
    return chosen, left_out


def to_text(found: Compared) -> str:
    """A line for each pair, in columns, and what is not among them."""
    lines = [f"{heading(found.column)}: row minus row, n questions scored in both, p after Holm's correction"]
    table = [_line(found.metric, pair) for pair in found.pairs]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines += ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table]
    if not table:
        lines.append("No pair to compare: fewer than two rows have scores.")
    if any(detectable(between) for *_, between, _ in found.pairs if between):
        lines.append(DETECTABLE)
    return "\n".join([*lines, *(["Not compared:", *found.left_out] if found.left_out else [])])


def _line(metric: str, pair: Pair) -> list[str]:
    a, b, between, p_holm = pair
    if between is None or p_holm is None:
        return [f"{a} − {b}", "no question scored in both", "", "", "", ""]
    value, low, high = (signed(metric, end) for end in (between.value, between.low, between.high))
    least = detectable(between)
    return [
        f"{a} − {b}",
        value,
        f"[{low}, {high}]",
        f"{p_text(between.p)}, corrected {p_text(p_holm)}",
        f"detectable: {metrics.shown(metric, least)}" if least else "",
        questions(between.n, between.n_videos),
    ]


def to_csv(found: Compared) -> str:
    """One line per pair; empty values where two rows share no question."""
    names = ("value", "low", "high", "p", "n", "n_videos")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row_a", "row_b", "metric", "group", *names, "p_holm", "detectable"])
    for a, b, between, p_holm in found.pairs:
        values: Iterable[Any] = [getattr(between, name, None) for name in names]
        least = detectable(between) if between else None
        writer.writerow([a, b, found.metric, found.group, *values, p_holm, least])
    return out.getvalue()


def step(args: argparse.Namespace) -> None:
    found = compare(config.read_file("table", args.table), args.column, args.results)
    print(to_text(found))
    if args.csv:
        write_text(args.csv, to_csv(found))


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--table", type=Path, required=True, help="config/tables/<paper>/<table>.yaml")
    parser.add_argument("--results", type=Path, required=True, help="folder of scores/ and judged/")
    parser.add_argument("--column", required=True, help="label of the column")
    parser.add_argument("--csv", type=Path, help="also write a file, one line per pair")
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
