"""The one place where a step's command line starts, logs and fails."""

import argparse
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from scripts.lib.errors import WorkflowError


class _Tee:
    """Writes to the terminal and to the step's log."""

    def __init__(self, terminal: TextIO, log: TextIO) -> None:
        self.terminal, self.log = terminal, log

    def write(self, text: str) -> int:
        self.log.write(text)
        return self.terminal.write(text)

    def flush(self) -> None:
        self.log.flush()
        self.terminal.flush()

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self.terminal.fileno()


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser that shows the module's docstring and knows ``--log``."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--log", type=Path, help="also write progress and errors to this file")
    return made


def run(
    step: Callable[[argparse.Namespace], None], arguments: argparse.ArgumentParser, argv: list[str] | None = None
) -> int:
    """Parse ``argv`` and run ``step``; return the exit status.

    A WorkflowError or an operating-system error on a file becomes one line on stderr and status 1.
    """
    args = arguments.parse_args(argv)
    terminal = sys.stderr
    log: TextIO | None = None
    try:
        if args.log:
            args.log.parent.mkdir(parents=True, exist_ok=True)
            log = args.log.open("w", encoding="utf-8")
            sys.stderr = _Tee(terminal, log)
        step(args)
    except WorkflowError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"error: {error.filename or 'system'}: {error.strerror}; check the path, its owner and the free space",
            file=sys.stderr,
        )
        return 1
    except Exception:  # noqa: BLE001 - the process boundary: a bug's trace belongs in the log as well
        traceback.print_exc()
        return 2
    finally:
        sys.stderr = terminal
        if log:
            log.close()
    return 0


def at_least(lowest: int) -> Callable[[str], int]:
    """A type for argparse: whole numbers from ``lowest`` on."""

    def integer(text: str) -> int:
        value = int(text)
        if value < lowest:
            raise argparse.ArgumentTypeError(f"{value} is less than {lowest}")
        return value

    return integer
