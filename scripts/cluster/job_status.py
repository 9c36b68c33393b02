"""Answers in sacct's place: how the Slurm jobs of one Snakemake run are doing.

The executor plugin asks `sacct` for the states of its jobs. Asked directly, that goes wrong: on a cluster without
accounting it never answers, a job cancelled by hand reads "CANCELLED by 1000", which the plugin takes for a job that
still runs, and after five failed queries in a row (slurmctld away for a minute) the plugin forgets all its jobs; each
time the run waits for ever. profiles/slurm/bin/sacct is found before the cluster's own command and comes here.

It asks squeue, which knows every job that slurmctld still holds, and the real sacct, which knows the others where
accounting is on. Nobody answers: prints nothing, which the plugin reads as "no news". Only what is final is said to be
final: a job that was pushed off its node and is queued again is pending. A job that was seen and that neither of the
two knows any more is FAILED after a while, so that it is done again and never taken for done. Where accounting says
that it is alive, it is not lost: it may be on another cluster, whose squeue is not asked. No more is done for runs on
several clusters (`--clusters`): with the same number on two of them, or without accounting, jobs are mixed up or lost.

Runs as a plain file, with nothing but Python's standard library. Questions of other kinds go to the real sacct.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

FINAL = {
    "COMPLETED": "COMPLETED",
    "FAILED": "FAILED",
    "CANCELLED": "CANCELLED",
    "TIMEOUT": "TIMEOUT",
    "OUT_OF_MEMORY": "OUT_OF_MEMORY",
    "DEADLINE": "DEADLINE",
    "BOOT_FAIL": "BOOT_FAIL",
    # The plugin would wait for Slurm to queue these three again. Slurm has done so by the time it forgets the job's
    # end; where it still shows one of them, it will not.
    "NODE_FAIL": "FAILED",
    "PREEMPTED": "CANCELLED",
    "REVOKED": "CANCELLED",
}
AGAIN = {"NODE_FAIL", "PREEMPTED", "REVOKED", "REQUEUED"}
"""What accounting also writes of a job that is queued again: slurmctld's word is needed to call one of them final."""
ALIVE = {"PENDING", "RUNNING", "SUSPENDED"}
"""What accounting says of a job that is not over. Where it is wrong for ever: `sacctmgr show runawayjobs` mends it."""
ASK_S = 20.0
"""Two commands of so many seconds stay under the plugin's own limit of a minute for one query."""
LOST_S = 120.0
"""For so long a job may be missing from squeue, without accounting knowing its end, before it counts as lost."""
OURS = Path("profiles", "slurm", "bin")
"""Where our sacct lies in a clone."""
MEMORY = Path(".snakemake/slurm_jobs")
"""Which jobs were seen alive, per run, so that one that vanishes is noticed."""

GUARD = "TEXT_IN_VIDEO_SACCT"
"""Set for the commands asked here: one that leads back here by the PATH is told so, and not asked for ever."""
PYTHON = "TEXT_IN_VIDEO_PYTHON"
"""Names the Python for profiles/slurm/bin/sacct."""

States = dict[str, str]


def ask(*command: str) -> str | None:
    """A command's output, or None where it fails, is absent or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ASK_S, check=False, env={**os.environ, GUARD: "1"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def real_sacct() -> str | None:
    """The first sacct on the PATH that is not this workflow's, whichever clone it lies in."""
    for folder in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
        found = shutil.which("sacct", path=folder)
        if found and not _is_ours(Path(found).resolve()):
            return found
    return None


def _is_ours(sacct: Path) -> bool:
    """Whether a command is a clone's ``profiles/slurm/bin/sacct``."""
    clone = sacct.parents[3] if len(sacct.parents) > 3 else sacct.parent
    return sacct.parts[-4:-1] == OURS.parts and (clone / "scripts" / "cluster" / Path(__file__).name).is_file()


def parse(answer: str) -> States:
    """``id|STATE`` lines, with states cut to their word: "CANCELLED by 1000" and "CANCELLED+" are CANCELLED."""
    states = {}
    for line in answer.splitlines():
        job, _, state = line.strip().partition("|")
        word = re.match(r"[A-Z_]+", state)
        if job and word:
            states[job] = word.group()
    return states


def merge(queue: States | None, accounts: States | None, missing_since: dict[str, float], now: float) -> States:
    """What to say of each job, from the answers of squeue and sacct (None: no answer).

    ``missing_since`` holds the jobs seen alive so far, with the time since when they are missed (0: they are not).
    It is brought up to date.
    """
    said: States = {}
    for job in {*(queue or {}), *(accounts or {}), *missing_since}:
        if queue is not None and job in queue:
            said[job] = FINAL.get(queue[job], queue[job])
            missing_since[job] = 0.0
        else:
            state = (accounts or {}).get(job, "PENDING")
            if state in FINAL and (queue is not None or state not in AGAIN):
                said[job] = FINAL[state]
            elif queue is None:
                said[job] = "PENDING" if state in AGAIN else state
            elif state in ALIVE and job in (accounts or {}):
                said[job] = state
                missing_since[job] = 0.0
            else:
                missing_since[job] = missing_since.get(job) or now
                said[job] = "FAILED" if now - missing_since[job] >= LOST_S else "PENDING"
                continue
        if said[job] in FINAL:
            missing_since.pop(job, None)
    return said


def recall(file: Path) -> dict[str, float]:
    """The jobs seen alive by earlier queries of this run; none where there is no readable record."""
    try:
        return {str(job): float(since) for job, since in json.loads(file.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def remember(file: Path, jobs: dict[str, float]) -> None:
    """Write the record whole or not at all; a folder that can't be written costs the notice of lost jobs, no more."""
    temporary = file.with_suffix(f".{os.getpid()}")
    try:
        if not jobs:
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(exist_ok=True)
        temporary.write_text(json.dumps(jobs), encoding="utf-8")
        temporary.replace(file)
    except OSError:
        return


def states(run: str, query: list[str], now: float, asking: Callable[..., str | None] = ask) -> States:
    """States of all jobs named ``run``; ``query`` is the plugin's own question, passed on to the real sacct."""
    answer = asking("squeue", "--states=all", "--noheader", "--format=%A|%T", "--name", run)
    queue = None if answer is None else parse(answer)
    sacct = real_sacct()
    answer = asking(sacct, *query) if sacct else None
    accounts = None if answer is None else parse(answer)
    file = MEMORY / f"{run}.json"
    before = recall(file)
    jobs = dict(before)
    said = merge(queue, accounts, jobs, now)
    if jobs != before:
        remember(file, jobs)
    return said


def reason(step: str, asking: Callable[..., str | None] = ask) -> str:
    """Why a job ended, from slurmctld. The plugin asks for each of ten possible steps; the first is answered."""
    job, _, number = step.partition(".")
    if number not in ("", "0"):
        return ""
    shown = asking("scontrol", "--oneliner", "show", "job", job) or ""
    fields = dict(re.findall(r"(\w+)=(\S+)", shown))
    told = [fields[key] for key in ("JobState", "Reason") if fields.get(key, "None") != "None"]
    told += [f"{key} {fields[key]}" for key in ("ExitCode", "NodeList", "TimeLimit") if key in fields]
    told += [f"memory {found.group(1)}" for found in [re.search(r"\bTRES=\S*?mem=(\w+)", shown)] if found]
    return ", ".join(told)


def option(query: list[str], *names: str) -> str | None:
    """The value of an option in a command line, in the forms ``--name value``, ``--name=value`` and ``-nvalue``."""
    for at, word in enumerate(query):
        for name in names:
            if word == name and at + 1 < len(query):
                return query[at + 1]
            if word.startswith(f"{name}="):
                return word.split("=", 1)[1]
    return None


def put_on_path() -> None:
    """Let this process and its children find our sacct first. Called when a run that goes to Slurm starts."""
    folder = str(Path(__file__).resolve().parents[2] / OURS)
    if folder not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = folder + os.pathsep + os.environ["PATH"]
    os.environ[PYTHON] = sys.executable


def main(query: list[str]) -> int:
    if os.environ.get(GUARD):
        print("error: the cluster's sacct leads back to this workflow's; mend the PATH", file=sys.stderr)
        return 1
    run = option(query, "--name")
    wanted = option(query, "--format", "-o") or ""
    if run and "state" in wanted.lower():
        for job, state in sorted(states(run, query, time.time()).items()):
            print(f"{job}|{state}")
        return 0
    if wanted.lower() == "reason":
        print(reason(option(query, "-j", "--jobs") or ""))
        return 0
    if wanted.lower().startswith("account"):
        # The plugin's guess of an account, from whatever ran last. None: Slurm's own default, or the site file's.
        print("none")
        return 0
    sacct = real_sacct()
    if not sacct:
        print("error: this cluster has no sacct command", file=sys.stderr)
        return 1
    return os.execve(sacct, [sacct, *query], {**os.environ, GUARD: "1"})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
