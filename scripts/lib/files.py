"""Files that are either whole or absent."""

import fcntl
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scripts.lib.errors import DataError

STALE_S = 3600.0
"""A temporary sibling that nobody holds is left over from a killed run once it has not been written for so long."""


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of ``path`` to write to; fsync and rename it on success, remove it on failure.

    The sibling keeps the suffix, because encoders choose their container by it. Siblings of the same target that a
    killed run left behind are removed first (see ``_sweep``).

    Raises:
        DataError: the folder can't be made or written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem[:80]}.", suffix=path.suffix)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); check the folder and who owns it") from None
    temporary = Path(name)
    try:
        with suppress(OSError):  # a file system without locks: its leftovers stay
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _sweep(path)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; a lab shares its results
        temporary.replace(path)
    finally:
        os.close(handle)
        temporary.unlink(missing_ok=True)


def _sweep(path: Path) -> None:
    """Remove temporary siblings of ``path`` whose writer is gone.

    A writer keeps its sibling locked until it is renamed, and a kill frees the lock. So one goes only if nobody holds
    it, on whatever machine sharing the folder, and if it is older than the moment between making and locking one.
    """
    ours = re.compile(rf"\.{re.escape(path.stem[:80])}\.[a-z0-9_]{{8}}{re.escape(path.suffix)}")
    for file in path.parent.iterdir():
        if not ours.fullmatch(file.name):
            continue
        with suppress(OSError):  # held by its writer, just renamed, or another's: not ours to remove
            if time.time() - file.stat().st_mtime < STALE_S:
                continue
            with file.open("r+b") as left:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink()


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
