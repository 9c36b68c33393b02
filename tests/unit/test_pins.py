"""A model whose version is open runs only where the settings name it, and its records say so."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.lib import config
from scripts.lib.errors import ConfigError, EngineError
from scripts.models import pins, weights

ROOT = Path(__file__).parents[2]
COMMIT, OTHER = "0123456789abcdef0123456789abcdef01234567", "f" * 40
HUB = {"name": "longvu_7b", "weights": {"kind": "hub", "id": "lab/longvu", "revision": ""}}
PINNED = {**HUB, "weights": {**HUB["weights"], "revision": COMMIT}}
BUILT = {"name": "tiny", "weights": {"kind": "built"}}
DATED = {"name": "gpt", "weights": {"kind": "none"}, "remote": {"id": "gpt-2024-08-06", "dated": True}}
ALIAS = {"name": "gemini", "weights": {"kind": "none"}, "remote": {"id": "gemini-pro", "dated": False}}
READER = {"name": "reader", "weights": {"kind": "none"}}


@pytest.mark.parametrize("model", [PINNED, BUILT, DATED, READER])
def test_a_fixed_version_needs_no_leave(model):
    assert pins.unpinned(model) == ""
    pins.check(model, [])


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (
            HUB,
            "config/models/longvu_7b.yaml: weights.revision is empty; write the commit you want there, or put "
            "longvu_7b into allow_unpinned of config.yaml",
        ),
        (
            ALIAS,
            "config/models/gemini.yaml: remote.id 'gemini-pro' names no dated version; write one that does, with "
            "dated: true, or put gemini into allow_unpinned of config.yaml",
        ),
    ],
)
def test_an_open_version_is_refused_unless_the_settings_name_that_model(model, line):
    for allowed in ([], ["another", model["name"] + "_2"]):
        with pytest.raises(ConfigError) as caught:
            pins.check(model, allowed)
        assert str(caught.value) == line
    pins.check(model, ["another", model["name"]])


@pytest.fixture
def folder(tmp_path):
    """What fetch_model leaves."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    (tmp_path / "revision.txt").write_text(f"{COMMIT}\n")
    return tmp_path


def test_a_record_says_which_version_answered_and_whether_it_was_chosen(folder):
    assert weights.revision(PINNED, folder) == COMMIT
    assert weights.revision(HUB, folder) == f"unpinned:{COMMIT}"
    assert weights.revision(DATED, None) == "gpt-2024-08-06"
    assert weights.revision(ALIAS, None) == "unpinned:gemini-pro"
    assert weights.revision(READER, None) == ""
    assert weights.revision(BUILT, folder) == weights.identity(folder) != ""


def test_a_folder_of_another_revision_or_of_an_unknown_one_is_refused(folder):
    weights.check(PINNED, folder)
    weights.check(HUB, folder)
    (folder / "revision.txt").write_text(OTHER)
    weights.check(HUB, folder)
    with pytest.raises(EngineError, match=f"holds revision {OTHER}, .*longvu_7b.yaml asks for {COMMIT}; rerun"):
        weights.check(PINNED, folder)
    (folder / "revision.txt").unlink()
    for model in (PINNED, HUB):
        with pytest.raises(EngineError, match=r"revision\.txt: no such file.*; rerun fetch_model"):
            weights.check(model, folder)
    weights.check(BUILT, folder)


def test_answers_of_another_revision_are_not_taken_for_this_one(folder, monkeypatch):
    """Large files count by size, which is the same in two revisions of one model."""
    monkeypatch.setattr(weights, "LARGE", 1)
    (folder / "config.json").unlink()
    first = weights.identity(folder)
    (folder / "model.safetensors").write_bytes(b"y")
    assert weights.identity(folder) == first
    (folder / "revision.txt").write_text(f"{OTHER}")
    assert weights.identity(folder) != first


@pytest.mark.parametrize("layout", ["llm/model.safetensors", "pytorch_model-00001-of-00002.bin", "pytorch_model.bin"])
def test_weights_in_parts_or_in_the_older_format_are_seen(tmp_path, layout):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EngineError, match="run the rule that builds it"):
        weights.check(BUILT, tmp_path)
    (tmp_path / layout).parent.mkdir(exist_ok=True)
    (tmp_path / layout).write_bytes(b"x")
    weights.check(BUILT, tmp_path)


def test_the_snakefile_can_ask_without_loading_engines():
    code = "import sys, scripts.models.pins; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "scripts" in loaded
    assert not loaded & {"av", "cv2", "huggingface_hub", "openai", "paddle", "torch", "transformers"}


def test_every_model_here_is_pinned_or_refused_by_name():
    for name in config.names("model", ROOT / "config"):
        model = config.load("model", name, ROOT / "config")
        if pins.unpinned(model):
            with pytest.raises(ConfigError, match=f"config/models/{name}.yaml: .* allow_unpinned of config.yaml"):
                pins.check(model, [])
        else:
            pins.check(model, [])
