from pathlib import Path

import pytest
import yaml

from scripts import models
from scripts.lib import config
from scripts.lib.errors import ConfigError, EngineError
from scripts.models import weights

ROOT = Path(__file__).parents[2]
SCHEMA = yaml.safe_load((ROOT / "config" / "schemas" / "model.schema.yaml").read_text(encoding="utf-8"))


def model(name):
    return config.load("model", name, ROOT / "config")


@pytest.mark.parametrize("name", sorted(config.names("model", ROOT / "config")))
def test_every_model_file_is_valid_and_its_adapter_can_be_found(name):
    chosen = model(name)
    assert callable(models.find(chosen["adapter"]).load)


def test_the_schema_knows_exactly_the_adapters():
    assert set(SCHEMA["properties"]["adapter"]["enum"]) == set(models.ADAPTERS)


def refused(content):
    with pytest.raises(ConfigError) as caught:
        config.check(content, SCHEMA, "m.yaml")
    return str(caught.value)


def plain(name):
    return {key: value for key, value in model(name).items() if key != "name"}


def test_a_mistyped_adapter_or_key_is_answered_with_the_nearest():
    assert "did you mean 'transformers'?" in refused({**plain("tiny_qwen3_vl"), "adapter": "transformer"})
    assert "did you mean 'max_frames'?" in refused({**plain("ocr_reader"), "max_frame": 3})
    engine = {**plain("tiny_qwen3_vl")["engine"], "devise": "cpu"}
    assert "did you mean 'device'?" in refused({**plain("tiny_qwen3_vl"), "engine": engine})
    with pytest.raises(ConfigError, match="did you mean 'ocr_reader'"):
        models.find("ocr_raeder")


@pytest.mark.parametrize(
    "change",
    [
        {"weights": {"kind": "hub", "id": "Qwen/Qwen3-VL-2B-Instruct"}},
        {"weights": {"kind": "hub", "id": "Qwen/Qwen3-VL-2B-Instruct", "revision": "main"}},
        {"weights": {"kind": "built", "id": "Qwen/Qwen3-VL-2B-Instruct"}},
        {"weights": {"kind": "none"}},
        {"needs": []},
        {"generation": None},
    ],
)
def test_a_model_that_could_not_run_is_refused(change):
    refused({**plain("qwen3_vl_2b"), **change})


def test_weights_are_asked_for_exactly_where_there_are_some(tmp_path):
    with pytest.raises(ConfigError, match="needs --weights"):
        weights.check(model("qwen3_vl_2b"), None)
    with pytest.raises(ConfigError, match="drop --weights"):
        weights.check(model("ocr_reader"), tmp_path)
    with pytest.raises(EngineError, match="run fetch_model"):
        weights.check(model("qwen3_vl_2b"), tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    weights.check(model("qwen3_vl_2b"), tmp_path)


def test_identity_follows_content_and_ignores_bookkeeping(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    first = weights.identity(tmp_path)
    (tmp_path / ".snakemake_timestamp").touch()
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "x").write_text("y")
    assert weights.identity(tmp_path) == first
    (tmp_path / "config.json").write_text("[]")
    assert weights.identity(tmp_path) != first
    monkeypatch.setattr(weights, "LARGE", 1)
    by_size = weights.identity(tmp_path)
    (tmp_path / "config.json").write_text("()")
    assert weights.identity(tmp_path) == by_size
    (tmp_path / "config.json").write_text("longer")
    assert weights.identity(tmp_path) != by_size
    assert weights.identity(None) == ""
