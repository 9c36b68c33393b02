"""A private copy of the repository to run the workflow in, and the commands that run it."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says nothing about whether it is right.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

ROOT = Path(__file__).parents[1]
LAUNCHER = ROOT / ".venv" / "launcher" / "bin"


MADE = {".git", ".venv", ".snakemake", "resources", "results", "logs", "__pycache__", ".pytest_cache", ".hypothesis"}
MADE |= {".build", ".cache"}
"""What running leaves behind, for a source archive, where git can't tell."""


def tracked_files() -> list[Path]:
    """What git would commit now (so: no results, no environments), relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (ROOT / ".git").exists():
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
        return [Path(name) for name in listed.split("\0") if name]
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file() or path.is_symlink())
    return [path for path in found if not MADE & set(path.parts) and path.suffix != ".sif"]


def copy_repository(target: Path) -> Path:
    """The repository without anything made, its links kept."""
    for name in tracked_files():
        source, destination = ROOT / name, target / name
        if source.exists() or source.is_symlink():
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, destination, follow_symlinks=False)
    return target


@pytest.fixture
def checkout(tmp_path):
    """A fresh copy of the repository."""
    return copy_repository(tmp_path / "repo")


def snakemake_command(*arguments: str) -> list[str]:
    executable = LAUNCHER / "snakemake"
    found = str(executable) if executable.is_file() else shutil.which("snakemake")
    if found is None:
        pytest.skip("no snakemake: run `make setup`")
    return [found, *arguments]


def environment() -> dict[str, str]:
    """Rules call ``python``: the one that runs these tests."""
    import sys

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a checkout; its whole output is in ``stdout``."""
    return subprocess.run(
        snakemake_command(*arguments),
        cwd=folder,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def wait_until(condition, limit_s: float = 120.0, process: subprocess.Popen | None = None) -> None:
    """Poll a condition; fail when it doesn't come true, or when ``process`` ends first."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        assert process is None or process.poll() is None, "the process ended before the condition came true"
        time.sleep(0.02)
