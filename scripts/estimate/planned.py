"""The jobs that Snakemake would run, from a dry run of it: so what is done already costs nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts.lib.errors import ConfigError, EngineError

PLUGIN = Path(__file__).parent / "plugin"
"""On PYTHONPATH, Snakemake finds our logger in it."""
ANSWERING = ("run_cell", "run_shard")
"""The rules that run a model on a data set's questions."""
JUDGING = "judge_cell"
"""The rule that has answers judged, some of them by an API."""
PATIENCE_S = 5.0
"""A plan that takes longer is announced."""


@dataclass(frozen=True)
class Job:
    """One job of the plan."""

    rule: str
    wildcards: dict[str, str] = field(default_factory=dict)
    threads: int = 1
    resources: dict[str, int] = field(default_factory=dict)
    image: str = ""
    """File of the container that it runs in; empty where the profile uses none."""

    @property
    def gpus(self) -> int:
        return self.resources.get("gpu", 0)

    @property
    def limit_h(self) -> float:
        """Its time limit."""
        return self.resources.get("runtime", 0) / 60


@dataclass(frozen=True)
class Plan:
    """What would run."""

    jobs: tuple[Job, ...]
    groups: int = 0
    """Groups of the profile, each of which is one submission to a cluster."""
    alone: int = 0
    """Jobs in no group: a submission each."""


def executable() -> str:
    """The Snakemake of this Python, of the PATH, or the one that `make setup` made.

    Raises:
        EngineError: there is none.
    """
    beside = (Path(sys.executable).parent, Path(".venv", "launcher", "bin"))
    places = (str(beside[0]), os.environ.get("PATH", os.defpath), str(beside[1]))
    found = next(filter(None, (shutil.which("snakemake", path=place) for place in places)), None)
    if found is None:
        raise EngineError("no snakemake here, and an estimate asks it what would run; run `make setup`")
    return found


def dry_run(arguments: Sequence[str]) -> Plan:
    """Ask Snakemake what it would do.

    Args:
        arguments: as on Snakemake's command line.

    Raises:
        ConfigError: what Snakemake has against it.
    """
    with tempfile.TemporaryDirectory(prefix="estimate-") as folder:
        plan, said = Path(folder, "plan.jsonl"), Path(folder, "said.txt")
        own = ["--dry-run", "--nocolor", "--logger", "estimate", "--logger-estimate-file", str(plan)]
        path = os.pathsep.join(filter(None, [str(PLUGIN), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"}
        with said.open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                [executable(), *arguments, *own], stdout=output, stderr=subprocess.STDOUT, env=environment
            )
            status = _wait(process)
        if status:
            raise ConfigError(complaint(said.read_text(encoding="utf-8", errors="replace")))
        return read(plan.read_text(encoding="utf-8"))


def _wait(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        print("estimate: asking Snakemake what would run; full size takes up to a minute", file=sys.stderr, flush=True)
        return process.wait()
    finally:
        process.kill()  # does nothing to one that has ended


def read(text: str) -> Plan:
    """What the logger in ``plugin/`` wrote.

    Raises:
        EngineError: not all jobs are in it.
    """
    lines = [json.loads(line) for line in text.splitlines()]
    jobs = {line["job"]["id"]: line["job"] for line in lines if "job" in line}
    groups = [line["group"] for line in lines if "group" in line]
    total = max((line["total"] for line in lines if "total" in line), default=0)
    if total != len(jobs):
        raise EngineError(f"Snakemake counts {total} jobs and showed {len(jobs)}; this is a bug of scripts/estimate")
    grouped = {number for group in groups for number in group}
    # A job that makes no file is a target: a name for others.
    real = {number: job for number, job in jobs.items() if job["makes"]}
    made = sorted(
        (Job(job["rule"], job["wildcards"], job["threads"], job["resources"], job["image"]) for job in real.values()),
        key=lambda job: (job.rule, sorted(job.wildcards.items())),
    )
    return Plan(tuple(made), len(groups), sum(number not in grouped for number in real))


def complaint(said: str) -> str:
    """The one line that matters in what Snakemake said before it gave up."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if ours:
        return ours[0]
    start = next((place for place, line in enumerate(lines) if "Exception" in line or "Error" in line), -3)
    return f"Snakemake can't plan this: {' '.join(lines[start:])[:500] or 'it said nothing; try snakemake -n'}"
