"""Runs a command that ends with the process that asked for it, and takes all that it started along.

    python -m scripts.lib.guard PARENT COMMAND...

A server starts processes of its own (one per GPU, say). Killing the server leaves them, and they keep the GPU's memory;
a parent killed by SIGKILL can't even kill the server. So this small process stands between: it looks after the command,
which has a process group of its own, and kills that group when the parent (its process id) is gone, when its standard
input says so, or when the command has ended.

SIGTERM is held back from the command and its children: Slurm sends it to every process of a job, and questions that are
on their way should still be answered then. It is our parent that decides when the command ends.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

POLL_S = 0.2
"""How often the parent is looked for."""
GRACE_S = 15.0
"""For ending by itself when the parent asks for it: time to give back shared memory."""


def run(parent: int, command: Sequence[str]) -> int:
    """Run ``command`` until it ends or is to end.

    Anything on standard input asks it to end itself (SIGINT, then SIGKILL after ``GRACE_S``); an end of standard input,
    or a parent that is gone, kills it at once.

    Returns:
        Its exit code, as a shell has it: 137 where it was killed by SIGKILL.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})  # passes on to all that is started
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while child.poll() is None and os.getppid() == parent:
            if select.select([sys.stdin], [], [], POLL_S)[0]:
                if os.read(sys.stdin.fileno(), 1):
                    os.killpg(child.pid, signal.SIGINT)
                    child.wait(GRACE_S)
                break
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # also what an ended command has left
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    raise SystemExit(run(int(sys.argv[1]), sys.argv[2:]))
