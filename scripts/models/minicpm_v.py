"""MiniCPM-V 2.6 and 4.5, whose code comes with the weights (images minicpm and minicpm4_5).

As their READMEs show it. 2.6 takes a video as images without numbers, each larger than 448 x 448 as an overview and up
to two slices. 4.5 gets one picture per frame and, through ``temporal_ids``, the time of each in tenths of a second; up
to 180 frames stand alone, more are packed so that the 64 tokens of one stand for up to 6. A single frame goes in as an
image, in up to 9 slices. ``chat`` builds the prompt; two calls inside it tell what went in and what came out.
"""

import math
from pathlib import Path
from typing import Any

from scripts.lib.errors import ConfigError, EngineError
from scripts.models import repo_common as common
from scripts.models.hf_engine import samples
from scripts.models.protocol import Answerer, Reply, Request, one_by_one

VERSION = "2"
PACKAGES = ("transformers", "torch", "pillow")

DTYPES = ("bfloat16", "float16")
ATTENTIONS = ("sdpa",)  # "sdpa or flash_attention_2, no eager" (README); the images have no flash-attn

MARK = "<image>./</image>"
GROUPS, PACKED = 180, 6
"""Of 4.5: groups of frames at most, and frames in one."""
TICK = 0.1
"""Seconds that one temporal id stands for."""
SLICES_2_6 = 2


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
        tokenizer = transformers.AutoTokenizer.from_pretrained(weights, **options)
        network = transformers.AutoModel.from_pretrained(
            weights, torch_dtype=getattr(torch, dtype), attn_implementation=ATTENTIONS[0], **options
        )
        network = network.to(device).eval()
    check_thinking(model, packs(network))
    place = watched(network, model, common.engine_name(device, dtype, ATTENTIONS[0]))

    def answer(request: Request) -> Reply:
        with common.asking():
            return ask(network, tokenizer, model, request, seed, place)

    return one_by_one(answer)


def watched(network: Any, model: dict[str, Any], name: str) -> dict[str, Any]:
    """``seen``, a list that receives what goes into the network, ``heard``, one of the tokens that it writes, the
    ``limit`` of tokens that a prompt may have, and the ``engine``."""
    limit = network.config.max_position_embeddings - model["generation"]["max_new_tokens"]
    seen = common.watch(network, "generate", before=put_in(network.config.patch_size, limit))
    heard = common.watch(network.llm, "generate", after=lambda _args, _kwargs, result: result[0].tolist())
    return {"seen": seen, "heard": heard, "limit": limit, "engine": name}


def ask(
    network: Any, tokenizer: Any, model: dict[str, Any], request: Request, seed: int, place: dict[str, Any]
) -> Reply:
    """One question.

    Args:
        place: as ``watched`` gives it.

    Raises:
        EngineError: a prompt that can't go in.
    """
    common.refuse_marks(request, tokenizer, MARK)
    place["seen"].clear()
    place["heard"].clear()
    options = chat_options(model, request, packs(network))
    common.seed_if_sampled(model, request, seed)
    # One token more than may go in: chat cuts off without a word, and a prompt of that length is then seen and refused.
    raw = network.chat(image=None, tokenizer=tokenizer, max_inp_length=place["limit"] + 1, **options)
    used = {**place["seen"][-1], "times": request.times, "engine": place["engine"]}
    used["times_told"] = common.told(request, each="temporal_ids" in options)
    used["frames_note"] = frames_note(request, used, used.pop("pictures"), packs(network))
    stops = common.stop_ids(tokenizer, *network.terminators)
    return common.finish(raw, place["heard"][-1], stops, model, used)


def packs(network: Any) -> bool:
    """Whether this is 4.5, whose resampler joins frames."""
    return hasattr(network.config, "batch_3d_resampler")


def check_thinking(model: dict[str, Any], packing: bool) -> None:
    """Refuse what ``chat`` has no place for.

    Raises:
        ConfigError: thinking in 2.6; top_p, top_k or repetition_penalty beside it in 4.5.
    """
    settings = model["generation"]
    where = f"config/models/{model.get('name')}.yaml: generation"
    if settings["thinking"] and not packing:
        raise ConfigError(f"{where}.thinking: this model has no thoughts; set false")
    lost = [key for key in ("top_p", "top_k", "repetition_penalty") if key in settings]
    if settings["thinking"] and samples(settings) and lost:
        raise ConfigError(f"{where}: {', '.join(lost)} have no effect while it thinks; remove them")


def chat_options(model: dict[str, Any], request: Request, packing: bool) -> dict[str, Any]:
    """Arguments of ``chat`` that depend on the question and the YAML.

    Raises:
        EngineError: more frames than the model packs.
    """
    settings, count = model["generation"], len(request.frames)
    options: dict[str, Any] = {
        "msgs": [{"role": "user", "content": [*common.pictures(request.frames), request.prompt]}],
        "max_new_tokens": settings["max_new_tokens"],
        "system_prompt": request.system,
        "sampling": samples(settings),
        "repetition_penalty": settings.get("repetition_penalty", 1.0),
    }
    if samples(settings):
        options |= {
            key: settings.get(key, value) for key, value in (("temperature", 1.0), ("top_p", 1.0), ("top_k", 0))
        }
    else:
        options["num_beams"] = 1  # chat has 3 and a penalty of 1.2 where nothing is said
    if packing:
        options["enable_thinking"] = settings["thinking"]
    if count > 1:
        options |= {"use_image_id": False, "max_slice_nums": 1 if packing else SLICES_2_6}
        if packing:
            options["temporal_ids"] = temporal_ids(request.times)
    return options


def temporal_ids(times: Any) -> list[list[int]]:
    """The times of the frames in ticks, in groups that share their tokens.

    The README rounds down after a division by 0.1, which turns 0.3 s into 2 ticks; here the nearest tick is taken.

    Raises:
        EngineError: more frames than fit into the groups.
    """
    size = math.ceil(len(times) / GROUPS)
    if size > PACKED:
        raise EngineError(f"this model packs {GROUPS * PACKED} frames at most and got {len(times)}; use fewer")
    ticks = [round(seconds / TICK) for seconds in times]
    return [ticks[first : first + size] for first in range(0, len(ticks), size)]


def put_in(patch: int, limit: int) -> common.Look:
    """A look at ``generate``: tokens, visual tokens, and height, width and number of the pictures that go in.

    Args:
        patch: pixels along a patch.
        limit: tokens of the longest prompt; ``chat`` cuts off what exceeds one more than these.

    Raises:
        EngineError: a longer prompt, from its look.
    """

    def look(_args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any) -> dict[str, Any]:
        # Patches along both sides of each picture; a list without tensors where there is none.
        sizes = [size for of_prompt in kwargs["tgt_sizes"] for size in getattr(of_prompt, "tolist", list)()]
        length = int(kwargs["input_ids"].shape[1])
        if length > limit:
            raise EngineError(f"the prompt exceeds {limit} tokens; use fewer or smaller frames")
        visual = sum(int(end) - int(first) for first, end in kwargs["image_bound"][0]) if sizes else 0
        height, width = (side * patch for side in sizes[0]) if sizes else (0, 0)
        counts = {"tokens_in": length, "visual_tokens": visual, "pictures": len(sizes)}
        return {**counts, "height": height, "width": width}

    return look


def frames_note(request: Request, used: dict[str, Any], pictures: int, packing: bool) -> str:
    """What became of the frames: their size, slices and groups."""
    count = len(request.frames)
    if not count:
        return ""
    done = common.resized(request.frames[0].shape[:2], (used["height"], used["width"]))
    sliced = f"{pictures} pictures of {count} frames: an overview and slices of each" if pictures > count else ""
    groups = len(temporal_ids(request.times)) if packing and count > 1 else count
    packed = f"{count} frames in {groups} groups that share their tokens" if groups < count else ""
    return common.note(done, sliced, packed)
