"""LongVU 7B and 3B, with their repository's code (image longvu).

As the repository's evaluation shows it: all frames go in, DINOv2 drops those like their neighbours, and what remains is
pooled until it fits into 8192 tokens; how many were kept is seen on the way. It has no place for times. Frames are
padded to a square, for both towers, whose names on the hub are in that code.
"""

from pathlib import Path
from typing import Any

from scripts.models import repo_common as common
from scripts.models.protocol import Answerer, Reply, Request, one_by_one

VERSION = "2"
PACKAGES = ("transformers", "torch", "pillow")

DTYPES = ("float16",)  # fixed by its loader
ATTENTIONS = ("sdpa",)  # what transformers chooses for it

MARK = "<image>"
TOWERS = ("google/siglip-so400m-patch14-384", "facebook/dinov2-giant")


def is_llama(model: dict[str, Any]) -> bool:
    """Whether this is the 3B model, on Llama 3.2."""
    return "llama" in model["weights"]["id"].lower()


def conditions(model: dict[str, Any]) -> dict[str, Any]:
    return common.conditions(model, DTYPES[0])


def load(model: dict[str, Any], weights: Path | None, seed: int) -> Answerer:
    """Load the model onto its GPU.

    Raises:
        ConfigError: settings without effect.
        EngineError: no GPU, weights that can't be loaded, or a vision tower that fetch_model did not fetch.
    """
    common.check(model, DTYPES, ATTENTIONS)
    device, dtype = common.place(model, DTYPES[0])
    assert weights is not None
    common.offline_towers(model, weights, *TOWERS)
    common.start(model)
    with common.loading(weights):
        from longvu.builder import load_pretrained_model

        kind = "cambrian_llama3" if is_llama(model) else "cambrian_qwen"  # chooses the network's class
        tokenizer, network, processors, _ = load_pretrained_model(str(weights), None, kind)
        network.eval()
    seen = common.watch_prompt(network, model)
    kept = common.watch(network, "select_frame", after=lambda _args, _kwargs, chosen: int(chosen[1][0]))
    attention = getattr(network.config, "_attn_implementation", "")
    name = common.engine_name(device, dtype, attention)

    def answer(request: Request) -> Reply:
        seen.clear()
        kept.clear()
        with common.asking():
            return ask(
                network, tokenizer, processors, model, request, seed, {"seen": seen, "kept": kept, "engine": name}
            )

    return one_by_one(answer)


def ask(
    network: Any,
    tokenizer: Any,
    processors: Any,
    model: dict[str, Any],
    request: Request,
    seed: int,
    place: dict[str, Any],
) -> Reply:
    """One question.

    Args:
        processors: one for each vision tower.
        place: ``seen`` and ``kept``, the lists that the looks fill, and the ``engine``.

    Raises:
        EngineError: a prompt that can't go in.
    """
    import torch
    from longvu.constants import IMAGE_TOKEN_INDEX
    from longvu.mm_datautils import process_images, tokenizer_image_token

    common.refuse_marks(request, tokenizer, MARK)
    text = prompt(request, tokenizer, is_llama(model))
    ids = tokenizer_image_token(text, tokenizer, IMAGE_TOKEN_INDEX, return_tensors="pt").unsqueeze(0)
    ids = without_second_start(ids, tokenizer.bos_token_id).to(network.device)
    visual: dict[str, Any] = {}
    sizes: list[tuple[int, int]] = []
    if request.frames:
        towers = process_images(list(request.frames), processors, network.config)  # frames x 3 x height x width, each
        sizes = [tuple(tower.shape[-2:]) for tower in towers]
        # Height before width, as in the authors' examples.
        visual = {"images": [tower.unsqueeze(0) for tower in towers], "image_sizes": [request.frames[0].shape[:2]]}
    stops = common.stop_ids(tokenizer, "<|im_end|>", "<|eot_id|>", also=network.generation_config.eos_token_id)
    settings = common.sampling(model["generation"])
    common.check_room(ids.shape[1], settings["max_new_tokens"], network.config.max_position_embeddings)
    common.seed_if_sampled(model, request, seed)
    with torch.inference_mode():
        written = network.generate(ids, eos_token_id=sorted(stops), pad_token_id=min(stops), **visual, **settings)
    written = written[0].tolist()
    used = {**common.used_tokens(place["seen"], ids.shape[1]), "engine": place["engine"], "times": request.times}
    used["times_told"] = common.told(request, each=False)
    height, width = sizes[0] if sizes else (0, 0)
    kept = place["kept"][-1] if place["kept"] else len(request.frames)
    used |= {"height": height, "width": width, "frames_note": frames_note(request, sizes, kept, used["visual_tokens"])}
    raw = tokenizer.decode(written, skip_special_tokens=True).strip()
    return common.finish(raw, written, stops, model, used)


def prompt(request: Request, tokenizer: Any, llama: bool) -> str:
    """The whole prompt, with one mark for all frames."""
    user = f"{MARK}\n{request.prompt}" if request.frames else request.prompt
    system = request.system or common.HELPFUL
    if not llama:
        return common.chatml(system, user)
    if getattr(tokenizer, "chat_template", None):  # the checkpoint's own, as in the authors' template "llama3"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    return common.llama3(system, user)


def without_second_start(ids: Any, start: int | None) -> Any:
    """Token numbers (1 x length) without the second of two start tokens: template and tokenizer write one each."""
    doubled = ids.shape[1] > 1 and start is not None and int(ids[0, 0]) == start == int(ids[0, 1])
    return ids[:, 1:] if doubled else ids


def frames_note(request: Request, sizes: list[tuple[int, int]], kept: int, tokens: int) -> str:
    """What became of the frames.

    Args:
        sizes: height and width of the frames for each tower.
        kept: frames that were not dropped.
        tokens: visual tokens, of all of them.
    """
    given = len(request.frames)
    if not given:
        return ""
    shape = request.frames[0].shape[:2]
    done = common.resized(shape, sizes[0], common.padded(shape))
    second = f"{sizes[1][0]}x{sizes[1][1]} for the second tower" if len(sizes) > 1 and sizes[1] != sizes[0] else ""
    dropped = f"{given - kept} of {given} frames dropped, like their neighbours" if kept < given else ""
    pooled = f"{tokens / kept:.0f} visual tokens for each of {kept} frames on average" if kept > 1 else ""
    return common.note(done, second, dropped, pooled)
