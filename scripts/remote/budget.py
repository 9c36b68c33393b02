"""What may be spent on APIs, by all runs together: a file that every job of every run adds to.

Before a call its upper estimate is written down as reserved, and afterwards what it came to. So jobs side by side, on
whatever machines share the file, can't pass the budget together as long as no call comes to more than its estimate; by
as much as some do, they can. A call whose end nobody saw (the job was killed, the connection broke) stays in the file
with its estimate: the server may well bill it. Nobody waits for such a line; it counts as spent.
"""

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from scripts.lib.errors import DataError, EngineError


@dataclass(frozen=True)
class Amount:
    """Tokens, in and out together, and dollars."""

    tokens: int = 0
    dollars: float = 0.0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.tokens + other.tokens, self.dollars + other.dollars)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.tokens - other.tokens, self.dollars - other.dollars)


@dataclass(frozen=True)
class Budget:
    """Most that may be spent; None = no limit."""

    dollars: float | None = None
    tokens: int | None = None

    def fits(self, amount: Amount) -> bool:
        return (self.dollars is None or amount.dollars <= self.dollars) and (
            self.tokens is None or amount.tokens <= self.tokens
        )


class Ledger:
    """The file of what was spent, and the budget. Thread-safe, and safe among processes that share the file.

    Two lines a call, each written whole: ``{"id", "model", "tokens", "dollars", "state": "reserved", "time"}``, then
    one of the same id with what it came to and ``spent``.

    Raises:
        DataError: a line that is neither, or a file that can't be locked or written.
    """

    def __init__(self, path: Path, budget: Budget, model: str = "") -> None:
        self.path, self.budget, self.model = Path(path), budget, model
        self._spent = Amount()
        self._reserved: dict[str, Amount] = {}
        self._read_to = 0
        self._threads = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            raise DataError(f"{path}: cannot be written ({error.strerror}); check the folder and who owns it") from None

    def fits(self, amount: Amount) -> bool:
        """Whether this much could be reserved now."""
        with self._locked():
            return self._fits(amount)

    def reserve(self, amount: Amount, name: str = "") -> str | None:
        """Name of a reservation; None if the budget could be passed by it.

        Args:
            name: that no other has; empty = a new one.
        """
        with self._locked():
            if not self._fits(amount):
                return None
            name = name or uuid4().hex
            self._write(name, amount, "reserved")
            return name

    def settle(self, name: str, amount: Amount) -> None:
        """Replace a reservation by what the call came to. Nothing where there is none of this name, or none any more: a
        job that was killed may settle again what it had settled."""
        with self._locked():
            if name in self._reserved:
                self._write(name, amount, "spent")

    def spent(self) -> tuple[Amount, Amount]:
        """What calls came to, and the estimates of those whose end is not known: under way, or never seen."""
        with self._locked():
            return self._spent, self._open()

    def exhausted(self, amount: Amount) -> EngineError:
        """That a call of at most this amount does not fit, in one line with the remedy."""
        spent, unknown = self.spent()
        by_dollars = self.budget.dollars is not None and not Budget(self.budget.dollars).fits(spent + unknown + amount)
        if by_dollars:
            gone, limit = f"${spent.dollars:.2f}", f"${self.budget.dollars:.2f}"
            some, more, key = f"${unknown.dollars:.2f}", f"${amount.dollars:.4f}", "budget.dollars"
        else:
            gone, limit = f"{spent.tokens}", f"{self.budget.tokens} tokens"
            some, more, key = f"{unknown.tokens}", f"{amount.tokens} tokens", "budget.tokens"
        open_calls = f" and {some} for calls whose end is not known" if unknown.tokens else ""
        return EngineError(
            f"{self.path}: {gone} of {limit} are spent{open_calls}, and the next call could take {more}; "
            f"raise {key} in config/remote.yaml and run again, the answers so far are kept"
        )

    def close(self) -> None:
        os.close(self._file)

    def _fits(self, amount: Amount) -> bool:
        return self.budget.fits(self._spent + self._open() + amount)

    def _open(self) -> Amount:
        return sum(self._reserved.values(), Amount())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the file, all of it read."""
        with self._threads:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            except OSError as error:
                raise DataError(f"{self.path}: cannot be locked ({error.strerror}); put it on another disk") from None
            try:
                self._read()
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _read(self) -> None:
        """Take in what was added since, by whomever. A last line without its end is of a writer that was killed."""
        size = os.fstat(self._file).st_size
        if size < self._read_to:
            raise DataError(f"{self.path}: became shorter while it was in use; run again")
        text = os.pread(self._file, size - self._read_to, self._read_to)
        whole = text.rfind(b"\n") + 1
        for line in text[:whole].splitlines():
            self._take(line)
        self._read_to += whole
        if whole < len(text):
            os.ftruncate(self._file, self._read_to)

    def _take(self, line: bytes) -> None:
        try:
            entry: dict[str, Any] = json.loads(line)
            name, amount = str(entry["id"]), Amount(int(entry["tokens"]), float(entry["dollars"]))
            state = {"reserved": "reserved", "spent": "spent"}[entry["state"]]
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{self.path}: not a line of this file: {line[:80]!r}; remove it") from None
        if state == "reserved":
            self._reserved[name] = amount
        else:
            self._reserved.pop(name, None)
            self._spent += amount

    def _write(self, name: str, amount: Amount, state: str) -> None:
        entry = {"id": name, "model": self.model, "tokens": amount.tokens, "dollars": round(amount.dollars, 8)}
        line = json.dumps(entry | {"state": state, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}) + "\n"
        try:
            whole = os.write(self._file, line.encode()) == len(line)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be written ({error.strerror})") from None
        if not whole:  # what there is of it is dropped by the next reader
            raise DataError(f"{self.path}: cannot be written (the disk is full?)")
        self._read()
