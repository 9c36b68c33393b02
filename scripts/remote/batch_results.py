"""The files that a batch leaves: a line for every question, in any order, if all goes well."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scripts.remote.chat import Reply, read_reply, shortened
from scripts.remote.failures import CallError, refused, said

UNDONE = {"batch_expired": "timeout", "request_timeout": "timeout", "batch_cancelled": "server"}
"""Kinds by the codes of requests that were not tried, or not to their end."""
Result = Reply | CallError


@dataclass
class Results:
    """What the files of a batch say, by key; of two results for one the first."""

    found: dict[str, Result] = field(default_factory=dict)
    odd: int = 0
    """Lines that are none, that repeat a key, or that answer what was not asked."""

    @property
    def replies(self) -> int:
        return sum(isinstance(result, Reply) for result in self.found.values())


def read_results(files: Iterable[str], keys: Iterable[str]) -> Results:
    """Read the texts of a batch's files.

    Args:
        keys: of the questions that it was sent with.
    """
    results, asked = Results(), set(keys)
    for text in files:
        for line in text.split("\n"):  # not splitlines: U+2028 and the like are no ends of lines in JSON
            if not line.strip():
                continue
            key, result = read_line(line)
            if result is None or key not in asked or key in results.found:
                results.odd += 1
            else:
                results.found[key] = result
    return results


def read_line(line: str) -> tuple[str, Result | None]:
    """Whose line it is, and what it says; None where it is no line of such a file."""
    try:
        content = json.loads(line)
        key, response, error = content["custom_id"], content.get("response"), content.get("error")
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", None
    if not isinstance(key, str):
        return "", None
    try:
        return key, _result(response, error)
    except CallError as failure:
        failure.detail = shortened(failure.detail)
        return key, failure


def _result(response: Any, error: Any) -> Reply:
    """Raises CallError where there is no reply."""
    status = response.get("status_code") if isinstance(response, Mapping) else None
    if isinstance(status, int) and status >= 400:
        raise refused(status, response.get("body"))
    if isinstance(status, int) and not (error and response.get("body") is None):
        return read_reply(json.dumps(response.get("body")))
    if not error:
        raise CallError("passing", "reply", "neither a reply nor an error", billed=True)
    code, message = said(error)
    undone = next((kind for name, kind in UNDONE.items() if name in code), None)
    if undone:
        raise CallError("passing", undone, message)
    failure = refused(400, error)  # by its words; without any that are known it passes
    if failure.kind == "request":
        raise CallError("passing", "server", message or code)
    raise failure
