"""What a failed call means: for the whole job, for its question, or nothing if it is tried again."""

import email.utils
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import openai


class CallError(Exception):
    """A call without an answer.

    Args:
        scope: ``job`` (no question can be answered), ``question`` (this one can't) or ``passing`` (try again).
        kind: ``refused``, or what follows ``error:`` in the status.
        detail: one line.
        wait_s: what the server asks to wait before the next call, where it does.
        overloaded: whether it says that there are too many calls.
        billed: whether the server may bill the call all the same.
        status: of HTTP; 0 where there was none.
    """

    def __init__(
        self,
        scope: str,
        kind: str,
        detail: str,
        wait_s: float | None = None,
        overloaded: bool = False,
        billed: bool = False,
        status: int = 0,
    ) -> None:
        super().__init__()
        self.scope, self.kind, self.detail = scope, kind, detail
        self.wait_s, self.overloaded, self.billed = wait_s, overloaded, billed
        self.status = status

    def __str__(self) -> str:
        return self.detail


@dataclass(frozen=True)
class Rule:
    """One line of the table: the first whose status and words fit is what the failure means."""

    statuses: Callable[[int], bool]
    words: str
    """Regular expression, sought in the server's code, type and message, all in small letters; empty = any."""
    scope: str
    kind: str


def _of(*statuses: int) -> Callable[[int], bool]:
    return lambda status: status in statuses


def _client(status: int) -> bool:
    return 400 <= status < 500


# Vendors agree on little: codes and messages of OpenAI, Azure, Google, Anthropic, Volcengine, Alibaba and vLLM.
FILTERED = (
    r"content_filter|content_policy|content management policy|responsibleaipolicy|sensitivecontent|moderation"
    r"|data_inspection_failed|safety system|prohibited_content|flagged"
)
NO_MONEY = (
    r"insufficient_quota|billing_hard_limit|billing_not_active|credit balance is too low|insufficient balance"
    r"|account_deactivated|accountoverdue|arrearage"
)
TOO_LONG = (
    r"context_length_exceeded|maximum context length|context window|prompt is too long|request too large"
    r"|request_too_large|string_above_max_length|longer than the maximum|exceeds the maximum number of tokens"
    r"|payload size exceeds|input token count .*exceeds|too many images"
)
NO_ACCESS = r"api[ _-]?key|permission_denied|unauthenticated|unsupported_country"
NO_MODEL = r"model_not_found|model .*does not exist|unknown model"
NO_FIELD = (
    r"unsupported_parameter|unknown_parameter|unsupported_value|unrecognized request argument|extra_forbidden"
    r"|unknown name"
)

TABLE = (
    Rule(_of(400, 403, 422, 451), FILTERED, "question", "refused"),
    Rule(_client, NO_MONEY, "job", "quota"),
    Rule(_of(402), "", "job", "quota"),
    Rule(_of(400, 413, 422, 429), TOO_LONG, "question", "too_long"),
    Rule(_of(413), "", "question", "too_long"),
    Rule(_of(401, 403), "", "job", "access"),
    Rule(_of(400), NO_ACCESS, "job", "access"),
    Rule(_of(404), "", "job", "model"),
    Rule(_of(400), NO_MODEL, "job", "model"),
    Rule(_of(400, 422), NO_FIELD, "job", "field"),
    Rule(_of(408), "", "passing", "timeout"),
    Rule(_of(429), "", "passing", "rate_limit"),
    Rule(_of(409, 425), "", "passing", "server"),
    Rule(lambda status: status >= 500, "", "passing", "server"),
    Rule(lambda _: True, "", "question", "request"),
)

OVERLOADED = (429, 503, 529)
NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")
"""Exceptions below the client's that say that the server never got the question, so it bills nothing."""


def classify(error: openai.APIError, now: datetime | None = None) -> CallError:
    """What an exception of the client means.

    Args:
        now: for servers that name a time of day; None = this moment.
    """
    if isinstance(error, openai.APIStatusError):
        return refused(error.status_code, error.body, error.response.headers, now)
    cause = type(error.__cause__).__name__
    sent = cause not in NEVER_SENT
    if isinstance(error, openai.APITimeoutError):
        return CallError("passing", "timeout", "no reply in time" if sent else "no connection in time", billed=sent)
    words = "the connection broke" if sent else "no connection to the server"
    return CallError("passing", "connection", f"{words} ({cause})", billed=sent)


def refused(
    status: int, body: object, headers: Mapping[str, str] | None = None, now: datetime | None = None
) -> CallError:
    """What a reply of such a status means: an answer to a call, or a line in the file of a batch.

    Args:
        status: of HTTP, 400 or more.
        now: as of ``classify``.
    """
    code, message = said(body)
    text = f"{code} {message}".lower()
    rule = next(rule for rule in TABLE if rule.statuses(status) and re.search(rule.words, text))
    inner = _inside(body)
    param = inner.get("param") if isinstance(inner, Mapping) else None
    if rule.kind == "field" and str(param or "").startswith("messages"):
        rule = TABLE[-1]
    wait = None
    if rule.scope == "passing":
        wait = wanted_wait(headers or {}, f"{message} {_delay(body)}", now or datetime.now(UTC))
    # Its words on a wrong key may repeat a part of it.
    words = "" if rule.kind == "access" else f": {message or code}"
    overloaded = status in OVERLOADED
    return CallError(rule.scope, rule.kind, f"HTTP {status}{words}", wait, overloaded=overloaded, status=status)


def said(body: object) -> tuple[str, str]:
    """Code and message of an error's body, whatever its form: OpenAI's, a list of one, plain text."""
    body = _inside(body)
    if not isinstance(body, Mapping):
        return "", one_line(str(body or ""))
    codes = [str(body[key]) for key in ("code", "type", "status") if body.get(key)]
    message = body.get("message") or body.get("detail") or body.get("error") or json.dumps(body, default=str)
    return " ".join(codes), one_line(str(message))


def _inside(body: object) -> object:
    """The error itself."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        return body["error"]
    return body


def _delay(body: object) -> str:
    """Google's ``retryDelay``, in words that are understood here."""
    found = re.search(r"retryDelay\W+([\d.]+m?s)", json.dumps(body, default=str))
    return f"retry in {found[1]}" if found else ""


def one_line(text: str) -> str:
    """Without line breaks. Not shortened: what is cut in two is no longer found where it must not appear."""
    return " ".join(text.split())


UNITS = (("milli", 0.001), ("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0))
"""By how their names begin; the first that fits."""
PART = r"\d{1,9}(?:\.\d+)?\s?(?:ms|milli\w*|s(?:ec\w*)?|m(?:in\w*)?|h(?:our\w*)?)"
IN_WORDS = re.compile(rf"\b(?:try|retry)\b[^.;]{{0,20}}?\b(?:in|after)\s((?:{PART}\s?)+)", re.IGNORECASE)


def wanted_wait(headers: Mapping[str, str], message: str, now: datetime) -> float | None:
    """Seconds, 0 or more, that a server asks to wait: ``retry-after-ms``, ``Retry-After`` (seconds, or a date), or its
    message ("try again in 1m30.5s"). None where it asks for nothing that can be understood."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name))
        if seconds is not None:
            return max(seconds * unit, 0.0)
    date = headers.get("retry-after")
    if date:
        try:
            when = email.utils.parsedate_to_datetime(date)
            return max((when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds(), 0.0)
        except (ValueError, OverflowError):
            pass
    found = IN_WORDS.search(message)
    if not found:
        return None
    parts = re.findall(r"([\d.]+)\s?([a-z]+)", found[1].lower())
    return sum(float(n) * next(factor for name, factor in UNITS if unit.startswith(name)) for n, unit in parts)


def _number(text: Any) -> float | None:
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
