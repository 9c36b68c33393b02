"""An estimate as text."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from scripts.estimate.prices import LIMITS, NONE, PRICES
from scripts.estimate.total import Estimate


def text(found: Estimate, asked: str) -> str:
    """All of it.

    Args:
        asked: what the estimate is for.
    """
    if not found.plan.jobs:
        return f"estimate for {asked}: nothing to do, it is all there\n"
    blocks = [heading(found, asked), rules(found)]
    if found.models:
        blocks.append(models(found))
    if found.prices:
        blocks.append(apis(found))
    blocks.append(disk(found.disk_gb))
    if found.too_long:
        blocks.append("\n".join(found.too_long))
    blocks.append(guesses(found))
    return "\n\n".join(blocks) + "\n"


def heading(found: Estimate, asked: str) -> str:
    jobs = f"estimate for {asked}: {len(found.plan.jobs)} jobs"
    submitted = found.plan.groups + found.plan.alone
    if submitted < len(found.plan.jobs):
        jobs += f", submitted as {submitted} (short ones share a job)"
    return f"{jobs}\nWhat is done already is left out; a cell, or footage, that is half done counts whole."


def rules(found: Estimate) -> str:
    """By rule, with what Slurm could bill at most beside."""
    rows = [["rule", "jobs", "CPU h", "at most", "GPU h", "at most"]]
    for name, one in [*found.rules.items(), ("total", found.total)]:
        hours = next(iter(one.gpu_h.values()))
        rows.append([name, str(one.jobs), *_pair(one.cpu_h, one.cpu_limit_h), *_pair(hours, one.gpu_limit_h)])
    return (
        f"{table(rows)}\nCPU h: of jobs without a GPU. GPU h: on {next(iter(found.cards.values()))}."
        " At most: every job runs once, to its time limit."
    )


def models(found: Estimate) -> str:
    """By model, on each card."""
    cards = found.cards if found.total.gpu_limit_h else {}
    heads = [f"{title}: {unit}" for unit in ("h", "$") for title in cards.values()]
    rows = [["model", "cells", "jobs", "questions", "CPU h", *heads]]
    for name, one in [*found.models.items(), ("total", found.answering)]:
        row = [name, str(one.cells), str(one.jobs), f"{one.questions:,.0f}", _hours(one.cpu_h)]
        row += [_hours(one.gpu_h[card]) for card in cards]
        rows.append(row + [f"{one.dollars[card]:,.2f}" for card in cards])
    lines = [table(rows)]
    if cards:
        limits = ", ".join(f"{title} ${found.total.limit_dollars[card]:,.0f}" for card, title in found.cards.items())
        lines.append(f"At most, by the time limits: {limits}.")
    if found.answering.kept:
        lines.append(
            f"{found.answering.kept:,} of these answers are in the cache, of cells that were begun: they are not asked"
            " again, unless an edit since then can change them."
        )
    return "\n".join(lines)


def apis(found: Estimate) -> str:
    """Tokens and dollars of models and judges that somebody else runs, and whether the budget lasts for them."""
    rows = [["API", "questions", "Mtok of frames", "of text", "of replies", "$", "at most $", "price of"]]
    known = {**found.models, **found.judges}
    asked = {name: known[name] for name in sorted(found.prices)}
    for name, one in [*asked.items(), ("total", found.total)]:
        questions = one.questions if name in asked else sum(each.questions for each in asked.values())
        tokens = (one.tokens.frames, one.tokens.text, one.tokens.new)
        rows.append(
            [name, f"{questions:,.0f}", *(f"{count / 1e6:,.2f}" for count in tokens)]
            + [f"{dollars:,.2f}" for dollars in (one.api_dollars, one.api_limit_dollars)]
            + [found.prices.get(name, "")]
        )
    notes = ["At most: every reply as long as it may be. Calls that fail and are repeated come on top of both."]
    if found.judges:
        notes.append(
            "Judges: of every question; a blank answer, and one that was judged in another cell, costs nothing."
        )
    if kept := sum(one.kept for one in found.judges.values()):
        notes.append(
            f"{kept:,} replies of judges are in the cache, of cells that were begun: they are not asked for again."
        )
    return "\n".join([table(rows), *notes, *spending(found)])


def spending(found: Estimate) -> list[str]:
    """What the budget of all runs says to it."""
    said = []
    unknown = sorted(name for name, day in found.prices.items() if day == NONE)
    if unknown:
        said.append(
            f"{PRICES} has no price of {', '.join(unknown)}: not in the dollars above, and refused while {LIMITS}"
            " limits dollars."
        )
    budget = found.budget
    if budget is None:
        return said
    if budget.dollars is not None:
        asked, most = found.total.api_dollars, found.total.api_limit_dollars
        said.append(_budget(f"${budget.dollars:,.2f}", budget.dollars - budget.dollars_spent, asked, most, "${:,.2f}"))
    if budget.tokens is not None:
        billed = found.total.tokens
        asked, most = billed.read + billed.new, billed.read + billed.most_new
        said.append(
            _budget(f"{budget.tokens:,.0f} tokens", budget.tokens - budget.tokens_spent, asked, most, "{:,.0f}")
        )
    return said


def _budget(limit: str, left: float, asked: float, most: float, form: str) -> str:
    start = f"Budget of {LIMITS}: {limit}, {form.format(max(left, 0.0))} left of it"
    if asked > left:
        return f"{start}: this would pass it by {form.format(asked - max(left, 0.0))}; the runs stop before they do."
    if most > left:
        return f"{start}: enough for this, but not for the longest replies."
    return f"{start}: enough for this."


def disk(folders: Mapping[str, float]) -> str:
    rows = [["disk to add", "GB"]]
    rows += [[name, f"{gb:,.2f}"] for name, gb in folders.items()]
    rows.append(["total", f"{sum(folders.values()):,.2f}"])
    return f"{table(rows)}\nContainers: those that are not here yet." if "containers" in folders else table(rows)


def guesses(found: Estimate) -> str:
    """Every guess that went in, under the file where it can be corrected."""
    if not found.guesses:
        return "No input of this estimate is a guess."
    lines = [f"{len(found.guesses)} guesses in this estimate; to correct one, change its value and its source:"]
    for file, figures in groupby(found.guesses, key=lambda figure: figure.file):
        lines.append(f"  {file}")
        lines += [f"    {figure.key} = {figure.value:g}: {figure.note}" for figure in figures]
    return "\n".join(lines)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns under a line; all but the first to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    rule = "-" * len(lines[0])
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def _pair(value: float, limit: float) -> list[str]:
    """An estimate and its bound; dashes where there can be nothing."""
    return [_hours(value), _hours(limit)] if limit or value else ["-", "-"]


def _hours(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
