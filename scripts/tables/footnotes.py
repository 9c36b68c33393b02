"""What stands below a table, in plain text: how to read it, n, who judged, what was not scored or is missing."""

from collections.abc import Callable
from typing import Any

from scripts.lib import metrics, stats
from scripts.lib.cells import Scored
from scripts.lib.records import MACRO
from scripts.tables.costs import judgements
from scripts.tables.printed import BY_DESIGN, heading, interval, p_text, questions, signed, used
from scripts.tables.rows import Comparison, Number, Row, Table

FEW_VIDEOS = 100
"""An interval of no width says little with fewer: the next video may be the first one on which a row fails."""

FEW_FOR_INTERVALS = 20
"""Of fewer videos, a percentile interval of the bootstrap holds the truth in fewer than 93 of 100 studies."""

DETECTABLE = (
    "“Detectable”: of smaller true differences, more than one in five would be missed at a level of 5 %, uncorrected."
)

MOST_FRAME_NOTES = 2
"""Of one row; frames of many sizes are changed in as many ways."""

Statuses = Callable[[str], bool]
"""Which statuses are meant."""
OF_A_JUDGE = "judge:"
"""What statuses begin with where the answer is one and the judgement could not be made."""
STATUSES: dict[str, Statuses] = {
    "An answer, and scored": lambda status: status == "unanswerable",
    "Not scored": lambda status: status not in ("ok", "unanswerable") and not status.startswith(OF_A_JUDGE),
    "Not judged": lambda status: status.startswith(OF_A_JUDGE),
}
"""What stands below a table of the replies that are not plain answers."""
FLAGS = {
    "cut": "answer cut",
    "defused": "braces replaced in an answer, lest it look like a verdict",
    "repaired": "verdict read when asked for again",
    "two_verdicts": "first of several verdicts taken",
}
"""What a reader must know of how a judgement was made."""


def counts_by_column(table: Table) -> list[set[tuple[int, int]]]:
    """For each column the (questions, videos) of its complete numbers."""
    return [
        {(n.score["n"], n.score["n_videos"]) for row in table.rows if (n := row.numbers[at]).score and n.complete}
        for at in range(len(table.spec["columns"]))
    ]


def counts_vary(table: Table) -> bool:
    """Whether one n per column can't be told, so that every number carries its own."""
    return any(len(counts) > 1 for counts in counts_by_column(table))


def notes(table: Table) -> list[str]:
    """All notes, in the order in which a reader wants them."""
    numbers = [number for row in table.rows for number in row.numbers]
    lines = [*_reading_notes(table, numbers), *_n_notes(table)]
    if any(interval(n) == "" and n.value is not None for n in numbers):
        lines.append("No interval where all questions are of one video.")
    if _no_width(table, numbers):
        lines.append("An interval of no width means that all draws agreed, not that the value is certain.")
    if any(interval(n) and n.score and n.score["n_videos"] < FEW_FOR_INTERVALS for n in numbers):
        lines.append(f"Intervals over fewer than {FEW_FOR_INTERVALS} videos are too narrow.")
    lines += [_judge_note(table, judge) for judge in dict.fromkeys(scored.judge for scored in table.found) if judge]
    lines += [note for name, statuses in STATUSES.items() if (note := _status_note(table, name, statuses))]
    lines += _frames_note(table)
    if any(number.entry is None for number in numbers):
        lines.append(f"{BY_DESIGN} Not part of this table.")
    if table.missing:
        lines.append(f"† No scores yet for: {'; '.join(map(str, table.missing))}.")
    return lines + _comparison_notes(table)


def _reading_notes(table: Table, numbers: list[Number]) -> list[str]:
    scored = [number for number in numbers if number.value is not None]
    if not scored:
        return []
    shown = {number.entry.metric for number in scored if number.entry}
    pairs = any(number.pair for number in scored)
    scales = {metrics.scale(name) for name in [*shown, *(number.pair_metric for number in scored if number.pair)]}
    kinds = ["per cent" if scale == 100 else "scores of 0–5" for scale in sorted(scales, reverse=True)]
    draws = " or ".join(f"{draws:,}" for draws in table.draws)
    ranked = "" if all(number.complete for number in scored) else " of those with every question scored"
    lines = [
        f"{' and '.join(kinds).capitalize()}, with 95 % intervals from a bootstrap over videos ({draws} draws)."
        f" In each column the best value{ranked} is bold and the second best underlined."
    ]
    if pairs:
        lines.append("Of two values, interval and rank are those of the first, which is in per cent.")
    if any(number.entry and number.entry.group == MACRO for number in scored):
        macro = _columns(table, lambda number: bool(number.entry and number.entry.group == MACRO))
        lines.append(f"Mean over the categories, each of the same weight: {', '.join(macro)}.")
    return lines


def _columns(table: Table, wanted: Callable[[Number], bool]) -> list[str]:
    """Headings of the columns in which any number is wanted."""
    return [
        heading(column)
        for at, column in enumerate(table.spec["columns"])
        if any(wanted(row.numbers[at]) for row in table.rows)
    ]


def _no_width(table: Table, numbers: list[Number]) -> bool:
    """Whether an interval is printed as a point though it is of too few videos for that to say much."""
    shown = [
        (n.entry.metric, n.score["low"], n.score["high"], n.score["n_videos"])
        for n in numbers
        if n.entry and n.score and interval(n)
    ]
    shown += [(one.metric, d.low, d.high, d.n_videos) for one in table.comparisons if (d := one.difference)]
    return any(
        metrics.shown(metric, low) == metrics.shown(metric, high) and n_videos < FEW_VIDEOS
        for metric, low, high, n_videos in shown
    )


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
        return [f"n = {questions(*next(iter(distinct)))}.{told}"]
    columns: dict[tuple[int, int], list[str]] = {}
    for column, counts in zip(table.spec["columns"], by_column, strict=True):
        for one in counts:
            columns.setdefault(one, []).append(heading(column))
    named = [f"{questions(*counts)} ({', '.join(names)})" for counts, names in columns.items()]
    return [f"n = {'; '.join(named)}.{told}"]


def _judge_note(table: Table, judge: str) -> str:
    """Who judged which numbers, what was unusual in that, and how far the judge agreed with itself."""
    found = [content for scored, content in table.found.items() if scored.judge == judge]
    title, note = found[0]["judge_title"], found[0]["judge_note"]
    parts = [f"Judged by {title}{_judged_where(table, judge)}."]
    n = judgements(found)
    counts = {flag: sum(content["flags"].get(flag, 0) for content in found) for flag in FLAGS}
    if any(counts.values()):
        told = [f"{FLAGS[flag]} ({count:,})" for flag, count in counts.items() if count]
        parts.append(f"Of {n:,} judgement{'s' * (n != 1)}: {', '.join(told)}.")
    again = [content["again"] for content in found if content["again"]]
    if again:
        twice, flipped = (sum(one[key] for one in again) for key in ("n", "flipped"))
        # No interval: the same questions are judged twice in every cell.
        parts.append(
            f"Judged twice: {twice:,} answer{'s' * (twice != 1)}, verdict flipped in {100 * flipped / twice:.1f} %."
        )
    return " ".join([*parts, *([note] if note else [])])


def _judged_where(table: Table, judge: str) -> str:
    """Which numbers are a judge's: empty where all are, else the columns, or the rows where columns have two judges."""

    def judges(numbers: list[Number]) -> set[str]:
        return {number.entry.judge for number in numbers if number.entry}

    columns = [judges([row.numbers[at] for row in table.rows]) for at in range(len(table.spec["columns"]))]
    if all(of <= {judge} for of in columns):
        return ""
    named = zip(table.spec["columns"], columns, strict=True)
    if all(len(of) == 1 for of in columns if judge in of):
        return f" in {', '.join(heading(column) for column, of in named if judge in of)}"
    return f" in {'; '.join(row.name for row in table.rows if judge in judges(row.numbers))}"


def _status_note(table: Table, name: str, statuses: Statuses) -> str:
    """The rows with replies of some statuses and how many each has; empty without any."""
    told = [f"{row.name} ({text})" for row in table.rows if (text := _status_counts(table, row, statuses))]
    return f"{name}: {'; '.join(told)}." if told else ""


def _status_counts(table: Table, row: Row, statuses: Statuses) -> str:
    """``1 refused, 2 truncated``, for the columns of each cell where the row's cells differ."""
    columns: dict[Scored, list[str]] = {}
    for number, column in zip(row.numbers, table.spec["columns"], strict=True):
        if number.entry and number.entry.scored in table.found:
            columns.setdefault(number.entry.scored, []).append(heading(column))
    listed: dict[str, list[str]] = {}
    of_judges = statuses(OF_A_JUDGE)
    for scored, names in columns.items():
        if of_judges and not scored.judge:
            continue
        listed.setdefault(_counted(table.found[scored]["statuses"], statuses), []).extend(names)
    return "; ".join(f"{text} in {', '.join(at)}" if len(listed) > 1 else text for text, at in listed.items() if text)


def _counted(counts: dict[str, int], statuses: Statuses) -> str:
    """``3 parse_failed, 1 refused of 685``; of how many is told of judgements only, ``used`` has it of the others."""
    wanted = {status: n for status, n in counts.items() if statuses(status)}
    text = ", ".join(f"{n:,} {status.removeprefix(OF_A_JUDGE)}" for status, n in wanted.items())
    of_a_judge = any(status.startswith(OF_A_JUDGE) for status in wanted)
    return f"{text} of {sum(counts.values()):,}" if of_a_judge else text


def _frames_note(table: Table) -> list[str]:
    """Which rows' frames were not seen as the cell's name says, and what the model made of them."""
    told = []
    frames = {scored.cell: content["frames_changed"] for scored, content in table.found.items()}
    for row in table.rows:
        cells = dict.fromkeys(number.entry.cell for number in row.numbers if number.entry)
        found: dict[str, int] = {}
        for cell in cells:
            for note, count in frames.get(cell, {}).items():
                found[note] = found.get(note, 0) + count
        listed = [f"{note} ({count} answers)" for note, count in list(found.items())[:MOST_FRAME_NOTES]]
        more = [f"{len(found) - MOST_FRAME_NOTES} more kinds"] if len(found) > MOST_FRAME_NOTES else []
        if listed:
            told.append(f"{row.name}: {', '.join([*listed, *more])}")
    return [f"Frames as the model's own preprocessing changed them: {'; '.join(told)}."] if told else []


def _comparison_notes(table: Table) -> list[str]:
    """What the differences are, once, and each of them."""
    if not table.comparisons:
        return []
    made = [one.difference for one in table.comparisons if one.difference]
    corrected = ", with p after Holm's correction" if len(made) > 1 else ""
    lines = [f"Differences (only questions scored in both){corrected}:"]
    lines += [_comparison_note(table.spec, one) for one in table.comparisons]
    if any(map(detectable, made)):
        lines.append(DETECTABLE)
    return lines


def _comparison_note(spec: dict[str, Any], one: Comparison) -> str:
    column = next(column for column in spec["columns"] if column["label"] == one.column)
    what = f"“{one.rows[0]}” minus “{one.rows[1]}” in {heading(column)}"
    found = one.difference
    if one.missing:
        return f"{what}: no scores yet."
    if found is None or one.p_holm is None:
        return f"{what}: no questions scored in both."
    value, low, high = (signed(one.metric, end) for end in (found.value, found.low, found.high))
    least = detectable(found)
    told = f"; detectable: {metrics.shown(one.metric, least)}" if least else ""
    return f"{what}: {value} [{low}, {high}], {p_text(one.p_holm)} ({questions(found.n, found.n_videos)}{told})."


def detectable(found: stats.Difference) -> float | None:
    """The smallest difference found with 80 % power; None where nothing is known of how videos differ: there is one,
    or all draws gave the same."""
    return found.detectable if found.n_videos > 1 and found.detectable else None
