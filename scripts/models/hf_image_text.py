"""Vision-language models that transformers loads by itself (AutoModelForImageTextToText), from a local folder.

Exercised in tests through their real classes: Qwen2-VL, Qwen2.5-VL, Qwen3-VL, InternVL (-hf), LLaVA-OneVision (-hf) and
Video-LLaVA (-hf). Questions of one kind go through the network together (``engine.batch``); each is prepared alone, so
that nothing about it depends on its neighbours but the last digits of the arithmetic. Sampled replies (temperature
above 0) are asked for one by one: each has a seed of its own.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.lib.cache import fingerprint
from scripts.lib.errors import EngineError
from scripts.models.answers import answer_text, is_unanswerable
from scripts.models.batching import Limits, batched, remembered
from scripts.models.hf_engine import Engine, conditions, gpu_name, one_line, open_engine, samples
from scripts.models.hf_inputs import check_settings, collate, kind, prepare
from scripts.models.protocol import Answerer, Reply, Request

__all__ = ["PACKAGES", "VERSION", "conditions", "load"]

VERSION = "4"
PACKAGES = ("transformers", "torch", "torchvision")

NO_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
"""Words of libraries below torch that found no memory, which torch passes on as other errors."""


def load(model: dict[str, Any], weights: Path | None, seed: int) -> Answerer:
    """Load the model onto its device.

    Raises:
        ConfigError: as ``check_settings``.
        EngineError: no such device, or a folder that transformers can't load.
    """
    engine = open_engine(model, weights)
    check_settings(engine)
    most = 1 if samples(model["generation"]) else model["engine"].get("batch", 1)
    limits = Limits(most, remembered(model, gpu_name(engine.device)))
    return batched(lambda requests: answer_batch(engine, requests, seed), limits, lambda request: kind(engine, request))


def answer_batch(engine: Engine, requests: Sequence[Request], seed: int) -> list[Reply]:
    """Replies to requests of one kind, in their order; what can't be prepared is an error of its own.

    Raises:
        torch.OutOfMemoryError: they don't fit together.
        EngineError: any other failure of the engine, in one line.
    """
    replies: dict[int, Reply] = {}
    rows: dict[int, tuple[Any, dict[str, Any]]] = {}
    for number, request in enumerate(requests):
        try:
            rows[number] = prepare(engine, request)
        except EngineError as error:
            replies[number] = Reply("error:engine", detail=str(error))
    if rows:
        if samples(engine.model["generation"]):
            seed_for(requests[next(iter(rows))], seed)
        written = generate(engine, collate([inputs for inputs, _ in rows.values()]))
        for number, tokens in zip(rows, written, strict=True):
            replies[number] = reply(engine, tokens, rows[number][1])
    return [replies[number] for number in range(len(requests))]


def seed_for(request: Request, seed: int) -> None:
    """Seed the sampling. The seed is of the question, not of the run: a resumed run samples the same replies."""
    import torch

    torch.manual_seed(int(fingerprint(seed, request.system, request.prompt, list(request.times))[:8], 16))


def generate(engine: Engine, inputs: dict[str, Any]) -> list[list[int]]:
    """The tokens written for each row, up to and including the one that stopped it.

    Raises:
        torch.OutOfMemoryError, EngineError: as ``answer_batch``.
    """
    import torch

    try:
        on_device = {name: value.to(engine.device) for name, value in inputs.items()}
        with torch.inference_mode():
            written = engine.network.generate(**on_device)[:, inputs["input_ids"].shape[1] :].tolist()
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, IndexError) as error:
        if any(words in str(error) for words in NO_MEMORY):
            raise torch.OutOfMemoryError(one_line(error)) from None
        raise EngineError(one_line(error)) from None
    return [up_to_stop(tokens, stops(engine)) for tokens in written]


def stops(engine: Engine) -> set[int]:
    """Tokens that end a reply."""
    known = engine.network.generation_config.eos_token_id
    return set(known) if isinstance(known, list) else {known}


def up_to_stop(tokens: list[int], stop: set[int]) -> list[int]:
    """A row without the padding that follows its end while others of its batch go on."""
    end = next((place for place, token in enumerate(tokens) if token in stop), len(tokens))
    return tokens[: end + 1]


def reply(engine: Engine, tokens: list[int], used: dict[str, Any]) -> Reply:
    """The tokens that the model wrote, read."""
    settings = engine.model["generation"]
    raw = engine.processor.tokenizer.decode(tokens, skip_special_tokens=True)
    found = answer_text(raw, settings["thinking"])
    if len(tokens) >= settings["max_new_tokens"] and tokens[-1] not in stops(engine):
        status = "truncated"
    elif is_unanswerable(found):
        status = "unanswerable"
    else:
        status = "ok"
    return Reply(status, raw=raw, answer=found, tokens_out=len(tokens), engine=engine.name, **used)
