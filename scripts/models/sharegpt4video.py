"""ShareGPT4Video-8B, with its repository's code (image sharegpt4video).

As run.py of the repository shows it: all frames are put into one picture, in a square of rows with white bands between
them, which is shrunk to 1920 pixels; the network sees it in tiles of 336 x 336 and an overview. It has no place for
times. Of that script's words to the model, the sentence that says so is kept, and what asks for a description is not.

run.py hands the tiles over without their first dimension, by which the network takes the overview alone. The authors'
evaluation (llava/eval/model_vqa_tempcompass.py) hands over all of them, and so does this.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.models import repo_common as common
from scripts.models.protocol import Answerer, Reply, Request, one_by_one

VERSION = "2"
PACKAGES = ("transformers", "torch", "pillow")

DTYPES = ("float16",)  # fixed by its loader
ATTENTIONS = ("sdpa",)  # what transformers chooses for it

MARK = "<image>"
NAME = "sharegpt4video-8b"
BAND = 50
"""White pixels between frames."""
LONGEST = 1920
"""Pixels along the longer side of the picture."""
WHITE = 255
SYSTEM = (
    "You are a helpful language and vision assistant. You are able to understand the visual content that the user "
    "provides, and assist the user with a variety of tasks using natural language."
)
GRID = "The provided image arranges keyframes from a video in a grid view, keyframes are separated with white bands. "


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
    common.offline_towers(model, weights)
    common.start(model)
    with common.loading(weights):
        from llava.model.builder import load_pretrained_model

        tokenizer, network, processor, _ = load_pretrained_model(str(weights), None, NAME, device_map="cpu")
        network = network.to(device).eval()
    seen = common.watch_prompt(network, model)
    name = common.engine_name(device, dtype, getattr(network.config, "_attn_implementation", ""))

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
    visual: dict[str, Any] = {}
    used = common.blind(request)
    if request.frames:
        whole = picture(request.frames)
        tiles = process_images([whole], processor, network.config)[0]
        visual = {"images": tiles.unsqueeze(0).to(network.device, torch.float16), "image_sizes": [whole.size]}
        count = len(tiles) if tiles.ndim == 4 else 1
        height, width = tiles.shape[-2:]
        note = frames_note(request, whole.size, count, (height, width))
        used |= {"height": height, "width": width, "frames_note": note}
    stops = common.stop_ids(tokenizer, "<|eot_id|>", also=network.generation_config.eos_token_id)
    settings = common.sampling(model["generation"])
    common.check_room(ids.shape[1], settings["max_new_tokens"], network.config.max_position_embeddings)
    common.seed_if_sampled(model, request, seed)
    with torch.inference_mode():
        written = network.generate(ids, eos_token_id=sorted(stops), pad_token_id=min(stops), **visual, **settings)
    written = written[0].tolist()
    used |= {**common.used_tokens(place["seen"], ids.shape[1]), "engine": place["engine"]}
    used["times_told"] = common.told(request, each=False)
    raw = tokenizer.decode(written, skip_special_tokens=True).strip()
    return common.finish(raw, written, stops, model, used)


def prompt(request: Request) -> str:
    """The whole prompt, with one mark for the picture."""
    count = len(request.frames)
    start = f"{MARK}\n" if count else ""
    layout = GRID if count > 1 else ""
    return common.llama3(request.system or SYSTEM, f"{start}{layout}{request.prompt}")


def picture(frames: Sequence[NDArray[np.uint8]]) -> Any:
    """All frames as one PIL image whose longer side is at most ``LONGEST``."""
    from PIL import Image

    whole = Image.fromarray(frame_grid(frames))
    longer = max(whole.size)
    if longer <= LONGEST:
        return whole
    scale = LONGEST / longer
    return whole.resize((int(whole.width * scale), int(whole.height * scale)), Image.Resampling.BILINEAR)


def frame_grid(frames: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Frames of one size side by side, row by row, in the smallest square of them that holds all; the rest is white."""
    side = math.ceil(math.sqrt(len(frames)))
    height, width, channels = frames[0].shape
    shape = (side * height + (side - 1) * BAND, side * width + (side - 1) * BAND, channels)
    whole = np.full(shape, WHITE, np.uint8)
    for number, frame in enumerate(frames):
        top, left = (number // side) * (height + BAND), (number % side) * (width + BAND)
        whole[top : top + height, left : left + width] = frame
    return whole


def frames_note(request: Request, whole: tuple[int, int], tiles: int, size: tuple[int, int]) -> str:
    """What became of the frames.

    Args:
        whole: width and height of the picture.
        tiles: of it that go into the network, of height and width ``size``.
    """
    count, (height, width) = len(request.frames), request.frames[0].shape[:2]
    side = math.ceil(math.sqrt(count))
    together = ""
    if count > 1:
        scale = whole[0] / (side * width + (side - 1) * BAND)
        across = f", each at {round(height * scale)}x{round(width * scale)}" if scale < 1 else ""
        together = f"{count} frames in one picture of {whole[1]}x{whole[0]}, {side} by {side}{across}"
    cut = f"{tiles} tiles of {size[0]}x{size[1]}" if tiles > 1 else common.resized((whole[1], whole[0]), size)
    return common.note(together, cut)
