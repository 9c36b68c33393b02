"""Whether processes still run, for tests that end some."""

import time
from contextlib import suppress
from pathlib import Path


def alive(number):
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rsplit(") ", 1)[1][0] not in "ZX"
    return False


def assert_gone(numbers):
    """Each of the processes ends within 10 s."""
    deadline = time.monotonic() + 10
    while any(alive(number) for number in numbers):
        assert time.monotonic() < deadline, [number for number in numbers if alive(number)]
        time.sleep(0.02)
