"""LLaVA-Video and LLaVA-NeXT-Video (Qwen2), and LongVA, with their repositories' code (image llava).

As docs/LLaVA_Video_1003.md of LLaVA-NeXT and the README of LongVA show them. LLaVA-Video was trained with a sentence
that gives the video's length and the time of each frame, the last words of which EgoTextVQA's prompt for it (Table 15)
repeats; here both are those of the frames that are shown. LongVA has no place for times, fits frames to 336 x 336 by
their shorter side and cuts off what stands out. A single frame goes as an image, in tiles.

The prompt is written here: llava.conversation asks a hub for Llama 3's tokenizer while it is imported.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scripts.models import repo_common as common
from scripts.models.protocol import Answerer, Reply, Request, one_by_one

VERSION = "2"
PACKAGES = ("transformers", "torch", "pillow")

ATTENTIONS = ("sdpa", "eager")

MARK = "<image>"
ASK = "Please answer the following questions related to this video."
"""Last words of the time instruction."""


def is_longva(model: dict[str, Any]) -> bool:
    return "longva" in model["weights"]["id"].lower()


def dtypes(model: dict[str, Any]) -> tuple[str, ...]:
    """Number types of the family's loader; LongVA's has one."""
    return ("float16",) if is_longva(model) else ("bfloat16", "float16")


def conditions(model: dict[str, Any]) -> dict[str, Any]:
    return common.conditions(model, dtypes(model)[0])


def load(model: dict[str, Any], weights: Path | None, seed: int) -> Answerer:
    """Load the model onto its GPU.

    Raises:
        ConfigError: settings without effect.
        EngineError: no GPU, weights that can't be loaded, or a vision tower that fetch_model did not fetch.
    """
    longva = is_longva(model)
    common.check(model, dtypes(model), ATTENTIONS)
    device, dtype = common.place(model, dtypes(model)[0])
    attention = "sdpa" if model["engine"]["attention"] == "auto" else model["engine"]["attention"]
    assert weights is not None
    common.offline_towers(model, weights)
    common.start(model)
    with common.loading(weights):
        package = "longva" if longva else "llava"
        code = {
            part: importlib.import_module(f"{package}.{part}") for part in ("model.builder", "mm_utils", "constants")
        }
        # The name chooses the network's class; LongVA's loader fixes the number type and would pass another on twice.
        options = {"device_map": "cuda:0"} if longva else {"device_map": "auto", "torch_dtype": dtype}
        tokenizer, network, processor, _ = code["model.builder"].load_pretrained_model(
            str(weights), None, "llava_qwen", attn_implementation=attention, **options
        )
        network.eval()
    seen = common.watch_prompt(network, model)
    name = common.engine_name(device, dtype, attention)

    def answer(request: Request) -> Reply:
        seen.clear()
        with common.asking():
            return ask(network, tokenizer, processor, code, model, request, seed, {"seen": seen, "engine": name})

    return one_by_one(answer)


def ask(
    network: Any,
    tokenizer: Any,
    processor: Any,
    code: dict[str, Any],
    model: dict[str, Any],
    request: Request,
    seed: int,
    place: dict[str, Any],
) -> Reply:
    """One question.

    Args:
        code: the repository's modules.
        place: ``seen``, the list that ``embedded`` fills, and the ``engine``.

    Raises:
        EngineError: a prompt that can't go in.
    """
    import torch

    common.refuse_marks(request, tokenizer, MARK)
    visual, used = pixels(network, processor, code["mm_utils"], request)
    mark = code["constants"].IMAGE_TOKEN_INDEX
    text = prompt(request, is_longva(model))
    ids = code["mm_utils"].tokenizer_image_token(text, tokenizer, mark, return_tensors="pt")
    ids = ids.unsqueeze(0).to(network.device)
    stops = common.stop_ids(tokenizer, "<|im_end|>", also=network.generation_config.eos_token_id)
    settings = common.sampling(model["generation"])
    common.check_room(ids.shape[1], settings["max_new_tokens"], network.config.max_position_embeddings)
    common.seed_if_sampled(model, request, seed)
    with torch.inference_mode():
        written = network.generate(ids, eos_token_id=sorted(stops), pad_token_id=min(stops), **visual, **settings)
    written = written[0].tolist()
    used |= {**common.used_tokens(place["seen"], ids.shape[1]), "engine": place["engine"], "times": request.times}
    used["times_told"] = common.told(request, each=len(request.frames) > 1 and not is_longva(model))
    raw = tokenizer.decode(written, skip_special_tokens=True).strip()
    return common.finish(raw, written, stops, model, used)


def pixels(network: Any, processor: Any, utils: Any, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of ``generate`` that hold the frames, and what was done to them."""
    if not request.frames:
        return {}, {"height": 0, "width": 0}
    given = request.frames[0].shape[:2]
    if len(request.frames) == 1:
        (picture,) = common.pictures(request.frames)
        tiles = utils.process_images([picture], processor, network.config)[0]
        tiles = tiles.to(network.device, network.dtype)
        size = tuple(tiles.shape[-2:])
        done = f"{len(tiles)} tiles of {size[0]}x{size[1]}" if tiles.ndim == 4 and len(tiles) > 1 else ""
        visual = {"images": [tiles], "image_sizes": [picture.size], "modalities": ["image"]}
        return visual, {"height": size[0], "width": size[1], "frames_note": done or common.resized(given, size)}
    video = processor.preprocess(np.stack(list(request.frames)), return_tensors="pt")["pixel_values"]
    size = tuple(video.shape[-2:])
    how = common.cut_off(given) if getattr(processor, "do_center_crop", False) else ""
    visual = {"images": [video.to(network.device, network.dtype)], "modalities": ["video"]}
    return visual, {"height": size[0], "width": size[1], "frames_note": common.resized(given, size, how)}


def prompt(request: Request, longva: bool) -> str:
    """The whole prompt, with a mark where the frames go."""
    count = len(request.frames)
    if not count:
        user = request.prompt
    elif count == 1 or longva:
        user = f"{MARK}\n{request.prompt}"
    else:
        start = "" if request.prompt.startswith(ASK) else f"{ASK}\n"
        user = f"{MARK}{time_instruction(request.times)}{start}{request.prompt}"
    return common.chatml(request.system or common.HELPFUL, user)


def time_instruction(times: Sequence[float]) -> str:
    """What LLaVA-Video was told of every video, without its last words.

    Its length is the time of the last frame that is shown: what comes after the question's moment is not of its video.
    It says "uniformly" whatever the sampler did, because the words are the model's.
    """
    located = ",".join(f"{seconds:.2f}s" for seconds in times)
    return (
        f"The video lasts for {times[-1]:.2f} seconds, and {len(times)} frames are uniformly sampled from it. "
        f"These frames are located at {located}."
    )
