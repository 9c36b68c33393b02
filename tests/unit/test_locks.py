"""The locks say exactly what is installed: every line pinned and hashed, and what the .in files ask for is in them.

Reads files only. Whether the pinned files exist is known from making the locks, and checked by every installation.
"""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ENVS = Path("envs")
# What others take in (-r), which has no lock of its own.
PARTS = {"scripts"}
# For machines of every kind: its lines say for which. A container is one kind of machine.
UNIVERSAL = {"laptop", "launcher"}
# Made with laptop.lock as constraints: what is tested there is what runs on a cluster.
SAME = ["base", "infer", "infer_cpu", "media", "ocr", "ocr_gpu", "train"]
ASKED = sorted(path.stem for path in ENVS.glob("*.in") if path.stem not in PARTS)
LOCKS = sorted(path.stem for path in ENVS.glob("*.lock"))

ENTRY = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9._-]*)(?:\[[a-z0-9,_-]+\])?==(?P<version>[A-Za-z0-9.+!]+)(?: ; (?P<marker>[^\\]+?))?"
    r"(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)"
)


def entries(lock: str) -> list[str]:
    """The lines of a lock, each with the hashes that follow it."""
    return (ENVS / f"{lock}.lock").read_text(encoding="utf-8").replace(" \\\n   ", "").splitlines()


def pinned(lock: str) -> dict[str, list[str]]:
    """Package -> versions; more than one only where lines say for which machine."""
    found: dict[str, list[str]] = {}
    for entry in entries(lock):
        parts = ENTRY.fullmatch(entry)
        assert parts, f"{lock}.lock: {entry[:100]}"
        found.setdefault(canonicalize_name(parts["name"]), []).append(parts["version"])
    return found


def asked(name: str) -> list[Requirement]:
    """What a .in file asks for, with the files that it takes in."""
    wanted = []
    for line in (ENVS / f"{name}.in").read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("-r "):
            wanted += asked(Path(line.removeprefix("-r ")).stem)
        elif line:
            wanted.append(Requirement(line))
    return wanted


def test_files_are_found():
    assert {"laptop", "infer", "train", "llava"} <= set(ASKED)
    assert {path.stem for path in ENVS.glob("*.in")} >= PARTS


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_for_is_locked(name):
    locked = pinned(name)
    for requirement in asked(name):
        versions = locked.get(canonicalize_name(requirement.name), [])
        assert versions, f"{name}.lock lacks {requirement.name}; run make lock"
        for version in versions:
            assert requirement.specifier.contains(version, prereleases=True), f"{name}.lock: {requirement} is {version}"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_pinned_and_hashed(lock):
    versions = pinned(lock)
    assert versions
    if lock not in UNIVERSAL:
        twice = {name for name, found in versions.items() if len(found) > 1}
        assert not twice, f"{lock}.lock: more than one version"


@pytest.mark.parametrize("lock", LOCKS)
def test_no_line_depends_on_the_machine_or_names_a_place(lock):
    for entry in entries(lock):
        assert lock in UNIVERSAL or ";" not in entry, f"{lock}.lock: a container is one kind of machine: {entry[:100]}"
        assert "://" not in entry, f"{lock}.lock: places are the installer's to know: {entry[:100]}"
        assert not entry.startswith("-"), f"{lock}.lock: an option: {entry[:100]}"


@pytest.mark.parametrize("name", [one for one in ASKED if "-r scripts.in" in (ENVS / f"{one}.in").read_text("utf-8")])
def test_frames_are_decoded_by_the_same_versions_everywhere(name):
    laptop, here = pinned("laptop"), pinned(name)
    for package in ("av", "opencv-contrib-python-headless"):
        assert here[package] == laptop[package]


def test_one_opencv():
    for lock in LOCKS:
        found = [name for name in pinned(lock) if re.fullmatch(r"opencv(-contrib)?-python(-headless)?", name)]
        assert len(found) <= 1, f"{lock}.lock: two packages that bring the module cv2: {found}"


@pytest.mark.parametrize("name", ["infer", "train", "ocr_gpu"])
def test_results_do_not_depend_on_the_gpu_image(name):
    laptop = pinned("laptop")
    for package, version in pinned(name).items():
        if package in laptop:
            assert set(version) <= set(laptop[package]), (
                f"{name}.lock: {package} is not as in laptop.lock; run make lock"
            )
