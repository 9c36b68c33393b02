"""The builder's parts that need no Apptainer, and what verify says."""

import argparse
import json
import os
import re
import ssl
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from containers import build, pack
from scripts.lib import images
from scripts.lib.errors import ConfigError, EngineError
from tests.unit.image_sample import CATALOGUE, catalogue_in, image

ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
ASKED = argparse.Namespace(missing=False, record=False, newest_debs=False, local_root=True)


def asked(**more) -> argparse.Namespace:
    """What the command line asks for, beside names."""
    return argparse.Namespace(**(vars(ASKED) | more))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a catalogue of two images and no file of either."""
    monkeypatch.chdir(tmp_path)
    yield from catalogue_in(tmp_path)


def test_recording_a_digest_leaves_the_rest_of_the_file(here):
    build.record("base", ONE)
    text = (here / "containers" / "images.yaml").read_text(encoding="utf-8")
    assert text == CATALOGUE.replace('    digest: ""', f'    digest: "{ONE}"')
    build.record("base", TWO)
    assert images.spec("base")["digest"] == TWO
    assert images.spec("ocr")["digest"] == "sha256:" + "ab" * 32


def test_an_image_without_a_digest_line_is_refused(here):
    file = here / "containers" / "images.yaml"
    file.write_text(CATALOGUE.replace('    digest: ""\n', ""), encoding="utf-8")
    with pytest.raises(ConfigError, match="digest"):
        build.record("base", ONE)


def sif(identity: bytes, moment: int) -> bytes:
    """The header and first descriptor of a SIF, as far as they matter here."""
    header = b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + identity
    header += struct.pack("<qq", moment, moment) + struct.pack("<qqqqqq", 47, 48, 128, 28080, 28208, 5)
    descriptor = (
        struct.pack("<ibiiiqqq", 0x4004, 1, 1, 1, 0, 28208, 5, 10) + struct.pack("<qq", moment, moment) + b"name"
    )
    return header.ljust(128, b"\0") + descriptor + b"data"


def test_two_headers_that_differ_in_id_and_time_become_one(tmp_path):
    files = [tmp_path / "a.sif", tmp_path / "b.sif"]
    files[0].write_bytes(sif(b"i" * 16, 1_796_000_000))
    files[1].write_bytes(sif(b"j" * 16, 1_796_000_777))
    assert files[0].read_bytes() != files[1].read_bytes()
    for file in files:
        pack.blank_header(file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes() == sif(bytes(16), 0), "nothing else has changed"


def test_times_are_cut_and_older_ones_stay(tmp_path):
    for name, moment in (("old", 1000), ("new", 5000)):
        (tmp_path / "sub").mkdir(exist_ok=True)
        (tmp_path / "sub" / name).write_text(name)
        os.utime(tmp_path / "sub" / name, (moment, moment))
    (tmp_path / "sub" / "link").symlink_to("absent")
    pack.clamp_times(tmp_path, 3000)
    found = {path.name: int(path.lstat().st_mtime) for path in [tmp_path / "sub", *(tmp_path / "sub").iterdir()]}
    assert found == {"sub": 3000, "old": 1000, "new": 3000, "link": 3000}


def test_labels_lose_what_changes_with_every_build(tmp_path):
    (tmp_path / ".singularity.d").mkdir()
    file = tmp_path / pack.LABELS
    file.write_text(json.dumps({"org.label-schema.build-date": "today", "title": "x"}), encoding="utf-8")
    pack.set_labels(tmp_path, {"ours": "1"})
    assert json.loads(file.read_text(encoding="utf-8")) == {"title": "x", "ours": "1"}


def test_labels_are_read_at_the_place_that_the_header_names(tmp_path, monkeypatch):
    file = tmp_path / "a.sif"
    file.write_bytes(sif(bytes(16), 0))

    def unpack(command, log):
        assert command[command.index("-offset") + 1] == "28208"
        labels = Path(command[command.index("-dest") + 1], pack.LABELS)
        labels.parent.mkdir(parents=True)
        labels.write_text('{"ours": "1"}', encoding="utf-8")

    monkeypatch.setattr(pack, "call", unpack)
    assert pack.read_labels(file) == {"ours": "1"}
    file.write_bytes(b"cut off")
    assert pack.read_labels(file) == {}


@pytest.fixture
def locks(here, monkeypatch):
    """Locks of the two images, and a memory of labels by file in place of real images."""
    build.ENVS.mkdir()
    for lock in ("base", "ocr"):
        (build.ENVS / f"{lock}.lock").write_text(f"{lock}==1\n", encoding="utf-8")
    known = {}
    monkeypatch.setattr(pack, "read_labels", lambda sif: known.get(sif.name, {}))
    return known


def test_missing_is_what_has_another_base_lock_or_source(locks):
    assert build.missing("base"), "no file"
    base, ocr = image("base", b"base"), image("ocr", b"ocr")
    for name in build.base_names("base"):  # from the registry or from a mirror
        locks[base.name] = build.labels("base", name)
        assert not build.missing("base")
    locks[ocr.name] = build.labels("ocr", build.base_names("ocr")[0])
    assert not build.missing("ocr")
    build.record("base", ONE)
    assert build.missing("ocr"), "its base is another now"
    build.record("base", images.digest(base))
    (build.ENVS / "ocr.lock").write_text("ocr==2\n", encoding="utf-8")
    assert build.missing("ocr"), "its lock has changed"
    assert not build.missing("base")


def test_missing_sees_another_commit_of_a_source(locks, here):
    source = "    sources: [{name: code, url: 'https://example.org/code', commit: %s, licence: MIT}]\n"
    for commit in ("a" * 40, "b" * 40):
        text = CATALOGUE.replace("    locks: [ocr]\n", "    locks: [ocr]\n" + source % commit)
        (here / images.IMAGES).write_text(text, encoding="utf-8")
        images.catalogue.cache_clear()
        file = image("ocr", b"ocr")
        if not locks:
            locks[file.name] = build.labels("ocr", build.base_names("ocr")[0])
            assert not build.missing("ocr")
    assert build.missing("ocr")


def built(name: str, content: bytes) -> Path:
    """A file as it lies before it is accepted."""
    file = build.WORK / name / f"{name}.sif"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def test_other_bytes_are_refused_unless_asked_for(locks, here):
    (build.ENVS / "base.debs").write_text("old=1\n", encoding="utf-8")
    build.accept("base", built("base", b"first"), "python3=1\n", asked())
    first = images.spec("base")["digest"]
    assert Path(images.path("base")).read_bytes() == b"first"
    build.accept("base", built("base", b"first"), "python3=1\n", asked())
    with pytest.raises(
        EngineError, match=r"other bytes.*kept as containers/.build/base/base.sif.*--record base"
    ) as said:
        build.accept("base", built("base", b"second"), "python3=1\n", asked())
    assert "\n" not in str(said.value)
    assert (build.WORK / "base" / "base.sif").read_bytes() == b"second"
    assert images.spec("base")["digest"] == first
    build.accept("base", built("base", b"second"), "python3=1\n", asked(record=True))
    assert Path(images.path("base")).read_bytes() == b"second"
    assert (build.ENVS / "base.debs").read_text(encoding="utf-8") == "old=1\n"
    build.accept("base", built("base", b"third"), "python3=2\n", asked(newest_debs=True))
    assert Path(images.path("base")).read_bytes() == b"third"
    assert (build.ENVS / "base.debs").read_text(encoding="utf-8") == "python3=2\n"


def test_debian_packages_in_other_versions_stop_the_build(locks):
    build.check_debs("base", "python3=1\n", newest=False)  # no list yet
    (build.ENVS / "base.debs").write_text("python3=1\n", encoding="utf-8")
    build.check_debs("base", "python3=1\nmore=1\n", newest=False)
    build.check_debs("base", "python3=2\n", newest=True)
    with pytest.raises(EngineError, match=r"python3=1; build with --newest-debs"):
        build.check_debs("base", "python3=2\n", newest=False)


def until(condition, limit_s: float = 20.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + limit_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_a_second_build_says_that_it_waits(here, capsys):
    said, inside = [], threading.Event()

    def second():
        with build.alone():
            assert images.spec("ocr")["digest"] == ONE, "what the first has recorded"
            inside.set()

    with build.alone():
        images.catalogue()
        thread = threading.Thread(target=second)
        thread.start()
        until(lambda: said.append(capsys.readouterr().err) or "another build is running" in "".join(said))
        assert not inside.is_set()
        # as another process would: not through the memory of this one
        file = here / images.IMAGES
        file.write_text(CATALOGUE.replace("sha256:" + "ab" * 32, ONE), encoding="utf-8")
    thread.join(20)
    assert inside.is_set()
    assert not pack.HELD


def test_commands_hold_the_lock_of_a_killed_build(here):
    with build.alone():
        held = str(pack.HELD[0])
        pack.call([sys.executable, "-c", "import os, sys; os.fstat(int(sys.argv[1]))", held], here / "log")


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_build_left_goes_and_settings_do_not_stay(locks, monkeypatch):
    ours, other = build.WORK / "base", build.WORK / "ocr"
    for left in ("build-temp-123/rootfs", "opt", "root", "tmp/bundle"):
        for folder in (ours, other):
            (folder / left).mkdir(parents=True)

    def prepare(name, newest, log):
        assert names(ours) == [], "cleaned before"
        (ours / "opt").mkdir()
        (ours / "opt" / "settings").touch()
        return ours / "opt"

    def fail(name, agent, start, log):
        log.write_text("why", encoding="utf-8")
        raise EngineError("no")

    monkeypatch.setattr(build, "base_of", lambda *_: ("localimage", "root", "debian"))
    monkeypatch.setattr(build, "prepare", prepare)
    monkeypatch.setattr(build, "run_apptainer", fail)
    with pytest.raises(EngineError, match="no"):
        build.build("base", asked())
    assert names(ours) == ["build.log"]
    assert names(other) == ["build-temp-123", "opt", "root", "tmp"]


def test_settings_are_private_and_any_index_arrives_whole(here, monkeypatch):
    index = "https://me:it's $(touch x)@host/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", index)
    build.private(here / "settings", build.settings(True))
    assert (here / "settings").stat().st_mode & 0o777 == 0o600
    shell = ["sh", "-c", '. ./settings; printf %s "$UV_DEFAULT_INDEX $SSL_CERT_FILE"']
    said = subprocess.run(shell, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    assert said.stdout == f"{index} /opt/build/authorities.pem"
    assert not (here / "x").exists()
    assert "SSL" not in "".join(build.settings(False))


def test_authorities_are_pythons_or_the_systems_or_none(tmp_path, monkeypatch):
    def python_names(cafile):
        monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: SimpleNamespace(cafile=cafile))

    (tmp_path / "own").write_text("own")
    (tmp_path / "system").write_text("system")
    monkeypatch.setattr(build, "AUTHORITIES", (str(tmp_path / "absent"), str(tmp_path / "system")))
    python_names(str(tmp_path / "own"))
    assert build.authorities() == b"own"
    python_names(None)
    assert build.authorities() == b"system"
    monkeypatch.setattr(build, "AUTHORITIES", ())
    assert build.authorities() == b""


def test_the_log_and_the_error_hold_no_password(tmp_path):
    script = "echo from https://me:p@ss@host/simple; echo 'and git+https://token@host/x, you@example.org' >&2; exit 3"
    with pytest.raises(EngineError, match="sh failed") as said:
        pack.call(["sh", "-c", script], tmp_path / "log")
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert text == "from https://***@host/simple\nand git+https://***@host/x, you@example.org\n"
    assert "p@ss" not in str(said.value)


def test_a_program_that_is_not_here_is_named_with_the_remedy(here, monkeypatch):
    monkeypatch.setenv("PATH", str(here))
    for program, remedy in (("mksquashfs", "squashfs-tools"), ("apptainer", "Apptainer"), ("mmdebstrap", "mmdebstrap")):
        with pytest.raises(EngineError, match=f"{program} is not here: install {remedy}"):
            pack.call([program], here / "log")
    assert build.main(["base"]) == 1
    assert not build.WORK.exists(), "known before anything is begun"


def test_a_failed_build_from_the_registry_names_the_other_way(here, monkeypatch):
    def fail(command, log, env):
        raise EngineError("apptainer failed")

    monkeypatch.setattr(build, "call", fail)
    with pytest.raises(EngineError, match="--local-root"):
        build.run_apptainer("base", "docker", "debian@sha256:0", here / "log")
    with pytest.raises(EngineError, match=r"failed$"):
        build.run_apptainer("base", "localimage", "root", here / "log")


@pytest.fixture
def verify(locks, monkeypatch):
    """verify, where spython belongs to the launcher's environment alone."""
    monkeypatch.setitem(sys.modules, "spython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "spython.main", SimpleNamespace(Client=None))
    monkeypatch.delitem(sys.modules, "containers.verify", raising=False)
    from containers import verify as module

    yield module
    sys.modules.pop("containers.verify", None)


def test_verify_names_wrong_labels_stale_files_and_the_remedy(verify, monkeypatch, capsys):
    image("ocr", b"ocr")
    (images.FOLDER / "ocr-0123456789ab.sif").touch()
    labels = build.labels("ocr", build.base_names("ocr")[0])

    def inside(file, command):
        return json.dumps(labels if command[0] == "cat" else {"ocr": "1"})

    monkeypatch.setattr(verify, "inside", inside)
    assert verify.main([]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "base: not built"
    assert said[1].startswith("ocr: ok (sha256:")
    assert said[2:] == ["containers/ocr-0123456789ab.sif: stale, can be removed"]
    labels[f"{build.LABEL}.base"] = "another"
    assert verify.main([]) == 1
    said = capsys.readouterr()
    assert f"label {build.LABEL}.base: another, not base@" in said.out
    assert re.search(r"1 image not as .*run `containers/build.sh ocr`", said.err)
