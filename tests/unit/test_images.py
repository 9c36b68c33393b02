"""The catalogue of images, the check before a run, and the builder's pure parts."""

import hashlib
import json
import os
import shutil
import struct
from pathlib import Path

import pytest

from containers import build, pack
from scripts.lib import images
from scripts.lib.errors import ConfigError
from scripts.lib.files import sha256
from tests.conftest import ROOT

CATALOGUE = """# a comment that stays
epoch: 1796000000
bases:
  debian: {from: debian, digest: "", suite: bookworm}
images:
  base:
    base: debian
    # why these
    locks: [base]
    debs: [python3]
    digest: ""
  ocr:
    base: base
    locks: [ocr]
    digest: "sha256:%s"
""" % ("ab" * 32)
ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a catalogue of two images and no file of either."""
    (tmp_path / "containers").mkdir()
    (tmp_path / "containers" / "images.yaml").write_text(CATALOGUE, encoding="utf-8")
    (tmp_path / images.SCHEMA).parent.mkdir(parents=True)
    shutil.copy(ROOT / images.SCHEMA, tmp_path / images.SCHEMA)
    monkeypatch.chdir(tmp_path)
    images.catalogue.cache_clear()
    yield tmp_path
    images.catalogue.cache_clear()


def image(name: str, content: bytes):
    """Write an image file and record its digest; returns its path."""
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    build.record(name, digest)
    file = Path(images.path(name))
    file.write_bytes(content)
    return file


def test_a_file_is_named_by_its_digest(here):
    assert images.path("base") == "containers/base.sif"
    file = image("base", b"one")
    assert file.name == f"base-{sha256(file)[:12]}.sif"


def test_an_unknown_image_is_refused_with_the_nearest_name(here):
    with pytest.raises(ConfigError, match="did you mean 'ocr'"):
        images.path("oct")


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


def test_an_image_that_nobody_built_is_named_with_the_remedy(here):
    with pytest.raises(ConfigError, match=r"no digest.*containers/build.sh base"):
        images.check_files(["containers/base.sif"])


def test_an_image_that_is_elsewhere_is_named_with_the_remedy(here):
    with pytest.raises(ConfigError, match=r"containers/ocr-abababababab.sif is not here.*build.sh ocr"):
        images.check_files([images.path("ocr")])


def test_the_right_bytes_pass_and_are_read_once(here):
    file = image("base", b"right")
    images.check_files([str(file)])
    seen = here / images.SEEN
    known = json.loads(seen.read_text(encoding="utf-8"))
    known[file.name]["digest"] = "sha256:remembered"
    seen.write_text(json.dumps(known), encoding="utf-8")
    assert images.digest(file) == "sha256:remembered"


def test_other_bytes_of_the_same_size_and_time_are_refused(here):
    file = image("base", b"right")
    images.check_files([str(file)])
    before = file.stat()
    file.write_bytes(b"wrong")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ConfigError, match=r"is not the image that containers/images.yaml names"):
        images.check_files([str(file)])


def test_a_damaged_memory_of_digests_is_no_obstacle(here):
    file = image("base", b"right")
    (here / images.SEEN).parent.mkdir(exist_ok=True)
    for text in ("{half", "[]", f'{{"{file.name}": 3}}', f'{{"{file.name}": {{"identity": []}}}}'):
        (here / images.SEEN).write_text(text, encoding="utf-8")
        images.check_files([str(file)])


def test_paths_that_are_none_of_ours_are_left_alone(here):
    images.check_files(["docker://alpine", "/somewhere/other.sif", None])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("base: base", "base: bas"), r"ocr: no base 'bas' \(did you mean 'base'\?\)"),
        (("locks: [ocr]", "lock: [ocr]"), r"did you mean 'locks'|lock"),
        (('digest: ""\n  ocr', "digest: ~\n  ocr"), "digest"),
        (("images:", "images: ["), "images.yaml"),
    ],
)
def test_a_broken_catalogue_is_one_line(here, change, said):
    file = here / images.IMAGES
    file.write_text(CATALOGUE.replace(*change), encoding="utf-8")
    images.catalogue.cache_clear()
    with pytest.raises(ConfigError, match=said) as caught:
        images.path("base")
    assert "\n" not in str(caught.value)


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


def test_a_record_names_the_image_it_was_made_in(here, monkeypatch):
    file = image("base", b"right")
    assert images.running() == ""
    monkeypatch.setenv("APPTAINER_CONTAINER", f"/mnt/store/{file.name}")
    assert images.running() == images.spec("base")["digest"]
    monkeypatch.setenv("APPTAINER_CONTAINER", "/somewhere/other.sif")
    assert images.running() == ""


def test_the_cache_is_made_where_the_user_says_and_bound_once(here, monkeypatch):
    monkeypatch.setenv("APPTAINER_BIND", "/data")
    monkeypatch.setenv("TEXT_IN_VIDEO_CACHE", str(here / "my scratch" / "cache"))
    images.make_cache()
    images.make_cache()
    assert (here / "my scratch" / "cache").is_dir()
    assert os.environ["APPTAINER_BIND"] == f"/data,{here}/my scratch/cache:/cache"


@pytest.mark.parametrize("folder", ["containers/images.yaml/cache", "a,b", "a:b"])
def test_a_cache_that_cannot_be_is_one_line(here, monkeypatch, folder):
    monkeypatch.setenv("TEXT_IN_VIDEO_CACHE", str(here / folder))
    with pytest.raises(ConfigError, match="TEXT_IN_VIDEO_CACHE"):
        images.make_cache()
