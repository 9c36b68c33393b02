"""Work in child processes that may hang, crash or leak: items have time limits, processes get replaced, not mourned."""

import ctypes
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from pebble import ProcessExpired, ProcessPool

from scripts.lib.errors import WorkflowError

T = TypeVar("T")
R = TypeVar("R")

PR_SET_PDEATHSIG = 1


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
) -> Iterator[Outcome[T, R]]:
    """Apply a module-level function to every item in ``workers`` processes; yield outcomes in the order of the items.

    Args:
        timeout_s: an item that takes longer is given up and its process killed.
        items_per_process: replace a process after so many items (0 = never), for engines that leak.
        ahead: how many items may be at work or waiting to be taken (0 = all); bounds the memory that large values need.

    A WorkflowError raised by ``function``, a time-out and a dead process become ``Outcome.error``; any other exception
    is a bug and is raised here. The children end with the parent, even when it is killed.
    """
    todo = deque(items)
    started: deque[tuple[T, Future[R]]] = deque()
    pool = ProcessPool(
        max_workers=max(1, workers),
        max_tasks=items_per_process,
        context=multiprocessing.get_context("spawn"),
        initializer=_die_with_parent,
        initargs=[os.getpid()],
    )
    try:
        while todo or started:
            while todo and (not ahead or len(started) < ahead):
                item = todo.popleft()
                started.append((item, pool.schedule(function, args=[item], timeout=timeout_s)))
            item, future = started.popleft()
            try:
                yield Outcome(item, future.result())
            except WorkflowError as error:
                yield Outcome(item, None, str(error))
            except TimeoutError:
                yield Outcome(item, None, f"no answer within {timeout_s:g} s", timed_out=True)
            except ProcessExpired as error:
                yield Outcome(item, None, f"the process died (exit code {error.exitcode})")
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


def _die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent goes: an orphan would write beside the rerun (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
