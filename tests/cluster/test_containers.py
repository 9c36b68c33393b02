"""Images as they are on this machine: what is inside, what is kept out, and that a swapped one is noticed."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from scripts.lib import images
from tests.conftest import LAUNCHER, ROOT, environment

pytestmark = pytest.mark.cluster

CPU_IMAGES = ("base", "media", "ocr", "infer_cpu", "remote", "tables")
"""Built before these tests run."""

SNAKEFILE = """
rule all:
    output: "out.txt"
    container: "{image}"
    shell: "({command}) > {{output}} 2>&1 || true"
"""


def profile_arguments() -> str:
    """What the Slurm profile hands to Apptainer."""
    profile = yaml.safe_load((ROOT / "profiles" / "slurm" / "profile.v9+.yaml").read_text(encoding="utf-8"))
    return f"--apptainer-args={profile['apptainer-args']}"


def inside(folder: Path, command: str, **variables: str) -> str:
    """What a command prints as a rule of a workflow in the base image, with the profile's arguments."""
    assert images.has("base"), "image base is not here: make images"
    (folder / "cache").mkdir()
    (folder / "Snakefile").write_text(SNAKEFILE.format(image=ROOT / images.path("base"), command=command))
    run = subprocess.run(
        [str(LAUNCHER / "snakemake"), "--cores", "1", "--sdm", "apptainer", profile_arguments()],
        cwd=folder,
        env={**environment(), "APPTAINER_BIND": f"{folder / 'cache'}:/cache", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return (folder / "out.txt").read_text(encoding="utf-8")


def test_a_package_that_only_the_host_has_cannot_be_imported(tmp_path):
    host = next((ROOT / ".venv" / "launcher" / "lib").glob("python3*")) / "site-packages"
    assert (host / "snakemake").is_dir()
    said = inside(tmp_path, "python -c 'import snakemake'", PYTHONPATH=str(host))
    assert "No module named 'snakemake'" in said


def test_a_package_in_the_users_home_cannot_be_imported(tmp_path):
    # HOME in a job is the working directory: a library there would be the user's own
    user = tmp_path / ".local" / "lib" / "python3.11" / "site-packages"
    user.mkdir(parents=True)
    (user / "stray.py").write_text("print('stray')", encoding="utf-8")
    assert "No module named 'stray'" in inside(tmp_path, "python -c 'import stray'")


def test_python_and_its_packages_are_the_images(tmp_path):
    said = inside(tmp_path, "python -c 'import sys, numpy; print(sys.prefix, numpy.__file__)'")
    assert said.split() == ["/opt/venv", "/opt/venv/lib/python3.11/site-packages/numpy/__init__.py"]


def test_caches_lie_outside_image_and_repository(tmp_path):
    command = "touch /opt/venv/x; mkdir -p $HF_HOME $TRITON_CACHE_DIR; touch $HF_HOME/kept; env | grep -c =/cache"
    said = inside(tmp_path, command)
    assert "Read-only file system" in said
    assert int(said.split()[-1]) >= 8
    assert (tmp_path / "cache" / "huggingface" / "kept").is_file()
    assert not (tmp_path / ".cache").exists()


def test_only_a_job_with_a_gpu_asks_for_the_driver(tmp_path):
    # Apptainer as it is, with a note of what it was asked: there is no driver here to be seen by its effect.
    (tmp_path / "bin").mkdir()
    noting = tmp_path / "bin" / "apptainer"
    noting.write_text(f'#!/bin/sh\necho "$@" >> "$NOTES"\nexec {shutil.which("apptainer")} "$@"\n', encoding="utf-8")
    noting.chmod(0o755)
    for name, card in (("without", ""), ("with", "1")):
        (tmp_path / name).mkdir()
        notes = {"PATH": f"{tmp_path / 'bin'}:{environment()['PATH']}", "NOTES": str(tmp_path / f"{name}.txt")}
        printed = inside(tmp_path / name, "echo card $CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES=card, **notes)
        assert printed.split() == ["card", *card], "the job runs, and sees the card that it was given"
        asked = (tmp_path / f"{name}.txt").read_text(encoding="utf-8")
        assert ("--nv" in asked.split()) == (name == "with"), asked


def test_every_image_here_is_as_recorded_and_locked():
    run = subprocess.run(
        [str(LAUNCHER / "python"), "-m", "containers.verify"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    states = dict(line.split(": ", 1) for line in run.stdout.splitlines())
    assert {name: states[name][:2] for name in CPU_IMAGES} == dict.fromkeys(CPU_IMAGES, "ok")
