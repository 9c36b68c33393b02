"""A one-node Slurm for a test module, and Snakemake runs in it that cannot outlive their test."""

import getpass
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment, snakemake_command, wait_until

SCRIPTS = Path(__file__).parent / "lab"
NEEDED = {"slurmctld": "slurmctld", "slurmd": "slurmd", "squeue": "slurm-client", "munged": "munge"}
ACCOUNTING = {"mariadbd": "mariadb-server", "slurmdbd": "slurmdbd"}
LIMIT_S = 300.0


def missing(programs: dict[str, str]) -> list[str]:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return sorted({package for program, package in programs.items() if not shutil.which(program, path=path)})


class Lab:
    """The running lab: its environment, its commands and its daemons."""

    def __init__(self, folder: Path, accounting: bool):
        self.folder, self.accounting = folder, accounting
        self.settings = {**environment(), "SLURM_LAB": str(folder), "SLURM_LAB_CPUS": "2"}
        self.settings |= {"SLURM_LAB_ACCOUNTING": "1" if accounting else "0"}
        self.environment = {**self.settings, "SLURM_CONF": str(folder / "slurm.conf")}
        self.environment["PATH"] = f"{folder / 'bin'}:{self.environment['PATH']}:/usr/sbin:/sbin"

    def start(self) -> None:
        done = subprocess.run([SCRIPTS / "start.sh"], env=self.settings, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def stop(self) -> None:
        subprocess.run([SCRIPTS / "stop.sh"], env=self.settings, check=True)

    def slurm(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout

    @property
    def node(self) -> str:
        return self.slurm("sinfo", "--noheader", "--partition=cpu", "--format=%N").strip()

    def resume(self) -> None:
        """Put the node back to work. One that is down may have come back by itself, and then refuses to be resumed."""
        command = ["scontrol", "update", f"nodename={self.node}", "state=resume"]
        subprocess.run(command, env=self.environment, capture_output=True, timeout=30, check=False)
        usable = ("idle", "mixed", "allocated", "completing")
        wait_until(lambda: self.slurm("sinfo", "--noheader", "--partition=cpu", "--format=%T").strip() in usable, 60)

    def states(self) -> dict[str, str]:
        listed = self.slurm("squeue", "--states=all", "--noheader", "--format=%A %T")
        return dict(line.split() for line in listed.splitlines())

    def end_controller(self) -> None:
        # TERM: one that is killed outright forgets the jobs it has just started, and runs them again.
        pid = int((self.folder / "run" / "slurmctld.pid").read_text())
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), 10)

    def start_controller(self) -> None:
        self.slurm("slurmctld", "-f", str(self.folder / "slurm.conf"))


class Run:
    """Snakemake in a folder, with the cluster's profile; killed with everything it started when its time is over."""

    def __init__(self, lab: Lab, folder: Path, *arguments: str):
        self.lab, self.folder, self.log = lab, folder, folder / "snakemake.log"
        # No containers here: the steps are the Python that runs Snakemake.
        profile = ["--profile", str(ROOT / "profiles" / "slurm"), "--software-deployment-method", "env-modules"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                snakemake_command(*profile, "--cores", "2", *arguments),
                cwd=folder,
                env=lab.environment,
                start_new_session=True,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.end = time.monotonic() + LIMIT_S

    def wait_until(self, condition) -> None:
        try:
            wait_until(condition, max(0.0, self.end - time.monotonic()), self.process)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log.read_text()}") from None

    def finish(self) -> str:
        """Wait for the end; the whole output of a run that succeeded."""
        try:
            status = self.process.wait(max(0.0, self.end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end within {LIMIT_S:.0f} s\n{self.log.read_text()}") from None
        assert status == 0, self.log.read_text()
        return self.log.read_text()

    def kill(self) -> None:
        # Snakemake takes TERM as a wish to finish what it has begun, which may be never.
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.lab.slurm("scancel", "--user", getpass.getuser())


def make_lab(accounting: bool):
    lacking = missing({**NEEDED, **(ACCOUNTING if accounting else {})})
    if lacking:
        pytest.skip(f"no Slurm lab here: apt-get install {' '.join(lacking)}")
    # A socket lies in it, and the path of a socket is short; jobs of an ordinary user must be able to enter it.
    folder = Path(tempfile.mkdtemp(prefix="slurm-lab-"))
    lab = Lab(folder, accounting)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def plain_lab():
    yield from make_lab(accounting=False)


@pytest.fixture(scope="session")
def accounting_lab():
    yield from make_lab(accounting=True)


@pytest.fixture
def start_run(tmp_path):
    """``start_run(lab, *arguments)``: a run in the test's folder, ended with the test."""
    runs: list[Run] = []

    def start(lab: Lab, *arguments: str) -> Run:
        runs.append(Run(lab, tmp_path, *arguments))
        return runs[-1]

    yield start
    for run in runs:
        run.kill()
