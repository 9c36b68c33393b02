"""VideoLLaMA3-7B, whose code comes with the weights (image videollama3).

As the README shows it, but with decoded frames and their true times where that has a path: its processor writes
``Time 1.0s:`` before each frame, shrinks all frames together to 16384 tokens, and its network drops the tokens of a
frame that are like those of the frame before. Its authors show it 180 frames at most. A single frame goes as an image.
"""

from pathlib import Path
from typing import Any

import numpy as np

from scripts.lib.errors import EngineError
from scripts.models import repo_common as common
from scripts.models.protocol import Answerer, Reply, Request, one_by_one

VERSION = "2"
PACKAGES = ("transformers", "torch", "pillow")

DTYPES = ("bfloat16", "float16")
ATTENTIONS = ("sdpa",)  # beside flash-attn, which the image has not

MARK = "<image>"
MOST = 180
"""Frames (max_frames of the README's example)."""


def conditions(model: dict[str, Any]) -> dict[str, Any]:
    return common.conditions(model, DTYPES[0])


def load(model: dict[str, Any], weights: Path | None, seed: int) -> Answerer:
    """Load the model onto its GPU.

    Raises:
        ConfigError: settings without effect.
        EngineError: no GPU, or weights that can't be loaded.
    """
    common.check(model, DTYPES, ATTENTIONS)
    device, dtype = common.place(model, DTYPES[0])
    import torch
    import transformers

    common.start(model)
    with common.loading(weights), common.remote_code():
        options = {"trust_remote_code": True, "local_files_only": True}
        processor = transformers.AutoProcessor.from_pretrained(weights, **options)
        network = transformers.AutoModelForCausalLM.from_pretrained(
            weights, torch_dtype=getattr(torch, dtype), attn_implementation=ATTENTIONS[0], **options
        )
        network = network.to(device).eval()
    seen = common.watch(
        network, "prepare_inputs_labels_for_multimodal", after=lambda _args, _kwargs, made: length(made)
    )
    name = common.engine_name(device, dtype, ATTENTIONS[0])

    def answer(request: Request) -> Reply:
        seen.clear()
        with common.asking():
            return ask(network, processor, model, request, seed, {"seen": seen, "engine": name})

    return one_by_one(answer)


def length(made: Any) -> int | None:
    """Tokens that go into the language model, from what ``prepare_inputs_labels_for_multimodal`` gives."""
    return None if made[4] is None else int(made[4].shape[1])


def ask(
    network: Any, processor: Any, model: dict[str, Any], request: Request, seed: int, place: dict[str, Any]
) -> Reply:
    """One question.

    Args:
        place: ``seen``, the list that ``length`` fills, and the ``engine``.

    Raises:
        EngineError: a prompt that can't go in.
    """
    import torch

    common.refuse_marks(request, processor.tokenizer, MARK)
    inputs = processor(
        conversation=conversation(request), add_system_prompt=True, add_generation_prompt=True, return_tensors="pt"
    )
    settings = common.sampling(model["generation"])
    before = int(inputs["input_ids"].shape[1])
    pictures = int((inputs["input_ids"] == network.config.image_token_index).sum())
    common.check_room(before, settings["max_new_tokens"], network.config.max_position_embeddings)
    on_device = {key: value.to(network.device) if torch.is_tensor(value) else value for key, value in inputs.items()}
    if "pixel_values" in on_device:
        on_device["pixel_values"] = on_device["pixel_values"].to(network.dtype)
    common.seed_if_sampled(model, request, seed)
    stops = common.stop_ids(processor.tokenizer, also=network.generation_config.eos_token_id)
    with torch.inference_mode():
        written = network.generate(**on_device, **settings)[0].tolist()
    written = common.reply_only(written, inputs["input_ids"][0].tolist())
    after = place["seen"][0] if place["seen"] else before
    raw = processor.tokenizer.decode(written, skip_special_tokens=True).strip()
    used = measured(request, inputs, processor.image_processor.patch_size, pictures, before - after)
    used |= {"tokens_in": after, "engine": place["engine"], "times": request.times}
    used["times_told"] = common.told(request, each=len(request.frames) > 1)
    return common.finish(raw, written, stops, model, used)


def conversation(request: Request) -> list[dict[str, Any]]:
    """The messages as the processor takes them after it has read a file.

    Frames are arrays of channels x height x width, as its own reader makes them: of PIL images it takes the width for
    the height.

    Raises:
        EngineError: more frames than its authors show it.
    """
    count = len(request.frames)
    if count > MOST:
        raise EngineError(f"this model is made for {MOST} frames at most and got {count}; use fewer")
    content: list[dict[str, Any]] = [{"type": "text", "text": request.prompt}]
    if count == 1:
        content.insert(0, {"type": "image", "image": request.frames[0]})
    elif count:
        frames = [np.ascontiguousarray(frame.transpose(2, 0, 1)) for frame in request.frames]
        video = {"type": "video", "video": frames, "num_frames": count, "timestamps": list(request.times)}
        content.insert(0, video)
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, {"role": "user", "content": content}]


def measured(request: Request, inputs: Any, patch: int, pictures: int, dropped: int) -> dict[str, Any]:
    """Size of the frames that go in, visual tokens, and what became of them.

    Args:
        patch: pixels along a patch.
        pictures: tokens of the frames before like ones are dropped.
        dropped: tokens that the network dropped.
    """
    if not request.frames:
        return {"height": 0, "width": 0, "visual_tokens": 0}
    count, height, width = (int(value) for value in inputs["grid_sizes"][0])
    size = (height * patch, width * patch)
    given = len(request.frames)
    lost = f"{given - count} of {given} frames dropped" if count < given else ""
    like = f"{dropped} of {pictures} visual tokens dropped, like those of the frame before" if dropped else ""
    note = common.note(common.resized(request.frames[0].shape[:2], size), lost, like)
    return {"height": size[0], "width": size[1], "visual_tokens": pictures - dropped, "frames_note": note}
