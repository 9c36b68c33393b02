"""Ending well when told to: what is at work is finished and kept, nothing new is begun.

Slurm sends SIGTERM before it kills (time limit, scancel, pre-emption), a terminal SIGINT at Ctrl-C.
"""

import os
import signal
import threading
from types import FrameType, TracebackType


class Stopping:
    """Between ``with`` and its end, a SIGTERM or SIGINT sets ``signal_name`` instead of ending the process.

    A second one ends it as usual. Only the main thread of a process can have signals; elsewhere nothing is changed.
    """

    def __init__(self) -> None:
        self.signal_name = ""
        self._before: dict[int, object] = {}

    def __bool__(self) -> bool:
        """Whether it is time to end."""
        return bool(self.signal_name)

    def _told(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the interpreter's signature
        self.signal_name = signal.Signals(number).name
        # Not by print: what was interrupted may be printing.
        os.write(2, f"{self.signal_name}: finishing what is at work; once more ends at once\n".encode())
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before = {}

    def __enter__(self) -> "Stopping":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._told)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
