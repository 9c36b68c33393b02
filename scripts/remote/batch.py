"""Many questions to one server through its Batch API: half the price, and the replies within a day.

The same questions end with the same outcomes as in pool.py, by the same rules, repeats and budget. What is at the
server is in a journal (scripts/remote/journal.py), so a job that was stopped or killed at any moment is gone on with:
nothing that was sent is sent again, unless the server lost it or did not come to it.
"""

import itertools
import re
import sys
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from scripts.lib.errors import ConfigError
from scripts.remote.account import Account, NoMoneyError
from scripts.remote.batch_api import Batch, Server
from scripts.remote.batch_results import Result, Results, read_results
from scripts.remote.budget import Amount
from scripts.remote.chat import Chat, Outcome, Reply, shortened
from scripts.remote.failures import CallError, refused, said
from scripts.remote.journal import Journal, Run
from scripts.remote.limits import ClosedError
from scripts.remote.pool import POLL_S, REMEDIES, Answered, Settings
from scripts.remote.question import Question

ENDED = ("completed", "expired", "cancelled", "failed")
"""States of a batch that it stays in; the last is that of a file that was refused as a whole."""
FILES = ("output_file_id", "error_file_id")
MISSING = {"completed": "reply", "expired": "timeout", "cancelled": "server"}
"""What befell a question without a line in either, by the state of its batch: the kind of its error."""
MOST_BYTES = 100_000_000
"""Of a file of requests: OpenAI once took that much and now takes twice as much."""
KEY = re.compile(r"[0-9a-f]{1,64}")


def ask_batch(
    settings: Settings,
    chats: Iterable[Chat],
    batch: dict[str, Any],
    journal: Path,
    stopping: Callable[[], bool] | None = None,
    wait: Callable[[float], Any] | None = None,
) -> Iterator[Answered]:
    """Ask every question; yield each with its one outcome, batch by batch.

    Args:
        settings: concurrency and rates are not used. Seconds of an outcome are 0: nobody says how long one took.
        chats: all are drawn before anything is sent. A key is a hash: up to 64 hexadecimal digits.
        batch: ``batch`` of a judge's file.
        journal: the file of what is at the server, of this caller alone.
        stopping: whether to come to an end, asked several times a second. Then batches stay at the server and nothing
            more is yielded, save the results that have been fetched.
        wait: waits so many seconds; None = really.

    Raises:
        EngineError: nothing more can be asked: no access, budget reached, an outage, a batch that was cancelled or
            refused as a whole. Questions without an outcome are still to ask.
        ConfigError: a key that is no hash or is there twice; no price for a model whose dollars are limited; a journal
            of another server.
        DataError: the journal or the file of what was spent can't be read or written.
    """
    told = stopping or (lambda: False)
    questions = by_key(chats)
    model, prices = settings.endpoint.model, settings.prices
    paused = partial(_pause, told, wait)
    try:
        with (
            closing(Account(model, settings.limits["budget"], prices, settings.ledger, batch=True)) as account,
            closing(Journal(journal, settings.endpoint.url, paused)) as log,
            closing(Server(settings, batch["poll_s"], paused)) as server,
        ):
            if prices and "batch" not in prices["models"].get(model, {"batch": 1}):
                say(f"config/prices.yaml: no `batch` of '{model}': its batches count at the full price")
            yield from _Batches(settings, questions, batch, log, server, account, paused).run()
    except ClosedError:
        return


def by_key(chats: Iterable[Chat]) -> dict[str, Question]:
    """The questions, by their keys.

    Raises:
        ConfigError: a key that is no hash, or is there twice.
    """
    questions: dict[str, Question] = {}
    for chat in chats:
        if not KEY.fullmatch(chat.key):
            raise ConfigError(f"'{chat.key}' can't name a request of a batch; give up to 64 hexadecimal digits")
        if chat.key in questions:
            raise ConfigError(f"'{chat.key}' is asked twice in one batch; ask it once")
        questions[chat.key] = Question(chat)
    return questions


def say(text: str) -> None:
    """Into the job's log."""
    print(text, file=sys.stderr, flush=True)


def _pause(stopping: Callable[[], bool], wait: Callable[[float], Any] | None, seconds: float) -> None:
    """Wait.

    Raises:
        ClosedError: told to stop, before or meanwhile.
    """
    if wait and not stopping():
        wait(seconds)
    end = time.monotonic() + (0.0 if wait else seconds)
    while not stopping():
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, POLL_S))
    raise ClosedError


class _Batches:
    def __init__(
        self,
        settings: Settings,
        pending: dict[str, Question],
        batch: dict[str, Any],
        journal: Journal,
        server: Server,
        account: Account,
        wait: Callable[[float], None],
    ) -> None:
        self.settings, self.batch, self.journal = settings, batch, journal
        self.server, self.account, self.wait = server, account, wait
        self.pending = pending
        """Questions without an outcome, by key. Each is in ``todo`` or in a batch of the journal."""
        self.todo: deque[Question] = deque()
        self.full = False
        """The server takes no further batch until one is done."""

    def run(self) -> Iterator[Answered]:
        self.wait(0.0)
        for run in list(self.journal.runs.values()):
            self._take_up(run)
        sent = {key for run in self.journal.runs.values() for key in run.keys}
        self.todo.extend(question for key, question in self.pending.items() if key not in sent)
        while True:
            for run in list(self.journal.runs.values()):
                yield from self._look(run)
            if not self.pending:
                return
            while self.todo and not self.full and self._send():
                self.wait(0.0)
            self.wait(self.batch["poll_s"])

    # What was sent before.

    def _take_up(self, run: Run) -> None:
        """Learn whether a batch of an earlier job was created; forget it if not."""
        if not run.batch:
            found = self.server.search(run.name)
            if found is None:
                self._forget(run, "never created")
                return
            self.journal.submitted(run, found)
        for key in run.keys:
            if key in self.pending:
                self.pending[key].most = self.account.most(self.pending[key].chat)
        say(f"batch {run.batch}: of an earlier run, {len(run.keys)} questions; taken up again")

    def _forget(self, run: Run, why: str) -> None:
        """There is no such batch, and it costs nothing."""
        self.account.settle(run.name, Amount())
        self.journal.over(run, why)

    # Sending.

    def _send(self) -> bool:
        """Send as many questions as go into a batch and fit the budget; False if none does for now.

        Raises:
            EngineError: none does, and nothing is on its way.
        """
        chunk, requests = self._chunk()
        if not chunk:
            if self.account.ledger and not self.journal.runs:
                raise self.account.ledger.exhausted(self.todo[0].most)
            return False
        most = sum((question.most for question in chunk), Amount())
        run = Run(uuid4().hex, self.settings.endpoint.url, [question.chat.key for question in chunk], most)
        file = self.server.upload(requests)
        self.journal.submitting(run)
        run = self.journal.runs[run.name]
        try:
            self.account.reserve(most, run.name)
        except NoMoneyError:  # others took it meanwhile
            self.journal.over(run, "no money")
            return True
        try:
            batch = self.server.create(file, run.name)
        except CallError as failure:
            self._forget(run, "refused")
            raise self.server.error(failure) from None
        self.journal.submitted(run, batch)
        for _ in chunk:
            self.todo.popleft()
        say(f"batch {batch}: {len(chunk)} questions sent")
        return True

    def _chunk(self) -> tuple[list[Question], bytes]:
        """The first questions of those that are to be sent, as many as may go, and their file."""
        first = list(itertools.islice(self.todo, self.batch["requests"]))
        for question in first:
            question.most = self.account.most(question.chat)
        totals = list(itertools.accumulate(question.most for question in first))
        # Whether a total fits goes from yes to no once.
        first = first[: bisect_right(totals, 0, key=lambda total: 0 if self.account.fits(total) else 1)]
        lines: list[bytes] = []
        size = 0
        for question in first:
            line = self.server.line(question.chat)
            size += len(line)
            if lines and size > MOST_BYTES:
                break
            lines.append(line)
        return first[: len(lines)], b"".join(lines)

    # What has become of it.

    def _look(self, run: Run) -> Iterator[Answered]:
        """Ask how far a batch is, and hand on its results if it is done."""
        state = self.server.retrieve(run.batch)
        if state is None:
            say(
                f"batch {run.batch}: the server does not know it any more; it counts at its estimate, and is sent again"
            )
            lost = CallError("passing", "server", f"batch {run.batch} is gone from the server", billed=True)
            yield from self._finish(run, "gone", dict.fromkeys(run.keys, lost))
            return
        self._show(run, state)
        if state.get("status") == "failed":
            self._refused(run, state)
        elif state.get("status") in ENDED:
            yield from self._finish(run, state["status"], self._results(run, state))

    def _show(self, run: Run, state: Batch) -> None:
        counts = _counts(state)
        shown = (state.get("status"), *(counts.get(name) for name in ("completed", "total", "failed")))
        if shown != run.shown:
            say(f"batch {run.batch}: {shown[0]}, {shown[1]} of {shown[2]} done, {shown[3]} failed")
        run.shown = shown

    def _results(self, run: Run, state: Batch) -> dict[str, Result]:
        """By key of every question that was sent. A batch that expired has files too, of what was done and billed."""
        texts = []
        for name in FILES:
            if state.get(name):
                text = self.server.content(state[name])
                if text is None:
                    say(f"batch {run.batch}: its {name} {state[name]} is gone from the server")
                texts.append(text)
        read = read_results((text or "" for text in texts), run.keys)
        if read.odd:
            say(f"batch {run.batch}: {read.odd} lines of its files are no first result of a question of its own")
        missing = self._missing(run, state, read, None in texts)
        return {key: read.found.get(key, missing) for key in run.keys}

    def _missing(self, run: Run, state: Batch, read: Results, gone: bool) -> CallError:
        """What befell the questions that the files say nothing of. Such a one may be billed where the server says that
        it made more replies than there are."""
        status, done = state["status"], _counts(state).get("completed")
        lost = done > read.replies if isinstance(done, int) else status == "completed" or gone or read.odd > 0
        return CallError("passing", MISSING[status], f"batch {run.batch}, {status}, has no result of it", billed=lost)

    def _finish(self, run: Run, why: str, results: dict[str, Result]) -> Iterator[Answered]:
        """Count what a batch came to, hand on what it answered, and put back what is to be sent again.

        Raises:
            EngineError: no further one can be answered.
        """
        answered: list[Answered] = []
        again: list[CallError] = []
        total = Amount()
        for key, result in results.items():
            question = self.pending.get(key)
            if question is None:
                total += self._dropped(run, result)
                continue
            amount, ended = self._weigh(question, result)
            total += amount
            if isinstance(ended, Outcome):
                answered.append((question.chat, ended))
            else:
                again.append(ended)
                self.todo.append(question)
        if unasked := len(results) - len(answered) - len(again):
            say(f"batch {run.batch}: {unasked} results are not asked for any more; they are paid, and dropped")
        self.account.settle(run.name, total)
        for chat, outcome in answered:
            del self.pending[chat.key]
            yield chat, outcome
        self.journal.over(run, why)
        self.full = False
        for failure in again:
            if failure.scope == "job":
                raise self.server.stop(failure.detail, REMEDIES[failure.kind])
        if again and why == "cancelled":
            raise self.server.stop(
                f"batch {run.batch} was cancelled by somebody", "run again to ask what it did not answer"
            )

    def _weigh(self, question: Question, result: Result) -> tuple[Amount, Outcome | CallError]:
        """What a result costs, and its question's outcome; the failure where it is asked again, or nobody can be."""
        question.attempts += 1
        if isinstance(result, Reply):
            amount = question.pay(self.account, result)
            try:
                return amount, question.read(result, self.settings.own_server)
            except CallError as failure:
                failed = failure
        else:
            amount = question.pay(self.account, None) if result.billed else Amount()
            failed = result
        last = failed.scope == "passing" and question.attempts > self.batch["rounds"]
        return amount, question.failed(failed) if last or failed.scope == "question" else failed

    def _dropped(self, run: Run, result: Result) -> Amount:
        """What a result of a question that nobody asks any more costs."""
        if isinstance(result, CallError) and not result.billed:
            return Amount()
        amount = self.account.amount(result) if isinstance(result, Reply) else None
        return amount or Amount(-(-run.most.tokens // len(run.keys)), run.most.dollars / len(run.keys))

    def _refused(self, run: Run, state: Batch) -> None:
        """A file was refused as a whole: nothing of it was asked.

        Raises:
            EngineError: with what the server says; not where it has too much to do with our other batches.
        """
        self._forget(run, "failed")
        self.full = False
        asked = [self.pending[key] for key in run.keys if key in self.pending]
        errors = state.get("errors")
        said_of = (errors.get("data") if isinstance(errors, Mapping) else None) or [{"message": "no reason given"}]
        found = [(*said(one), one) for one in said_of]
        full = next((message for code, message, _ in found if "token_limit_exceeded" in code), None)
        self.todo.extend(asked)
        if not asked:
            return
        if full and self.journal.runs:
            self.full = True
            say(f"batch {run.batch}: {shortened(full)} It is sent again when another one is done")
            return
        if full:
            raise self.server.stop(
                shortened(full), "lower batch.requests, or run again when the account's other batches are done"
            )
        code, message, first = found[0]
        line = f" (line {first['line']})" if isinstance(first, Mapping) and first.get("line") is not None else ""
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        remedy = REMEDIES.get(refused(400, first).kind, "mend what it says, and run again")
        why = " ".join(filter(None, [code, shortened(message)]))
        raise self.server.stop(f"batch {run.batch} was refused: {why}{line}{more}", remedy)


def _counts(state: Batch) -> Batch:
    counts = state.get("request_counts")
    return counts if isinstance(counts, Mapping) else {}
