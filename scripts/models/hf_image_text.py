"""Vision-language models that transformers loads by itself (AutoModelForImageTextToText), from a local folder.

Frames go in as a video with their true presentation times, or as images with a time before each. Nothing is sampled or
thinned here, sizes change only within the limits of the model's YAML, and what was really used is reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.lib import torchvision_cpu
from scripts.lib.cache import fingerprint
from scripts.lib.errors import EngineError
from scripts.models.answers import answer_text, is_unanswerable
from scripts.models.protocol import Answerer, Reply, Request

VERSION = "2"
PACKAGES = ("transformers", "torch", "torchvision")

PLACEHOLDERS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
"""Names in a model's configuration of tokens that stand for pixels; a reply must not contain them."""


@dataclass(frozen=True)
class Engine:
    """A loaded model."""

    model: dict[str, Any]
    """The content of its YAML."""
    processor: Any
    network: Any
    device: str
    name: str
    """Versions, device, GPU, number type and attention, for the record."""


def load(model: dict[str, Any], weights: Path | None, seed: int) -> Answerer:
    """Load the model onto its device.

    Raises:
        EngineError: no such device, or a folder that transformers can't load.
    """
    engine = open_engine(model, weights)
    return lambda request: answer(engine, request, seed)


def open_engine(model: dict[str, Any], weights: Path | None) -> Engine:
    """See ``load``."""
    torchvision_cpu.install()
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    settings = model["engine"]
    if settings["threads"]:
        torch.set_num_threads(settings["threads"])
    device, dtype = placement(settings)
    attention = None if settings["attention"] == "auto" else settings["attention"]
    try:
        processor = transformers.AutoProcessor.from_pretrained(weights, local_files_only=True)
        network = transformers.AutoModelForImageTextToText.from_pretrained(
            weights, dtype=getattr(torch, dtype), attn_implementation=attention, local_files_only=True
        )
        network = network.to(device).eval()
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        raise EngineError(f"{weights}: {one_line(error)}; fetch or build the weights again, or use the image") from None
    network.generation_config = generation_config(model["generation"], network)
    place = " ".join(filter(None, [device, gpu_name(device), dtype, network.config._attn_implementation]))
    name = f"transformers {transformers.__version__}, torch {torch.__version__}, {place}"
    return Engine(model, processor, network, device, name)


def placement(settings: dict[str, Any]) -> tuple[str, str]:
    """Device and number type: ``auto`` is CUDA with bfloat16 where there is a GPU, else the CPU with float32.

    Raises:
        EngineError: ``device: cuda`` without a GPU.
    """
    device = settings["device"]
    if device != "cpu":
        import torch

        if torch.cuda.is_available():
            device = "cuda"
        elif device == "cuda":
            raise EngineError(
                "the model's YAML asks for device cuda and there is none; set device: auto, or use a GPU node"
            )
        else:
            device = "cpu"
    dtype = settings["dtype"] if settings["dtype"] != "auto" else "bfloat16" if device == "cuda" else "float32"
    return device, dtype


def gpu_name(device: str) -> str:
    """As the driver tells it, e.g. ``NVIDIA H200``; empty for the CPU."""
    if device == "cpu":
        return ""
    import torch

    return str(torch.cuda.get_device_name())


def conditions(model: dict[str, Any]) -> dict[str, Any]:
    """Where the model would run now, each ``auto`` resolved: another GPU or number type may give other answers.

    Attention ``auto`` stays: what it means follows from the model and the version of transformers.

    Raises:
        EngineError: as ``placement``.
    """
    device, dtype = placement(model["engine"])
    return {"device": device, "gpu": gpu_name(device), "dtype": dtype, "attention": model["engine"]["attention"]}


def generation_config(settings: dict[str, Any], network: Any) -> Any:
    """What the YAML says and nothing else: a checkpoint's own defaults (sampling, repetition penalty) are dropped.

    Greedy where the YAML gives no temperature, or 0.
    """
    from transformers import GenerationConfig

    known, config = network.generation_config, network.config
    sampling = bool(settings.get("temperature"))
    chosen = {key: settings[key] for key in ("temperature", "top_p", "top_k") if sampling and key in settings}
    if "repetition_penalty" in settings:
        chosen["repetition_penalty"] = settings["repetition_penalty"]
    suppressed = [getattr(config, name) for name in PLACEHOLDERS if getattr(config, name, None) is not None]
    return GenerationConfig(
        max_new_tokens=settings["max_new_tokens"],
        do_sample=sampling,
        suppress_tokens=suppressed or None,
        eos_token_id=known.eos_token_id,
        pad_token_id=known.pad_token_id,
        bos_token_id=known.bos_token_id,
        **chosen,
    )


def answer(engine: Engine, request: Request, seed: int) -> Reply:
    """The model's reply to one request.

    Raises:
        EngineError: out of memory, or any other failure of the engine, in one line.
    """
    import torch

    try:
        inputs, used = prepare(engine, request)
        # The seed is of the question, not of the run, so that a resumed run samples the same replies.
        torch.manual_seed(int(fingerprint(seed, request.system, request.prompt, list(request.times))[:8], 16))
        with torch.inference_mode():
            written = engine.network.generate(**inputs.to(engine.device))
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        raise EngineError("out of GPU memory; lower the frames, the resolution or max_pixels") from None
    except (RuntimeError, ValueError) as error:
        raise EngineError(one_line(error)) from None
    return reply(engine, written[0, inputs["input_ids"].shape[1] :].tolist(), used)


def reply(engine: Engine, tokens: list[int], used: dict[str, Any]) -> Reply:
    """The tokens that the model wrote, read."""
    settings = engine.model["generation"]
    raw = engine.processor.tokenizer.decode(tokens, skip_special_tokens=True)
    found = answer_text(raw, settings["thinking"])
    stops = engine.network.generation_config.eos_token_id
    stops = stops if isinstance(stops, list) else [stops]
    if len(tokens) >= settings["max_new_tokens"] and tokens[-1] not in stops:
        status = "truncated"
    elif is_unanswerable(found):
        status = "unanswerable"
    else:
        status = "ok"
    return Reply(status, raw=raw, answer=found, tokens_out=len(tokens), engine=engine.name, **used)


def prepare(engine: Engine, request: Request) -> tuple[Any, dict[str, Any]]:
    """The network's inputs (one row), and what was really used: times, height, width, visual tokens, tokens.

    Raises:
        EngineError: the prompt leaves no room for the reply in the model's context.
    """
    settings, processor = engine.model["input"], engine.processor
    as_images = settings["frames_as"] == "images" or len(request.frames) == 1
    content = visual_content(request, as_images, settings["image_times"])
    messages = [{"role": "user", "content": [*content, {"type": "text", "text": request.prompt}]}]
    if request.system:
        messages.insert(0, {"role": "system", "content": [{"type": "text", "text": request.system}]})
    text = unwrapped(processor, processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    visual: dict[str, Any] = {}
    if request.frames and as_images:
        visual = {"images": list(request.frames), "images_kwargs": {"size": limits(settings, 1)}}
    elif request.frames:
        visual = video(processor, request, settings)
    inputs = processor(text=[text], return_tensors="pt", **visual)
    length, room = inputs["input_ids"].shape[1], engine.model["generation"]["max_new_tokens"]
    context = getattr(engine.network.config.get_text_config(), "max_position_embeddings", None)
    if context and length + room > context:
        raise EngineError(
            f"the prompt and {room} new tokens exceed the context of {context}; use fewer or smaller frames"
        )
    return inputs, {**measure(engine, inputs), "times": request.times, "tokens_in": length}


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


def video(processor: Any, request: Request, settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments that pass two or more frames as one video.

    An odd number of frames gets its last one twice, because a temporal patch holds two; its time mark stays.
    """
    import numpy as np

    frames, times = list(request.frames), list(request.times)
    if len(frames) % processor.video_processor.temporal_patch_size:
        frames, times = [*frames, frames[-1]], [*times, times[-1]]
    options: dict[str, Any] = {"size": limits(settings, len(frames)), "do_sample_frames": False}
    if hasattr(processor.video_processor, "cap_pixels_per_frame"):
        options["cap_pixels_per_frame"] = False  # its default changes between versions of transformers
    return {"videos": [np.stack(frames)], "videos_kwargs": {**options, "video_metadata": [clock(times)]}}


def clock(times: Sequence[float]) -> dict[str, Any]:
    """Metadata of a clip whose frame k lies at ``times[k]`` seconds, exactly.

    Processors compute a frame's time as index / fps: with 1 fps the index is the time itself, whatever the spacing.
    Qwen2.5-VL instead takes one mean rate, frames / (total_num_frames / fps), which is made the true mean spacing here.
    """
    spacing = (times[-1] - times[0]) / max(1, len(times) - 1) or 1.0
    length = spacing * len(times)
    return {"fps": 1.0, "frames_indices": list(times), "total_num_frames": length, "duration": length}


def limits(settings: dict[str, Any], frames: int) -> dict[str, int]:
    """Pixel limits in the processor's words; some count the pixels of one frame, some those of the whole clip."""
    factor = frames if settings["pixels_of"] == "clip" else 1
    return {"shortest_edge": settings["min_pixels"] * factor, "longest_edge": settings["max_pixels"] * factor}


def measure(engine: Engine, inputs: Any) -> dict[str, Any]:
    """Height, width and visual tokens of what goes into the network."""
    grid, part = inputs.get("video_grid_thw"), engine.processor.video_processor
    if grid is None:
        grid, part = inputs.get("image_grid_thw"), engine.processor.image_processor
    if grid is None:
        return {"height": 0, "width": 0, "visual_tokens": 0}
    _, rows, columns = (int(value) for value in grid[0])
    tokens = int(grid.prod(dim=1).sum()) // part.merge_size**2
    return {"height": rows * part.patch_size, "width": columns * part.patch_size, "visual_tokens": tokens}


def one_line(error: Exception) -> str:
    """An engine's message without its line breaks, at most 300 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"
