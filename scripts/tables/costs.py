"""What the answers of a table cost, and what judging them cost."""

from collections.abc import Iterable
from typing import Any

from scripts.tables.rows import Table

COUNTED = ("tokens_in", "tokens_out", "dollars")
NOT_ASKED = ("no_answer", "no_judgement")
"""Statuses of judgements for which nobody was asked."""
DECIMALS = 6
"""Of dollars, as in scores.json."""

Costs = dict[str, dict[str, Any]]
"""``answers`` and ``judging`` to tokens and dollars, None where nobody counted."""


def costs(table: Table) -> dict[str, Any]:
    """``scored``: costs by cell (and judge), and ``total``, in which the answers of a cell count once."""
    of = {
        scored: {kind: {name: found.get(name) for name in COUNTED} for kind, found in content["cost"].items()}
        for scored, content in table.found.items()
    }
    answers = {scored.cell: one["answers"] for scored, one in of.items()}.values()
    judging = [one["judging"] for one in of.values() if "judging" in one]
    total = {"answers": _sum(answers), "judging": _sum(judging)}
    return {"scored": {str(scored): one for scored, one in of.items()}, "total": total}


def _sum(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    known = {name: [part[name] for part in parts if part[name] is not None] for name in COUNTED}
    return {name: round(sum(values), DECIMALS) if values else None for name, values in known.items()}


def cost_line(table: Table) -> str:
    """``Cost: $1.23 for answers, $0.45 for judging (685 judgements, 371,000 tokens).``; empty where neither dollars nor
    tokens of judging are known."""
    total: Costs = costs(table)["total"]
    tokens = (total["judging"]["tokens_in"] or 0) + (total["judging"]["tokens_out"] or 0)
    spent = {kind: _dollars(total[kind]["dollars"]) for kind in ("answers", "judging")}
    if not tokens and not any(spent.values()):
        return ""
    parts = [f"{spent['answers']} for answers"] if spent["answers"] else []
    if spent["judging"] or tokens:
        n = sum(content["cost"]["judging"]["asked"] for scored, content in table.found.items() if scored.judge)
        counts = f"{n:,} judgement{'s' * (n != 1)}" + (f", {tokens:,} tokens" if tokens else "")
        parts.append(f"{spent['judging']} for judging ({counts})" if spent["judging"] else f"judging: {counts}")
    return f"Cost: {', '.join(parts)}."


def _dollars(value: float | None) -> str:
    if not value:
        return ""
    return f"${value:,.2f}" if value >= 0.01 else "less than $0.01"


def judgements(contents: Iterable[dict[str, Any]]) -> int:
    """How many answers were judged, or were tried to be.

    Args:
        contents: of the scores.json of judged cells.
    """
    made = [content["judgements"] for content in contents]
    return sum(n for counts in made for status, n in counts.items() if status not in NOT_ASKED)
