"""InternVL2 and InternVL2.5, whose code comes with the weights (image internvl2).

As their model cards show it: of a video, every frame is one tile of 448 x 448, whatever its shape, behind ``Frame1: ``,
``Frame2: `` and so on; a single frame is cut into up to 12 tiles of its own shape, and an overview. The family writes
no times. The tensors and the prompt are made here and the reply is taken from ``generate``, because ``chat`` returns
nothing but its text.
"""

import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.models import repo_common as common
from scripts.models.protocol import Answerer, Reply, Request, one_by_one

VERSION = "2"
PACKAGES = ("transformers", "torch", "timm", "pillow")

DTYPES = ("bfloat16", "float16")
ATTENTIONS = ("eager",)  # of its InternLM2 beside flash-attn, which the image has not

MARK, START, CONTEXT, END = "<image>", "<img>", "<IMG_CONTEXT>", "</img>"
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, per channel."""


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
        tokenizer = transformers.AutoTokenizer.from_pretrained(weights, use_fast=False, **options)
        network = transformers.AutoModel.from_pretrained(
            weights, torch_dtype=getattr(torch, dtype), low_cpu_mem_usage=True, **options
        )
        network = network.to(device).eval()
        network.img_context_token_id = tokenizer.convert_tokens_to_ids(CONTEXT)
    attention = getattr(network.language_model.config, "attn_implementation", "")
    name = common.engine_name(device, dtype, attention)

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

    common.refuse_marks(request, tokenizer, MARK, CONTEXT)
    pixels, per_frame, used = prepare(request, network.config)
    template = copy.deepcopy(network.conv_template)
    text, stop = query(template, request, per_frame, network.num_image_token)
    inputs = tokenizer(text, return_tensors="pt").to(network.device)
    length = inputs["input_ids"].shape[1]
    settings = common.sampling(model["generation"])
    common.check_room(length, settings["max_new_tokens"], network.config.llm_config.max_position_embeddings)
    used |= {"tokens_in": length, "engine": name, "times_told": common.told(request, each=False)}
    used["visual_tokens"] = int((inputs["input_ids"] == network.img_context_token_id).sum())
    if pixels is not None:
        pixels = torch.from_numpy(pixels).to(network.device, network.dtype)
    stops = {tokenizer.convert_tokens_to_ids(stop)}
    common.seed_if_sampled(model, request, seed)
    with torch.inference_mode():
        written = network.generate(
            pixel_values=pixels,
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            eos_token_id=sorted(stops),
            pad_token_id=min(stops),
            **settings,
        )[0].tolist()
    raw = tokenizer.decode(written, skip_special_tokens=True).strip()
    return common.finish(raw, written, stops, model, used)


def query(template: Any, request: Request, per_frame: list[int], tokens: int) -> tuple[str, str]:
    """The whole prompt in the checkpoint's own template, and the word that ends a reply.

    Args:
        template: a conversation of the authors' code without messages; gets two.
        per_frame: tiles of each frame.
        tokens: of one tile.
    """
    if request.system:
        template.system_message = request.system
    template.append_message(template.roles[0], user_message(request))
    template.append_message(template.roles[1], None)
    text = template.get_prompt()
    for tiles in per_frame:
        text = text.replace(MARK, START + CONTEXT * (tokens * tiles) + END, 1)
    return text, template.sep.strip()


def user_message(request: Request) -> str:
    """What the user says, with a mark for each frame."""
    count = len(request.frames)
    if count == 1:
        return f"{MARK}\n{request.prompt}"
    return "".join(f"Frame{number}: {MARK}\n" for number in range(1, count + 1)) + request.prompt


def prepare(request: Request, config: Any) -> tuple[NDArray[np.float32] | None, list[int], dict[str, Any]]:
    """Tiles of all frames (tiles x 3 x size x size), how many are of each frame, and what was done to them."""
    if not request.frames:
        return None, [], common.blind(request)
    size, most = config.force_image_size, config.max_dynamic_patch if len(request.frames) == 1 else 1
    tiles = [cut(image, most, size, config.use_thumbnail) for image in common.pictures(request.frames)]
    per_frame = [len(of_frame) for of_frame in tiles]
    given = request.frames[0].shape[:2]
    done = common.resized(given, (size, size))
    if per_frame[0] > 1:
        done = f"{per_frame[0]} tiles of {size}x{size}"
    used = {"height": size, "width": size, "times": request.times, "frames_note": done}
    return np.stack([normalised(tile) for of_frame in tiles for tile in of_frame]), per_frame, used


def grid(height: int, width: int, most: int, size: int) -> tuple[int, int]:
    """Columns and rows of the tiles of a picture, at most so many: the shape nearest to the picture's.

    Of two shapes that are equally near, the one with more tiles, if the picture has more than half as many pixels.
    """
    shapes = {(c, r) for c in range(1, most + 1) for r in range(1, most + 1) if c * r <= most}
    best, nearest = (1, 1), float("inf")
    for columns, rows in sorted(shapes, key=lambda shape: (shape[0] * shape[1], shape)):
        distance = abs(width / height - columns / rows)
        larger = width * height > 0.5 * size * size * columns * rows
        if distance < nearest or (distance == nearest and larger):
            best, nearest = (columns, rows), distance
    return best


def cut(image: Any, most: int, size: int, thumbnail: bool) -> list[Any]:
    """Square tiles of a PIL image, row by row, and the whole of it as one more where there are several."""
    from PIL import Image

    columns, rows = grid(image.height, image.width, most, size)
    whole = image.resize((columns * size, rows * size), Image.Resampling.BICUBIC)
    tiles = [
        whole.crop((column * size, row * size, (column + 1) * size, (row + 1) * size))
        for row in range(rows)
        for column in range(columns)
    ]
    if thumbnail and len(tiles) > 1:
        tiles.append(image.resize((size, size), Image.Resampling.BICUBIC))
    return tiles


def normalised(tile: Any) -> NDArray[np.float32]:
    """A PIL image as channels x height x width, with ImageNet's mean and deviation."""
    values = (np.asarray(tile, np.float32) / 255 - np.array(MEAN, np.float32)) / np.array(DEVIATION, np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1))
