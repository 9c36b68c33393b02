"""VILA1.5 (Llama 3, 8B), with its repository's code (image vila).

As llava/eval/run_vila.py shows it: a video is as many images as it has frames, each before the question in a line of
its own, and stretched to 384 x 384. It has no place for times. The prompt is written here, in the template ``llama_3``
of that repository, with its system message; EgoTextVQA's prompt for VILA (Table 15) repeats that message.
"""

from pathlib import Path
from typing import Any

from scripts.models import repo_common as common
from scripts.models.protocol import Answerer, Reply, Request, one_by_one

VERSION = "2"
PACKAGES = ("transformers", "torch", "pillow")

DTYPES = ("float16",)  # fixed by its loader
ATTENTIONS = ()  # chosen by its loader

MARK = "<image>"
NAME = "llama-3-vila1.5-8b"
"""By which the loader chooses the network's class."""
SYSTEM = (
    "You are a helpful language and vision assistant. You are able to understand the visual content that the user "
    "provides, and assist the user with a variety of tasks using natural language."
)


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
    common.start(model)
    with common.loading(weights):
        from llava.model.builder import load_pretrained_model

        tokenizer, network, processor, _ = load_pretrained_model(str(weights), NAME, None)
        network.eval()
    # Where that code cuts a prompt off: the checkpoint was trained with less than Llama 3 has room for.
    tokenizer.model_max_length = network.llm.config.max_position_embeddings
    context = tokenizer.model_max_length
    look = common.embedded(context, context, model["generation"]["max_new_tokens"])
    seen = common.watch(network, "prepare_inputs_labels_for_multimodal", after=look)
    name = common.engine_name(device, dtype, getattr(network.llm.config, "_attn_implementation", ""))

    def answer(request: Request) -> Reply:
        seen.clear()
        with common.asking():
            return ask(network, tokenizer, processor, model, request, seed, {"seen": seen, "engine": name})

    return one_by_one(answer)


def ask(
    network: Any,
    tokenizer: Any,
    processor: Any,
    model: dict[str, Any],
    request: Request,
    seed: int,
    place: dict[str, Any],
) -> Reply:
    """One question.

    Args:
        place: ``seen``, the list that ``embedded`` fills, and the ``engine``.

    Raises:
        EngineError: a prompt that can't go in.
    """
    import torch
    from llava.constants import IMAGE_TOKEN_INDEX
    from llava.mm_utils import process_images, tokenizer_image_token

    common.refuse_marks(request, tokenizer, MARK)
    ids = tokenizer_image_token(prompt(request), tokenizer, IMAGE_TOKEN_INDEX, return_tensors="pt")
    ids = ids.unsqueeze(0).to(network.device)
    settings = common.sampling(model["generation"])
    common.check_room(ids.shape[1], settings["max_new_tokens"], tokenizer.model_max_length)
    images, used = None, common.blind(request)
    if request.frames:
        pixels = process_images(common.pictures(request.frames), processor, network.config)
        images = [pixels.to(network.device, torch.float16)]
        size = tuple(pixels.shape[-2:])
        given = request.frames[0].shape[:2]
        used |= {"height": size[0], "width": size[1], "frames_note": common.resized(given, size)}
    stops = common.stop_ids(tokenizer, "<|eot_id|>", "<|end_of_text|>")
    common.seed_if_sampled(model, request, seed)
    with torch.inference_mode():
        written = network.generate(ids, images=images, eos_token_id=sorted(stops), pad_token_id=min(stops), **settings)[
            0
        ].tolist()
    used |= {**common.used_tokens(place["seen"], ids.shape[1]), "engine": place["engine"]}
    used["times_told"] = common.told(request, each=False)
    raw = tokenizer.decode(written, skip_special_tokens=True).strip()
    return common.finish(raw, written, stops, model, used)


def prompt(request: Request) -> str:
    """The whole prompt, with a mark for each frame."""
    return common.llama3(request.system or SYSTEM, f"{MARK}\n" * len(request.frames) + request.prompt)
