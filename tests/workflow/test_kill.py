"""kill -9 in the middle of a stage, and again: the same tables, and only what was lost is done over."""

import os
import signal
import subprocess

import pytest

from tests.conftest import environment, snakemake, snakemake_command, wait_until
from tests.workflow.conftest import RUN, smoke_checkout, tables

pytestmark = pytest.mark.slow


def lines(folder, pattern):
    """(file, line) of every whole line in the cache files that match."""
    found = []
    for file in sorted(folder.glob(pattern)):
        whole = [line for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        found += [(str(file.relative_to(folder)), line) for line in whole]
    return found


def kill_when(folder, condition):
    """Start the workflow, SIGKILL it and all its children once ``condition`` holds, and remove its lock."""
    process = subprocess.Popen(
        snakemake_command(*RUN),
        cwd=folder,
        env=environment(),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(condition, limit_s=300, process=process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert snakemake(folder, *RUN, "--unlock").returncode == 0


def test_killed_at_three_stages_and_run_again(finished, tmp_path):
    folder = smoke_checkout(tmp_path / "repo")

    videos = folder / "resources" / "videos"
    # A video is finished once the note beside it says of what plan it is
    kill_when(folder, lambda: any(videos.glob("smoke_rolling/[a-z]*.json")))
    finished_videos = [note.with_suffix(".mp4") for note in videos.glob("*/[a-z]*.json")]
    rendered = {file: file.stat().st_mtime_ns for file in finished_videos}
    assert not (folder / "resources" / "ocr").exists()

    kill_when(folder, lambda: len(lines(folder, "resources/cache/ocr/**/*.jsonl")) >= 2)
    read = lines(folder, "resources/cache/ocr/**/*.jsonl")
    assert {file: file.stat().st_mtime_ns for file in rendered} == rendered, "finished videos are kept"

    kill_when(folder, lambda: lines(folder, "resources/cache/predictions/**/*.jsonl"))
    answered = lines(folder, "resources/cache/predictions/**/*.jsonl")

    run = snakemake(folder, *RUN)
    assert run.returncode == 0, run.stdout
    assert tables(folder) == tables(finished)
    for pattern, kept in (("ocr", read), ("predictions", answered)):
        now = lines(folder, f"resources/cache/{pattern}/**/*.jsonl")
        assert set(kept) <= set(now), "what was finished is still there"
        assert len(now) == len(set(now)) == len(lines(finished, f"resources/cache/{pattern}/**/*.jsonl")), (
            "and was not redone"
        )
