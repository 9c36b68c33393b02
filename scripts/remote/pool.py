"""Many questions to one server: as many at once as it takes, repeated where a failure passes, within the budget (as far
as that can be promised: scripts/remote/account.py)."""

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from scripts.lib.errors import EngineError
from scripts.remote.account import Account, NoMoneyError
from scripts.remote.budget import Amount
from scripts.remote.chat import Caller, Chat, Endpoint, Outcome
from scripts.remote.failures import CallError
from scripts.remote.limits import ClosedError, Limits
from scripts.remote.question import Question

Answered = tuple[Chat, Outcome]

REMEDIES = {
    "quota": "the account has nothing left: top it up, and run again",
    "access": "the server does not take this key: check it and what it may use, and run again",
    "model": "the server does not know this model: check remote.url and remote.id in its file",
    "field": "the server does not take a field of every request: change generation or client in the model's file",
}
SPOILED = ("error:too_long", "error:request")
"""Errors that say something about the question and nothing about the server."""
POLL_S = 0.2
"""So often is asked whether to stop."""


@dataclass(frozen=True)
class Settings:
    """How a server is asked."""

    endpoint: Endpoint
    concurrency: int
    limits: dict[str, Any]
    """Content of config/remote.yaml."""
    requests_per_min: float | None = None
    tokens_per_min: float | None = None
    prices: dict[str, Any] | None = None
    """Content of config/prices.yaml; None for a server that bills nobody."""
    ledger: Path | None = None
    """Where spending is added up; None for a server that bills nobody."""
    seed: int = 0
    """Of the random part of waits."""
    own_server: bool = False
    """Whether we started it: then an empty reply is what the model says, as in process, and nobody's failure."""


def ask_all(
    settings: Settings,
    chats: Iterable[Chat],
    wait: Callable[[float], Any] | None = None,
    clock: Callable[[], float] = time.monotonic,
    stopping: Callable[[], bool] | None = None,
) -> Iterator[Answered]:
    """Ask every question of a stream; yield each with its one outcome, in the order in which they are done.

    A question is drawn from the stream when there is room for it and not before, in a thread of its own: while that
    takes long (frames are decoded), outcomes are handed on. Closing the generator ends the calls on their way.

    Args:
        wait: waits so many seconds before a repeat; None = really.
        clock: seconds.
        stopping: whether to come to an end, asked several times a second. Then no further question is drawn, those that
            wait (for a repeat, for a rate, for their turn) are left without an outcome, and the calls on their way are
            yielded as they end; one that would have to be repeated is left without an outcome too.

    Raises:
        EngineError: nothing more can be asked: no access, budget reached, or an outage (``give_up_after`` errors in a
            row). Calls on their way have been yielded by then; questions without an outcome are still to ask.
        ConfigError: no price for a model whose dollars are limited.
        DataError: the file of what was spent can't be read or written.
    """
    pool = _Pool(settings, wait, clock, stopping)
    try:
        yield from pool.run(iter(chats))
    finally:
        pool.close()


class _Pool:
    def __init__(
        self,
        settings: Settings,
        wait: Callable[[float], Any] | None,
        clock: Callable[[], float],
        stopping: Callable[[], bool] | None,
    ) -> None:
        self.settings, self.clock = settings, clock
        self.stopping = stopping or (lambda: False)
        self.over = threading.Event()
        """Calls on their way are the last: no other begins, nothing is repeated."""
        self.wait = wait or self.over.wait
        self.account = Account(settings.endpoint.model, settings.limits["budget"], settings.prices, settings.ledger)
        rates = (settings.requests_per_min, settings.tokens_per_min)
        self.limits = Limits(settings.concurrency, *rates, clock)
        self.caller = Caller(settings.endpoint)
        self.threads = ThreadPoolExecutor(settings.concurrency, "remote question")
        self.drawer = ThreadPoolExecutor(1, "remote stream")
        self.done: SimpleQueue[tuple[Chat, Future[Outcome]] | None] = SimpleQueue()
        """What has come to its end: a question, or (None) the drawing of the next."""
        self.ready: deque[Chat] = deque()
        """Drawn and not begun."""
        self.under_way = 0
        self.errors_in_a_row = 0
        self.why: EngineError | None = None
        """It ended before the stream did; None also where it was told to."""

    # In the caller's thread.

    def run(self, chats: Iterator[Chat]) -> Iterator[Answered]:
        drawn: Future[Chat | None] | None = None
        more = True
        while self.under_way or ((more or self.ready) and not self._over()):
            if self.ready and self._room() and self._start(self.ready[0]):
                self.ready.popleft()
            if more and not self.ready and drawn is None and self._room():
                drawn = self.drawer.submit(next, chats, None)
                drawn.add_done_callback(lambda _: self.done.put(None))
            if not self.under_way and (drawn is None or self._over()):
                continue
            try:
                ended = self.done.get(timeout=POLL_S)
            except Empty:
                continue
            if ended is not None:
                yield from self._finish(*ended)
            elif drawn is not None:
                chat, drawn = drawn.result(), None
                more = chat is not None
                self.ready.extend([chat] if chat else [])
        if self.why:
            raise self.why

    def _over(self) -> bool:
        if not self.over.is_set() and self.stopping():
            self._end()
        return self.over.is_set()

    def _room(self) -> bool:
        return not self._over() and self.under_way < self.limits.allowed

    def _start(self, chat: Chat) -> bool:
        """Begin with a question if the budget allows; without anything on its way it never will."""
        most = self.account.most(chat)
        if not self.account.fits(most):
            if not self.under_way and self.account.ledger:
                self._end(self.account.ledger.exhausted(most))
            return False
        self.under_way += 1
        future = self.threads.submit(self._ask, Question(chat))
        future.add_done_callback(lambda done: self.done.put((chat, done)))
        return True

    def _finish(self, chat: Chat, future: Future[Outcome]) -> Iterator[Answered]:
        self.under_way -= 1
        try:
            outcome = future.result()
        except ClosedError:  # the end came while it waited for its turn
            return
        except NoMoneyError:  # others took it while this one waited
            self.ready.append(chat)
            return
        except CallError as failure:
            self._end(EngineError(f"{self.settings.endpoint.model}: {failure.detail}; {REMEDIES[failure.kind]}"))
            return
        yield chat, outcome
        if not outcome.status.startswith("error:") or outcome.status in SPOILED:
            self.errors_in_a_row = 0
            return
        self.errors_in_a_row += 1
        if self.errors_in_a_row >= self.settings.limits["give_up_after"]:
            what = f"{self.errors_in_a_row} questions in a row failed, the last with {outcome.status} {outcome.detail}"
            remedy = "what was answered is kept, run again when the server answers"
            self._end(EngineError(f"{self.settings.endpoint.model}: {what}; {remedy}"))

    def _end(self, why: EngineError | None = None) -> None:
        if not self.over.is_set():
            self.why = why
        self.over.set()
        self.limits.close()

    def close(self) -> None:
        """End whatever is on its way."""
        self._end()
        self.caller.close()
        self.threads.shutdown(cancel_futures=True)
        self.drawer.shutdown(wait=False, cancel_futures=True)
        self.account.close()

    # In the threads that ask.

    def _ask(self, question: Question) -> Outcome:
        chance = random.Random(f"{self.settings.seed} {question.chat.key}")
        question.messages = question.chat.messages()
        failure: CallError | None = None
        while True:
            try:
                return self._call(question)
            except NoMoneyError:
                if failure is None:
                    raise
                return question.failed(failure, " (not asked again: the budget is reached)")
            except CallError as failed:
                failure = failed
            if failure.scope == "job":
                raise failure
            pause = max(failure.wait_s or 0.0, backoff(question.attempts, self.settings.limits, chance))
            outcome = self._given_up(question, failure)
            if outcome is not None:
                return outcome
            self.wait(pause)

    def _call(self, question: Question) -> Outcome:
        """One call, and what it cost."""
        ticket = self.limits.begin(self.account.most(question.chat).tokens)
        start, counted, well, overloaded = self.clock(), None, False, False
        try:
            question.most = self.account.most(question.chat)
            question.reservation = self.account.reserve(question.most)
            question.attempts += 1
            reply = self.caller.call(question.messages, question.chat.max_tokens)
            well = True
            counted = None if reply.tokens_in is None else reply.tokens_in + (reply.tokens_out or 0)
        except (NoMoneyError, ClosedError):
            counted = 0
            self._settle(question, Amount())
            raise
        except CallError as failure:
            overloaded = failure.overloaded
            if failure.billed:
                self._settle(question, question.pay(self.account, None))
            else:
                self._settle(question, Amount())
            if failure.wait_s is not None and failure.wait_s <= self.settings.limits["longest_wait_s"]:
                self.limits.hold(failure.wait_s)
            raise
        finally:
            question.seconds += self.clock() - start
            self.limits.end(ticket, counted, well, overloaded)
        self._settle(question, question.pay(self.account, reply))
        return question.read(reply, self.settings.own_server)

    def _given_up(self, question: Question, failure: CallError) -> Outcome | None:
        """The outcome of a question that is not asked again; None if it is.

        Raises:
            ClosedError: it would be asked again, if this were not the end.
        """
        limits, wanted = self.settings.limits, failure.wait_s or 0.0
        if failure.scope == "question" or question.attempts > limits["retries"]:
            return question.failed(failure)
        if wanted > limits["longest_wait_s"]:
            why = f" (it asks to wait {wanted:.0f} s, longest_wait_s is {limits['longest_wait_s']:g})"
            return question.failed(failure, why)
        if self.over.is_set():
            raise ClosedError
        return None

    def _settle(self, question: Question, amount: Amount) -> None:
        """What a call came to, instead of its reservation."""
        self.account.settle(question.reservation, amount)
        question.reservation = None


def backoff(attempt: int, settings: dict[str, Any], chance: random.Random) -> float:
    """Seconds before the repeat that follows the ``attempt``-th call: doubled each time, less up to a half at random.
    So questions that failed together don't come back together.

    Args:
        settings: content of config/remote.yaml.
    """
    most: float = settings["longest_wait_s"]
    doubled = math.ldexp(settings["first_wait_s"], min(attempt - 1, 64))
    return min(most, doubled) * chance.uniform(0.5, 1.0)
