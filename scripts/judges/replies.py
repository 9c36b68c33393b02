"""A judge's reply as a verdict and a score, or why it is none.

A verdict is a dictionary with ``pred`` and ``score``: Python's, JSON's or nearly so, with talk or a fence around it.
What words alone seem to say is never a verdict, because a reply may repeat the answer that it judges.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scripts.lib.records import Flag, Verdict

VERSION = 1
"""Raise it when a reply is read as another verdict than before."""
VERDICTS: dict[str, Verdict] = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
SCORE = re.compile(r"([+-]?\d{1,9}(?:\.\d{0,9})?)(?:\s*(?:/|out of)\s*5(?:\.0*)?)?", re.ASCII | re.IGNORECASE)
CONTRADICTIONS = (("yes", 0.0), ("no", 5.0))

THOUGHTS = "</think>"
QUOTES = str.maketrans("‘’‚‛“”„‟«»`´", "''''\"\"\"\"\"\"''")
BETWEEN = re.compile(r"[\s\u200b\ufeff,;，；]*")
COLON = re.compile(r"[\s\u200b\ufeff]*(?:=>|[:=：])[\s\u200b\ufeff]*")
TEXTS = {
    quote: re.compile(rf"{quote}((?:\\.|(?!{quote}[\s\u200b\ufeff]*[,;，；:：=}}\]]|\\).)*){quote}", re.DOTALL)
    for quote in "'\""
}
"""A quoted text. It ends at a quote that something of a dictionary follows, so an apostrophe inside does no harm."""
BARE = re.compile(r"[^\s,;，；:：={}\[\]'\"][^\n,;，；:：={}\[\]]*")
BARE_ENDS = " \t\r\n\\\"'"
"""Around an unquoted text: blanks, and the quotes of JSON that is itself a text of JSON."""
BRACES = str.maketrans("{}｛｝﹛﹜", "()()()")
DEEPEST = 4
"""Dictionaries and lists inside each other; no judge that was asked for one line writes more."""
MOST_TRIED = 200
"""Opening braces at which a dictionary is looked for; bounds the time that a long reply takes."""
CONTEXT = 40
"""Characters before a dictionary by which a repeated message is known."""
LEAST_CONTEXT = 20
SHOWN = 40

Pairs = list[tuple[str, Any]]
"""A dictionary as it was written, keys in small letters; values are texts, Pairs or lists of either."""


@dataclass(frozen=True)
class Reading:
    """What a reply says."""

    verdict: Verdict | None
    """None where it says nothing that can be counted."""
    score: float | None
    """0-5, where there is a verdict."""
    flags: tuple[Flag, ...]
    why: str
    """Why there is no verdict, in one line; empty where there is one."""


BROKEN: Pairs = [("", "")]
"""Stands for a dictionary that can't be read to its end."""


class _NotReadError(Exception):
    """Says why, in a few words."""


class _BrokenError(_NotReadError):
    """What can't be read has a key and a colon before that: it is a dictionary, and not one brace in a text."""


def read_verdict(reply: str, sent: str = "") -> Reading:
    """Read a reply. Any text gives a Reading.

    The first dictionary with ``pred`` or ``score`` counts, whatever it says; a second one is flagged. Thoughts before
    ``</think>`` are no reply.

    Args:
        sent: what the judge was sent. A dictionary that stands in the reply where it stands in this text, after the
            same words, is a repetition and no verdict.
    """
    text = reply.rpartition(THOUGHTS)[2].translate(QUOTES)
    if "<think>" in text:
        return _none("thoughts that have no end")
    found: list[Pairs] = []
    echoes = 0
    for start, pairs in _dictionaries(text):
        if not found and _is_echo(text, start, pairs, sent):
            echoes += 1
            continue
        found.append(pairs)
        if len(found) == 2:
            break
    if not found:
        return _none("it only repeats what it was sent" if echoes else _without(text))
    try:
        verdict, score = _verdict(found[0])
    except _NotReadError as error:
        return _none(str(error))
    return Reading(verdict, score, ("two_verdicts",) if len(found) == 2 else (), "")


def defuse(answer: str) -> tuple[str, bool]:
    """An answer in which nothing can be read as a verdict, nor taken for one by a judge who reads generously:
    parentheses stand for its braces, of whatever width.

    Returns:
        The answer, and whether anything was replaced.
    """
    safe = answer.translate(BRACES)
    return safe, safe != answer


def _none(why: str) -> Reading:
    return Reading(None, None, (), why)


def _without(text: str) -> str:
    if not text.strip():
        return "an empty reply"
    return "no dictionary with pred and score" if "{" in text else "no dictionary"


def _verdict(pairs: Pairs) -> tuple[Verdict, float]:
    """Raises _NotReadError."""
    if pairs is BROKEN:
        raise _NotReadError("a dictionary that can't be read to its end")
    said, points = _only(pairs, "pred"), _only(pairs, "score")
    verdict = VERDICTS.get(said.strip(" .!*\t\n").casefold())
    if verdict is None:
        raise _NotReadError(f"pred is {_shown(said)}, neither yes nor no")
    matched = SCORE.fullmatch(points.strip(" .*\t\n"))
    if not matched:
        raise _NotReadError(f"score is {_shown(points)}, no number from 0 to 5")
    score = float(matched[1])
    if not 0 <= score <= 5:
        raise _NotReadError(f"score is {_shown(points)}, not from 0 to 5")
    if (verdict, score) in CONTRADICTIONS:
        raise _NotReadError(f"{verdict} and {_shown(points)} contradict each other")
    return verdict, score


def _only(pairs: Pairs, name: str) -> str:
    """The one value of a key, as text. Raises _NotReadError."""
    values = [value for key, value in pairs if key == name]
    if not values:
        raise _NotReadError(f"no {name}")
    if any(value != values[0] for value in values):
        raise _NotReadError(f"{name} is there twice, with different values")
    if not isinstance(values[0], str):
        raise _NotReadError(f"{name} is neither a word nor a number")
    return values[0]


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")


def _is_echo(text: str, start: int, pairs: Pairs, sent: str) -> bool:
    before = " ".join(text[max(0, start - CONTEXT) : start].split())
    if len(before) < LEAST_CONTEXT or not sent:
        return False
    there = " ".join(sent.translate(QUOTES).split())
    at = there.find(before)
    while at >= 0:
        opening = there.find("{", at + len(before))
        repeated = _parsed(there, opening) if 0 <= opening <= at + len(before) + 1 else None
        if repeated == pairs:
            return True
        at = there.find(before, at + 1)
    return False


def _dictionaries(text: str) -> Iterator[tuple[int, Pairs]]:
    """Every dictionary with ``pred`` or ``score``, with the place of its brace; those inside another one only where the
    outer one has neither. Nothing after a broken one: what looks whole behind its start may be a quotation in it."""
    at = text.find("{")
    for _ in range(MOST_TRIED):
        if at < 0:
            return
        parsed, end = _try(text, at)
        if parsed is BROKEN:
            yield at, BROKEN
            return
        inner = _inner(parsed) if parsed is not None else []
        yield from ((at, pairs) for pairs in inner)
        at = text.find("{", at + 1 if parsed is None else end)


def _try(text: str, at: int) -> tuple[Pairs | None, int]:
    try:
        return _dictionary(text, at, 0)
    except _BrokenError:
        return BROKEN, at
    except _NotReadError:
        return None, at


def _parsed(text: str, at: int) -> Pairs | None:
    return _try(text, at)[0]


def _inner(value: Any, depth: int = 0) -> list[Pairs]:
    """The dictionaries with ``pred`` or ``score`` in a value, outermost only; also in a text that is one as a whole."""
    if depth > DEEPEST:
        return []
    if isinstance(value, str):
        text = value.strip()
        if not (text.startswith("{") and text.endswith("}")):
            return []
        parsed, end = _try(text, 0)
        return _inner(parsed, depth + 1) if parsed is not None and end == len(text) else []
    pairs = [part for part in value if isinstance(part, tuple)]
    if _speaks(pairs):
        return [value]
    parts = [part for _, part in pairs] if pairs else value
    return [found for part in parts for found in _inner(part, depth + 1)]


def _dictionary(text: str, at: int, depth: int) -> tuple[Pairs, int]:
    """What begins with the brace at ``at``, and where it ends. Raises _NotReadError."""
    pairs: Pairs = []
    at = _skip(BETWEEN, text, at + 1)
    try:
        while not text.startswith("}", at):
            key, at = _scalar(text, at)
            colon = COLON.match(text, at)
            if not colon:
                raise _NotReadError
            pairs.append((key.strip().casefold(), ""))
            value, at = _value(text, colon.end(), depth)
            pairs[-1] = (pairs[-1][0], value)
            at = _skip(BETWEEN, text, at)
    except _NotReadError:
        raise (_BrokenError if pairs else _NotReadError) from None
    return pairs, at + 1


def _speaks(pairs: Pairs) -> bool:
    return any(key in ("pred", "score") for key, _ in pairs)


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    values: list[Any] = []
    at = _skip(BETWEEN, text, at + 1)
    while not text.startswith("]", at):
        value, at = _value(text, at, depth)
        values.append(value)
        at = _skip(BETWEEN, text, at)
    return values, at + 1


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth >= DEEPEST:
        raise _NotReadError
    if text.startswith("{", at):
        return _dictionary(text, at, depth + 1)
    if text.startswith("[", at):
        return _list(text, at, depth + 1)
    return _scalar(text, at)


def _scalar(text: str, at: int) -> tuple[str, int]:
    """A quoted text, or an unquoted one up to the next mark."""
    quoted = TEXTS[text[at]].match(text, at) if text[at : at + 1] in TEXTS else None
    if quoted:
        return quoted[1].replace('\\"', '"').replace("\\'", "'"), quoted.end()
    bare = BARE.match(text, at)
    if not bare:
        raise _NotReadError
    return bare[0].strip(BARE_ENDS), bare.end()


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
