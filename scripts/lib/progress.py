"""Progress a person can follow, also in a log file: plain lines, at most one every few seconds."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def clock(seconds: float) -> str:
    """``42 s``, ``3:05`` or ``1:02:03``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def track(
    items: Iterable[T],
    label: str,
    total: int,
    unit: str,
    every_s: float = 5.0,
    size: Callable[[T], int] = lambda _: 1,
) -> Iterator[T]:
    """Yield ``items`` and print ``label  done/total unit  time left`` to stderr as they are finished.

    Args:
        label: what the reader looks for, e.g. ``render_videos rolling``.
        total: number of units expected; with 0 only a closing line is printed.
        every_s: least time between two lines; the last line is always printed.
        size: how many units an item holds, where it is not one.
    """
    start = last = time.monotonic()
    done = 0
    for item in items:
        yield item
        done += size(item)
        now = time.monotonic()
        if now - last >= every_s and done < total:
            left = (now - start) / done * (total - done)
            print(f"{label}  {done}/{total} {unit}  {clock(left)} left", file=sys.stderr, flush=True)
            last = now
    spent = time.monotonic() - start
    print(f"{label}  {done}/{max(total, done)} {unit}  done in {clock(spent)}", file=sys.stderr, flush=True)
