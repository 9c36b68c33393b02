"""A site written from a real Slurm's answers, and a job that finds its partition and GPU by it."""

import os
import subprocess
import sys

import pytest
import yaml

from tests.conftest import ROOT

pytestmark = pytest.mark.cluster

# More time than the shorter of the two partitions allows.
SNAKEFILE = f"""
import sys

sys.path.insert(0, {str(ROOT)!r})
from scripts.cluster import inside_job


onstart:
    inside_job.prepare(workflow)


rule run_cell:
    output: "gpu.txt",
    resources: mem_mb=300, runtime=2000, gpu=1,
    shell: "echo $SLURM_JOB_PARTITION $CUDA_VISIBLE_DEVICES > {{output}}"
"""


def test_a_site_written_by_one_command_runs_a_gpu_job(plain_lab, tmp_path, start_run):
    site = tmp_path / "mine"
    command = [sys.executable, "-m", "scripts.cluster.write_site", "--out", str(site)]
    options = ["--partitions", "cpu,gpu", "--gpu", "fake"]
    written = subprocess.run(
        [*command, *options], cwd=ROOT, env=plain_lab.environment, capture_output=True, text=True, check=False
    )
    assert written.returncode == 0, written.stderr
    parts = yaml.safe_load((site / "partitions.yaml").read_text())["partitions"]
    assert set(parts) == {"cpu", "gpu"}
    assert (parts["cpu"]["max_runtime"], parts["gpu"]["max_runtime"]) == (1440, 2880)
    assert (parts["gpu"]["max_gpu"], parts["gpu"]["available_gpu_models"]) == (2, ["fake"])
    profile = yaml.safe_load((site / "profile.v9+.yaml").read_text())
    assert profile["cores"] == min(16, 2)
    assert "default-resources" not in profile, "a cluster without accounting has no accounts"
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    run = start_run(plain_lab, "--profile", str(site), "gpu.txt")
    run.finish()
    partition, gpu = (tmp_path / "gpu.txt").read_text().split()
    assert (partition, gpu) == ("gpu", "0")


def test_an_account_is_found_where_accounting_is_on(accounting_lab, tmp_path):
    command = [sys.executable, "-m", "scripts.cluster.write_site", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=accounting_lab.environment, capture_output=True, check=True)
    profile = yaml.safe_load((tmp_path / "profile.v9+.yaml").read_text())
    account = {"slurm_account": "root" if os.getuid() == 0 else "lab"}
    assert profile["default-resources"] == account
