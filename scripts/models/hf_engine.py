"""A model that transformers loads by itself, on its device: what runs it, and with which settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.lib import torchvision_cpu
from scripts.lib.errors import EngineError

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


def open_engine(model: dict[str, Any], weights: Path | None) -> Engine:
    """Load a model from a local folder onto its device.

    Raises:
        EngineError: no such device, or a folder that transformers can't load.
    """
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
    network.generation_config = generation_config(model["generation"], network, processor.tokenizer)
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

    Attention ``auto`` stays: what it means follows from the model and the version of transformers. So does the size of
    a batch, which is in the YAML and, where memory made it smaller, in each reply.

    Raises:
        EngineError: as ``placement``.
    """
    device, dtype = placement(model["engine"])
    return {"device": device, "gpu": gpu_name(device), "dtype": dtype, "attention": model["engine"]["attention"]}


def samples(settings: dict[str, Any]) -> bool:
    """Whether replies are drawn at random: the YAML gives a temperature above 0."""
    return bool(settings.get("temperature"))


def generation_config(settings: dict[str, Any], network: Any, tokenizer: Any) -> Any:
    """What the YAML says and nothing else: a checkpoint's own defaults (sampling, repetition penalty) are dropped.

    Greedy where the YAML gives no temperature, or 0. A checkpoint that names no token to stop at stops at its
    tokenizer's.
    """
    from transformers import GenerationConfig

    known, config = network.generation_config, network.config
    chosen = {key: settings[key] for key in ("temperature", "top_p", "top_k") if samples(settings) and key in settings}
    if "repetition_penalty" in settings:
        chosen["repetition_penalty"] = settings["repetition_penalty"]
    suppressed = [getattr(config, name) for name in PLACEHOLDERS if getattr(config, name, None) is not None]
    stop = known.eos_token_id if known.eos_token_id is not None else tokenizer.eos_token_id
    pad = next((token for token in (known.pad_token_id, tokenizer.pad_token_id) if token is not None), None)
    return GenerationConfig(
        max_new_tokens=settings["max_new_tokens"],
        do_sample=samples(settings),
        suppress_tokens=suppressed or None,
        eos_token_id=stop,
        pad_token_id=pad if pad is not None else stop[0] if isinstance(stop, list) else stop,
        bos_token_id=known.bos_token_id,
        **chosen,
    )


def one_line(error: Exception) -> str:
    """An engine's message without its line breaks, at most 300 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"
