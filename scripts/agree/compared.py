"""A comparison of raters as JSON, CSV, Markdown and LaTeX."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from scripts.agree.agreement import Estimate
from scripts.lib import latex

ALL = "All"
VALUES = ("value", "low", "high", "n", "n_videos")
NOTHING = "–"


@dataclass(frozen=True)
class Row:
    """One statistic of one group of answers."""

    group: str
    who: str
    what: str
    estimate: Estimate


@dataclass(frozen=True)
class Compared:
    """All of it."""

    name: str
    """Of the file in config/agreement."""
    title: str
    judge: str
    raters: int
    counts: dict[int, int]
    """By how many raters rated it: how many answers."""
    statuses: dict[str, int]
    """Of the judge's judgements of the answers that were given out."""
    rows: list[Row]


def to_json(found: Compared) -> str:
    content = {
        "title": found.title,
        "judge": found.judge,
        "raters": found.raters,
        "answers_by_number_of_raters": {str(count): n for count, n in sorted(found.counts.items())},
        "judgements": found.statuses,
        "rows": [{"group": one.group, "who": one.who, "what": one.what, **asdict(one.estimate)} for one in found.rows],
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def to_csv(found: Compared) -> str:
    """One line per statistic and group; shares in 0–1, scores in 0–5."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["group", "who", "what", *VALUES])
    for one in found.rows:
        writer.writerow([one.group, one.who, one.what, *(getattr(one.estimate, name) for name in VALUES)])
    return out.getvalue()


def to_markdown(found: Compared) -> str:
    groups, lines = _lines(found)
    text = [f"**{_plain(found.title)}**", "", "| | | " + " | ".join(map(_plain, groups)) + " |"]
    text.append("|---|---|" + "---:|" * len(groups))
    for (who, what), cells in lines:
        shown = [" ".join(filter(None, cell)) for cell in cells]
        text.append(f"| {_plain(who)} | {_plain(what)} | " + " | ".join(shown) + " |")
    return "\n".join([*text, "", *(f"- {_plain(note)}" for note in notes(found)), ""])


def to_latex(found: Compared) -> str:
    r"""A ``table`` environment to ``\input``; the preamble needs booktabs and graphicx."""
    groups, lines = _lines(found)
    rows = [
        latex.Line(
            what[0].upper() + what[1:],
            [
                (latex.escape(first), rf"{{\scriptsize {latex.escape(second)}}}" if second else "")
                for first, second in cells
            ],
            who,
        )
        for (who, what), cells in lines
    ]
    columns = [latex.Column(group) for group in groups]
    layout = latex.Layout(f"{found.title}.", f"tab:agreement-{found.name}", columns, notes(found))
    head = "% Written by scripts.agree.compare_raters; needs \\usepackage{booktabs,graphicx}.\n"
    return head + latex.table(layout, rows)


def _lines(found: Compared) -> tuple[list[str], Iterator[tuple[tuple[str, str], list[tuple[str, str]]]]]:
    """The groups, and for each statistic its text and interval in each of them; those of the same people together."""
    groups = list(dict.fromkeys(one.group for one in found.rows))
    by_name: dict[tuple[str, str], dict[str, Estimate]] = {}
    for one in found.rows:
        by_name.setdefault((one.who, one.what), {})[one.group] = one.estimate
    whos = list(dict.fromkeys(who for who, _ in by_name))
    ordered = sorted(by_name, key=lambda name: whos.index(name[0]))
    return groups, (
        ((who, what), [_texts(what, by_name[who, what][group]) for group in groups]) for who, what in ordered
    )


def _texts(what: str, estimate: Estimate) -> tuple[str, str]:
    """``38.7`` and ``[31.0, 46.2]``: per cent of accuracies, points of scores, two decimals of the others."""
    if estimate.value is None:
        return NOTHING, ""
    scale, digits = {"accuracy": (100, 1), "score": (1, 1)}.get(what, (1, 2))
    value, low, high = (
        None if one is None else f"{scale * one:.{digits}f}".replace("-", "−")
        for one in (estimate.value, estimate.low, estimate.high)
    )
    return str(value), f"[{low}, {high}]" if low is not None else ""


def notes(found: Compared) -> list[str]:
    """What a reader must know: of how many, what is missing, what the intervals are."""
    by = ", ".join(
        f"{n} by {'nobody' if count == 0 else f'{count} of {found.raters}'}"
        for count, n in sorted(found.counts.items())
    )
    lines = [
        f"{sum(found.counts.values())} answers were given out; rated: {by}.",
        "Accuracy in per cent, scores from 0 to 5. 95 % intervals by bootstrap over videos.",
    ]
    left = {status: n for status, n in found.statuses.items() if status != "ok"}
    if left:
        lines.append("Without a verdict of the judge: " + ", ".join(f"{n} {name}" for name, n in left.items()) + ".")
    if found.raters < 2:
        lines.append("One rater: nothing is known of how people agree.")
    undefined = [one.estimate for one in found.rows if one.estimate.value is None]
    if any(one.n for one in undefined):
        lines.append(f"{NOTHING} Undefined where somebody always said the same.")
    if any(not one.n for one in undefined):
        lines.append(f"{NOTHING} Nothing to compare where no answer was rated by all of those named.")
    return lines


def summary(found: Compared) -> str:
    """One line for the log."""
    return f"{found.raters} raters, {sum(n for count, n in found.counts.items() if count)} answers rated"


def _plain(text: str) -> str:
    return text.replace("|", "\\|")
