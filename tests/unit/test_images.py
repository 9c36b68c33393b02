"""The catalogue of images, and the check before a run."""

import json
import os

import pytest

from scripts.lib import images
from scripts.lib.errors import ConfigError
from scripts.lib.files import sha256
from tests.unit.image_sample import CATALOGUE, catalogue_in, image


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a catalogue of two images and no file of either."""
    monkeypatch.chdir(tmp_path)
    yield from catalogue_in(tmp_path)


def test_a_file_is_named_by_its_digest(here):
    assert images.path("base") == "containers/base.sif"
    file = image("base", b"one")
    assert file.name == f"base-{sha256(file)[:12]}.sif"


def test_an_unknown_image_is_refused_with_the_nearest_name(here):
    with pytest.raises(ConfigError, match="did you mean 'ocr'"):
        images.path("oct")


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
