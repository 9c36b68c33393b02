"""Which batches are at the server: a file that survives the job that sent them.

One line per event, fsynced. ``submitting`` is written before a batch is created and ``submitted`` after it; so of a job
that was killed in between it is known that it may have sent one, and the next job asks the server. ``over`` comes when
its results have been handed on.
"""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.lib.errors import ConfigError, DataError
from scripts.lib.jsonl import dumps
from scripts.remote.budget import Amount

LOOK_AGAIN_S = 1.0
"""So often a job looks whether another one has let go of the file."""


@dataclass
class Run:
    """A batch that is at the server, or may be."""

    name: str
    """Ours: ``run`` of its metadata, and its reservation in the ledger."""
    url: str
    """Of the server."""
    keys: list[str] = field(repr=False)
    """Of its questions."""
    most: Amount
    """That it can come to."""
    batch: str = ""
    """The server's name of it; empty = not known whether it was created."""
    shown: tuple[Any, ...] = ()
    """How far it was when that was last said."""


def under_way(path: Path) -> int:
    """How many batches the file says may be at the server; 0 where there is none. Changes nothing.

    Raises:
        DataError: a line is none of its own.
    """
    if not path.is_file():
        return 0
    states: dict[str, str] = {}
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            event = json.loads(line)
            states[event["run"]] = event["event"]
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path}: not a line of this file: {line[:80]!r}; remove it") from None
    return sum(state != "over" for state in states.values())


class Journal:
    """The file. Not thread-safe; a second process that opens it waits until the first is done.

    Args:
        url: of the server that is asked.
        wait: waits so many seconds.

    Raises:
        DataError: it can't be read, written or locked, or has a line that is none of its own.
        ConfigError: it knows of a batch at another server.
    """

    def __init__(self, path: Path, url: str, wait: Callable[[float], None]) -> None:
        self.path = Path(path)
        self.runs: dict[str, Run] = {}
        """What is not over, by name."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            raise self._unusable(error) from None
        try:
            self._lock(wait)
            self._load()
            self._check(url)
        except BaseException:
            self.close()
            raise

    def submitting(self, run: Run) -> None:
        """It is about to be created."""
        amount = {"tokens": run.most.tokens, "dollars": run.most.dollars}
        self._add({"event": "submitting", "run": run.name, "url": run.url, "keys": run.keys, **amount})

    def submitted(self, run: Run, batch: str) -> None:
        """It is at the server, by this name."""
        self._add({"event": "submitted", "run": run.name, "batch": batch})

    def over(self, run: Run, why: str) -> None:
        """Nothing of it is needed any more, or it never came to be."""
        self._add({"event": "over", "run": run.name, "why": why})

    def close(self) -> None:
        """Let others have the file."""
        os.close(self._file)

    def _unusable(self, error: OSError) -> DataError:
        return DataError(f"{self.path}: cannot be written ({error.strerror}); check the folder and who owns it")

    def _lock(self, wait: Callable[[float], None]) -> None:
        waits = False
        while True:
            try:
                return fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not waits:
                    print(f"{self.path}: waiting for another process that is writing it", file=sys.stderr, flush=True)
                waits = True
                wait(LOOK_AGAIN_S)
            except OSError as error:
                raise DataError(f"{self.path}: cannot be locked ({error.strerror}); put it on another disk") from None

    def _load(self) -> None:
        """Take in the whole lines. A last one without its end is of a writer that was killed, and goes."""
        text = os.pread(self._file, os.fstat(self._file).st_size, 0)
        whole = text.rfind(b"\n") + 1
        for line in text[:whole].splitlines():
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise DataError(f"{self.path}: not a line of this file: {line[:80]!r}; remove it") from None
        os.ftruncate(self._file, whole)

    def _take(self, event: dict[str, Any]) -> None:
        name = event["run"]
        if event["event"] == "submitting":
            most = Amount(int(event["tokens"]), float(event["dollars"]))
            self.runs[name] = Run(name, event["url"], list(event["keys"]), most)
        elif event["event"] == "submitted":
            self.runs[name].batch = event["batch"]
        elif event["event"] == "over":
            del self.runs[name]
        else:
            raise ValueError

    def _check(self, url: str) -> None:
        other = next((run for run in self.runs.values() if run.url != url), None)
        if other:
            raise ConfigError(
                f"{self.path}: batch {other.batch or other.name} is at {other.url}, not at {url}; set the url back to"
                " have its results, or remove this file to give them up"
            )

    def _add(self, event: dict[str, Any]) -> None:
        line = (dumps(event | {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}) + "\n").encode()
        try:
            whole = os.write(self._file, line) == len(line)
            os.fsync(self._file)
        except OSError as error:
            raise self._unusable(error) from None
        if not whole:  # what there is of it is dropped by the next job
            raise DataError(f"{self.path}: cannot be written (the disk is full?)")
        self._take(event)
