"""Work in child processes that may hang, crash or leak: items have a time limit, processes get replaced, not mourned.

Each child does one item at a time over a pipe of its own, so whatever happens to it is the fate of exactly that item.
(Pools that share a queue learn from a message which item a child took; a child that dies at once takes that with it.)
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from scripts.lib.errors import WorkflowError

T = TypeVar("T")
R = TypeVar("R")

PR_SET_PDEATHSIG = 1
GRACE_S = 1.0
"""A process whose pipe has ended is about to end itself."""


@dataclass(frozen=True)
class Outcome(Generic[T, R]):
    """What became of one item: a value, or one line saying why there is none."""

    item: T
    value: R | None
    error: str | None = None
    timed_out: bool = False
    """Whether the error is that the time limit was reached."""


def run_all(
    function: Callable[[T], R],
    items: Iterable[T],
    workers: int,
    timeout_s: float | None = None,
    items_per_process: int = 0,
    ahead: int = 0,
) -> "Run[T, R]":
    """Apply a module-level function to every item in ``workers`` processes; yield outcomes in the order of the items.

    Args:
        timeout_s: an item that takes longer is given up and its process killed.
        items_per_process: replace a process after so many items (0 = never), for engines that leak.
        ahead: how many items may be at work or waiting to be taken (0 = all); bounds the memory that large values need.

    A WorkflowError raised by ``function``, a time-out and a dead process become ``Outcome.error``; any other exception
    is a bug and is raised here. The children end with the parent, even when it is killed.
    """
    return Run([_Child(function, timeout_s, items_per_process) for _ in range(max(1, workers))], items, ahead)


class Run(Generic[T, R]):
    """An iterator over outcomes; nothing is begun before the first is asked for."""

    def __init__(self, children: "list[_Child]", items: Iterable[T], ahead: int) -> None:
        self.children, self.todo, self.ahead = children, deque(items), ahead
        self.free: SimpleQueue[_Child] = SimpleQueue()
        for child in children:
            self.free.put(child)
        self.started: deque[Future[Outcome[T, R]]] = deque()
        self.threads = ThreadPoolExecutor(len(children))
        self.closed = False

    def __iter__(self) -> "Run[T, R]":
        return self

    def __next__(self) -> Outcome[T, R]:
        try:
            while self.todo and not self.closed and (not self.ahead or len(self.started) < self.ahead):
                # Not a method: what waits to be worked must not keep this alive when nobody asks for it any more.
                self.started.append(self.threads.submit(_work, self.free, self.todo.popleft()))
            outcome = self.started.popleft().result() if self.started and not self.closed else None
        except BaseException:
            if self.closed:  # meanwhile, from another thread
                raise StopIteration from None
            self.close()
            raise
        if outcome is None or self.closed:
            self.close()
            raise StopIteration
        return outcome

    def close(self) -> None:
        """End at once, whatever is at work; from any thread, also while another one waits for an outcome."""
        self.closed = True
        self.threads.shutdown(wait=False, cancel_futures=True)
        for child in self.children:
            child.close()

    def __del__(self) -> None:
        self.close()


def _work(free: "SimpleQueue[_Child]", item: Any) -> Outcome[Any, Any]:
    """One item in whichever child is free."""
    child = free.get()
    try:
        return child.do(item)
    finally:
        free.put(child)


class _Child:
    """A child process, started when first needed and again after it ended for whatever reason."""

    def __init__(self, function: Callable[[Any], Any], timeout_s: float | None, items: int) -> None:
        self.function, self.timeout_s, self.items = function, timeout_s, items
        self.process: multiprocessing.process.BaseProcess | None = None
        self.pipe: Connection | None = None
        self.done = 0
        self.closed = False
        self.starting = threading.Lock()

    def do(self, item: Any) -> Outcome[Any, Any]:
        """One item in this process; the time limit does not count the start of a process."""
        try:
            pipe = self.pipe or self._start()  # read once: whoever closes takes it away
            pipe.send(item)
            if not pipe.poll(self.timeout_s):
                self.stop()
                return Outcome(item, None, f"no answer within {self.timeout_s:g} s", timed_out=True)
            kind, value = pipe.recv()
        except (EOFError, OSError):  # the latter in the middle of an item or a value
            return Outcome(item, None, f"the process died (exit code {self.stop(GRACE_S)})")
        self.done += 1
        if self.items and self.done >= self.items:
            self.stop()
        if kind == "bug":
            raise value
        return Outcome(item, value) if kind == "value" else Outcome(item, None, value)

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        with self.starting:  # whoever closes finds a process that runs, or prevents it
            if self.closed:
                raise EOFError
            process = context.Process(target=_serve, args=(theirs, self.function, os.getpid()), daemon=True)
            process.start()
            self.process, self.pipe = process, pipe
        theirs.close()  # the child has its own: once it is gone, reading from ours ends
        self.done = 0
        pipe.recv()
        return pipe

    def stop(self, grace_s: float = 0.0) -> int | None:
        """Kill the process if it still runs; return its exit code, its own if it ends by itself within ``grace_s``."""
        with self.starting:
            process, self.process, self.pipe = self.process, None, None
        if process is None:
            return None
        process.join(grace_s)
        process.kill()
        process.join()
        return process.exitcode

    def close(self) -> None:
        """Stop for good, also where another thread is just starting the process."""
        with self.starting:
            self.closed = True
        self.stop()


def _serve(pipe: Connection, function: Callable[[Any], Any], parent: int) -> None:
    """What a child does: say that it is there, then one item after the other until it is killed."""
    _die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its children
    pipe.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            item = pipe.recv()
            try:
                pipe.send(("value", function(item)))
            except WorkflowError as error:
                pipe.send(("error", str(error)))
            except Exception as error:  # noqa: BLE001 - the process boundary: it is raised again in the parent
                error.add_note(f"in a worker process:\n{traceback.format_exc()}")
                pipe.send(("bug", error))


def _die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent goes: an orphan would write beside the rerun (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
