"""How one number of a table, its interval and its column's name are printed: the same in every form."""

from typing import Any

from scripts.lib import metrics
from scripts.tables.rows import Number

BY_DESIGN = "—"
MISSING = "–†"
NOTHING_SCORED = "–"


def texts(number: Number) -> tuple[str, str]:
    """``38.7`` and, where the column has a pair, ``/ 2.3``; or the kind of dash that stands for the number."""
    if number.entry is None:
        return BY_DESIGN, ""
    if number.score is None:
        return MISSING, ""
    if number.value is None:
        return NOTHING_SCORED, ""
    return metrics.shown(number.entry.metric, number.value), _beside(number)


def _beside(number: Number) -> str:
    if number.pair is None:
        return ""
    value = number.pair["value"]
    return f"/ {NOTHING_SCORED if value is None else metrics.shown(number.pair_metric, value)}"


def main_text(number: Number) -> str:
    """The number itself, with that of the pair, or the kind of dash that stands for it."""
    return " ".join(filter(None, texts(number)))


def interval(number: Number) -> str:
    """``[50.1, 70.2]``; empty where a single video says nothing of how videos differ."""
    if number.entry is None or number.score is None or number.value is None or number.score["n_videos"] < 2:
        return ""
    low, high = (metrics.shown(number.entry.metric, number.score[end]) for end in ("low", "high"))
    return f"[{low}, {high}]"


def used(number: Number, always: bool) -> str:
    """``38/40``, questions used of all: where some could not be scored, or ``always``. ``38 and 35/40`` where the pair
    has its own."""
    if number.score is None:
        return ""
    scores = [number.score, *([number.pair] if number.pair and number.pair["value"] is not None else [])]
    counts = list(dict.fromkeys(str(one["n_scored"]) for one in scores))
    if number.complete and len(counts) == 1 and not always:
        return ""
    return f"{' and '.join(counts)}/{number.score['n']}"


def heading(column: dict[str, Any]) -> str:
    """A column's name outside its place in the table: what it shares with its neighbours, then its own."""
    own = column.get("heading", column["label"])
    return f"{column['over']}: {own}" if "over" in column else str(own)


def signed(metric: str, value: float) -> str:
    """A difference as it is printed; zero has no sign."""
    text = metrics.shown(metric, value)
    if not float(text):
        return metrics.shown(metric, 0.0)
    return ("+" if value > 0 else "") + text.replace("-", "−")


def p_text(p: float) -> str:
    """``p = 0.031``."""
    if p < 0.001:
        return "p < 0.001"
    text = f"{p:.3f}"
    return "p = 1" if text == "1.000" else f"p = {text}"


def questions(n: int, n_videos: int) -> str:
    """``12 questions of 4 videos``."""
    return f"{n:,} question{'s' * (n != 1)} of {n_videos:,} video{'s' * (n_videos != 1)}"
