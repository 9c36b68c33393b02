"""OpenAI's Batch API: files of requests in, files of replies out. What fails in passing is asked again."""

import itertools
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import openai

from scripts.lib.errors import EngineError
from scripts.lib.jsonl import dumps
from scripts.remote.chat import Caller, Chat
from scripts.remote.failures import CallError, one_line
from scripts.remote.pool import REMEDIES, Settings, backoff

T = TypeVar("T")

PATH: Final = "/v1/chat/completions"
"""Of every request, as the server calls it, whatever its own address is."""
FILE_S = 1800.0
"""Longest that a file takes, up or down."""
PAGE = 100
"""Batches in one answer of the server's list; its most."""
LOOKS = 2
"""So often is asked for something that is not there: what has just been made may not be seen everywhere yet."""
NOT_FOUND = 404
WHOLE = {
    "model": "if this server has no Batch API, take `batch` out of the judge's file",
    "too_long": "lower batch.requests in the judge's file",
    "request": "mend what it says, or take `batch` out of the judge's file",
}
"""What helps where a file or a batch fails so as a whole."""
KEPT = "what was answered is kept and batches that were sent stay at the server, run again to go on"
Batch = Mapping[str, Any]


class Server:
    """A server's files and batches.

    Args:
        poll_s: before it is asked once more for what it has not.
        wait: waits so many seconds.

    All methods raise EngineError where a failure stays, and ClosedError where ``wait`` does.
    """

    def __init__(self, settings: Settings, poll_s: float, wait: Callable[[float], None]) -> None:
        self.endpoint, self.limits, self.poll_s, self.wait = settings.endpoint, settings.limits, poll_s, wait
        self._caller = Caller(settings.endpoint)
        self._chance = random.Random(settings.seed)

    def line(self, chat: Chat) -> bytes:
        """A question's line in a file of requests."""
        body = {"model": self.endpoint.model, "messages": chat.messages(), **self.endpoint.extra(chat.max_tokens)}
        return (dumps({"custom_id": chat.key, "method": "POST", "url": PATH, "body": body}) + "\n").encode()

    def upload(self, requests: bytes) -> str:
        """Send a file of requests; its name at the server."""

        def send(client: openai.AsyncOpenAI) -> Awaitable[Any]:
            file = ("requests.jsonl", requests, "application/jsonl")
            return client.files.with_raw_response.create(file=file, purpose="batch")

        return str(self._tried(lambda: self._caller.send(send, _named, FILE_S))["id"])

    def create(self, file: str, run: str) -> str:
        """Have a file's requests answered; the batch's name at the server. An error may come although it was created,
        so the server is asked for it before it is told again.

        Args:
            run: our name of the batch.

        Raises:
            CallError: it refused, so there is no batch.
        """

        def send(client: openai.AsyncOpenAI) -> Awaitable[Any]:
            create = client.batches.with_raw_response.create
            return create(input_file_id=file, endpoint=PATH, completion_window="24h", metadata={"run": run})

        for attempt in itertools.count(1):
            try:
                return str(self._caller.send(send, _named)["id"])
            except CallError as failure:
                if failure.scope != "passing":
                    raise
                self._after(failure, attempt)
            found = self.search(run)
            if found:
                return found
        raise AssertionError

    def search(self, run: str) -> str | None:
        """The server's name of a batch that was created by our name; None if there is none."""
        return self._looked(lambda: self._find(run))

    def retrieve(self, batch: str) -> Batch | None:
        """How far a batch is; None if there is none of this name."""

        def send(client: openai.AsyncOpenAI) -> Awaitable[Any]:
            return client.batches.with_raw_response.retrieve(batch)

        return self._looked(lambda: _or_none(lambda: self._caller.send(send, _named)))

    def content(self, file: str) -> str | None:
        """A file's text; None if there is none of this name."""

        def send(client: openai.AsyncOpenAI) -> Awaitable[Any]:
            return client.files.with_raw_response.content(file)

        return self._looked(lambda: _or_none(lambda: self._caller.send(send, str, FILE_S)))

    def error(self, failure: CallError) -> EngineError:
        """That a failure ends the job."""
        return self.stop(failure.detail, WHOLE.get(failure.kind) or REMEDIES.get(failure.kind, KEPT))

    def stop(self, what: str, remedy: str) -> EngineError:
        """That the job ends, in one line with the remedy."""
        return EngineError(f"{self.endpoint.model}: {what}; {remedy}")

    def close(self) -> None:
        self._caller.close()

    def _find(self, run: str) -> str | None:
        after = ""
        while True:
            page = self._page(after)
            batches = [one for one in page["data"] if isinstance(one, Mapping) and one.get("id")]
            for batch in batches:
                if (batch.get("metadata") or {}).get("run") == run:
                    return str(batch["id"])
            if not page.get("has_more") or not batches or batches[-1]["id"] == after:
                return None
            after = batches[-1]["id"]

    def _page(self, after: str) -> Batch:
        def send(client: openai.AsyncOpenAI) -> Awaitable[Any]:
            return client.batches.with_raw_response.list(limit=PAGE, **({"after": after} if after else {}))  # type: ignore[arg-type]

        return self._caller.send(send, _list)

    def _looked(self, call: Callable[[], T | None]) -> T | None:
        """What the server has; None where it has not, asked LOOKS times."""
        for look in range(LOOKS):
            if look:
                self.wait(self.poll_s)
            found = self._tried(call)
            if found is not None:
                return found
        return None

    def _tried(self, call: Callable[[], T]) -> T:
        """What the server says, asked again while failures pass."""
        for attempt in itertools.count(1):
            try:
                return call()
            except CallError as failure:
                self._after(failure, attempt)
        raise AssertionError

    def _after(self, failure: CallError, attempt: int) -> None:
        """Wait before a call is repeated, or raise that it is not."""
        limits, wanted = self.limits, failure.wait_s or 0.0
        if failure.scope != "passing":
            raise self.error(failure)
        if attempt > limits["retries"]:
            raise self.stop(f"{failure.detail}, {attempt} times in a row", KEPT)
        if wanted > limits["longest_wait_s"]:
            raise self.stop(f"{failure.detail}, and it asks to wait {wanted:.0f} s", KEPT)
        self.wait(max(wanted, backoff(attempt, limits, self._chance)))


def _or_none(call: Callable[[], T]) -> T | None:
    """None where the server does not have it."""
    try:
        return call()
    except CallError as failure:
        if failure.status != NOT_FOUND:
            raise
    return None


def _mapping(text: str) -> Batch:
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, Mapping):
        raise CallError("passing", "reply", f"not what the Batch API says: {one_line(text)}")
    return content


def _named(text: str) -> Batch:
    content = _mapping(text)
    if not content.get("id"):
        raise CallError("passing", "reply", f"not what the Batch API says: {one_line(text)}")
    return content


def _list(text: str) -> Batch:
    content = _mapping(text)
    if not isinstance(content.get("data"), list):
        raise CallError("passing", "reply", f"not a list of batches: {one_line(text)}")
    return content
