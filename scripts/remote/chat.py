"""One question to a server of OpenAI's protocol, and what became of it. Repeats are the pool's business.

Calls run on an event loop in a thread of its own, where they can be ended from outside: by their deadline, whatever the
server does meanwhile (a byte every few seconds keeps a socket alive for ever), and when nobody waits for them any more.
"""

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, TypeVar
from urllib.parse import urlsplit

import openai

from scripts.lib.errors import EngineError
from scripts.lib.text import whole
from scripts.remote.failures import CallError, classify, one_line, said
from scripts.remote.limits import ClosedError

Messages = list[dict[str, Any]]
T = TypeVar("T")
Sending = Callable[[openai.AsyncOpenAI], Awaitable[Any]]
"""Makes one call with a client; gives its raw response."""

CONNECT_S = 20.0
"""Longest that a connection takes to come about."""
DEADLINE = 2.0
"""A call may take so many times its server's longest silence: what is sent may be tens of megabytes."""
SECRET = 8
"""Keys shorter than this are none (``EMPTY``, ``x``), and would be found in innocent words."""
MOST_WORDS = 300
"""Characters of a server's message that are kept."""


@dataclass(frozen=True)
class Chat:
    """One question."""

    key: str
    """Names it among those of a run."""
    messages: Callable[[], Messages] = field(repr=False)
    """Made in the thread that asks, when its turn comes: encoding frames takes long."""
    max_tokens: int
    """Of the reply; what the server is told, and the upper estimate."""
    tokens_in: int
    """Of the messages; an upper estimate."""
    payload: Any = field(default=None, repr=False)
    """The caller's own."""


@dataclass(frozen=True)
class Outcome:
    """What became of a question. Tokens, dollars and attempts are those of all its calls."""

    status: str
    """``ok``, ``truncated``, ``refused`` or ``error:<kind>``: ``too_long`` and ``request`` (it will never be taken),
    ``rate_limit``, ``server``, ``timeout``, ``connection``, ``reply`` (still so at the last try)."""
    text: str = ""
    detail: str = ""
    tokens_in: int | None = None
    """As the server counted; None where it did not."""
    tokens_out: int | None = None
    """Thoughts included."""
    dollars: float | None = None
    """By the price file, a call whose end is not known at its upper estimate; None without a price."""
    seconds: float = 0.0
    """Of its calls, without the waits before them."""
    attempts: int = 1
    model: str = ""
    """What the server says it asked."""
    system_fingerprint: str = ""
    by_filter: bool = False
    """``refused`` by a filter of the server's, not by the model in words of its own."""


@dataclass(frozen=True)
class Endpoint:
    """A model behind a server."""

    url: str
    """Ends before ``/chat/completions``."""
    api_key: str = field(repr=False)
    """Empty for a server that asks for none."""
    model: str
    timeout_s: float
    """Longest silence."""
    max_tokens_field: str = "max_tokens"
    body: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of every request."""

    @property
    def local(self) -> bool:
        """Whether the server is on this machine, where no proxy leads."""
        return urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1")

    @property
    def of_openai(self) -> bool:
        """Whether it is OpenAI's own, one of its regions included."""
        return f".{urlsplit(self.url).hostname}".endswith(".api.openai.com")

    def extra(self, max_tokens: int) -> dict[str, Any]:
        """Fields of a request beside the model and the messages."""
        return {self.max_tokens_field: max_tokens, **self.body}

    @property
    def client(self) -> str:
        """What asks it, without the server's name."""
        return f"openai {metadata.version('openai')}, {'server on this machine' if self.local else 'remote server'}"


@dataclass(frozen=True)
class Reply:
    """A call's answer."""

    text: str
    finish: str
    refusal: str
    tokens_in: int | None
    cached: int
    tokens_out: int | None
    model: str
    system_fingerprint: str


def key_from(variable: str) -> str:
    """The API key in an environment variable.

    Args:
        variable: empty for a server that asks for none.

    Raises:
        EngineError: it is not set, or no key by its form; never says what is in it.
    """
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise EngineError(f"{variable} is not set; put the key of the server into this environment variable")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise EngineError(f"{variable} does not hold a key: it has spaces or signs that no key has; set it again")
    return key


class Caller:
    """Makes calls, from any thread."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        silence = endpoint.timeout_s
        timeout = openai.Timeout(silence, connect=min(silence, CONNECT_S))
        self._client = openai.AsyncOpenAI(
            api_key=endpoint.api_key or "none",
            base_url=endpoint.url,
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False, timeout=timeout) if endpoint.local else None,
        )
        if not endpoint.of_openai:
            # The client takes these from OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS. They are no
            # business of other vendors, and the last may hold another key.
            self._client.organization = self._client.project = None
            self._client._custom_headers = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="remote calls", daemon=True)
        self._thread.start()
        self._calls: set[Future[Any]] = set()
        self._closed = False
        self._lock = threading.Lock()

    def call(self, messages: Messages, max_tokens: int) -> Reply:
        """Ask once; see ``send``."""
        model, extra = self.endpoint.model, self.endpoint.extra(max_tokens)

        def ask(client: openai.AsyncOpenAI) -> Awaitable[Any]:
            create = client.chat.completions.with_raw_response.create
            return create(model=model, messages=messages, extra_body=extra)  # type: ignore[arg-type]

        return self.send(ask, read_reply)

    def send(self, sending: Sending, read: Callable[[str], T], deadline_s: float | None = None) -> T:
        """Make any call once.

        Args:
            read: what its text says; raises CallError where that is nothing.
            deadline_s: it may take so long; None = DEADLINE.

        Raises:
            CallError: no answer, and what that means.
            ClosedError: ``close`` was called before it was sent.
            concurrent.futures.CancelledError: ``close`` was called while it was on its way.
        """
        sent = threading.Event()
        with self._lock:
            if self._closed:
                raise ClosedError
            future = asyncio.run_coroutine_threadsafe(self._send(sending, read, deadline_s, sent), self._loop)
            self._calls.add(future)
        try:
            return future.result()
        except CancelledError:
            if sent.is_set():
                raise
            raise ClosedError from None
        except CallError as failure:
            failure.detail = shortened(self._without_key(failure.detail))
            raise
        finally:
            with self._lock:
                self._calls.discard(future)

    async def _send(
        self, sending: Sending, read: Callable[[str], T], deadline_s: float | None, sent: threading.Event
    ) -> T:
        sent.set()
        try:
            async with asyncio.timeout(deadline_s or DEADLINE * self.endpoint.timeout_s):
                raw = await sending(self._client)
                return read(self._without_key(raw.text))
        except TimeoutError:
            failure = CallError("passing", "timeout", "the reply did not end in time", billed=True)
        except openai.APIError as error:
            failure = classify(error)
        raise failure  # out here it drags no exception along that holds the request, and with it the key

    def _without_key(self, text: str) -> str:
        key = self.endpoint.api_key
        return text.replace(key, "…") if len(key) >= SECRET else text

    def close(self) -> None:
        """End the calls on their way, and the thread."""
        with self._lock:
            self._closed = True
            for future in self._calls:
                future.cancel()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*calls, return_exceptions=True)
        await self._client.close()


def shortened(text: str) -> str:
    """A server's words, from which the key has been taken out."""
    return text if len(text) <= MOST_WORDS else text[:MOST_WORDS] + "…"


def read_reply(body: str) -> Reply:
    """The answer inside a body of status 200.

    Raises:
        CallError: none in there.
    """
    try:
        content = json.loads(body)
        if content.get("error"):
            raise CallError("passing", "server", f"an error instead of a reply: {said(content)[1]}", billed=True)
        choice = content["choices"][0]
        message = choice.get("message") or {}
        usage = content.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        reply = Reply(
            text=_text(message.get("content")),
            finish=choice.get("finish_reason") or "",
            refusal=message.get("refusal") or "",
            tokens_in=None if usage.get("prompt_tokens") is None else int(usage["prompt_tokens"]),
            cached=int(cached),
            tokens_out=_tokens_out(usage),
            model=str(content.get("model") or ""),
            system_fingerprint=str(content.get("system_fingerprint") or ""),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        kind = type(error).__name__
        raise CallError("passing", "reply", f"not a reply ({kind}): {one_line(body)}", billed=True) from None
    return reply


def _text(content: Any) -> str:
    """A message's text; some servers send it in parts."""
    if isinstance(content, list):
        return whole("".join(part.get("text", "") for part in content))
    return whole(str(content or ""))


def _tokens_out(usage: Mapping[str, Any]) -> int | None:
    """Tokens billed as output: some servers leave thoughts out of ``completion_tokens``, and none out of the total."""
    written, total = usage.get("completion_tokens"), usage.get("total_tokens")
    if written is None:
        return None
    return max(int(written), int(total or 0) - int(usage.get("prompt_tokens") or 0))
