"""Work already paid for: one durable line per finished item, kept outside any rule's declared output.

Snakemake deletes a job's outputs before a rerun and after a failure, so a stage that is killed finds its finished items
here. The folder is named by a fingerprint of everything that can change a result; a changed setting starts a new one.
"""

import fcntl
import hashlib
import json
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from scripts.lib.jsonl import dumps


def fingerprint(*parts: Any) -> str:
    """16 hex digits of the canonical JSON of ``parts`` (mappings in any key order are the same)."""
    canonical = json.dumps(parts, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class Cache:
    """A mapping of string keys to JSON values on disk, appended and fsynced item by item.

    Args:
        path: the file this process appends to; a second process that opens it waits until the first is done.
        also: further cache files of the same fingerprint to read from, e.g. those of sibling jobs.

    A line cut short by a kill is dropped and overwritten by the next append.
    """

    def __init__(self, path: Path, also: list[Path] | None = None) -> None:
        self.path = Path(path)
        self._values: dict[str, Any] = {}
        for other in also or []:
            self._load(other)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("ab")
        self._wait_for_lock()
        whole = self._load(self.path)
        if self._file.seek(0, os.SEEK_END) != whole:
            self._file.truncate(whole)

    def _wait_for_lock(self) -> None:
        """Be the only writer: a killed run can leave a process behind that is still at it, and its work is welcome."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{self.path}: waiting for another process that is writing it", file=sys.stderr, flush=True)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def _load(self, path: Path) -> int:
        """Take in the whole lines of ``path``; return the byte length of that good part."""
        if not path.is_file():
            return 0
        good = 0
        with path.open("rb") as file:
            for line in file:
                try:
                    key, value = json.loads(line)
                except ValueError:
                    break
                if not line.endswith(b"\n"):
                    break
                self._values[key] = value
                good += len(line)
        return good

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: str, value: Any) -> None:
        """Keep ``value`` under ``key``; on return it survives a kill."""
        self._file.write((dumps([key, value]) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._values[key] = value

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Cache":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
