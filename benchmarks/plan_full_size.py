"""What it takes to plan all three papers, as multiples of what the demo's plan takes in the same run.

    python -m benchmarks.plan_full_size

Writes the made-up configuration of tests/dag/full_size.py (the papers' data sets at their real sizes, 25 models, 300
cells, some in shards) into a temporary copy of the repository, and runs `snakemake -n` there: by itself, and under the
profile of a cluster, whose groups say how many Slurm jobs would be submitted. Needs Snakemake (`make setup`).
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from tests.conftest import copy_repository
from tests.dag import full_size

LIMIT_S, LIMIT_MB = 60, 2000


def measured(folder: Path, label: str, *arguments: str) -> full_size.Plan:
    plan = full_size.plan(folder, *arguments)
    if plan.status:
        raise SystemExit(f"error: `snakemake -n {' '.join(arguments)}` failed:\n{plan.output[-3000:]}")
    jobs = plan.jobs["total"]
    print(f"{label:<24} {jobs:>6} {plan.seconds:>9.1f} {plan.cpu_s:>7.1f} {plan.peak_mb:>8.0f}", flush=True)
    return plan


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    slurm = ["--profile", "slurm"] if shutil.which("apptainer") else ["--profile", "slurm", "--sdm", "env-modules"]
    videos = sum(videos for videos, _ in full_size.DATASETS.values())
    print(f"full size: {len(full_size.DATASETS)} data sets, {videos} videos, {full_size.MODELS} models,")
    print(f"{full_size.CELLS} cells, {full_size.TABLES} tables")
    print(f"\n{'plan':<24} {'jobs':>6} {'seconds':>9} {'CPU s':>7} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = copy_repository(Path(temporary) / "repo")
        demo = measured(folder, "demo", "demo")
        full_size.write(folder)
        full = measured(folder, "full size")
        grouped = measured(folder, "full size, slurm", *slurm)
    print(f"\nfull size over demo: time {full.seconds / demo.seconds:.1f}, CPU {full.cpu_s / demo.cpu_s:.1f},", end=" ")
    print(f"memory {full.peak_mb / demo.peak_mb:.1f}, jobs {full.jobs['total'] / demo.jobs['total']:.1f}")
    fits = full.seconds < LIMIT_S and full.peak_mb < LIMIT_MB
    print(f"limits of {LIMIT_S} s and {LIMIT_MB} MB: {'kept' if fits else 'NOT KEPT'}")
    alone, together = sum(full.submissions.values()), sum(grouped.submissions.values())
    print(f"\nSlurm jobs submitted: {alone} without groups, {together} with those of profiles/slurm")
    models = sum(grouped.submissions.get(rule, 0) for rule in ("run_cell", "run_shard"))
    print(f"of them {models} run a model; the other {alone - models} jobs go in {together - models}")


if __name__ == "__main__":
    main()
