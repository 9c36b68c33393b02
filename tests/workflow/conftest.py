"""The smoke configuration, and one finished run of it that the tests look at."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import copy_repository, snakemake

SMOKE = Path(__file__).parent / "smoke"
RUN = ["--profile", "laptop", "--cores", "2", "--configfile", "config/smoke.yaml"]


def smoke_checkout(folder: Path) -> Path:
    """A copy of the repository with the smoke configuration laid over its config/."""
    copy_repository(folder)
    shutil.copytree(SMOKE, folder, dirs_exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A checkout in which the smoke configuration ran to its end."""
    folder = smoke_checkout(tmp_path_factory.mktemp("smoke") / "repo")
    run = snakemake(folder, *RUN)
    assert run.returncode == 0, run.stdout
    return folder


def tables(folder: Path) -> dict[str, bytes]:
    """Every table file that holds numbers, by path."""
    root = folder / "results" / "tables"
    files = [file for file in root.rglob("*") if file.suffix in (".tex", ".csv", ".json", ".md")]
    return {str(file.relative_to(root)): file.read_bytes() for file in files}
