"""CogVLM2-Video (cogvlm2-video-llama3-chat), whose code comes with the weights (image cogvlm2).

As the authors' video_demo shows it. Behind the tokens of each frame that code writes the frame's number, which is its
time in seconds, because the demo takes a frame a second; here the number is the frame's true time, to the second.
Frames are fitted to 224 x 224 by their shorter side, and what stands out is cut off. The demo shows up to 24 frames;
the context of 8192 tokens holds about 110.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scripts.lib.errors import EngineError
from scripts.models import repo_common as common
from scripts.models.protocol import Answerer, Reply, Request, one_by_one

VERSION = "2"
PACKAGES = ("transformers", "torch", "pytorchvideo", "xformers")

DTYPES = ("bfloat16", "float16")
ATTENTIONS = ()  # its code knows one kind

TEMPLATE = "chat"
PAD = 128002
"""What stands for a picture's tokens, and pads."""


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
        network = transformers.AutoModelForCausalLM.from_pretrained(
            weights, torch_dtype=getattr(torch, dtype), low_cpu_mem_usage=True, **options
        )
        network = network.to(device).eval()
    name = common.engine_name(device, dtype)

    def answer(request: Request) -> Reply:
        with common.asking():
            return ask(network, tokenizer, model, request, seed, name)

    return one_by_one(answer)


def ask(network: Any, tokenizer: Any, model: dict[str, Any], request: Request, seed: int, name: str) -> Reply:
    """One question.

    Raises:
        EngineError: a prompt that can't go in.
    """
    import torch

    common.refuse_marks(request, tokenizer)
    built = network.build_conversation_input_ids(
        tokenizer=tokenizer,
        query="\n".join(filter(None, [request.system, request.prompt])),
        images=[clip(request)] if request.frames else None,
        history=[],
        template_version=TEMPLATE,
    )
    seconds = [round(time) for time in request.times]
    ids, types = built["input_ids"].tolist(), built["token_type_ids"].tolist()
    if request.frames:
        ids, types = with_seconds(ids, types, seconds, lambda text: tokenizer.encode(text, add_special_tokens=False))
    settings = common.sampling(model["generation"])
    common.check_room(len(ids), settings["max_new_tokens"], network.config.max_position_embeddings)
    inputs = {"input_ids": torch.tensor([ids]), "token_type_ids": torch.tensor([types])}
    inputs = {key: value.to(network.device) for key, value in inputs.items()}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if request.frames:
        inputs["images"] = [[built["images"][0].to(network.device, network.dtype)]]
    common.seed_if_sampled(model, request, seed)
    with torch.inference_mode():
        written = network.generate(**inputs, pad_token_id=PAD, **settings)[0, len(ids) :].tolist()
    stops = common.stop_ids(tokenizer, also=network.generation_config.eos_token_id)
    raw = tokenizer.decode(written, skip_special_tokens=True).strip()
    used = {**measured(request, built.get("images")), "times": [float(second) for second in seconds]}
    used |= {"visual_tokens": sum(types), "tokens_in": len(ids), "engine": name}
    used["times_told"] = common.told(request, each=True)  # to the second
    return common.finish(raw, written, stops, model, used)


def clip(request: Request) -> Any:
    """The frames as the demo's decoder gives them: channels x frames x height x width, 0 to 255."""
    import torch

    return torch.from_numpy(np.stack(list(request.frames))).permute(3, 0, 1, 2)


def measured(request: Request, images: Any) -> dict[str, Any]:
    """Size of what goes in (frames x channels x height x width), and what became of the frames."""
    if not request.frames:
        return {"height": 0, "width": 0}
    count, _, height, width = images[0].shape
    given = request.frames[0].shape[:2]
    dropped = (
        f"{len(request.frames) - count} of {len(request.frames)} frames dropped" if count < len(request.frames) else ""
    )
    done = common.resized(given, (height, width), common.cut_off(given))
    return {"height": height, "width": width, "frames_note": common.note(done, dropped)}


def with_seconds(
    ids: Sequence[int], types: Sequence[int], seconds: Sequence[int], encode: Callable[[str], list[int]]
) -> tuple[list[int], list[int]]:
    """The prompt with each frame's time in the place of its number.

    Args:
        ids, types: tokens of the prompt, and 1 for each that is a picture's, 0 for words. Behind the tokens of frame k
            stand those of the number k.
        encode: tokens of a text, without any that mark its start.

    Raises:
        EngineError: the prompt isn't of that form.
    """
    new_ids: list[int] = []
    new_types: list[int] = []
    place, frame = 0, 0
    while place < len(ids):
        new_ids.append(ids[place])
        new_types.append(types[place])
        last_of_frame = types[place] == 1 and (place + 1 == len(ids) or types[place + 1] == 0)
        place += 1
        if not last_of_frame:
            continue
        number = encode(str(frame))
        if frame >= len(seconds) or list(ids[place : place + len(number)]) != number:
            break
        time = encode(str(seconds[frame]))
        new_ids.extend(time)
        new_types.extend([0] * len(time))
        place += len(number)
        frame += 1
    if place < len(ids) or frame != len(seconds):
        raise EngineError(
            f"the model's own code wrote no number behind picture {frame} of {len(seconds)}; its revision is not one "
            "that this adapter knows"
        )
    return new_ids, new_types
