"""The files of config/models: every model of the papers, with the limits, words and prices that their tables need."""

import importlib
import re
from pathlib import Path

import pytest
import yaml

from scripts import models
from scripts.estimate.tokens import visual_tokens
from scripts.lib import config
from scripts.lib.errors import ConfigError, EngineError
from scripts.models import pins, weights

ROOT = Path(__file__).parents[2]
SCHEMA = yaml.safe_load((ROOT / "config" / "schemas" / "model.schema.yaml").read_text(encoding="utf-8"))
NAMES = sorted(config.names("model", ROOT / "config"))

FRAMES = {
    **dict.fromkeys(("sharegpt4video_8b", "cogvlm2_video", "llava_next_video_7b"), 128),
    **{"minicpm_v_2_6": 120, "vila1_5_8b": 32, "internvl2_8b": 32, "internvl2_26b": 16, "qwen2_vl_7b": 48},
    **dict.fromkeys(("qwen3_vl_2b", "qwen3_vl_4b", "qwen3_vl_8b", "qwen2_5_vl_3b", "qwen2_5_vl_7b"), 768),
    **dict.fromkeys(("longvu_3b", "keye_vl_8b", "minicpm_v_4_5"), 768),
    **dict.fromkeys(("videollama3_7b", "internvl3_8b", "llava_video_7b"), 64),
    **dict.fromkeys(("gemini_1_5_flash", "gemini_1_5_pro"), 60),
    **dict.fromkeys(("gpt_4o", "gemini_3_pro", "seed_1_6", "longva_7b", "longvu_7b"), 128),
    **dict.fromkeys(("internvl2_5_8b", "internvl3_5_8b", "internvl3_5_8b_thinking", "llava_onevision_7b"), 32),
    **dict.fromkeys(("qwen3_vl_4b_thinking", "qwen3_vl_8b_thinking", "gpt_5", "gemini_2_5_pro"), 32),
}
"""Most frames that a table of the papers shows a model: EgoTextVQA's 3, 4 and 9, ViTexQA's 4, MyEgo's text."""
TOO_MANY = {"cogvlm2_video": 110}
"""What fits where a table's number does not, beside a prompt and the new tokens: 8192 tokens of context, 66 a frame."""
OTHERS = {
    *("video_llava_7b", "qwen3_vl_2b_thinking", "claude_sonnet_4_6", "qwen3_vl_8b_vllm"),
    *("human", "blind", "ocr_reader", "tiny_qwen3_vl"),
}
TABLE_15 = {
    **{"gpt_4o": "gpt_4o", "gemini_1_5_flash": "gemini", "gemini_1_5_pro": "gemini", "qwen2_vl_7b": "qwen2_vl"},
    **{"llava_next_video_7b": "llava_next_video", "cogvlm2_video": "cogvlm2_video", "vila1_5_8b": "vila"},
    **{"internvl2_8b": "internvl2", "internvl2_26b": "internvl2", "sharegpt4video_8b": "sharegpt4video"},
    "minicpm_v_2_6": "minicpm_v",
}
UNPINNED = {
    *("cogvlm2_video", "keye_vl_8b", "llava_next_video_7b", "longva_7b", "longvu_3b", "longvu_7b"),
    *("qwen3_vl_2b_thinking", "sharegpt4video_8b"),
    *("gemini_2_5_pro", "gemini_3_pro"),
}
WORKLOADS = {
    "vitexqa": (740, None, 448),
    "egotextvqa_indoor": (2216, 128, 384),
    "egotextvqa_outdoor": (4848, 60, 384),
    "myego": (5012, 32, 384),
}
"""Questions, most frames (None: as many as any table shows the model), side of a frame in pixels."""


def model(name):
    return config.load("model", name, ROOT / "config")


def test_the_papers_models_are_all_here_and_every_model_is_accounted_for():
    assert set(NAMES) == set(FRAMES) | OTHERS


@pytest.mark.parametrize("name", NAMES)
def test_every_model_file_is_valid_and_its_adapter_is_there(name):
    chosen = model(name)
    if chosen["adapter"] != "predictions":  # answers made elsewhere: nothing runs
        module = importlib.import_module(models.ADAPTERS[chosen["adapter"]])
        assert callable(module.load) and callable(module.conditions)
        assert isinstance(module.VERSION, str) and isinstance(module.PACKAGES, tuple)
    images = yaml.safe_load((ROOT / "containers" / "images.yaml").read_text(encoding="utf-8"))["images"]
    assert chosen["image"] in images


def test_the_schema_knows_exactly_the_adapters():
    assert set(SCHEMA["properties"]["adapter"]["enum"]) == {*models.ADAPTERS, "predictions"}


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


def test_which_versions_are_open_is_no_accident():
    assert {name for name in NAMES if pins.unpinned(model(name))} == UNPINNED
    for name in NAMES:
        known = model(name)["weights"].get("revision", "")
        assert re.fullmatch(r"([0-9a-f]{40})?", known), name


def test_models_of_table_15_get_its_words():
    variants = {name: model(name)["prompt_variant"] for name in NAMES if "prompt_variant" in model(name)}
    assert variants == TABLE_15
    words = config.load("prompt", "v_q", ROOT / "config")["variants"]
    assert set(words) == set(variants.values())


@pytest.mark.parametrize("name", sorted(FRAMES))
def test_a_model_takes_the_frames_that_the_papers_show_it(name):
    if name in TOO_MANY:
        assert model(name)["max_frames"] == TOO_MANY[name] < FRAMES[name]
    else:
        assert model(name)["max_frames"] >= FRAMES[name]


def test_no_more_frames_than_cogvlm2s_context_holds():
    chosen = model("cogvlm2_video")
    left = 8192 - chosen["generation"]["max_new_tokens"] - 400
    assert chosen["max_frames"] * figure("cogvlm2_video", "tokens_per_frame") <= left
    assert FRAMES["cogvlm2_video"] * figure("cogvlm2_video", "tokens_per_frame") > 8192


def figure(name, key):
    return model(name)["cost"][key]["value"]


def hours(name, workload):
    """Of one job, by the guesses of the model's file."""
    questions, frames, side = WORKLOADS[workload]
    frames = min(FRAMES[name], frames or FRAMES[name])
    tokens = visual_tokens(model(name), lambda key: figure(name, key), frames, lambda: side * side)
    each = figure(name, "question_s") + (figure(name, "kilotoken_s") * tokens / 1000 if tokens else 0)
    return (figure(name, "load_s") + questions * each / model(name)["resources"].get("shards", 1)) / 3600


@pytest.mark.parametrize("name", sorted(FRAMES))
@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_a_cell_of_the_papers_fits_into_the_time_of_its_job(name, workload):
    assert hours(name, workload) <= model(name)["resources"]["runtime_min"] / 60


@pytest.mark.parametrize("name", NAMES)
def test_what_a_job_asks_for_is_what_its_model_needs(name):
    chosen = model(name)
    resources, kind = chosen["resources"], chosen["weights"]["kind"]
    assert (resources["gpus"] > 0) == (kind == "hub")
    if kind == "hub":  # read into main memory on the way to the GPU, and one GPU of 80 GB has to hold them
        assert resources["mem_mb"] >= 1.5 * 1000 * figure(name, "weights_gb")
        assert figure(name, "weights_gb") <= 60 * resources["gpus"]


@pytest.mark.parametrize("name", [name for name in NAMES if "generation" in model(name)])
def test_decoding_is_greedy_and_models_that_think_have_room_to(name):
    chosen = model(name)
    settings = chosen["generation"]
    assert not settings.get("temperature")
    if name.startswith("tiny"):
        return
    hidden = chosen["adapter"] == "openai" and figure(name, "new_tokens") > 200
    assert settings["max_new_tokens"] == (4096 if settings["thinking"] or hidden else 512)
    assert settings["thinking"] == name.endswith("_thinking")
    if chosen["adapter"] == "openai":
        assert settings.get("temperature") == (None if name in ("gpt_5", "gemini_3_pro") else 0)


def test_what_makes_a_model_think_or_not_is_told_to_it():
    told = {name: model(name).get("system", "") + model(name).get("suffix", "") for name in NAMES}
    assert {name for name in NAMES if told[name]} == {"internvl3_5_8b_thinking", "keye_vl_8b"}
    assert re.search(r"<think></think>", told["internvl3_5_8b_thinking"])
    assert told["keye_vl_8b"] == "/no_think"


SIGLIP, CLIP, DINO = "google/siglip-so400m-patch14-384", "openai/clip-vit-large-patch14-336", "facebook/dinov2-giant"
TOWERS = {
    **{"llava_video_7b": [SIGLIP], "llava_next_video_7b": [SIGLIP], "longva_7b": [CLIP], "sharegpt4video_8b": [CLIP]},
    **{"longvu_3b": [SIGLIP, DINO], "longvu_7b": [SIGLIP, DINO]},
}


def test_vision_towers_are_fetched_with_the_weights_and_pinned():
    named = {name: model(name)["weights"].get("towers", []) for name in NAMES}
    assert {name: [one["id"] for one in towers] for name, towers in named.items() if towers} == TOWERS
    pinned = {(one["id"], one["revision"]) for towers in named.values() for one in towers}
    assert len(pinned) == len({SIGLIP, CLIP, DINO}), "one revision of each"
    assert all(len(revision) == 40 for _, revision in pinned)


def locked(image, images):
    """Packages in an image, those of the image that it stands on included."""
    if image not in images:
        return set()
    lines = [
        line
        for lock in images[image]["locks"]
        for line in (ROOT / "envs" / f"{lock}.lock").read_text(encoding="utf-8").splitlines()
    ]
    here = {match[1].lower() for line in lines if (match := re.match(r"([\w.-]+)(?:\[.*\])?(?:==| @ )", line))}
    return here | locked(images[image]["base"], images)


@pytest.mark.parametrize("name", [name for name in NAMES if model(name)["adapter"] != "predictions"])
def test_an_adapters_packages_are_in_the_image_of_its_model(name):
    images = yaml.safe_load((ROOT / "containers" / "images.yaml").read_text(encoding="utf-8"))["images"]
    chosen = model(name)
    module = importlib.import_module(models.ADAPTERS[chosen["adapter"]])
    needed = {*module.PACKAGES, *(module.DEPENDS_ON[chosen["server"]["program"]] if "server" in chosen else ())}
    assert needed - locked(chosen["image"], images) == set()


def remotes():
    return [name for name in NAMES if model(name)["adapter"] == "openai"]


def test_models_behind_an_api_have_a_price_a_key_and_what_a_bill_is_estimated_by():
    prices = yaml.safe_load((ROOT / "config" / "prices.yaml").read_text(encoding="utf-8"))
    for name in remotes():
        chosen = model(name)
        assert chosen["remote"]["key_env"].endswith("_API_KEY")
        assert {"text_tokens", "new_tokens"} <= set(chosen["cost"])
        assert chosen["remote"]["id"] in prices["models"], name


def test_the_page_of_models_says_what_their_files_say():
    lines = (ROOT / "docs" / "models.md").read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| name | hub id"))
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip().strip("`") for cell in line.strip("|").split("|"))
        rows[name] = cells
    assert set(rows) == set(NAMES)
    for name, (ident, revision, adapter, image, tables, licence, verified) in rows.items():
        chosen = model(name)
        known = chosen["weights"].get("revision", "")[:12]
        if "remote" in chosen:
            known = "dated" if chosen["remote"]["dated"] else "open"
        elif chosen["weights"]["kind"] == "hub":
            known = known or "open"
        asked = chosen.get("remote", chosen["weights"]).get("id", "–")
        assert [ident, revision, adapter, image, licence] == [
            *(asked, known or "–", chosen["adapter"], chosen["image"], chosen["licence"])
        ]
        assert tables and verified


def test_weights_are_asked_for_exactly_where_there_are_some(tmp_path):
    with pytest.raises(ConfigError, match="needs --weights"):
        weights.check(model("qwen3_vl_2b"), None)
    with pytest.raises(ConfigError, match="drop --weights"):
        weights.check(model("ocr_reader"), tmp_path)
    with pytest.raises(EngineError, match="run fetch_model"):
        weights.check(model("qwen3_vl_2b"), tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    (tmp_path / "revision.txt").write_text(model("qwen3_vl_2b")["weights"]["revision"])
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
