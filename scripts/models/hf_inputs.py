"""What goes into a network of transformers for one question, and what its processor made of the frames.

Frames go in as a video with their true presentation times, or as images with a time before each; one frame is always an
image. Nothing is sampled or thinned here. What was really used is read off the processor's output, not computed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from scripts.lib.errors import ConfigError, EngineError
from scripts.models.hf_engine import Engine, one_line
from scripts.models.protocol import Request

EXACT_FRAMES = {"video_llava": 8}
"""Frames that a video must have, by a network's ``model_type``: other counts run, but were never trained."""

PIXELS = ("pixel_values_videos", "pixel_values_images", "pixel_values")
"""What processors call their pixels; the one there is holds (..., height, width) for processors of a fixed size."""
PER_TOKEN = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")
LIMITS = ("min_pixels", "max_pixels", "pixels_of")
TIME_MARK = re.compile(r"<\d+(?:\.\d+)? seconds>")
"""How Qwen3-VL's processor and ``visual_content`` write a time."""
UNEVEN = 0.01
"""Share by which a gap between frames may differ from the mean before one rate does not tell their times."""


def special_words(tokenizer: Any) -> list[str]:
    """Texts that a tokenizer reads as a token with a meaning of its own, such as the end of a message."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    named = getattr(tokenizer, "all_special_tokens", ())
    words = {*map(str, named), *(token.content for token in added if token.special)}
    return sorted(words - {""}, key=lambda word: (-len(word), word))


def refuse_special(request: Request, words: Iterable[str]) -> None:
    """Words that a data set or OCR brings along must stay words: ``<|im_end|>`` in a question would end the message.

    Raises:
        EngineError: one of ``words`` stands in what the model would read; says which one and where it comes from.
    """
    word = next((word for word in words if word in request.system or word in request.prompt), None)
    if word is None:
        return
    places = {"the question": request.question, "the system message": request.system}
    places |= {f"option {chr(ord('A') + number)}": text for number, text in enumerate(request.options or ())}
    read = [box.text for frame in request.ocr or () for box in frame.boxes]
    places["the text that OCR read"] = "\n".join(read)
    where = next((place for place, text in places.items() if word in text), "the prompt's own wording")
    raise EngineError(f"{where} holds {word}, which is no text to this model but a mark of its own format; reword it")


def takes_any_size(processor: Any) -> bool:
    """Whether frames keep their size within limits (Qwen-VL), rather than get the one that the network was made for."""
    return hasattr(processor.image_processor, "merge_size")


def check_settings(engine: Engine) -> None:
    """Refuse settings that this model's processor would silently ignore or undo.

    Raises:
        ConfigError: pixel limits for a processor of one fixed size, or none for one that has them; a time before each
            image for a chat template that puts all images before all text.
        EngineError: the template can't write the messages at all.
    """
    settings = engine.model["input"]
    where = f"config/models/{engine.model.get('name')}.yaml: input"
    given = [key for key in LIMITS if key in settings]
    if takes_any_size(engine.processor):
        if len(given) < len(LIMITS):
            raise ConfigError(f"{where}: this model takes frames of any size; set {', '.join(LIMITS)}")
    elif given:
        part = engine.processor.image_processor
        raise ConfigError(f"{where}: {', '.join(given)} have no effect, frames get size {part.size}; remove them")
    if settings["image_times"]:
        probe = Request("", [None, None], [1.0, 2.0], "", "", "", None)  # type: ignore[list-item]
        image = re.escape(engine.processor.image_token)
        found = re.findall(rf"<\d\.0 seconds>|{image}", prompt_text(engine, probe, as_images=True))
        if found[::2] != ["<1.0 seconds>", "<2.0 seconds>"] or len(found) != 4:
            raise ConfigError(
                f"{where}: the chat template puts images before the text, so no time can stand before each; "
                "set image_times: false"
            )


def goes_as_images(engine: Engine, request: Request) -> bool:
    return engine.model["input"]["frames_as"] == "images" or len(request.frames) == 1


def kind(engine: Engine, request: Request) -> str:
    """Requests of one kind fit into one batch: as many pixels within a factor of two, in the same form.

    Networks of a fixed frame size stack videos, so theirs have the same number of frames.
    """
    count = len(request.frames)
    if not count:
        return "no frames"
    bits = sum(frame.shape[0] * frame.shape[1] for frame in request.frames).bit_length()
    load = f"up to 2^{bits} pixels"
    if goes_as_images(engine, request):
        return f"images, {load}"
    return f"video, {load}" if takes_any_size(engine.processor) else f"video of {count} frames, {load}"


def prepare(engine: Engine, request: Request) -> tuple[Any, dict[str, Any]]:
    """The network's inputs (one row), and what was really used: times, height, width, visual tokens, note, tokens.

    Raises:
        EngineError: a number of frames the model can't take; a prompt that holds a mark of the model's format, that the
            processor refuses, or that leaves no room for the reply in the model's context.
    """
    placeholders = (getattr(engine.processor, name, None) for name in ("image_token", "video_token"))
    refuse_special(request, [*special_words(engine.processor.tokenizer), *filter(None, placeholders)])
    as_images = goes_as_images(engine, request)
    exact = EXACT_FRAMES.get(engine.network.config.model_type)
    if exact and request.frames and not as_images and len(request.frames) != exact:
        raise EngineError(
            f"this model takes videos of exactly {exact} frames and got {len(request.frames)}; choose a sampler that "
            f"gives {exact} (or one, which goes as an image)"
        )
    text = prompt_text(engine, request, as_images)
    visual: dict[str, Any] = {}
    if request.frames:
        visual = images(engine, request) if as_images else video(engine.processor, request, engine.model["input"])
    try:
        inputs = engine.processor(text=[text], return_tensors="pt", **visual)
    except (RuntimeError, ValueError, IndexError, StopIteration) as error:
        raise EngineError(one_line(error)) from None
    length, room = inputs["input_ids"].shape[1], engine.model["generation"]["max_new_tokens"]
    context = getattr(engine.network.config.get_text_config(), "max_position_embeddings", None)
    if context and length + room > context:
        raise EngineError(
            f"the prompt and {room} new tokens exceed the context of {context}; use fewer or smaller frames"
        )
    return inputs, {**measure(engine, inputs, request, as_images), "times": request.times, "tokens_in": length}


def prompt_text(engine: Engine, request: Request, as_images: bool) -> str:
    """The whole prompt in the model's own chat template, a placeholder for each image or video.

    Raises:
        EngineError: no template, or one that refuses the messages.
    """
    import jinja2

    content = visual_content(request, as_images, engine.model["input"]["image_times"])
    messages = [{"role": "user", "content": [*content, {"type": "text", "text": request.prompt}]}]
    if request.system:
        messages.insert(0, {"role": "system", "content": [{"type": "text", "text": request.system}]})
    try:
        text = engine.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except (ValueError, jinja2.TemplateError) as error:
        raise EngineError(f"the model's chat template: {one_line(error)}") from None
    return unwrapped(engine.processor, text)


def unwrapped(processor: Any, text: str) -> str:
    """The prompt without the marks around a video placeholder, where the processor writes them itself.

    Qwen3-VL was trained on ``<0.5 seconds><|vision_start|>...<|vision_end|>`` per pair of frames. Its processor puts
    that in for the whole of placeholder and marks in transformers 4.57, and only for the placeholder in 5: the chat
    template's own marks would stay around all of it.
    """
    if not hasattr(processor, "vision_start_token"):
        return text
    wrapped = f"{processor.vision_start_token}{processor.video_token}{processor.vision_end_token}"
    return text.replace(wrapped, processor.video_token)


def visual_content(request: Request, as_images: bool, image_times: bool) -> list[dict[str, str]]:
    """The message parts that stand for the frames; a time before each image, in the form Qwen3-VL writes for videos."""
    if not request.frames:
        return []
    if not as_images:
        return [{"type": "video"}]
    parts = []
    for seconds in request.times:
        if image_times:
            parts.append({"type": "text", "text": f"<{seconds:.1f} seconds>"})
        parts.append({"type": "image"})
    return parts


def images(engine: Engine, request: Request) -> dict[str, Any]:
    """Arguments that pass the frames as images.

    A model that cuts an image into tiles does so with a single frame; several get one tile each, as it was trained.
    """
    part, frames = engine.processor.image_processor, list(request.frames)
    if takes_any_size(engine.processor):
        return {"images": frames, "images_kwargs": {"size": limits(engine.model["input"], 1)}}
    if hasattr(part, "image_grid_pinpoints"):  # LLaVA-OneVision takes images of a flat list as one of a question each
        return {"images": [frames]}
    if hasattr(part, "crop_to_patches") and len(frames) > 1:
        return {"images": frames, "images_kwargs": {"crop_to_patches": False}}
    return {"images": frames}


def video(processor: Any, request: Request, settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments that pass two or more frames as one video, without any sampling by the processor.

    Where a temporal patch holds two frames, an odd number gets its last one twice; its time mark stays.
    """
    import numpy as np

    frames = list(request.frames)
    options: dict[str, Any] = {"do_sample_frames": False}
    if takes_any_size(processor):
        if len(frames) % processor.video_processor.temporal_patch_size:
            frames.append(frames[-1])
        options["size"] = limits(settings, len(frames))
    if hasattr(processor.video_processor, "cap_pixels_per_frame"):
        options["cap_pixels_per_frame"] = False  # its default changes between versions of transformers
    return {
        "videos": [np.stack(frames)],
        "videos_kwargs": {**options, "video_metadata": [clock(request.times, len(frames))]},
    }


def clock(times: Sequence[float], frames: int) -> dict[str, Any]:
    """Metadata of a clip whose frame k lies at ``times[k]`` seconds, exactly, and any further one where the last does.

    Processors compute a frame's time as index / fps: with 1 fps the index is the time itself, whatever the spacing.
    Qwen2.5-VL instead takes one mean rate, frames / (total_num_frames / fps), which is made the true mean spacing here:
    that of ``times``, to which a doubled frame adds nothing.
    """
    spacing = (times[-1] - times[0]) / max(1, len(times) - 1) or 1.0
    length, indices = spacing * frames, [*times, *[times[-1]] * (frames - len(times))]
    return {"fps": 1.0, "frames_indices": indices, "total_num_frames": length, "duration": length}


def limits(settings: dict[str, Any], frames: int) -> dict[str, int]:
    """Pixel limits in the processor's words; some count the pixels of one frame, some those of the whole clip."""
    factor = frames if settings["pixels_of"] == "clip" else 1
    return {"shortest_edge": settings["min_pixels"] * factor, "longest_edge": settings["max_pixels"] * factor}


def measure(engine: Engine, inputs: Any, request: Request, as_images: bool) -> dict[str, Any]:
    """Height, width and visual tokens of what goes into the network, and what became of the frames on the way."""
    if not request.frames:
        return {"height": 0, "width": 0, "visual_tokens": 0}
    part = engine.processor.image_processor if as_images else engine.processor.video_processor
    grid = inputs.get("image_grid_thw" if as_images else "video_grid_thw")
    if grid is not None:
        height, width = (int(value) * part.patch_size for value in grid[0, 1:])
        count = len(grid) if as_images else int(grid[0, 0]) * part.temporal_patch_size
    else:
        pixels = next(inputs[name] for name in PIXELS if name in inputs)
        *stack, _, height, width = pixels.shape
        count = int(pixels.shape[:-3].numel()) if stack else 1
    named = (getattr(engine.network.config, name, None) for name in ("image_token_id", "video_token_id"))
    tokens = sum(int((inputs["input_ids"] == token).sum()) for token in named if token is not None)
    note = frames_note(part, request, (height, width), count, as_images)
    told = times_told(engine, inputs, request, as_images)
    if told == "rate" and uneven(request.times):
        note = "; ".join(filter(None, [note, "times told as one rate"]))
    used = {"height": height, "width": width, "visual_tokens": tokens, "frames_note": note}
    return {**used, "times_told": told}


def times_told(engine: Engine, inputs: Any, request: Request, as_images: bool) -> str:
    """``each``, ``rate`` or ``none``, as in ``Reply``, of what goes into the network.

    Qwen3-VL writes a time for every two frames that share their tokens, which is that of both. Further forms in which a
    processor of transformers may write times are not known here and count as none.
    """
    if as_images:
        return "each" if engine.model["input"]["image_times"] else "none"
    if "second_per_grid_ts" in inputs:
        return "rate"
    config, ids = engine.network.config, inputs["input_ids"][0].tolist()
    pixels = {getattr(config, name, None) for name in ("image_token_id", "video_token_id")}
    text = engine.processor.tokenizer.decode([token for token in ids if token not in pixels])
    own = len(TIME_MARK.findall(request.system)) + len(TIME_MARK.findall(request.prompt))
    return "each" if len(TIME_MARK.findall(text)) > own else "none"


def uneven(times: Sequence[float]) -> bool:
    """Whether some gap between frames differs from the mean one by more than ``UNEVEN`` of it."""
    gaps = [after - before for before, after in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    return any(abs(gap - mean) > UNEVEN * mean for gap in gaps)


def frames_note(part: Any, request: Request, size: tuple[int, int], count: int, as_images: bool) -> str:
    """What a processor did to the frames, in one line; empty where the network got them as they were.

    Args:
        part: the image or video processor.
        size: height and width of each of the ``count`` pictures that go into the network.
    """
    (above, across), given = request.frames[0].shape[:2], len(request.frames)
    used = f"{size[0]}x{size[1]}"
    notes = []
    if as_images and count > given:
        notes.append(f"{count} tiles of {used}")
    elif size != (above, across):
        cut = getattr(part, "do_center_crop", False) and above != across
        sides = "top and bottom" if above > across else "sides"
        notes.append(f"resized {above}x{across} to {used}" + (f", {sides} cut off" if cut else ""))
    if count < given:
        notes.append(f"{given - count} of {given} frames dropped")
    elif not as_images and count == given + 1:
        notes.append("last frame doubled")
    elif not as_images and count > given:
        notes.append(f"{given} frames became {count}")
    return "; ".join(notes)


def collate(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One batch out of the inputs of several requests of one kind, each exactly as it would be alone.

    Shorter prompts are padded at the left, with their own first token: the mask hides it, and a repetition penalty
    meets no token there that the prompt hasn't got. Of images cut into tiles, those with fewer get empty tiles, which
    the network drops.
    """
    import torch
    from torch.nn.functional import pad

    length = max(row["input_ids"].shape[1] for row in rows)
    joined: dict[str, Any] = {}
    for name in rows[0]:
        values = [torch.as_tensor(row[name]) for row in rows]
        if name in PER_TOKEN:
            filling = [int(value[0, 0]) if name == "input_ids" else 0 for value in values]
            missing = [length - value.shape[1] for value in values]
            values = [
                pad(value, (gap, 0), value=fill) for value, gap, fill in zip(values, missing, filling, strict=True)
            ]
        elif values[0].ndim == 5:
            tiles = max(value.shape[1] for value in values)
            values = [pad(value, (0, 0, 0, 0, 0, 0, 0, tiles - value.shape[1])) for value in values]
        joined[name] = torch.cat(values)
    return joined
