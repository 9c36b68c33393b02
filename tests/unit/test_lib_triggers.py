"""What makes a rule run again beside its files."""

import os

import pytest

from scripts.lib import triggers
from scripts.lib.errors import ConfigError


def test_versions_are_read_from_the_source(tmp_path):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text('"""Doc: VERSION = 7 in a text is none."""\nLOOK_VERSION = 3\n')
    two.write_text('import not_installed\nVERSION = "2.1"\n')
    assert triggers.versions(str(one), str(two)) == f"{one} 3, {two} 2.1"


def test_a_module_without_a_version_is_named(tmp_path):
    (tmp_path / "none.py").write_text("x = 1\n")
    with pytest.raises(ConfigError, match=r"none\.py: has no line VERSION"):
        triggers.versions(str(tmp_path / "none.py"))


def test_a_folder_is_another_once_a_file_is(tmp_path):
    folder = tmp_path / "footage"
    assert triggers.folder_state(folder) == "absent"
    (folder / "sub").mkdir(parents=True)
    file = folder / "sub" / "größe.mp4"
    file.write_bytes(b"1")
    first = triggers.folder_state(folder)
    assert triggers.folder_state(folder) == first
    os.utime(file, ns=(1, 1))
    touched = triggers.folder_state(folder)
    file.rename(folder / "other.mp4")
    assert len({first, touched, triggers.folder_state(folder)}) == 3
