"""A stale lock goes, a living run's stays."""

import subprocess
import sys
from pathlib import Path

from scripts import unlock
from tests.conftest import wait_until


def locked(folder):
    lock = folder / ".snakemake" / "locks" / "0.input.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("")
    return lock


def test_a_stale_lock_is_removed(tmp_path, capsys):
    lock = locked(tmp_path)
    assert unlock.main(["--folder", str(tmp_path)]) == 0
    assert not lock.exists()
    assert "removed the lock" in capsys.readouterr().err


def test_the_lock_of_a_living_snakemake_stays(tmp_path, capsys):
    lock = locked(tmp_path)
    script = tmp_path / "snakemake"
    script.write_text("print(flush=True)\ninput()")
    living = subprocess.Popen([sys.executable, script], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        living.stdout.readline()
        wait_until(lambda: unlock.snakemakes_in(tmp_path.resolve()))
        assert unlock.main(["--folder", str(tmp_path)]) == 1
        assert lock.exists()
        assert f"process {living.pid}" in capsys.readouterr().err
    finally:
        living.communicate(b"\n")


def test_a_lock_on_a_shared_file_system_stays(tmp_path, capsys, monkeypatch):
    lock = locked(tmp_path)
    monkeypatch.setattr(unlock, "file_system", lambda _: "nfs4")
    assert unlock.main(["--folder", str(tmp_path)]) == 1
    assert lock.exists()
    assert "perhaps by another machine" in capsys.readouterr().err


def test_the_file_system_is_that_of_the_nearest_mount():
    assert unlock.file_system(Path("/proc/self")) == "proc"


def test_no_lock_is_no_news(tmp_path, capsys):
    assert unlock.main(["--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
