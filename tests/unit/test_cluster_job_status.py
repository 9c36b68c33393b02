"""The stand-in for sacct: what each of Slurm's states becomes, and what is said when a part of Slurm is silent."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cluster import job_status

ROOT = Path(__file__).parents[2]
QUERY = "sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime x --endtime now --name run"


def verdict(squeue, sacct=None, seen=None, now=1000.0):
    memory = dict(seen or {})
    answers = [None if answer is None else job_status.parse(answer) for answer in (squeue, sacct)]
    return job_status.merge(answers[0], answers[1], memory, now), memory


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED"])
def test_a_job_that_is_not_over_stays_as_it_is_and_is_remembered(state):
    assert verdict(f"7|{state}") == ({"7": state}, {"7": 0.0})


@pytest.mark.parametrize(
    "state", ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL"]
)
def test_a_job_that_is_over_is_forgotten(state):
    assert verdict(f"7|{state}", seen={"7": 0.0}) == ({"7": state}, {})


@pytest.mark.parametrize(
    ("state", "said"), [("NODE_FAIL", "FAILED"), ("PREEMPTED", "CANCELLED"), ("REVOKED", "CANCELLED")]
)
def test_states_that_the_plugin_would_wait_on_are_final_once_slurmctld_shows_them(state, said):
    assert verdict(f"7|{state}")[0] == {"7": said}
    assert verdict("", f"7|{state}", seen={"7": 0.0}) == ({"7": said}, {}), "squeue no longer knows the job"
    assert verdict(None, f"7|{state}")[0] == {"7": "PENDING"}, "slurmctld may be queueing it again"


def test_states_lose_what_sacct_adds():
    assert job_status.parse("7|CANCELLED by 0\n8|CANCELLED+\n9|COMPLETED\n\n10|") == {
        "7": "CANCELLED",
        "8": "CANCELLED",
        "9": "COMPLETED",
    }


def test_a_job_queued_again_is_pending_whatever_accounting_says_of_its_first_run():
    assert verdict("7|PENDING", "7|PREEMPTED")[0] == {"7": "PENDING"}
    assert verdict("7|RUNNING", "7|NODE_FAIL")[0] == {"7": "RUNNING"}


def test_accounting_knows_what_squeue_has_forgotten():
    assert verdict("", "7|COMPLETED", seen={"7": 0.0}) == ({"7": "COMPLETED"}, {})
    assert verdict("", "7|CANCELLED by 1000")[0] == {"7": "CANCELLED"}


def test_nobody_answers_then_nothing_ends():
    assert verdict(None, None, seen={"7": 0.0}) == ({"7": "PENDING"}, {"7": 0.0})
    assert verdict(None, None) == ({}, {})


def test_accounting_alone_can_end_a_job():
    assert verdict(None, "7|COMPLETED\n8|RUNNING", seen={"7": 0.0, "8": 0.0})[0] == {"7": "COMPLETED", "8": "RUNNING"}


@pytest.mark.parametrize("sacct", [None, "", "8|RUNNING", "7|REQUEUED"])
def test_a_job_that_vanished_is_failed_after_a_while_and_stays_so(sacct):
    said, memory = verdict("", sacct, seen={"7": 0.0}, now=1000.0)
    assert said["7"] == "PENDING"
    said, memory = verdict("", sacct, seen=memory, now=1000.0 + job_status.LOST_S - 1)
    assert said["7"] == "PENDING"
    said, memory = verdict("", sacct, seen=memory, now=1000.0 + job_status.LOST_S)
    assert said["7"] == "FAILED"
    assert verdict("", sacct, seen=memory, now=5000.0)[0]["7"] == "FAILED", "asked again, the same answer"


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED"])
def test_a_job_that_accounting_knows_to_be_alive_is_not_lost(state):
    said, memory = verdict("", f"7|{state}", seen={"7": 0.0}, now=1000.0)
    assert said == {"7": state}
    said, memory = verdict("", f"7|{state}", seen=memory, now=1000.0 + 2 * job_status.LOST_S)
    assert (said, memory) == ({"7": state}, {"7": 0.0}), "a job of another cluster, say"
    assert verdict("", "", seen=memory, now=5000.0)[0] == {"7": "PENDING"}, "missed only from now on"


def test_a_job_that_comes_back_is_no_longer_missed():
    _, memory = verdict("", seen={"7": 0.0})
    assert memory == {"7": 1000.0}
    assert verdict("7|RUNNING", seen=memory) == ({"7": "RUNNING"}, {"7": 0.0})


def stand_in(folder, programs):
    """A PATH with our sacct before made-up Slurm commands."""
    for name, body in programs.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)
    return f"{ROOT / 'profiles' / 'slurm' / 'bin'}:{folder}:/usr/bin:/bin"


def call(tmp_path, programs, command):
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / ".snakemake").mkdir(exist_ok=True)
    path = stand_in(tmp_path / "bin", programs)
    environment = {"PATH": path, job_status.PYTHON: sys.executable}
    return subprocess.run(command.split(), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)


def test_the_plugins_question_is_answered_without_accounting(tmp_path):
    programs = {
        "squeue": '[ "$*" = "--states=all --noheader --format=%A|%T --name run" ] && echo "7|RUNNING"',
        "sacct": "echo 'Slurm accounting storage is disabled' >&2; exit 1",
    }
    done = call(tmp_path, programs, QUERY)
    assert (done.returncode, done.stdout) == (0, "7|RUNNING\n")
    programs["squeue"] = "echo 'Unable to contact slurm controller' >&2; exit 1"
    done = call(tmp_path, programs, QUERY)
    assert (done.returncode, done.stdout) == (0, "7|PENDING\n"), "remembered between two calls"


def test_other_questions_go_to_the_clusters_own_command(tmp_path):
    done = call(tmp_path, {"sacct": 'echo "real: $*"; exit 3'}, "sacct -j 7 -o Elapsed")
    assert (done.returncode, done.stdout) == (3, "real: -j 7 -o Elapsed\n")


def test_no_account_is_guessed_from_what_ran_last(tmp_path):
    done = call(tmp_path, {"sacct": "echo other"}, "sacct -nu me -o Account%256 | tail -1")
    assert (done.returncode, done.stdout) == (0, "none\n")


def test_the_reason_of_an_end_is_told_once(tmp_path):
    shown = "JobId=7 JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125 TimeLimit=00:10:00 NodeList=n1"
    shown += " TRES=cpu=1,mem=300M,node=1"
    programs = {"scontrol": f'[ "$*" = "--oneliner show job 7" ] && echo "{shown}"'}
    first = call(tmp_path, programs, "sacct -j 7.0 --format=Reason --noheader").stdout
    assert first == "OUT_OF_MEMORY, OutOfMemory, ExitCode 0:125, NodeList n1, TimeLimit 00:10:00, memory 300M\n"
    assert call(tmp_path, programs, "sacct -j 7.1 --format=Reason --noheader").stdout.strip() == ""


def clone(folder, *names):
    """Copies of what finds sacct, as in other clones of this repository; their PATH."""
    for name in names:
        for part in ("profiles/slurm/bin/sacct", "scripts/cluster/job_status.py"):
            (folder / name / part).parent.mkdir(parents=True)
            shutil.copy(ROOT / part, folder / name / part)
    return os.pathsep.join(str(folder / name / job_status.OURS) for name in names)


def ask_first(path):
    environment = {"PATH": f"{path}:/usr/bin:/bin", job_status.PYTHON: sys.executable}
    return subprocess.run(
        ["sacct", "-j", "7"], env=environment, capture_output=True, text=True, check=False, timeout=30
    )


def test_two_clones_on_the_path_do_not_ask_each_other(tmp_path):
    clones = clone(tmp_path, "one", "two")
    (tmp_path / "bin").mkdir()
    stand_in(tmp_path / "bin", {"sacct": 'echo "real: $*"'})
    assert ask_first(f"{clones}:{tmp_path / 'bin'}").stdout == "real: -j 7\n"


def test_a_command_that_leads_back_here_is_told_so(tmp_path):
    (tmp_path / "bin").mkdir()
    path = stand_in(tmp_path / "bin", {"sacct": 'exec sacct "$@"'})
    done = ask_first(path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "mend the PATH" in done.stderr


def test_ours_is_found_first_and_only_once(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(job_status.PYTHON, "")
    job_status.put_on_path()
    job_status.put_on_path()
    assert os.environ["PATH"].split(os.pathsep) == [str(ROOT / job_status.OURS), str(tmp_path)]
    assert os.environ[job_status.PYTHON] == sys.executable
    assert shutil.which("sacct") == str(ROOT / job_status.OURS / "sacct")
