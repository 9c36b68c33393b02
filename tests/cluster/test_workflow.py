"""The demo in small, through Slurm and in containers: the same tables as without, whatever happens on the way."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from scripts.lib import images
from tests.cluster.test_status import OUTAGE_S
from tests.conftest import ROOT, snakemake_command, wait_until
from tests.workflow.conftest import finished, smoke_checkout, tables
from tests.workflow.test_kill import lines

__all__ = ["finished"]
pytestmark = pytest.mark.cluster

LIMIT_S = 1200.0
RUN = ["--profile", "slurm", "--cores", "2", "--configfile", "config/smoke.yaml"]


def checkout_with_images(folder: Path) -> Path:
    """The smoke configuration in a copy of the repository, with the images of this one."""
    smoke_checkout(folder)
    for name in images.catalogue()["images"]:
        if images.has(name):
            (folder / images.path(name)).symlink_to(ROOT / images.path(name))
    return folder


class Workflow:
    """One run in the background; killed with all it started when its time is over."""

    def __init__(self, lab, folder: Path, *arguments: str):
        self.folder, self.log, self.end = folder, folder / "run.log", time.monotonic() + LIMIT_S
        cache = folder.parent / "cache"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                snakemake_command(*RUN, *arguments),
                cwd=folder,
                env={**lab.environment, "TEXT_IN_VIDEO_CACHE": str(cache)},
                start_new_session=True,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def until(self, condition) -> None:
        try:
            wait_until(condition, self.end - time.monotonic(), self.process)
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"{error}\n{self.log.read_text()}") from None

    def finish(self) -> tuple[int, str]:
        try:
            status = self.process.wait(self.end - time.monotonic())
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end within {LIMIT_S:.0f} s\n{self.log.read_text()}") from None
        return status, self.log.read_text()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def run_to_end(lab, folder: Path) -> tuple[int, str]:
    """Exit status and output of one run that nothing happens to."""
    run = Workflow(lab, folder)
    try:
        return run.finish()
    finally:
        run.kill()


def running(lab, rule: str) -> list[str]:
    """Slurm ids of running jobs of a rule, which the plugin writes into the job's comment."""
    listed = lab.slurm("squeue", "--states=running", "--noheader", "--format=%A %k")
    return [line.split()[0] for line in listed.splitlines() if rule in line]


def lose_the_controller(lab, run: Workflow) -> None:
    lab.end_controller()
    back = time.monotonic() + OUTAGE_S
    run.until(lambda: time.monotonic() > back)
    lab.start_controller()


def drain_and_resume(lab, run: Workflow) -> None:
    """The node takes no job for a while; what runs there runs on."""
    node = f"nodename={lab.node}"
    lab.slurm("scontrol", "update", node, "state=drain", "reason=test")
    run.until(lambda: "PENDING" in lab.states().values())
    lab.resume()


def test_the_same_tables_through_slurm_and_containers_whatever_happens(finished, plain_lab, tmp_path):
    folder = checkout_with_images(tmp_path / "repo")
    # The first attempt at making scenarios has far too little memory.
    run = Workflow(plain_lab, folder, "--set-resources", "build_scenarios:mem_mb=20 if attempt == 1 else 2000")
    answers = "resources/cache/predictions/**/*.jsonl"
    try:
        run.until(lambda: list(folder.glob("resources/datasets/*/scenarios.jsonl")))
        drain_and_resume(plain_lab, run)
        run.until(lambda: lines(folder, "resources/cache/ocr/**/*.jsonl"))
        read = lines(folder, "resources/cache/ocr/**/*.jsonl")
        lose_the_controller(plain_lab, run)
        # Cells are cancelled after their first answers.
        run.until(lambda: lines(folder, answers) and running(plain_lab, "run_cell"))
        kept = lines(folder, answers)
        for job in running(plain_lab, "run_cell"):
            plain_lab.slurm("scancel", job)
        status, said = run.finish()
    finally:
        run.kill()
    assert status == 0, said
    assert tables(folder) == tables(finished)
    for pattern, before in (("resources/cache/ocr/**/*.jsonl", read), (answers, kept)):
        after = lines(folder, pattern)
        assert set(before) <= set(after), "what was done before is kept"
        assert len(after) == len(set(after)), "and nothing is done twice"
    ends = set(plain_lab.states().values())
    assert {"COMPLETED", "CANCELLED"} <= ends
    if "task/cgroup" in plain_lab.slurm("scontrol", "show", "config"):
        assert "OUT_OF_MEMORY" in ends
    check_records(folder)
    check_that_other_images_are_not_asked_for(plain_lab, folder)


def check_that_other_images_are_not_asked_for(lab, folder: Path) -> None:
    """A table is made again where the images of models are elsewhere, as a reviewer would."""
    for name in ("ocr", "infer_cpu"):
        (folder / images.path(name)).unlink()
    (folder / "results" / "tables" / "smoke" / "signs.md").unlink()
    status, said = run_to_end(lab, folder)
    assert status == 0, said
    assert "make_table" in said
    assert "run_cell" not in said


def check_records(folder: Path) -> None:
    """Every answer says in which image it was made."""
    found = set()
    for file in folder.glob("results/predictions/**/predictions.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            found.add(yaml.safe_load(line)["image_digest"])
    assert found == {images.spec(name)["digest"] for name in ("base", "ocr", "infer_cpu")}


def test_a_swapped_image_is_refused_before_any_job_starts(plain_lab, tmp_path):
    folder = checkout_with_images(tmp_path / "repo")
    media = folder / images.path("media")
    media.unlink()
    shutil.copy2(ROOT / images.path("base"), media)
    before = plain_lab.states()
    status, said = run_to_end(plain_lab, folder)
    assert status == 1
    assert f"error: {images.path('media')} is not the image that containers/images.yaml names" in said
    assert "Traceback" not in said
    assert plain_lab.states() == before, "no job was submitted"
    assert not (folder / "resources").exists()


def test_an_image_that_is_not_here_is_named_before_any_job_starts(plain_lab, tmp_path):
    folder = checkout_with_images(tmp_path / "repo")
    (folder / images.path("ocr")).unlink()
    status, said = run_to_end(plain_lab, folder)
    assert status == 1
    assert "run `containers/build.sh ocr`" in said
    assert not (folder / "resources").exists()
