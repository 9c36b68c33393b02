"""One table in its four forms: LaTeX for the paper, CSV (tidy) and JSON for programs, Markdown for the terminal."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from scripts.lib import latex
from scripts.lib.cells import Cell
from scripts.tables.rows import Comparison, Number, Row, Table, percent

BY_DESIGN = "—"
MISSING = "–†"
NOTHING_SCORED = "–"
SCORES = ("value", "low", "high", "n", "n_scored", "n_videos")
FEW_VIDEOS = 100
"""An interval of no width says little with fewer: the next video may be the first one on which a row fails."""

Statuses = Callable[[str], bool]
"""Which statuses are meant."""
MOST_FRAME_NOTES = 2
"""Of one row; frames of many sizes are changed in as many ways."""
STATUSES: dict[str, Statuses] = {
    "An answer, and scored": lambda status: status == "unanswerable",
    "Not scored": lambda status: status not in ("ok", "unanswerable"),
}
"""What stands below a table of the replies that are not plain answers."""


def interval(number: Number) -> str:
    """``[50.1, 70.2]``; empty where a single video says nothing of how videos differ."""
    if number.score is None or number.value is None or number.score["n_videos"] < 2:
        return ""
    return f"[{percent(number.score['low'])}, {percent(number.score['high'])}]"


def main_text(number: Number) -> str:
    """The number itself, or the kind of dash that stands for it."""
    if number.entry is None:
        return BY_DESIGN
    if number.score is None:
        return MISSING
    return NOTHING_SCORED if number.value is None else percent(number.value)


def used(number: Number, always: bool) -> str:
    """``38/40``, questions used of all: where some could not be scored, or ``always``."""
    if number.score is None or (number.complete and not always):
        return ""
    return f"{number.score['n_scored']}/{number.score['n']}"


def counts_by_column(table: Table) -> list[set[tuple[int, int]]]:
    """For each column the (questions, videos) of its complete numbers."""
    return [
        {(n.score["n"], n.score["n_videos"]) for row in table.rows if (n := row.numbers[at]).score and n.complete}
        for at in range(len(table.spec["columns"]))
    ]


def counts_vary(table: Table) -> bool:
    """Whether one n per column can't be told, so that every number carries its own."""
    return any(len(counts) > 1 for counts in counts_by_column(table))


def heading(column: dict[str, Any]) -> str:
    """A column's name outside its place in the table: what it shares with its neighbours, then its own."""
    own = column.get("heading", column["label"])
    return f"{column['over']}: {own}" if "over" in column else str(own)


def notes(table: Table) -> list[str]:
    """What stands below the table, in plain text: how to read it, n, what was not scored or is missing, differences."""
    numbers = [number for row in table.rows for number in row.numbers]
    lines = [*_reading_notes(table, numbers), *_n_notes(table)]
    if any(interval(n) == "" and n.value is not None for n in numbers):
        lines.append("No interval where all questions are of one video.")
    if _no_width(table, numbers):
        lines.append("An interval of no width means that all draws agreed, not that the value is certain.")
    lines += [note for name, statuses in STATUSES.items() if (note := _status_note(table, name, statuses))]
    lines += _frames_note(table)
    if any(number.entry is None for number in numbers):
        lines.append(f"{BY_DESIGN} Not part of this table.")
    if table.missing:
        lines.append(f"† No scores yet for: {', '.join(map(str, table.missing))}.")
    return lines + _comparison_notes(table)


def _reading_notes(table: Table, numbers: list[Number]) -> list[str]:
    scored = [number for number in numbers if number.value is not None]
    if not scored:
        return []
    draws = " or ".join(f"{draws:,}" for draws in table.draws)
    ranked = "" if all(number.complete for number in scored) else " of those with every question scored"
    return [
        f"Per cent, with 95 % intervals from a bootstrap over videos ({draws} draws)."
        f" In each column the best value{ranked} is bold and the second best underlined."
    ]


def _no_width(table: Table, numbers: list[Number]) -> bool:
    """Whether an interval is printed as a point though it is of too few videos for that to say much."""
    shown = [(n.score["low"], n.score["high"], n.score["n_videos"]) for n in numbers if n.score and interval(n)]
    shown += [(d.low, d.high, d.n_videos) for one in table.comparisons if (d := one.difference)]
    return any(percent(low) == percent(high) and n_videos < FEW_VIDEOS for low, high, n_videos in shown)


def _n_notes(table: Table) -> list[str]:
    by_column = counts_by_column(table)
    partial = any(used(number, False) for row in table.rows for number in row.numbers)
    told = " Where fewer could be scored, the number is followed by n used/n." if partial else ""
    distinct = {one for counts in by_column for one in counts}
    if counts_vary(table):
        return ["Each number is followed by n used/n (questions)."]
    if not distinct:
        return [told.strip()] if told else []
    if len(distinct) == 1:
        return [f"n = {_n(next(iter(distinct)))}.{told}"]
    columns: dict[tuple[int, int], list[str]] = {}
    for column, counts in zip(table.spec["columns"], by_column, strict=True):
        for one in counts:
            columns.setdefault(one, []).append(heading(column))
    named = [f"{_n(counts)} ({', '.join(names)})" for counts, names in columns.items()]
    return [f"n = {'; '.join(named)}.{told}"]


def _n(counts: tuple[int, int]) -> str:
    questions, videos = counts
    return f"{questions} question{'s' * (questions != 1)} of {videos} video{'s' * (videos != 1)}"


def _status_note(table: Table, name: str, statuses: Statuses) -> str:
    """The rows with replies of some statuses and how many each has; empty without any."""
    told = [f"{row.name} ({text})" for row in table.rows if (text := _status_counts(table, row, statuses))]
    return f"{name}: {'; '.join(told)}." if told else ""


def _status_counts(table: Table, row: Row, statuses: Statuses) -> str:
    """``1 refused, 2 truncated``, for the columns of each cell where the row's cells differ."""
    columns: dict[Cell, list[str]] = {}
    for number, column in zip(row.numbers, table.spec["columns"], strict=True):
        if number.entry and number.entry.cell in table.statuses:
            columns.setdefault(number.entry.cell, []).append(heading(column))
    listed: dict[str, list[str]] = {}
    for cell, names in columns.items():
        counts = [f"{n} {status}" for status, n in table.statuses[cell].items() if statuses(status)]
        listed.setdefault(", ".join(counts), []).extend(names)
    return "; ".join(f"{text} in {', '.join(at)}" if len(listed) > 1 else text for text, at in listed.items() if text)


def _frames_note(table: Table) -> list[str]:
    """Which rows' frames were not seen as the cell's name says, and what the model made of them."""
    told = []
    for row in table.rows:
        cells = dict.fromkeys(number.entry.cell for number in row.numbers if number.entry)
        notes: dict[str, int] = {}
        for cell in cells:
            for note, count in table.frames.get(cell, {}).items():
                notes[note] = notes.get(note, 0) + count
        listed = [f"{note} ({count} answers)" for note, count in list(notes.items())[:MOST_FRAME_NOTES]]
        more = [f"{len(notes) - MOST_FRAME_NOTES} more kinds"] if len(notes) > MOST_FRAME_NOTES else []
        if listed:
            told.append(f"{row.name}: {', '.join([*listed, *more])}")
    return [f"Frames as the model's own preprocessing changed them: {'; '.join(told)}."] if told else []


def _comparison_notes(table: Table) -> list[str]:
    """What the differences are, once, and each of them."""
    if not table.comparisons:
        return []
    several = sum(one.difference is not None for one in table.comparisons) > 1
    corrected = ", with p after Holm's correction" if several else ""
    return [
        f"Differences (only questions scored in both){corrected}:",
        *[_comparison_note(table, one) for one in table.comparisons],
    ]


def _comparison_note(table: Table, one: Comparison) -> str:
    column = next(column for column in table.spec["columns"] if column["label"] == one.column)
    what = f"“{one.rows[0]}” minus “{one.rows[1]}” in {heading(column)}"
    found = one.difference
    if found is None or one.p_holm is None:
        return f"{what}: no questions scored in both."
    value, low, high = map(_signed, (found.value, found.low, found.high))
    return f"{what}: {value} [{low}, {high}], {_p(one.p_holm)} ({_n((found.n, found.n_videos))})."


def _signed(value: float) -> str:
    """A difference as it is printed; zero has no sign."""
    text = f"{100 * value:+.1f}"
    return text.replace("-", "−") if float(text) else "0.0"


def _p(p: float) -> str:
    if p < 0.001:
        return "p < 0.001"
    text = f"{p:.3f}"
    return "p = 1" if text == "1.000" else f"p = {text}"


def to_latex(table: Table) -> str:
    r"""A ``table`` environment to ``\input``; the preamble needs booktabs and graphicx."""
    spec = table.spec
    always = counts_vary(table)
    lines = [
        latex.Line(row.label, [_latex_number(number, always) for number in row.numbers], row.section)
        for row in table.rows
    ]
    columns = [
        latex.Column(column.get("heading", column["label"]), column.get("over", "")) for column in spec["columns"]
    ]
    layout = latex.Layout(spec["caption"], f"tab:{spec.get('label', spec['name'])}", columns, notes(table))
    return "% Written by scripts.tables.make_table; needs \\usepackage{booktabs,graphicx}.\n" + latex.table(
        layout, lines
    )


def _latex_number(number: Number, always: bool) -> tuple[str, str]:
    style = {1: r"\textbf{%s}", 2: r"\underline{%s}"}.get(number.rank, "%s")
    beside = " ".join(filter(None, [interval(number), used(number, always)]))
    return style % latex.escape(main_text(number)), rf"{{\scriptsize {latex.escape(beside)}}}" if beside else ""


def to_markdown(table: Table) -> str:
    """Title, caption, table and notes."""
    columns = [heading(column) for column in table.spec["columns"]]
    always = counts_vary(table)
    lines = [
        f"**{_markdown(table.spec['title'])}**",
        "",
        _markdown(table.spec["caption"]),
        "",
        "| " + " | ".join(["", *map(_markdown, columns)]) + " |",
        "| " + " | ".join(["---", *["---:"] * len(columns)]) + " |",
    ]
    for row in table.rows:
        cells = [_markdown_number(number, always) for number in row.numbers]
        lines.append("| " + " | ".join([_markdown(row.name), *cells]) + " |")
    return "\n".join([*lines, "", *[f"- {_markdown(note)}" for note in notes(table)], ""])


def _markdown_number(number: Number, always: bool) -> str:
    style = {1: "**{}**", 2: "<u>{}</u>"}.get(number.rank, "{}")
    return " ".join(filter(None, [style.format(main_text(number)), interval(number), used(number, always)]))


def _markdown(text: str) -> str:
    """One line of plain text in which nothing is markup of a table."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def to_csv(table: Table) -> str:
    """One line per number that the table asks for; values in 0–1, empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["section", "row", "column", "cell", "metric", "group", *SCORES])
    for row in table.rows:
        for number, column in zip(row.numbers, table.spec["columns"], strict=True):
            if number.entry:
                entry, score = number.entry, number.score or {}
                named = [row.section, row.label, column["label"], str(entry.cell), entry.metric, entry.group]
                writer.writerow([*named, *[score.get(name) for name in SCORES]])
    return out.getvalue()


def to_json(table: Table) -> str:
    """Everything: the specification, each number with its cell and state, statuses per cell, comparisons and notes."""
    content = {
        "name": table.spec["name"],
        "spec": table.spec,
        "rows": [
            {
                "section": row.section,
                "label": row.label,
                "entries": [_json_entry(number, counts_vary(table)) for number in row.numbers],
            }
            for row in table.rows
        ],
        "statuses": {str(cell): counts for cell, counts in table.statuses.items()},
        "frames_changed": {str(cell): notes for cell, notes in table.frames.items() if notes},
        "missing": [str(cell) for cell in table.missing],
        "comparisons": [
            {
                "rows": list(one.rows),
                "column": one.column,
                **(asdict(one.difference) if one.difference else {}),
                "p_holm": one.p_holm,
            }
            for one in table.comparisons
        ],
        "footnotes": notes(table),
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _json_entry(number: Number, always: bool) -> dict[str, Any]:
    """``state`` is ``scored``, ``nothing_scored``, ``missing`` or ``not_asked``; ``text``, ``interval`` and ``used``
    are as printed, the other values as in scores.json (null where there is none)."""
    states = {BY_DESIGN: "not_asked", MISSING: "missing", NOTHING_SCORED: "nothing_scored"}
    entry, score = number.entry, number.score or {}
    return {
        "state": states.get(main_text(number), "scored"),
        "cell": str(entry.cell) if entry else None,
        "metric": entry.metric if entry else None,
        "group": entry.group if entry else None,
        **{name: score.get(name) for name in SCORES},
        "rank": number.rank,
        "text": main_text(number),
        "interval": interval(number),
        "used": used(number, always),
    }
