"""The guard around a server: real processes, ended in every way that a job can end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.processes import alive, assert_gone

ROOT = Path(__file__).parents[2]
# A server with a process of its own, which would keep the GPU's memory.
FAMILY = "sleep 600 & echo $$ $!; exec sleep 600"


def guarded(command, *, parent=None, **options):
    words = [sys.executable, "-m", "scripts.lib.guard", str(parent or os.getpid()), *command]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, bufsize=0, **options)


def members(process):
    """The ids of the command and of the process it started."""
    return [int(word) for word in process.stdout.readline().split()]


def end_by_word(process):
    process.stdin.write(b"q")


def end_of_input(process):
    process.stdin.close()


@pytest.mark.parametrize(("end", "code"), [(end_by_word, 128 + signal.SIGINT), (end_of_input, 128 + signal.SIGKILL)])
def test_command_and_its_children_end_when_told(end, code):
    with guarded(["sh", "-c", FAMILY]) as process:
        family = members(process)
        assert all(alive(one) for one in family)
        end(process)
        assert process.wait(10) == code
    assert_gone(family)


def test_children_of_an_ended_command_go_too():
    with guarded(["sh", "-c", "sleep 600 & echo $!; exit 7"]) as process:
        family = members(process)
        assert process.wait(10) == 7
    assert_gone(family)


def test_a_killed_parent_takes_everything_along():
    program = (
        "import os, subprocess, sys\n"
        "guard = [sys.executable, '-m', 'scripts.lib.guard', str(os.getpid()), 'sh', '-c', sys.argv[1]]\n"
        "guard = subprocess.Popen(guard, stdin=subprocess.PIPE)\n"
        # As a forked worker does, another process holds the guard's input open.
        "print(subprocess.Popen(['sleep', '600'], pass_fds=[guard.stdin.fileno()], stdout=2).pid, flush=True)\n"
        "guard.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, FAMILY], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        lines = sorted((members(parent), members(parent)), key=len)
        (holder,), family = lines
        try:
            assert all(alive(one) for one in family)
            parent.kill()
            assert_gone(family)
        finally:
            os.kill(holder, signal.SIGKILL)


def test_a_parent_gone_before_the_guard_is_there():
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with guarded(["sh", "-c", FAMILY], parent=gone.pid) as process:
        assert process.wait(10) != 0


def test_sigterm_to_every_process_ends_nothing():
    """What Slurm does before it kills; the parent decides."""
    with guarded(["sh", "-c", FAMILY]) as process:
        family = members(process)
        for number in (process.pid, *family):
            os.kill(number, signal.SIGTERM)
        pending = [Path(f"/proc/{one}/status").read_text() for one in (process.pid, *family)]
        assert all(alive(one) for one in (process.pid, *family))
        for status in pending:  # it has arrived, and is held back
            lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            assert int(lines["ShdPnd"], 16) >> (signal.SIGTERM - 1) & 1
        end_by_word(process)
        process.wait(10)
    assert_gone(family)


def test_a_command_that_asks_for_time_gets_it(tmp_path):
    done = tmp_path / "done"
    program = (
        "import signal, sys, pathlib\n"
        "def end(*_): pathlib.Path(sys.argv[1]).write_text('cleaned up'); sys.exit(3)\n"
        "signal.signal(signal.SIGINT, end); print(1, flush=True); signal.pause()\n"
    )
    with guarded([sys.executable, "-c", program, str(done)]) as process:
        members(process)
        end_by_word(process)
        assert process.wait(10) == 3
    assert done.read_text() == "cleaned up"


def test_a_command_that_is_not_there_is_an_error():
    with guarded(["/no/such/program"], stderr=subprocess.PIPE) as process:
        assert process.wait(10) != 0
        assert b"No such file" in process.stderr.read()
