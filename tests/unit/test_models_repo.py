"""Adapters of models with code of their own. That code and its weights need a GPU; what is tested here is what stands
around them: the prompt, the tiles, the times, and what is read off the tensors.
"""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.records import OcrBox, OcrFrame
from scripts.models import ADAPTERS, find, llava_next, longvu, minicpm_v, repo_common, sharegpt4video, videollama3, vila
from scripts.models import cogvlm2_video as cogvlm2
from scripts.models import internvl_chat as internvl
from scripts.models.protocol import Request, one_by_one
from tests.unit.repo_sample import ADDED, FORGED, encode, model, numbered, request

FAMILIES = {
    "cogvlm2_video": cogvlm2,
    "internvl_chat": internvl,
    "llava_next": llava_next,
    "longvu": longvu,
    "minicpm_v": minicpm_v,
    "sharegpt4video": sharegpt4video,
    "videollama3": videollama3,
    "vila": vila,
}
TIMES = st.lists(st.floats(0, 3600), min_size=1, max_size=40).map(sorted)


# What every adapter keeps to.


@pytest.mark.parametrize("name", FAMILIES)
def test_settings_without_effect_and_a_machine_without_a_gpu_are_refused(name, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    module, asked = FAMILIES[name], model()
    assert ADAPTERS[name] == module.__name__
    with pytest.raises(EngineError, match="use a GPU node"):
        module.conditions(asked)
    with pytest.raises(EngineError, match="use a GPU node"):
        module.load(asked, None, 0)
    asked["engine"]["attention"] = "flash_attention_2"
    with pytest.raises(ConfigError, match=r"m\.yaml: engine\.attention: flash_attention_2 has no effect"):
        module.load(asked, None, 0)


def test_nothing_heavy_is_imported_before_a_model_is_loaded():
    """The images hold other versions than this environment; a dry run must not need either."""
    names = ", ".join(f"scripts.models.{name}" for name in FAMILIES)
    heavy = "{name.split('.')[0] for name in sys.modules} & {'torch', 'transformers', 'torchvision', 'PIL', 'decord'}"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {names}; print({heavy} or 'none')"], capture_output=True, text=True
    )
    assert done.stdout.strip() == "none", done.stdout + done.stderr


def test_an_adapter_is_found_with_its_versions():
    assert find("minicpm_v").engine.startswith("minicpm_v 2, transformers ")


# Pieces that all of them use.


def test_decoding_is_greedy_without_a_temperature_and_takes_nothing_from_the_checkpoint():
    greedy = repo_common.sampling({"max_new_tokens": 9, "thinking": False})
    assert (greedy["do_sample"], greedy["num_beams"], greedy["repetition_penalty"]) == (False, 1, 1.0)
    assert not {"temperature", "top_p", "top_k"} & set(greedy)
    drawn = repo_common.sampling({"max_new_tokens": 9, "thinking": False, "temperature": 0.7, "top_k": 20})
    assert [drawn[key] for key in ("do_sample", "temperature", "top_p", "top_k")] == [True, 0.7, 1.0, 20]


@pytest.mark.parametrize(
    ("raw", "written", "status", "answer"),
    [
        ("a bus", [5, 6, 2], "ok", "a bus"),
        ("Answer: a bus", [5] * 7 + [2], "ok", "a bus"),
        ("a bus and a", [5] * 8, "truncated", "a bus and a"),
        ("Unanswerable, it is dark", [5, 2], "unanswerable", "Unanswerable, it is dark"),
        ("", [], "ok", ""),
    ],
)
def test_a_reply_is_read_like_those_of_other_models(raw, written, status, answer):
    reply = repo_common.finish(raw, written, {2}, model(), {"height": 3})
    assert (reply.status, reply.answer, reply.tokens_out, reply.height) == (status, answer, len(written), 3)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "out of GPU memory"),
        (AssertionError("sizes\n differ"), "sizes differ"),
        (KeyError("grid"), "'grid'"),
    ],
)
def test_an_error_of_foreign_code_costs_one_question(error, words):
    calls = []

    def answer(asked):
        with repo_common.asking():
            calls.append(asked)
            if len(calls) == 1:
                raise error
            return repo_common.finish("yes", [2], {2}, model(), {})

    first, second = (reply for _, reply in one_by_one(answer)([request(), request()]))
    assert (first.status, words in first.detail, "\n" in first.detail) == ("error:engine", True, False)
    assert second.status == "ok"


def test_a_watched_call_is_seen_of_one_object_and_can_be_stopped():
    class Network:
        def embed(self, number, by=1):
            return number * by

    def refuse(args, _kwargs, result):
        assert result is None, "before the call"
        if args[0] > 5:
            raise EngineError("too long")

    one, other = Network(), Network()
    seen = repo_common.watch(one, "embed", before=refuse, after=lambda args, kwargs, result: (args, kwargs, result))
    assert (one.embed(2, by=3), other.embed(4), seen) == (6, 4, [((2,), {"by": 3}, 6)])
    with pytest.raises(EngineError, match="too long"):
        one.embed(6)
    assert len(seen) == 1


def test_a_prompt_that_was_cut_off_or_leaves_no_room_is_an_error_and_no_answer():
    look = repo_common.embedded(50, 57, 8)
    ids, inside = np.array([[1, -200, 2, 3]]), np.zeros((1, 49, 4))
    assert look((ids,), {}, [None] * 4 + [inside]) == {"tokens_in": 49, "visual_tokens": 46}
    assert look((), {"input_ids": ids}, [None] * 5) is None, "a later step of the same reply"
    with pytest.raises(EngineError, match="exceeds the 50 tokens"):
        look((ids,), {}, [None] * 4 + [np.zeros((1, 50, 4))])
    with pytest.raises(EngineError, match="prompt of 49 tokens and 9 new ones exceed the context of 57"):
        repo_common.embedded(50, 57, 9)((ids,), {}, [None] * 4 + [inside])
    assert repo_common.embedded(None, None, 9)((ids,), {}, [None] * 4 + [inside])["tokens_in"] == 49


def test_a_network_with_more_context_than_it_was_trained_with_has_room_for_the_reply():
    """LongVU pools its frames until they fill the 8192 tokens from which on its code cuts; Qwen2 has room for 32768."""

    class Network:
        config = SimpleNamespace(tokenizer_model_max_length=50, max_position_embeddings=60)

        def prepare_inputs_labels_for_multimodal(self, _ids, total):
            return [None] * 4 + [np.zeros((1, total, 4))]

    network, ids = Network(), np.array([[1, -200, 2, 3]])
    seen = repo_common.watch_prompt(network, model())
    network.prepare_inputs_labels_for_multimodal(ids, 49)
    assert seen == [{"tokens_in": 49, "visual_tokens": 46}]
    with pytest.raises(EngineError, match="exceeds the 50 tokens"):
        network.prepare_inputs_labels_for_multimodal(ids, 50)


def test_a_mark_of_the_format_in_the_prompt_is_refused_with_where_it_comes_from():
    tokenizer = SimpleNamespace(added_tokens_decoder=ADDED, all_special_tokens=["<s>"])

    def refused(asked, *marks):
        with pytest.raises(EngineError) as caught:
            repo_common.refuse_marks(asked, tokenizer, *marks)
        return str(caught.value).split(", which is no text to this model")[0]

    assert refused(request(prompt="The text is <image>."), "<image>") == "the prompt's own wording holds <image>"
    assert refused(request(prompt="Read.", system=FORGED)) == "the system message holds <|im_end|>"
    words = {"frames": [], "times": [], "system": "", "key": "k"}
    prompt = f"Which?\nA. <s>\nB. {FORGED}"
    asked = Request(question="Which?", options=["yes", FORGED], prompt=prompt, **words)
    assert refused(asked) == "option B holds <|im_end|>"
    asked = Request(question=FORGED, options=None, prompt=f"Q: {FORGED}", **words)
    assert refused(asked) == "the question holds <|im_end|>"
    box = OcrBox(text="</s> <s>", confidence=1, polygon=[(0, 0), (9, 0), (9, 9), (0, 9)])
    ocr = [OcrFrame(video="v", frame=0, t=0, width=9, height=9, boxes=[box])]
    asked = Request(question="Which?", options=None, prompt='Text: "</s> <s>"', ocr=ocr, **words)
    assert refused(asked) == "the text that OCR read holds <s>"
    harmless = request(prompt="<think> if a < b: <|im_start| <eot_id>", system="<|im_end")
    repo_common.refuse_marks(harmless, tokenizer, "<image>")


@pytest.mark.slow
def test_code_that_comes_with_weights_may_name_what_is_not_installed(tmp_path):
    remote = pytest.importorskip("transformers").dynamic_module_utils
    file = tmp_path / "modeling.py"
    file.write_text("import json\nimport flash_attn\nimport no_such_package\n")
    with repo_common.remote_code(), pytest.raises(ImportError, match="no_such_package") as refused:
        remote.check_imports(file)
    assert "flash_attn" not in str(refused.value)
    with pytest.raises(ImportError, match="flash_attn"):
        remote.check_imports(file)


# InternVL.


@given(st.integers(40, 2000), st.integers(40, 2000), st.integers(1, 12))
def test_tiles_have_the_shape_nearest_to_the_pictures(height, width, most):
    columns, rows = internvl.grid(height, width, most, 448)
    assert columns * rows <= most
    distance = abs(width / height - columns / rows)
    assert all(distance <= abs(width / height - c / r) for c in range(1, most + 1) for r in range(1, most // c + 1))


def test_a_video_is_a_tile_a_frame_and_a_single_frame_is_cut():
    config = SimpleNamespace(force_image_size=448, max_dynamic_patch=12, use_thumbnail=True)
    pixels, per_frame, used = internvl.prepare(request(3, 720, 1280), config)
    assert (pixels.shape, per_frame) == ((3, 3, 448, 448), [1, 1, 1])
    assert used["frames_note"] == "resized 720x1280 to 448x448"
    white = np.full((896, 1792, 3), 255, np.uint8)
    single = Request("k", [white], [0.5], "", "p", "q", None)
    pixels, per_frame, used = internvl.prepare(single, config)
    assert (per_frame, used["frames_note"]) == ([9], "9 tiles of 448x448"), "4 by 2, and an overview"
    np.testing.assert_allclose(
        pixels[0, :, 0, 0], [(1 - m) / d for m, d in zip(internvl.MEAN, internvl.DEVIATION, strict=True)], rtol=1e-5
    )
    assert internvl.user_message(request(2, prompt="Q")) == "Frame1: <image>\nFrame2: <image>\nQ"


# MiniCPM-V 4.5.


@given(TIMES, st.integers(1, 30))
def test_temporal_ids_are_the_nearest_tenths_of_a_second_in_groups(times, repeat):
    times = times * repeat if len(times) * repeat <= 1080 else times
    groups = minicpm_v.temporal_ids(times)
    assert len(groups) <= 180
    assert max(map(len, groups)) == -(-len(times) // 180)
    flat = [tick for group in groups for tick in group]
    assert len(flat) == len(times)
    assert all(abs(tick / 10 - seconds) <= 0.0501 for tick, seconds in zip(flat, times, strict=True))


def test_more_frames_than_are_packed_are_refused():
    assert minicpm_v.temporal_ids([0.1 * n for n in range(1080)])[0] == [0, 1, 2, 3, 4, 5]
    assert minicpm_v.temporal_ids([0.3, 0.7]) == [[3], [7]]
    with pytest.raises(EngineError, match="1080 frames at most and got 1081"):
        minicpm_v.temporal_ids([0.0] * 1081)


def test_chat_is_told_to_be_greedy_and_how_frames_are_packed():
    options = minicpm_v.chat_options(model(), request(2, system="S"), packing=True)
    assert [options[key] for key in ("sampling", "num_beams", "repetition_penalty", "enable_thinking")] == [
        False,
        1,
        1.0,
        False,
    ]
    assert (options["temporal_ids"], options["max_slice_nums"], options["system_prompt"]) == ([[0], [10]], 1, "S")
    older = minicpm_v.chat_options(model(temperature=0.5), request(2), packing=False)
    assert (older["max_slice_nums"], older["temperature"], "temporal_ids" in older) == (2, 0.5, False)
    assert "max_slice_nums" not in minicpm_v.chat_options(model(), request(1), packing=True), (
        "a single frame is an image"
    )
    with pytest.raises(ConfigError, match="has no thoughts"):
        minicpm_v.check_thinking(model(thinking=True), packing=False)


def test_what_minicpm_puts_in_is_read_off_its_inputs():
    look = minicpm_v.put_in(14, 300)
    sizes, bounds = np.array([[18, 32], [18, 32], [30, 30]]), np.array([[4, 68], [70, 134], [136, 200]])
    inputs = {"input_ids": np.zeros((1, 220)), "tgt_sizes": [sizes], "image_bound": [bounds]}
    used = look((), inputs, None)
    assert used == {"tokens_in": 220, "visual_tokens": 192, "pictures": 3, "height": 252, "width": 448}
    note = minicpm_v.frames_note(request(2, 720, 1280), used, 3, packing=False)
    assert note == "resized 720x1280 to 252x448; 3 pictures of 2 frames: an overview and slices of each"
    assert "200 frames in 100 groups" in minicpm_v.frames_note(request(200, 252, 448), used, 200, packing=True)
    assert look((), {"input_ids": np.zeros((1, 9)), "tgt_sizes": [[]], "image_bound": [[]]}, None)["visual_tokens"] == 0
    with pytest.raises(EngineError, match="exceeds 300 tokens"):
        look((), {**inputs, "input_ids": np.zeros((1, 301))}, None)


# CogVLM2-Video.


@given(st.lists(st.integers(0, 3600), min_size=1, max_size=30), st.lists(st.integers(1000, 1009), max_size=6))
def test_each_frame_gets_its_time_in_place_of_its_number(seconds, words):
    """Also where the words begin with digits."""
    ids, kinds = cogvlm2.with_seconds(*numbered(len(seconds), words), seconds, encode)
    expected = [1] + [token for second in seconds for token in [9] * 66 + encode(str(second))] + words
    assert ids == expected
    assert sum(kinds) == 66 * len(seconds)
    assert [token for token, kind in zip(ids, kinds, strict=True) if kind] == [9] * (66 * len(seconds))


def test_a_prompt_without_numbers_is_not_taken_for_one():
    ids, kinds = numbered(3, [5])
    for seconds in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(EngineError, match="not one that this adapter knows"):
            cogvlm2.with_seconds(ids, kinds, seconds, encode)
    with pytest.raises(EngineError, match="no number behind picture 0"):
        cogvlm2.with_seconds([1, 9, 9, 5], [0, 1, 1, 0], [0], encode)


# VideoLLaMA3.


def test_frames_keep_their_times_and_channels_come_first():
    video = videollama3.conversation(request(2, 20, 30, [0.5, 9.25], system="S"))
    assert video[0] == {"role": "system", "content": "S"}
    content = video[1]["content"][0]
    assert (content["timestamps"], content["num_frames"], content["video"][0].shape) == ([0.5, 9.25], 2, (3, 20, 30))
    (single,) = videollama3.conversation(request(1, 20, 30))
    assert (single["content"][0]["type"], single["content"][0]["image"].shape) == ("image", (20, 30, 3))
    with pytest.raises(EngineError, match="180 frames at most and got 181"):
        videollama3.conversation(request(181, 2, 2))


def test_dropped_tokens_are_counted():
    used = videollama3.measured(request(4, 480, 640), {"grid_sizes": np.array([[4, 24, 32]])}, 14, 768, 100)
    assert (used["height"], used["width"], used["visual_tokens"]) == (336, 448, 668)
    assert used["frames_note"] == (
        "resized 480x640 to 336x448; 100 of 768 visual tokens dropped, like those of the frame before"
    )


# LLaVA-Video and LongVA.


@given(TIMES)
def test_the_time_instruction_has_every_frames_true_time(times):
    text = llava_next.time_instruction(times)
    located = text.split("located at ")[1].rstrip(".").split(",")
    assert [float(one.rstrip("s")) for one in located] == pytest.approx(times, abs=0.0051)
    assert text.startswith(f"The video lasts for {times[-1]:.2f} seconds, and {len(times)} frames ")


def test_the_time_instructions_last_words_come_once():
    """EgoTextVQA's prompt for this model (Table 15) begins with them."""
    own = llava_next.prompt(request(2, times=[0.0, 2.5], prompt="Q"), longva=False)
    assert own == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<image>The video lasts for 2.50 "
        "seconds, and 2 frames are uniformly sampled from it. These frames are located at 0.00s,2.50s.Please answer "
        "the following questions related to this video.\nQ<|im_end|>\n<|im_start|>assistant\n"
    )
    table = llava_next.prompt(request(2, prompt=f"{llava_next.ASK} If you cannot answer"), longva=False)
    assert table.count(llava_next.ASK) == 1
    assert "<image>\nQ" in llava_next.prompt(request(2, prompt="Q"), longva=True)
    assert "<image>" not in llava_next.prompt(request(0), longva=False)
    assert (llava_next.dtypes(model("lmms-lab/LongVA-7B")), llava_next.dtypes(model())[0]) == (("float16",), "bfloat16")


# ShareGPT4Video.


@given(st.integers(1, 30), st.integers(4, 9), st.integers(4, 9))
def test_every_frame_is_in_the_grid_once_and_whole(count, height, width):
    frames = [np.full((height, width, 3), number, np.uint8) for number in range(count)]
    whole, side = sharegpt4video.frame_grid(frames), int(np.ceil(np.sqrt(count)))
    assert whole.shape == (side * height + (side - 1) * 50, side * width + (side - 1) * 50, 3)
    values, pixels = np.unique(whole[..., 0], return_counts=True)
    counts = dict(zip(values.tolist(), pixels.tolist(), strict=True))
    assert all(counts[number] == height * width for number in range(count))
    assert sum(counts.values()) - counts.get(255, 0) == count * height * width, "the rest is white"
