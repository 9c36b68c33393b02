"""How a step starts, reports and fails; and work in processes that misbehave."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.lib import cli, progress
from scripts.lib.errors import DataError
from scripts.lib.workers import run_all


def run(step, tmp_path):
    return cli.run(step, cli.parser("Teaches."), ["--log", str(tmp_path / "logs" / "a.log")])


def test_a_users_mistake_is_one_line_on_screen_and_in_the_log(tmp_path, capsys):
    def step(args):
        raise DataError("clip.mp4: empty file; fetch it again")

    assert run(step, tmp_path) == 1
    assert capsys.readouterr().err == "error: clip.mp4: empty file; fetch it again\n"
    assert (tmp_path / "logs" / "a.log").read_text() == "error: clip.mp4: empty file; fetch it again\n"


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path, capsys):
    assert run(lambda _: (tmp_path / "no" / "such").open(), tmp_path) == 1
    err = capsys.readouterr().err
    assert "No such file or directory; check the path" in err
    assert err.count("\n") == 1


def test_a_bug_shows_its_trace_in_the_log_too(tmp_path, capsys):
    assert run(lambda _: 1 / 0, tmp_path) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert "ZeroDivisionError" in (tmp_path / "logs" / "a.log").read_text()


def test_progress_counts_and_closes(capsys):
    assert list(progress.track("abc", "render_videos rolling", 3, "videos", every_s=0)) == ["a", "b", "c"]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("render_videos rolling  1/3 videos  ")
    assert lines[0].endswith(" left")
    assert "3/3 videos  done in" in lines[-1]


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0 s"), (59.4, "59 s"), (185, "3:05"), (3723, "1:02:03")])
def test_clock(seconds, shown):
    assert progress.clock(seconds) == shown


def double_or_misbehave(x):
    if x == "hang":
        time.sleep(600)
    if x == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if x == "bad":
        raise DataError("bad.mp4: broken")
    return 2 * x


def test_hangs_crashes_and_bad_files_cost_only_themselves():
    outcomes = list(run_all(double_or_misbehave, [1, "hang", "crash", "bad", 2], workers=2, timeout_s=3))
    assert [outcome.value for outcome in outcomes] == [2, None, None, None, 4]
    assert "no answer within 3 s" in outcomes[1].error
    assert "died" in outcomes[2].error
    assert outcomes[3].error == "bad.mp4: broken"


def test_a_bug_in_a_worker_is_raised():
    with pytest.raises(TypeError):
        list(run_all(double_or_misbehave, [None], workers=1))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_process_that_dies_at_once_costs_only_its_item(workers):
    items = ["crash", 1, "crash", "crash", 2, "crash"]
    outcomes = list(run_all(double_or_misbehave, items, workers))
    assert [outcome.value for outcome in outcomes] == [None, 2, None, None, 4, None]
    assert all("exit code -9" in outcome.error for outcome in outcomes if outcome.value is None)


def test_leaving_early_ends_the_processes():
    outcomes = run_all(double_or_misbehave, [1, "hang", "hang", "hang"], workers=2)
    assert next(outcomes).value == 2
    outcomes.close()
    assert multiprocessing.active_children() == []


def pid_of(x):
    return os.getpid()


def test_processes_are_replaced_after_so_many_items():
    pids = [outcome.value for outcome in run_all(pid_of, range(4), workers=1, items_per_process=2)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def forever(marker):
    marker.with_suffix(".pid").write_text(str(os.getpid()))
    time.sleep(600)


PARENT = """
from pathlib import Path
from tests.unit.test_lib_cli import forever
from scripts.lib.workers import run_all
if __name__ == "__main__":
    list(run_all(forever, [Path({marker!r})], workers=1))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's parent-death signal")
def test_workers_die_with_a_killed_parent(tmp_path):
    marker, script = tmp_path / "child", tmp_path / "parent.py"
    script.write_text(PARENT.format(marker=str(marker)))
    parent = subprocess.Popen([sys.executable, script], env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    pid_file = marker.with_suffix(".pid")
    wait_until(lambda: pid_file.is_file() and pid_file.read_text())
    parent.kill()
    parent.wait()
    wait_until(lambda: not Path(f"/proc/{pid_file.read_text()}").exists())


def wait_until(condition, limit_s=30):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
