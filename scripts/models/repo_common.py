"""What the adapters of models with code of their own share.

Those models run in images of their own, with the transformers of their time, and with code of their authors that can't
be imported here. Their adapters hand over decoded frames, never a path; write the prompt in the family's own format;
and read what was really used off the tensors on their way into the network (``watch``), not out of a formula. They were
written from that code as it is published, and need a GPU to verify.
"""

import atexit
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.files import write_text
from scripts.models.answers import answer_text, is_unanswerable
from scripts.models.batching import OUT_OF_MEMORY
from scripts.models.hf_engine import gpu_name, one_line, placement, samples
from scripts.models.hf_image_text import NO_MEMORY, seed_for
from scripts.models.hf_inputs import refuse_special, special_words
from scripts.models.protocol import Reply, Request
from scripts.models.weights import fetched_tower, tower_folders

BROKEN = (RuntimeError, ValueError, LookupError, TypeError, AssertionError, AttributeError)
"""What foreign code raises for a question that it can't take."""

Look: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any], Any], Any]
"""Looks at one call, from its positional and named arguments and its result; see ``watch``."""

HELPFUL = "You are a helpful assistant."
"""System message that Qwen2's chat template writes where none is given."""
OTHER_CACHES = ("TRANSFORMERS_CACHE", "PYTORCH_TRANSFORMERS_CACHE", "PYTORCH_PRETRAINED_BERT_CACHE")
"""Variables by which older versions of transformers find their cache before HF_HUB_CACHE."""


def check(model: dict[str, Any], dtypes: Sequence[str], attentions: Sequence[str]) -> None:
    """Refuse settings that the authors' code would silently ignore.

    Args:
        dtypes, attentions: what the code takes beside ``auto``.

    Raises:
        ConfigError: another number type or attention.
    """
    for key, allowed in (("dtype", dtypes), ("attention", attentions)):
        if model["engine"][key] not in ("auto", *allowed):
            raise ConfigError(
                f"config/models/{model.get('name')}.yaml: engine.{key}: {model['engine'][key]} has no effect on this "
                f"model's own code; set {', '.join(['auto', *allowed])}"
            )


def place(model: dict[str, Any], dtype: str) -> tuple[str, str]:
    """Device and number type; ``auto`` is the ``dtype`` that the authors use.

    Raises:
        EngineError: no GPU, which all of this code asks for by name somewhere.
    """
    settings = model["engine"]
    device, chosen = placement({**settings, "dtype": dtype if settings["dtype"] == "auto" else settings["dtype"]})
    if device != "cuda":
        raise EngineError("this model's own code runs on CUDA only; use a GPU node, and device: cuda in its YAML")
    return device, chosen


def conditions(model: dict[str, Any], dtype: str) -> dict[str, Any]:
    """As hf_engine.conditions, for a family whose ``auto`` number type is ``dtype``.

    Raises:
        EngineError: as ``place``.
    """
    device, chosen = place(model, dtype)
    return {"device": device, "gpu": gpu_name(device), "dtype": chosen, "attention": model["engine"]["attention"]}


def engine_name(device: str, dtype: str, *parts: str) -> str:
    """Versions, device, GPU, number type and whatever else the record should say."""
    import torch
    import transformers

    place = " ".join(filter(None, [device, gpu_name(device), dtype, *parts]))
    return f"transformers {transformers.__version__}, torch {torch.__version__}, {place}"


def start(model: dict[str, Any]) -> None:
    """Number of CPU threads, and no progress bars in the log."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    if model["engine"]["threads"]:
        torch.set_num_threads(model["engine"]["threads"])


def offline_towers(model: dict[str, Any], weights: Path, *names: str) -> None:
    """Have the authors' code find the vision towers, which it loads from the hub by name, beside the weights.

    fetch_model puts those of ``weights.towers`` there. Their names stay as the code knows them, because it goes by the
    name: LLaVA-NeXT takes any tower that is a folder for CLIP's, and LongVU's names stand in its code. So a hub's cache
    of nothing but links is made, for this process alone, and the network is switched off. Call it before anything
    imports transformers, which looks once where its cache is.

    Args:
        names: towers that the code names itself; else the one of ``mm_vision_tower`` in the checkpoint's config.json.
            A name that is a folder is none of the hub's.

    Raises:
        EngineError: the code names a tower that the model's file doesn't; something has imported the hub's client.
    """
    folders = tower_folders(model, weights)
    if not names:
        named = json.loads((weights / "config.json").read_text(encoding="utf-8")).get("mm_vision_tower")
        names = (named,) if isinstance(named, str) and not Path(named).exists() else ()
    for name in names:
        if name not in folders:
            raise EngineError(
                f"this model's own code also loads {name} from the hub, and weights.towers of config/models/"
                f"{model.get('name')}.yaml doesn't name it; add it there and rerun fetch_model"
            )
    cache = tempfile.TemporaryDirectory(prefix="towers-")
    atexit.register(cache.cleanup)
    for name, folder in folders.items():
        commit = fetched_tower(weights, name)
        repository = Path(cache.name) / f"models--{name.replace('/', '--')}"
        write_text(repository / "refs" / "main", commit)
        (repository / "snapshots").mkdir()
        (repository / "snapshots" / commit).symlink_to(folder.resolve(), target_is_directory=True)
    write_text(Path(cache.name) / "version.txt", "1")  # or older versions of transformers try to convert it
    for variable in OTHER_CACHES:
        os.environ.pop(variable, None)
    os.environ.update(HF_HUB_CACHE=cache.name, HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    from huggingface_hub import constants

    if cache.name != constants.HF_HUB_CACHE or not constants.HF_HUB_OFFLINE:
        raise EngineError("the hub's client was imported before the model's vision towers were put in place; report it")


@contextmanager
def loading(weights: Path | None) -> Iterator[None]:
    """Errors while a model is loaded, as one line with the remedy.

    Raises:
        EngineError: whatever the authors' code or transformers raised.
    """
    try:
        yield
    except (OSError, ImportError, *BROKEN) as error:
        raise EngineError(f"{weights}: {one_line(error)}; fetch the weights again, or use the model's image") from None


@contextmanager
def remote_code() -> Iterator[None]:
    """While code that comes with weights is imported, flash-attn may be missing.

    transformers refuses a file that names it anywhere, even where the file imports it only if it is there.
    """
    from transformers import dynamic_module_utils as remote

    named = remote.get_imports
    remote.get_imports = lambda file: [name for name in named(file) if name != "flash_attn"]
    try:
        yield
    finally:
        remote.get_imports = named


@contextmanager
def asking() -> Iterator[None]:
    """Errors while a question is answered, as one line; the device's memory is given back when it ran out.

    Raises:
        EngineError: whatever the authors' code raised.
    """
    full = False
    try:
        yield
    except BROKEN as error:
        full = any(words in str(error) for words in NO_MEMORY)
        if not full:
            raise EngineError(one_line(error)) from None
    if full:  # out here nothing holds the tensors of the failed call
        import gc

        import torch

        gc.collect()
        torch.cuda.empty_cache()
        raise EngineError(OUT_OF_MEMORY)


def sampling(settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``generate``: what the YAML says and nothing of the checkpoint's own defaults."""
    chosen = {
        "do_sample": samples(settings),
        "num_beams": 1,
        "max_new_tokens": settings["max_new_tokens"],
        "repetition_penalty": settings.get("repetition_penalty", 1.0),
        "use_cache": True,
    }
    if samples(settings):
        neutral = {"temperature": 1.0, "top_p": 1.0, "top_k": 0}
        chosen |= {key: settings.get(key, value) for key, value in neutral.items()}
    return chosen


def seed_if_sampled(model: dict[str, Any], request: Request, seed: int) -> None:
    if samples(model["generation"]):
        seed_for(request, seed)


def pictures(frames: Sequence[NDArray[np.uint8]]) -> list[Any]:
    """PIL images of RGB frames."""
    from PIL import Image

    return [Image.fromarray(frame) for frame in frames]


def refuse_marks(request: Request, tokenizer: Any, *marks: str) -> None:
    """A prompt must not hold a mark of the model's format: a special token, or what stands where a picture goes.

    Raises:
        EngineError: it does, say in the question.
    """
    refuse_special(request, [*marks, *special_words(tokenizer)])


def told(request: Request, each: bool) -> str:
    """``times_told`` of a reply: whether the time of each frame is told, or of none; empty without frames."""
    return ("each" if each else "none") if request.frames else ""


def chatml(system: str, user: str) -> str:
    """A question in the format of Qwen2, InternLM2 and others."""
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"


def llama3(system: str, user: str) -> str:
    """A question in the format of Llama 3."""
    parts = [f"<|start_header_id|>{role}<|end_header_id|>\n\n" for role in ("system", "user", "assistant")]
    return f"<|begin_of_text|>{parts[0]}{system}<|eot_id|>{parts[1]}{user}<|eot_id|>{parts[2]}"


def check_room(prompt: int, new: int, context: int | None) -> None:
    """Refuse a prompt that leaves no room for the reply.

    Args:
        prompt, new, context: tokens of the prompt with its pictures, of the reply at most, and of the model.

    Raises:
        EngineError: they exceed the model's context.
    """
    if context and prompt + new > context:
        raise EngineError(
            f"the prompt of {prompt} tokens and {new} new ones exceed the context of {context}; use fewer frames"
        )


def watch(owner: Any, name: str, before: Look | None = None, after: Look | None = None) -> list[Any]:
    """A list that receives what looks at every call of ``owner.name`` give, unless it is None.

    Of one object, not of its class. Clear the list before a question and read it after. What a look raises, the call
    raises.

    Args:
        before: ``before(args, kwargs, None)``, and nothing is called where it raises.
        after: ``after(args, kwargs, result)``.
    """
    seen: list[Any] = []
    original = getattr(owner, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        early = before(args, kwargs, None) if before else None
        result = original(*args, **kwargs)
        late = after(args, kwargs, result) if after else None
        seen.extend(looked for looked in (early, late) if looked is not None)
        return result

    setattr(owner, name, watched)
    return seen


def embedded(cut: int | None, context: int | None, new: int) -> Look:
    """A look at ``prepare_inputs_labels_for_multimodal``, which LLaVA and all that descend from it have: where pictures
    become tokens. Gives ``tokens_in`` and ``visual_tokens``.

    Args:
        cut: ``tokenizer_model_max_length`` of the checkpoint, from which on that code cuts a prompt off.
        context: tokens of the network, for the prompt and a reply of at most ``new``. It may be more than ``cut``.

    Raises:
        EngineError: the prompt is as long as ``cut``, so its end, the question, may be gone; or it leaves no room for
            the reply.
    """

    def look(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> dict[str, int] | None:
        embeddings = result[4]
        if embeddings is None:
            return None
        ids = args[0] if args else kwargs["input_ids"]
        total, text = int(embeddings.shape[1]), int((ids >= 0).sum())  # a picture's mark is a negative number
        if cut and total >= cut:
            raise EngineError(f"the prompt with its pictures exceeds the {cut} tokens of this model; use fewer frames")
        check_room(total, new, context)
        return {"tokens_in": total, "visual_tokens": total - text}

    return look


def watch_prompt(network: Any, model: dict[str, Any]) -> list[Any]:
    """What ``embedded`` sees of a network whose own configuration has both limits.

    Raises:
        EngineError: as ``embedded``, from the call that is watched.
    """
    cut = getattr(network.config, "tokenizer_model_max_length", None)
    context = getattr(network.config, "max_position_embeddings", None)
    look = embedded(cut, context, model["generation"]["max_new_tokens"])
    return watch(network, "prepare_inputs_labels_for_multimodal", after=look)


def used_tokens(seen: list[Any], text: int) -> dict[str, int]:
    """What ``embedded`` saw of a question, or that it had no pictures and so many tokens of text."""
    return seen[-1] if seen else {"tokens_in": text, "visual_tokens": 0}


def note(*parts: str) -> str:
    """A frames_note out of its parts, empty ones left out."""
    return "; ".join(filter(None, parts))


def resized(given: tuple[int, int], used: tuple[int, int], how: str = "") -> str:
    """Height and width of frames as given and as used, and what came of their shape; empty where nothing changed."""
    if given == used:
        return ""
    return f"resized {given[0]}x{given[1]} to {used[0]}x{used[1]}{f', {how}' if how else ''}"


def cut_off(given: tuple[int, int]) -> str:
    """What is lost where the shorter side is fitted to a square and its middle kept."""
    height, width = given
    return "" if height == width else f"{'top and bottom' if height > width else 'sides'} cut off"


def padded(given: tuple[int, int]) -> str:
    """What is added where a frame is put in the middle of a square."""
    return "" if given[0] == given[1] else "padded to a square"


def stop_ids(tokenizer: Any, *words: str, also: Any = None) -> set[int]:
    """Tokens that end a reply: the tokenizer's own, those words that are one token of it, and some by number.

    Args:
        also: a number, several, or None, as a generation_config has it in ``eos_token_id``.
    """
    numbers = also if isinstance(also, list) else [also]
    known = {tokenizer.eos_token_id, *numbers, *(tokenizer.convert_tokens_to_ids(word) for word in words)}
    unknown = getattr(tokenizer, "unk_token_id", None)
    return {token for token in known if isinstance(token, int) and token != unknown}


def reply_only(written: Sequence[int], prompt: Sequence[int]) -> list[int]:
    """What ``generate`` gave without the prompt, which it puts first where it was called with tokens."""
    return list(written[len(prompt) :] if list(written[: len(prompt)]) == list(prompt) else written)


def finish(raw: str, written: Sequence[int], stops: set[int], model: dict[str, Any], used: dict[str, Any]) -> Reply:
    """The reply to a question.

    Args:
        raw: what the model wrote, without special tokens.
        written: its tokens, up to and including the one that ended it.
        stops: tokens that end a reply; one as long as allowed without them at its end was cut off.
        used: the fields of ``Reply`` that say what was really used.
    """
    settings = model["generation"]
    found = answer_text(raw, settings["thinking"])
    if len(written) >= settings["max_new_tokens"] and written[-1] not in stops:
        status = "truncated"
    else:
        status = "unanswerable" if is_unanswerable(found) else "ok"
    return Reply(status, raw=raw, answer=found, tokens_out=len(written), **used)


def blind(request: Request) -> dict[str, Any]:
    """Sizes and times of a question without pictures."""
    return {"height": 0, "width": 0, "times": request.times}
