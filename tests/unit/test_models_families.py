"""Every family that transformers loads by itself: real classes, tiny random weights, really decoded frames.

Which report of shared faults a test is about is named by its number, e.g. (B 17).
"""

import re

import numpy as np
import pytest

from scripts.lib import video
from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.probe import probe
from scripts.models import hf_image_text as adapter
from scripts.models import hf_inputs
from scripts.models.hf_engine import open_engine
from scripts.models.protocol import Request
from scripts.train import build_tiny_model
from tests.unit import clips, tiny_families

pytestmark = pytest.mark.slow

FAMILIES = list(tiny_families.FAMILIES)
QWEN = [family for family in FAMILIES if family.startswith("qwen")]
FIXED = [family for family in FAMILIES if family not in QWEN]
PICKED = [2, 9, 11, 30, 41, 52, 60, 74]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Folders by family, each built when first asked for."""
    root, made = tmp_path_factory.mktemp("families"), {}

    def folder(family):
        if family not in made:
            made[family] = tiny_families.build(family, root / family)
        return made[family]

    return folder


@pytest.fixture(scope="module")
def engine(weights):
    return lambda family, **changes: open_engine(tiny_families.model(family, **changes), weights(family))


@pytest.fixture(scope="module")
def decoded(tmp_path_factory):
    """Eight frames of a clip with uneven times, and these times; by size."""
    folder, made = tmp_path_factory.mktemp("clips"), {}

    def frames(size=(160, 96)):
        if size not in made:
            path = folder / f"{size[0]}.mkv"
            clips.write(path, ticks=clips.variable_ticks(75), time_base=clips.Fraction(1, 1000), size=size)
            record = probe(path).times
            times = video.frame_times(record)
            made[size] = (list(video.read_frames(path, record, PICKED)), [float(times[index]) for index in PICKED])
        return made[size]

    return frames


@pytest.fixture
def ask(decoded):
    def request(count=8, prompt="What does the sign say?", size=(160, 96), key="q"):
        frames, times = decoded(size)
        return Request(key, frames[:count], times[:count], "Read.", prompt, "", None)

    return request


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT_IN_VIDEO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("APPTAINER_CONTAINER", raising=False)


def text_of(engine, inputs, row=0):
    """The prompt as the network gets it, runs of placeholders shortened to one."""
    text = engine.processor.tokenizer.decode(inputs["input_ids"][row].tolist())
    return re.sub(r"(<\|(?:video|image)_pad\|>|<image>|<video>|<IMG_CONTEXT>)+", r"\1", text)


@pytest.mark.parametrize(
    ("family", "count", "used"),
    [
        ("qwen2_vl", 8, (84, 168, 4 * 18, "resized 96x160 to 84x168")),
        ("qwen2_vl", 7, (84, 168, 4 * 18, "resized 96x160 to 84x168; last frame doubled")),
        ("qwen2_vl", 1, (84, 168, 18, "resized 96x160 to 84x168")),
        ("qwen2_5_vl", 8, (84, 168, 4 * 18, "resized 96x160 to 84x168; times told as one rate")),
        ("qwen2_5_vl", 1, (84, 168, 18, "resized 96x160 to 84x168")),
        ("qwen3_vl", 8, (96, 160, 4 * 15, "")),
        ("qwen3_vl", 3, (96, 160, 2 * 15, "last frame doubled")),
        ("qwen3_vl", 1, (96, 160, 15, "")),
        ("internvl", 8, (448, 448, 8 * 16, "resized 96x160 to 448x448")),
        ("internvl", 3, (448, 448, 3 * 16, "resized 96x160 to 448x448")),
        ("internvl", 1, (448, 448, 7 * 16, "7 tiles of 448x448")),  # 3 x 2 and one of the whole
        ("llava_onevision", 8, (384, 384, 8 * 16 + 1, "resized 96x160 to 384x384")),
        ("llava_onevision", 1, (384, 384, 64 + 4 * 9, "2 tiles of 384x384")),  # rows of padding dropped, ends of rows
        ("video_llava", 8, (224, 224, 8 * 17, "resized 96x160 to 224x224, sides cut off")),
        ("video_llava", 1, (224, 224, 16, "resized 96x160 to 224x224, sides cut off")),
        *((family, 0, (0, 0, 0, "")) for family in FAMILIES),
    ],
)
def test_real_frames_are_answered_and_what_was_used_is_on_record(engine, ask, family, count, used):
    loaded, asked = engine(family), ask(count)
    (reply,) = adapter.answer_batch(loaded, [asked], 0)
    assert reply.status in ("ok", "truncated", "unanswerable") and 0 < reply.tokens_out <= 12
    assert (reply.height, reply.width, reply.visual_tokens, reply.frames_note) == used
    as_image = "each" if loaded.model["input"]["image_times"] else "none"
    as_video = {"qwen3_vl": "each", "qwen2_5_vl": "rate"}.get(family, "none")
    assert reply.times_told == ("", as_image)[count] if count < 2 else as_video
    assert list(reply.times) == asked.times[:count]
    assert reply.engine.startswith("transformers 5.") and reply.engine.endswith("cpu float32 sdpa")


@pytest.mark.parametrize(("family", "tokens"), list(zip(FAMILIES, [18, 18, 15, 16, 65, 16], strict=True)))
def test_several_frames_as_images_are_not_cut_into_tiles(engine, ask, family, tokens):
    """65 = 64 and the end of an image."""
    _, used = hf_inputs.prepare(engine(family, frames_as="images"), ask(8))
    assert used["visual_tokens"] == 8 * tokens and "tiles" not in used["frames_note"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", ["video", "images", "none"])
def test_a_batch_answers_as_one_at_a_time(weights, ask, family, form):
    prompts = [
        "Read it.",
        "What did the first sign of the street say?",
        "Was steht da? 何と書いてある",
        "Now?",
        "B or C?",
    ]
    counts = {"none": [0] * 5, "images": [5, 6, 7, 1, 1], "video": [8] * 5}[form]
    if form == "video" and family in QWEN:  # alike within a factor of two
        counts = [8, 7, 5, 6, 8]
    asked = [
        ask(count, prompt, key=str(number)) for number, (prompt, count) in enumerate(zip(prompts, counts, strict=True))
    ]
    settings = {"frames_as": "images" if form == "images" else "video", "repetition_penalty": 1.3}

    def replies(batch):
        answers = adapter.load(tiny_families.model(family, batch=batch, **settings), weights(family), 0)
        return {one.key: reply for one, reply in answers(asked)}

    alone, together = replies(1), replies(5)
    assert {reply.batch for reply in alone.values()} == {1}
    assert max(reply.batch for reply in together.values()) == (3 if form == "images" else 5)
    for key, reply in together.items():
        for field in ("status", "raw", "tokens_in", "tokens_out", "height", "width", "visual_tokens", "frames_note"):
            assert getattr(reply, field) == getattr(alone[key], field), (key, field)
    assert len({reply.raw for reply in alone.values()}) > 3


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_is_hidden_and_of_words_that_the_prompt_has(engine, ask, family):
    """A repetition penalty lowers whatever stands in a row, hidden or not: the token that ends a reply must not."""
    loaded = engine(family)
    asked = [ask(0, "A?"), ask(0, "What did the sign before this one say? " * 3)]
    rows = [hf_inputs.prepare(loaded, one)[0] for one in asked]
    both, length = hf_inputs.collate(rows), rows[0]["input_ids"].shape[1]
    assert both["input_ids"].shape[1] == rows[1]["input_ids"].shape[1] > length
    padding = set(both["input_ids"][0, :-length].tolist())
    assert padding <= set(rows[0]["input_ids"][0].tolist()) - {loaded.processor.tokenizer.pad_token_id}
    assert both["attention_mask"][0].sum() == length and both["attention_mask"][1].all()


@pytest.mark.parametrize("family", FAMILIES)
def test_questions_of_unlike_kinds_are_not_asked_together(weights, ask, family):
    """With frames and without; one frame and eight: what memory allows for the large ones does not slow the small."""
    asked = [ask(count, key=str(number)) for number, count in enumerate([0, 0, 8, 8, 8, 0, 1, 1])]
    answers = list(adapter.load(tiny_families.model(family), weights(family), 0)(asked))
    assert [one for one, _ in answers] == asked
    assert [reply.batch for _, reply in answers] == [2, 2, 3, 3, 3, 1, 2, 2]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("frames_as", ["video", "images"])
def test_scores_of_every_token_are_those_of_the_question_alone(engine, ask, family, frames_as):
    """Stronger than equal replies: no row of a batch sees another's frames, prompt or padding."""
    import torch

    loaded = engine(family, frames_as=frames_as)
    asked = [ask(8, "A?"), ask(8, "What did the sign before this one say? " * 3)]
    rows = [hf_inputs.prepare(loaded, one)[0] for one in asked]
    with torch.inference_mode():
        both = loaded.network(**hf_inputs.collate(rows)).logits
        for number, row in enumerate(rows):
            alone = loaded.network(**row).logits[0]
            torch.testing.assert_close(both[number, -len(alone) :], alone, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("family", "notes"),
    [
        ("internvl", ["3 tiles of 448x448", "resized 480x480 to 448x448"]),
        ("llava_onevision", ["3 tiles of 384x384", "5 tiles of 384x384"]),
    ],
)
def test_images_of_unlike_shape_share_a_batch(engine, ask, family, notes):
    import torch

    loaded = engine(family)
    asked = [ask(1, size=(640, 360)), ask(1, "Now?", size=(480, 480))]
    assert hf_inputs.kind(loaded, asked[0]) == hf_inputs.kind(loaded, asked[1])
    rows, used = zip(*(hf_inputs.prepare(loaded, one) for one in asked), strict=True)
    assert [one["frames_note"] for one in used] == notes
    with torch.inference_mode():
        both = loaded.network(**hf_inputs.collate(rows)).logits
        for number, row in enumerate(rows):
            alone = loaded.network(**row).logits[0]
            torch.testing.assert_close(both[number, -len(alone) :], alone, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("frames_as", ["video", "images"])
def test_the_network_sees_each_frame_and_their_order(engine, ask, family, frames_as):
    import torch

    loaded, asked = engine(family, frames_as=frames_as), ask()

    def scores(frames):
        changed = Request("q", frames, asked.times, asked.system, asked.prompt, "", None)
        with torch.inference_mode():
            return loaded.network(**hf_inputs.prepare(loaded, changed)[0]).logits[0, -1]

    usual = scores(asked.frames)
    for place in range(8):
        other = [np.flip(frame, 0).copy() if number == place else frame for number, frame in enumerate(asked.frames)]
        assert (scores(other) - usual).abs().max() > 1e-4, place
    assert (scores(asked.frames[::-1]) - usual).abs().max() > 1e-4


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("frames_as", ["video", "images"])
def test_a_processor_never_samples_again(engine, ask, family, frames_as):
    """(B 1, 4, 14, 17, 18, 19) Whatever its configuration says; 2 to 8 frames go in as 2 to 8."""
    loaded = engine(family, frames_as=frames_as)
    part = loaded.processor.video_processor
    part.do_sample_frames, part.fps, part.num_frames = True, 2, None
    for count in range(2, 9):
        if family == "video_llava" and frames_as == "video" and count != 8:
            continue
        _, used = hf_inputs.prepare(loaded, ask(count))
        assert "dropped" not in used["frames_note"] and "became" not in used["frames_note"]
        assert ("doubled" in used["frames_note"]) == (family in QWEN and frames_as == "video" and count % 2 == 1)
        assert list(used["times"]) == ask(count).times


def test_frames_that_a_processor_drops_are_on_record(engine, ask):
    """A processor that samples all the same, e.g. after an upgrade."""
    loaded = engine("internvl")
    called = loaded.processor.video_processor.preprocess
    loaded.processor.video_processor.preprocess = lambda videos, **kwargs: called([videos[0][::2]], **kwargs)
    _, used = hf_inputs.prepare(loaded, ask(7))
    assert used["frames_note"] == "resized 96x160 to 448x448; 3 of 7 frames dropped"
    loaded.processor.video_processor.preprocess = lambda videos, **kwargs: called([videos[0][[0, 0, 1, 1]]], **kwargs)
    assert hf_inputs.prepare(loaded, ask(2))[1]["frames_note"].endswith("; 2 frames became 4")


@pytest.mark.parametrize("family", FAMILIES)
def test_one_frame_is_an_image(engine, ask, family):
    """(B 11, 12)"""
    loaded = engine(family)
    inputs, _ = hf_inputs.prepare(loaded, ask(1))
    assert not [name for name in inputs if "video" in name]
    assert (inputs["input_ids"] == loaded.network.config.image_token_id).sum() > 0


def test_true_times_reach_the_models_that_take_them(engine, ask):
    """(B 13, 15, 16) The clip's frames are 20 to 60 ms apart, with one pause of 2 s: no constant rate gives these."""
    asked = ask()
    pairs = [(first + second) / 2 for first, second in zip(asked.times[::2], asked.times[1::2], strict=True)]
    loaded = engine("qwen3_vl")
    written = re.findall(r"<([\d.]+) seconds>", text_of(loaded, hf_inputs.prepare(loaded, asked)[0]))
    assert written == [f"{seconds:.1f}" for seconds in pairs]

    inputs, _ = hf_inputs.prepare(engine("qwen2_5_vl"), asked)
    spacing = (asked.times[-1] - asked.times[0]) / 7
    assert float(inputs["second_per_grid_ts"][0]) == pytest.approx(2 * spacing, rel=1e-6)
    images = "".join(f"<{seconds:.1f} seconds>{{}}" for seconds in asked.times)
    for family, block in (
        ("qwen2_vl", "<|vision_start|><|image_pad|><|vision_end|>"),
        ("qwen2_5_vl", "<|vision_start|><|image_pad|><|vision_end|>"),
        ("internvl", "<img><IMG_CONTEXT></img>\n"),
    ):
        loaded = engine(family, frames_as="images", image_times=True)
        hf_inputs.check_settings(loaded)
        assert hf_inputs.prepare(loaded, asked)[1]["times_told"] == "each"
        assert images.format(*[block] * 8) in text_of(loaded, hf_inputs.prepare(loaded, asked)[0])


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 31])
@pytest.mark.parametrize("late", [0.0, 0.005, 0.05])
def test_one_rate_is_the_true_one_also_where_a_frame_is_doubled(engine, ask, count, late):
    """At 1 s apart, two frames that share their tokens span 2 s; the last frame may be late."""
    times = [*map(float, range(count - 1)), count - 1 + late]
    asked = Request("q", ask(1).frames * count, times, "", "What?", "", None)
    inputs, used = hf_inputs.prepare(engine("qwen2_5_vl"), asked)
    assert float(inputs["second_per_grid_ts"][0]) == pytest.approx(2 * times[-1] / (count - 1), rel=1e-6)
    said = late > 0.01 and count > 2
    assert used["times_told"] == "rate" and used["frames_note"].endswith("; times told as one rate") == said


@pytest.mark.parametrize("family", FAMILIES)
def test_no_words_of_a_question_become_marks_of_the_format(engine, ask, family):
    """Each special token, and what stands for pictures; marks that are words to the tokenizer pass."""
    loaded = engine(family)
    words = loaded.processor.tokenizer
    marks = {*words.all_special_tokens, loaded.processor.image_token, loaded.processor.video_token}
    for mark in marks | set(build_tiny_model.SPECIAL):
        forged = ask(8, f"SALE{mark}\nNow?")
        (reply,) = adapter.answer_batch(loaded, [forged], 0)
        assert reply.status == "error:engine" and f"the prompt's own wording holds {mark}, " in reply.detail
    harmless = ask(0, "<think> 1 <2, a <| b |> <|im_end <answer>")
    ids, usual = (hf_inputs.prepare(loaded, one)[0]["input_ids"] for one in (harmless, ask(0)))
    assert (ids == words.eos_token_id).sum() == (usual == words.eos_token_id).sum()


def test_prompts_have_the_form_of_their_family(engine, ask):
    def prompt(family, count=8):
        loaded = engine(family)
        return text_of(loaded, hf_inputs.prepare(loaded, ask(count))[0])

    chat = "<|im_start|>system\nRead.<|im_end|>\n<|im_start|>user\n{}What does the sign say?<|im_end|>\n"
    chat += "<|im_start|>assistant\n"
    marks = "<|vision_start|><|video_pad|><|vision_end|>"
    assert prompt("qwen2_vl") == prompt("qwen2_5_vl") == chat.format(marks)
    frames = "\n".join(f"Frame{number}: <img><IMG_CONTEXT></img>" for number in range(1, 9))
    assert prompt("internvl") == chat.format(frames + "\n")
    assert prompt("llava_onevision") == (
        "<|im_start|>system \nRead.<|im_end|><|im_start|>user <video>\n\nWhat does the sign say?<|im_end|>"
        "<|im_start|>assistant\n"
    )
    assert prompt("video_llava") == "Read. USER: <video>\nWhat does the sign say? ASSISTANT:"


@pytest.mark.parametrize("family", QWEN)
@pytest.mark.parametrize(("frames_as", "count"), [("video", 8), ("images", 8), ("video", 1)])
def test_pixel_limits_have_an_effect(engine, ask, family, frames_as, count):
    """(B 41, 43, 44, 45, 46) On videos, lists of frames and single frames alike, per frame."""
    asked = ask(count, size=(640, 360))
    side = 32 if family == "qwen3_vl" else 28
    used = {}
    for pixels in (20_000, 80_000, 400_000):
        loaded = engine(family, frames_as=frames_as, max_pixels=pixels)
        used[pixels] = hf_inputs.prepare(loaded, asked)[1]
        height, width = used[pixels]["height"], used[pixels]["width"]
        assert height % side == 0 and width % side == 0
        assert pixels * 0.6 < height * width <= pixels or (pixels == 400_000 and height >= 336 and width >= 616)
        tokens = height * width // side**2 * (count if frames_as == "images" else -(-count // 2))
        assert used[pixels]["visual_tokens"] == tokens
    enlarged = hf_inputs.prepare(engine(family, frames_as=frames_as, min_pixels=250_000, max_pixels=500_000), asked)[1]
    assert enlarged["height"] * enlarged["width"] >= 250_000


@pytest.mark.parametrize("family", QWEN)
@pytest.mark.parametrize("capped", [None, True, False])
def test_a_default_that_changes_between_versions_changes_nothing_here(engine, ask, family, capped):
    """(B 42) With the cap, frames of a short clip would be smaller than the limits of the YAML."""
    loaded = engine(family, max_pixels=200_000)
    loaded.processor.video_processor.cap_pixels_per_frame = capped
    loaded.processor.video_processor.max_video_tokens = 40
    used = hf_inputs.prepare(loaded, ask(8, size=(640, 360)))[1]
    assert used["height"] * used["width"] > 150_000


@pytest.mark.parametrize("family", FIXED)
def test_settings_without_effect_are_refused(engine, weights, family):
    limits = {"min_pixels": 1024, "max_pixels": 99999, "pixels_of": "frame"}
    with pytest.raises(ConfigError, match=f"tiny_{family}.yaml: input: {', '.join(limits)} have no effect"):
        adapter.load(tiny_families.model(family, **limits), weights(family), 0)


def test_settings_that_are_missing_or_undone_are_refused(weights):
    model = tiny_families.model("qwen2_vl")
    del model["input"]["max_pixels"]
    with pytest.raises(ConfigError, match="takes frames of any size; set min_pixels, max_pixels, pixels_of"):
        adapter.load(model, weights("qwen2_vl"), 0)
    for family in ("llava_onevision", "video_llava"):
        with pytest.raises(ConfigError, match="puts images before the text, so no time can stand before each"):
            adapter.load(tiny_families.model(family, image_times=True), weights(family), 0)


def test_video_llava_takes_eight_frames_or_an_image(engine, ask):
    """(B 8) Another number is an error of this question, never padded or thinned."""
    refused, answered = adapter.answer_batch(engine("video_llava"), [ask(5), ask(8)], 0)
    assert refused.status == "error:engine" and answered.status != "error:engine"
    assert refused.detail.startswith("this model takes videos of exactly 8 frames and got 5; choose a sampler")
    with pytest.raises(EngineError, match="exactly 8 frames and got 2"):
        hf_inputs.prepare(engine("video_llava"), ask(2))


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_takes_the_same_inputs(engine, ask, family):
    replies = adapter.answer_batch(engine(family, dtype="bfloat16"), [ask(8), ask(8, "Now?")], 0)
    assert all(reply.tokens_out for reply in replies) and replies[0].engine.endswith("cpu bfloat16 sdpa")
