"""What goes wrong on a cluster, done to a real Slurm: every run must notice it, and finish by doing over only what was
lost. Steps are a few lines of Python that write down which Slurm job they ran in and wait to be let go.
"""

import subprocess
import sys
import time

import pytest

from tests.cluster.conftest import Lab, Run
from tests.conftest import ROOT, wait_until

pytestmark = pytest.mark.cluster

OUTAGE_S = 20
SNAKEFILE = f"""
import sys

sys.path.insert(0, {str(ROOT)!r})
from scripts.cluster import inside_job


onstart:
    inside_job.prepare(workflow)


rule work:
    output: "{{name,[a-z]+}}.txt",
    threads: lambda wildcards: 2 if wildcards.name == "wide" else 1,
    resources:
        mem_mb=lambda wildcards, attempt: 300 * attempt,
        runtime=lambda wildcards, attempt: attempt if wildcards.name == "long" else 10,
        attempt=lambda wildcards, attempt: attempt,
    shell: "{sys.executable} step.py {{wildcards.name}} {{resources.attempt}} {{resources.mem_mb}} {{output}}"


rule score_cell:
    output: "scores/{{model}}/{{number}}.txt",
    resources:
        mem_mb=200,
        runtime=lambda wildcards: 9 if (wildcards.model, wildcards.number) == ("u", "0") else 5,
        attempt=1,
    shell: "{sys.executable} step.py quick {{resources.attempt}} {{resources.mem_mb}} {{output}}"


rule scores:
    input: expand("scores/m/{{number}}.txt", number=range(12)),
    localrule: True


# In the batch of score_cell, and first in its Slurm job. Snakemake counts those of the same length as side by side.
rule merge_shards:
    output: "heavy/{{model}}/{{number}}.txt",
    priority: 10
    resources: mem_mb=600, runtime=lambda wildcards: 9 if wildcards.number == "0" else 5, attempt=1,
    shell: "{sys.executable} step.py heavy {{resources.attempt}} {{resources.mem_mb}} {{output}}"


rule uneven:
    input: expand("{{folder}}/u/{{number}}.txt", folder=["heavy", "scores"], number=range(2)),
    localrule: True
"""
STEP = """
import os
import pathlib
import sys
import time

name, attempt, mem_mb, output = sys.argv[1:]
with open("runs.txt", "a") as runs:
    runs.write(f"{os.environ['SLURM_JOB_ID']} {attempt} {mem_mb}\\n")
if name == "big":
    held = b"x" * (400 << 20)
end = time.monotonic() + 280
if name == "quick":
    pathlib.Path("light").touch()
while name == "heavy" and not pathlib.Path("light").exists() and time.monotonic() < end - 260:
    time.sleep(0.1)
waits = name in ("held", "wide") or (name == "long" and attempt == "1")
while waits and not pathlib.Path("go").exists() and time.monotonic() < end:
    time.sleep(0.1)
if name == "heavy":
    with open("runs.txt", "a") as runs:
        runs.write("a heavy end\\n")
pathlib.Path(output).write_text(os.environ["SLURM_JOB_ID"])
"""


@pytest.fixture
def work(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "step.py").write_text(STEP)
    return tmp_path


def starts(run: Run) -> list[list[str]]:
    """(Slurm job, attempt, memory in MB) of every start of a step so far."""
    file = run.folder / "runs.txt"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def let_go(run: Run) -> None:
    (run.folder / "go").touch()


def cancel_one_job(lab: Lab, run: Run) -> None:
    run.wait_until(lambda: len(starts(run)) == 1)
    lab.slurm("scancel", starts(run)[0][0])
    run.wait_until(lambda: len(starts(run)) == 2)
    let_go(run)
    run.finish()
    (first, *_), (second, attempt, _) = starts(run)
    assert first != second and attempt == "2", "sent to Slurm again, as the second attempt"
    assert (run.folder / "held.txt").read_text() == second


def lose_the_controller(lab: Lab, run: Run) -> None:
    run.wait_until(lambda: len(starts(run)) == 1)
    lab.end_controller()
    try:
        # The job ends while nobody can be told, and Snakemake asks in vain at least once.
        let_go(run)
        run.wait_until(lambda: (run.folder / "held.txt").exists())
        time.sleep(OUTAGE_S)
    finally:
        lab.start_controller()
    run.finish()
    assert len(starts(run)) == 1, "nothing was done twice"


def test_a_cancelled_job_is_sent_again(plain_lab, work, start_run):
    cancel_one_job(plain_lab, start_run(plain_lab, "held.txt"))


def test_an_outage_of_slurmctld_is_waited_out(plain_lab, work, start_run):
    lose_the_controller(plain_lab, start_run(plain_lab, "held.txt"))


def test_a_cancelled_job_is_sent_again_with_accounting(accounting_lab, work, start_run):
    cancel_one_job(accounting_lab, start_run(accounting_lab, "held.txt"))


def test_an_outage_of_slurmctld_is_waited_out_with_accounting(accounting_lab, work, start_run):
    lose_the_controller(accounting_lab, start_run(accounting_lab, "held.txt"))


def test_a_job_over_its_memory_gets_more_in_a_new_job(plain_lab, work, start_run):
    if "task/cgroup" not in plain_lab.slurm("scontrol", "show", "config"):
        pytest.skip("memory limits need cgroups of version 1 that can be written, as root")
    run = start_run(plain_lab, "big.txt")
    run.finish()
    (first, _, little), (second, _, more) = starts(run)
    assert first != second
    assert (little, more) == ("300", "600")
    memory = plain_lab.slurm("squeue", "--states=all", "--noheader", f"--jobs={first},{second}", "--format=%m %T")
    assert sorted(memory.split()) == sorted(["300M", "OUT_OF_MEMORY", "600M", "COMPLETED"])


def test_a_job_over_its_time_gets_more_in_a_new_job(plain_lab, work, start_run):
    run = start_run(plain_lab, "long.txt")
    run.finish()
    (first, *_), (second, attempt, _) = starts(run)
    assert first != second and attempt == "2"
    assert plain_lab.states()[first] == "TIMEOUT"


def test_jobs_wait_for_a_drained_node(plain_lab, work, start_run):
    node = f"nodename={plain_lab.node}"
    plain_lab.slurm("scontrol", "update", node, "state=drain", "reason=test")
    try:
        before = set(plain_lab.states())
        run = start_run(plain_lab, "quick.txt")
        run.wait_until(lambda: [s for job, s in plain_lab.states().items() if job not in before] == ["PENDING"])
        assert starts(run) == []
    finally:
        plain_lab.resume()
    run.finish()
    assert [attempt for _, attempt, _ in starts(run)] == ["1"]


def test_a_job_whose_node_fails_is_queued_again(plain_lab, work, start_run):
    run = start_run(plain_lab, "held.txt")
    run.wait_until(lambda: len(starts(run)) == 1)
    node = f"nodename={plain_lab.node}"
    plain_lab.slurm("scontrol", "update", node, "state=down", "reason=test")
    try:
        job = starts(run)[0][0]
        run.wait_until(lambda: plain_lab.states()[job] == "PENDING")
    finally:
        plain_lab.resume()
    run.wait_until(lambda: len(starts(run)) == 2)
    let_go(run)
    run.finish()
    assert starts(run)[0][0] == starts(run)[1][0], "the same Slurm job, by Slurm itself"


def test_a_preempted_job_is_queued_again(plain_lab, work, start_run):
    run = start_run(plain_lab, "wide.txt")
    run.wait_until(lambda: len(starts(run)) == 1)
    job = starts(run)[0][0]
    urgent = plain_lab.slurm(
        "sbatch", "--parsable", "-p", "urgent", "-c", "2", "--mem=100", "-o", "/dev/null", "--wrap", "true"
    )
    run.wait_until(lambda: plain_lab.states()[urgent.strip()] == "COMPLETED")
    run.wait_until(lambda: len(starts(run)) == 2)
    let_go(run)
    output = run.finish()
    assert [one for one, *_ in starts(run)] == [job, job]
    assert [attempt for _, attempt, _ in starts(run)] == ["1", "1"], "no attempt is used up"
    assert "Error in rule" not in output


def test_short_jobs_share_one_slurm_job_of_the_nodes_size(plain_lab, work, start_run):
    run = start_run(plain_lab, "scores")
    run.finish()
    assert len(starts(run)) == 12
    (job,) = {one for one, *_ in starts(run)}
    asked = plain_lab.slurm("squeue", "--states=all", "--noheader", f"--jobs={job}", "--format=%C %m %l")
    assert asked.split() == ["2", "400M", "30:00"], "six layers of two, not the sum of twelve"


def test_steps_of_a_batch_stay_within_its_memory(plain_lab, work, start_run):
    run = start_run(plain_lab, "uneven")
    run.finish()
    job = starts(run)[0][0]
    asked = plain_lab.slurm("squeue", "--states=all", "--noheader", f"--jobs={job}", "--format=%C %m")
    assert asked.split() == ["2", "800M"], "two layers, each of a heavy step and a light one"
    heavy = [memory for _, _, memory in starts(run) if memory in ("600", "end")]
    assert heavy == ["600", "end"] * 2, "a heavy step waits for the other's end, though a CPU is free"


def test_two_labs_side_by_side_and_stop_ends_only_one(plain_lab, tmp_path):
    other = Lab(tmp_path / "other", accounting=False)
    other.start()
    try:
        assert other.node != plain_lab.node
    finally:
        other.stop()
    assert "UP" in plain_lab.slurm("scontrol", "ping")
    wait_until(
        lambda: subprocess.run(["sinfo"], env=other.environment, capture_output=True, check=False).returncode != 0
    )
