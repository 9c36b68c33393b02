"""A model whose version is open runs only where the settings name it, and its records say so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.lib import config, torchvision_cpu
from scripts.lib.errors import ConfigError, EngineError
from scripts.models import pins, repo_common, weights

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


# Vision towers, which the authors' code loads by their names on the hub.

CLIP, DINO = "openai/clip-vit-large-patch14-336", "facebook/dinov2-giant"


def towered(*towers, revision=""):
    named = [{"id": name, "revision": revision} for name in towers]
    return {**PINNED, "weights": {**PINNED["weights"], "towers": named}}


def with_towers(folder, named, *towers):
    """The model's file, of a folder as fetch_model leaves it whose checkpoint names a tower."""
    for name in towers:
        (folder / "towers" / name.partition("/")[2]).mkdir(parents=True)
    (folder / "config.json").write_text(f'{{"mm_vision_tower": "{named}"}}')
    (folder / "revision.txt").write_text("\n".join([COMMIT, *(f"{name} {OTHER}" for name in towers)]) + "\n")
    (folder / "model.safetensors").write_bytes(b"x")
    return towered(*towers) if towers else PINNED


@pytest.mark.parametrize("towers", [(CLIP,), (CLIP, DINO)])
def test_a_model_is_pinned_if_its_towers_are(towers):
    assert pins.unpinned(towered(*towers, revision=COMMIT)) == ""
    why = f"weights.towers: the revision of {', '.join(towers)} is empty"
    assert pins.unpinned(towered(*towers)) == why
    with pytest.raises(ConfigError, match=f"longvu_7b.yaml: {why}; write the commit you want there, or put longvu_7b"):
        pins.check(towered(*towers), [])
    assert pins.unpinned(HUB) == "weights.revision is empty", "without any"


def test_a_record_names_the_towers_commits(tmp_path):
    asked = with_towers(tmp_path, CLIP, CLIP, DINO)
    names = "+clip-vit-large-patch14-336@ffffffffffff+dinov2-giant@ffffffffffff"
    assert weights.revision(asked, tmp_path) == f"unpinned:{COMMIT}{names}"
    assert weights.revision(towered(CLIP, DINO, revision=OTHER), tmp_path) == f"{COMMIT}{names}"
    assert weights.fetched(tmp_path) == weights.revision(PINNED, tmp_path) == COMMIT
    before = weights.identity(tmp_path)
    (tmp_path / "towers" / "dinov2-giant" / "config.json").write_text("{}")
    assert weights.identity(tmp_path) != before


def test_a_folder_without_a_tower_or_with_another_ones_revision_is_refused(tmp_path):
    with_towers(tmp_path, CLIP, CLIP)
    asked, tower = towered(CLIP), tmp_path / "towers" / "clip-vit-large-patch14-336"
    weights.check(PINNED, tmp_path)
    with pytest.raises(EngineError, match=r"clip-vit-large-patch14-336: no config\.json with .*; run fetch_model"):
        weights.check(asked, tmp_path)
    (tower / "config.json").write_text("{}")
    (tower / "pytorch_model.bin").write_bytes(b"x")
    weights.check(asked, tmp_path)
    weights.check(towered(CLIP, revision=OTHER), tmp_path)
    with pytest.raises(EngineError, match=f"336: holds revision {OTHER}, .*longvu_7b.yaml asks for {COMMIT}"):
        weights.check(towered(CLIP, revision=COMMIT), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(EngineError, match=r"no config\.json with"):
        weights.check(PINNED, tmp_path)  # the tower's weights are not the model's
    (tmp_path / "model.safetensors").write_bytes(b"x")
    (tmp_path / "revision.txt").write_text(f"{COMMIT}\n")
    weights.check(PINNED, tmp_path)
    with pytest.raises(EngineError, match=f"says nothing of the vision tower {CLIP}; rerun fetch_model"):
        weights.check(asked, tmp_path)


@pytest.mark.parametrize("towers", [(), (DINO,)])
def test_a_tower_that_the_models_file_does_not_name_is_never_fetched_while_it_runs(tmp_path, towers):
    asked = with_towers(tmp_path, CLIP, *towers)
    with pytest.raises(EngineError, match=f"loads {CLIP} .*towers of config/models/longvu_7b.yaml doesn't name it"):
        repo_common.offline_towers(asked, tmp_path)
    with pytest.raises(EngineError, match=f"loads {CLIP} "):
        repo_common.offline_towers(asked, tmp_path, *towers, CLIP)


BY_NAME = """
import sys, pathlib
import scripts.infer.run_cell
from scripts.models import repo_common
towers = [{"id": name, "revision": ""} for name in sys.argv[2:]]
if "EARLY" in __import__("os").environ: import huggingface_hub.constants
repo_common.offline_towers({"name": "m", "weights": {"towers": towers}}, pathlib.Path(sys.argv[1]))
import os
from scripts.lib import torchvision_cpu
torchvision_cpu.install()
import transformers
network = transformers.CLIPVisionModel.from_pretrained(sys.argv[2])
processor = transformers.CLIPImageProcessor.from_pretrained(sys.argv[2])
print(network.config.hidden_size, processor.crop_size["height"])
try:
    transformers.CLIPVisionConfig.from_pretrained("openai/clip-vit-base-patch32")
except OSError as error:
    print("refused")
print(os.environ["HF_HUB_CACHE"])
"""


@pytest.mark.slow
def test_a_tower_is_loaded_by_its_name_from_beside_the_weights(tmp_path):
    """As LLaVA's code does it, in a process of its own, because transformers looks once where its cache is."""
    torchvision_cpu.install()
    hf = pytest.importorskip("transformers")
    folder = tmp_path / "w ü"
    folder.mkdir()
    with_towers(folder, CLIP, CLIP, DINO)
    sizes = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    tower = folder / "towers" / "clip-vit-large-patch14-336"
    hf.CLIPVisionModel(hf.CLIPVisionConfig(image_size=28, patch_size=14, **sizes)).save_pretrained(tower)
    hf.CLIPImageProcessor(crop_size={"height": 28, "width": 28}).save_pretrained(tower)

    def run(**more):
        environment = {**os.environ, "TRANSFORMERS_CACHE": str(tmp_path / "elsewhere"), **more}
        command = [sys.executable, "-c", BY_NAME, str(folder), CLIP, DINO]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    done = run()
    found, refused, cache = done.stdout.splitlines() or pytest.fail(done.stderr)
    assert (found, refused) == ("24 28", "refused")
    assert not Path(cache).exists() and tower.is_dir()
    assert "was imported before the model's vision towers" in run(EARLY="1").stderr
