"""What one short step costs besides its own work: locally, as a Slurm job, in a batch of thirty, with and without
Apptainer, and with the executor plugin as it comes. CPU seconds of all processes, Slurm's daemons included.

python -m benchmarks.cluster_overhead --image containers/base-....sif

Starts a one-node Slurm of its own (tests/cluster/lab) and ends it. Without an image, no rows with Apptainer.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAB = ROOT / "tests" / "cluster" / "lab"
BATCH, SINGLES = 30, 8
SUBREAPER = 36
"""prctl's number for it: processes that lose their parent become ours, so that their CPU time is counted."""

SNAKEFILE = f"""
import sys

sys.path.insert(0, {str(ROOT)!r})
from scripts.cluster import inside_job, job_status

job_status.put_on_path({str(ROOT)!r})
if not config["plain"]:
    inside_job.run_steps_directly()


rule all:
    input: expand("out/m/{{number}}.txt", number=range(int(config["steps"]))),
    localrule: True


rule score_cell:
    output: "out/{{model}}/{{number}}.txt",
    container: config["image"] or None
    resources: mem_mb=300, runtime=5,
    shell: "true > {{output}}"
"""


def ticks(process: int) -> float:
    """CPU seconds of a living process so far, its ended children included."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def daemons(lab: Path) -> float:
    return sum(ticks(int(file.read_text())) for file in (lab / "run").glob("*.pid"))


def cost(command: list[str], folder: Path, environment: dict[str, str], lab: Path) -> tuple[float, float]:
    """CPU and wall seconds of a command with all that it sets off, until nothing of it is left."""
    before, start = daemons(lab), time.monotonic()
    with (folder / "log.txt").open("w") as log:
        main = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    spent, wall, status, quiet = 0.0, 0.0, None, 0
    # Slurm's step daemons may outlive Snakemake by a moment.
    while status is None or quiet < 10:
        ended, code, usage = os.wait4(-1, os.WNOHANG)
        if not ended:
            quiet += status is not None
            time.sleep(0.05)
            continue
        spent += usage.ru_utime + usage.ru_stime
        if ended == main.pid:
            status, wall = code, time.monotonic() - start
    main.returncode = status
    if status:
        sys.exit(f"error: a run failed:\n{(folder / 'log.txt').read_text()[-3000:]}")
    return spent + daemons(lab) - before, wall


def measure(label: str, steps: int, options: list[str], config: dict[str, str], environment, lab: Path) -> tuple:
    """CPU seconds per step beyond those of a run with nothing to do, and wall seconds of the run."""
    costs = []
    for count in (0, steps):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "Snakefile").write_text(SNAKEFILE)
            given = [f"{key}={value}" for key, value in {**config, "steps": str(count)}.items()]
            snakemake = [str(ROOT / ".venv" / "launcher" / "bin" / "snakemake"), *options, "--config", *given]
            costs.append(cost(snakemake, folder, environment, lab))
    (idle, _), (busy, wall) = costs
    return label, (busy - idle) / steps, wall


def ways(image: str | None):
    """(label, steps, options, config) of every way of running."""
    slurm = ["--profile", str(ROOT / "profiles" / "slurm"), "--cores", "2"]
    for box in ("", image) if image else ("",):
        method = ["--software-deployment-method", "apptainer" if box else "env-modules"]
        suffix = " + Apptainer" if box else ""
        ours, plain = {"image": box, "plain": ""}, {"image": box, "plain": "yes"}
        arguments = ["--apptainer-args=--no-mount tmp"] if box else []
        yield f"local{suffix}", BATCH, ["--cores", "2", *method, *arguments], ours
        yield f"Slurm, batch of {BATCH}{suffix}", BATCH, [*slurm, *method], ours
        yield f"Slurm, a job each{suffix}", SINGLES, [*slurm, *method, "--group-components", "scores_{model}=1"], ours
        if not box:
            yield f"the plugin as it comes, batch of {BATCH}", BATCH, [*slurm, *method], plain
            each = [*slurm, *method, "--group-components", "scores_{model}=1"]
            yield "the plugin as it comes, a job each", SINGLES, each, plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", help="an Apptainer image with bash (default: no rows with Apptainer)")
    args = parser.parse_args()
    image = str(Path(args.image).resolve()) if args.image else None
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="slurm-lab-") as name:
        lab = Path(name)
        settings = {**os.environ, "SLURM_LAB": name, "SLURM_LAB_CPUS": "2"}
        subprocess.run([LAB / "start.sh"], env=settings, check=True, stdout=subprocess.DEVNULL)
        path = f"{lab / 'bin'}:{os.environ['PATH']}"
        environment = {**settings, "SLURM_CONF": str(lab / "slurm.conf"), "PATH": path}
        try:
            rows = [measure(*way, environment, lab) for way in ways(image)]
        finally:
            subprocess.run([LAB / "stop.sh"], env=settings, check=True)
    unit = rows[0][1]
    print("| way | CPU per step, as a multiple of local | (CPU s) | wall of the run (s) |\n|---|---|---|---|")
    for label, per_step, wall in rows:
        print(f"| {label} | {per_step / unit:.1f} | {per_step:.2f} | {wall:.0f} |")


if __name__ == "__main__":
    main()
