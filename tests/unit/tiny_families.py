"""Tiny random models of the families that transformers loads by itself, with their real classes and nothing downloaded.

Frame sizes, tiling, placeholders and message formats are those of the published checkpoints; layers, widths and the
number of patches of a frame are not. The chat templates are minimal ones of the same form, written here.
"""

from pathlib import Path
from typing import Any

from scripts.lib import torchvision_cpu
from scripts.train import build_tiny_model

HIDDEN, HEADS, INITIAL = 48, 3, 0.3

# Like Qwen's, a message ends in <|im_end|>; the parts stay in their order.
INTERNVL = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% for part in message.content -%}
{%- if part.type == 'video' -%}<video>
{% elif part.type == 'image' -%}<IMG_CONTEXT>
{% else -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""

# All images, then the videos, then the text.
ONEVISION = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }} {% for part in message.content if part.type == 'image' -%}<image>
{% endfor -%}
{%- for part in message.content if part.type == 'video' -%}<video>
{% endfor -%}
{%- for part in message.content if part.type == 'text' %}{{ '\\n' ~ part.text }}{% endfor -%}
<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""

VIDEO_LLAVA = """\
{%- for message in messages -%}
{%- if message.role != 'system' %}{{ message.role | upper }}: {% endif -%}
{%- for part in message.content if part.type == 'image' -%}<image>
{% endfor -%}
{%- for part in message.content if part.type == 'video' -%}<video>
{% endfor -%}
{%- for part in message.content if part.type == 'text' -%}{{ part.text }} {% endfor -%}
{%- endfor -%}
{%- if add_generation_prompt -%}ASSISTANT:{% endif -%}
"""


def tokenizer(**named: str) -> Any:
    """Ours, with further special tokens, each under a name as the family's processor looks it up."""
    from transformers import PreTrainedTokenizerFast

    base = build_tiny_model.build_tokenizer()
    base.add_special_tokens({"additional_special_tokens": [*build_tiny_model.SPECIAL[1:], *named.values()]})
    return PreTrainedTokenizerFast(
        tokenizer_object=base.backend_tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=named,
        padding_side="left",
    )


def text(words: Any, **more: Any) -> dict[str, Any]:
    """A language model of two layers."""
    return {
        "vocab_size": len(words),
        "hidden_size": HIDDEN,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 1,
        "max_position_embeddings": 16384,
        "initializer_range": INITIAL,
        "pad_token_id": words.pad_token_id,
        "eos_token_id": words.eos_token_id,
        "bos_token_id": None,
        **more,
    }


def qwen(version: str) -> tuple[Any, Any]:
    """Network and processor of ``qwen2`` or ``qwen2_5``."""
    import transformers as hf

    words = build_tiny_model.build_tokenizer()
    names = {"image": "image_pad", "video": "video_pad", "vision_start": "vision_start", "vision_end": "vision_end"}
    ids = {f"{name}_token_id": words.convert_tokens_to_ids(f"<|{token}|>") for name, token in names.items()}
    sections = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}}
    vision: dict[str, Any] = {"depth": 2, "num_heads": 2, "patch_size": 14}
    if version == "qwen2":
        vision |= {"embed_dim": 32, "hidden_size": HIDDEN, "mlp_ratio": 2}
        kinds = hf.Qwen2VLConfig, hf.Qwen2VLForConditionalGeneration, hf.Qwen2VLProcessor
    else:
        vision |= {"hidden_size": 32, "out_hidden_size": HIDDEN, "intermediate_size": 64}
        vision |= {"window_size": 56, "fullatt_block_indexes": [1]}
        kinds = hf.Qwen2_5_VLConfig, hf.Qwen2_5_VLForConditionalGeneration, hf.Qwen2_5_VLProcessor
    network = kinds[1](kinds[0](text_config=text(words, **sections), vision_config=vision, **ids))
    parts = hf.Qwen2VLImageProcessor(), words, hf.Qwen2VLVideoProcessor()
    return network, kinds[2](*parts, chat_template=build_tiny_model.CHAT_TEMPLATE)


def internvl() -> tuple[Any, Any]:
    """Tiles of 448 x 448, here of 8 x 8 patches, so 16 tokens instead of 256."""
    import transformers as hf

    words = tokenizer(
        start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>", video_token="<video>"
    )
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"image_size": [448, 448], "patch_size": [56, 56]}
    network = hf.InternVLForConditionalGeneration(
        hf.InternVLConfig(
            text_config={"model_type": "qwen2", **text(words)},
            vision_config=vision,
            image_token_id=words.convert_tokens_to_ids("<IMG_CONTEXT>"),
            image_seq_length=16,
            tie_word_embeddings=False,
        )
    )
    size = {"height": 448, "width": 448}
    processor = hf.InternVLProcessor(
        image_processor=hf.GotOcr2ImageProcessor(size=size),
        tokenizer=words,
        video_processor=hf.InternVLVideoProcessor(size=size),
        image_seq_length=16,
        chat_template=INTERNVL,
    )
    return network, processor


def llava_onevision() -> tuple[Any, Any]:
    """Tiles of 384 x 384, here of 8 x 8 patches: 64 tokens instead of 729, 16 instead of 196 for a frame of a video."""
    import transformers as hf

    words = tokenizer(image_token="<image>", video_token="<video>")
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision |= {"model_type": "siglip_vision_model", "image_size": 384, "patch_size": 48, "vision_use_head": False}
    network = hf.LlavaOnevisionForConditionalGeneration(
        hf.LlavaOnevisionConfig(
            text_config={"model_type": "qwen2", **text(words)},
            vision_config=vision,
            image_token_index=words.convert_tokens_to_ids("<image>"),
            video_token_index=words.convert_tokens_to_ids("<video>"),
        )
    )
    processor = hf.LlavaOnevisionProcessor(
        image_processor=hf.LlavaOnevisionImageProcessor(),
        tokenizer=words,
        video_processor=hf.LlavaOnevisionVideoProcessor(),
        num_image_tokens=64,
        vision_feature_select_strategy="full",
        chat_template=ONEVISION,
    )
    return network, processor


def video_llava() -> tuple[Any, Any]:
    """Frames of 224 x 224, here of 4 x 4 patches: 17 tokens instead of 257."""
    import transformers as hf

    words = tokenizer(image_token="<image>", video_token="<video>")
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2}
    vision |= {"model_type": "clip_vision_model", "image_size": 224, "patch_size": 56, "projection_dim": 32}
    network = hf.VideoLlavaForConditionalGeneration(
        hf.VideoLlavaConfig(
            text_config={"model_type": "llama", **text(words)},
            vision_config=vision,
            image_token_index=words.convert_tokens_to_ids("<image>"),
            video_token_index=words.convert_tokens_to_ids("<video>"),
        )
    )
    processor = hf.VideoLlavaProcessor(
        image_processor=hf.VideoLlavaImageProcessor(),
        video_processor=hf.VideoLlavaVideoProcessor(),
        tokenizer=words,
        patch_size=56,
        chat_template=VIDEO_LLAVA,
    )
    return network, processor


def qwen3() -> tuple[Any, Any]:
    words = build_tiny_model.build_tokenizer()
    return build_tiny_model.build_model(words, 0), build_tiny_model.build_processor(words)


FAMILIES = {
    "qwen2_vl": lambda: qwen("qwen2"),
    "qwen2_5_vl": lambda: qwen("qwen2_5"),
    "qwen3_vl": qwen3,
    "internvl": internvl,
    "llava_onevision": llava_onevision,
    "video_llava": video_llava,
}
"""Not here: LLaVA-NeXT-Video and VideoLLaMA3, whose native classes take converted weights and not the papers' own."""

PIXELS = {"min_pixels": 1024, "max_pixels": 262144}
INPUTS: dict[str, dict[str, Any]] = {
    "qwen2_vl": {"image_times": False, **PIXELS, "pixels_of": "frame"},
    "qwen2_5_vl": {"image_times": False, **PIXELS, "pixels_of": "frame"},
    "qwen3_vl": {"image_times": True, **PIXELS, "pixels_of": "clip"},
    "internvl": {"image_times": True},
    "llava_onevision": {"image_times": False},
    "video_llava": {"image_times": False},
}


def build(family: str, folder: Path) -> Path:
    """Write one family's model into a folder, as save_pretrained does; the same weights every time."""
    torchvision_cpu.install()
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network, processor = FAMILIES[family]()
    network.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    network.generation_config.pad_token_id = processor.tokenizer.pad_token_id
    network.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def model(family: str, **changes: Any) -> dict[str, Any]:
    """What a YAML of this family says; ``changes`` are keys of ``engine``, ``input`` or ``generation``."""
    made: dict[str, dict[str, Any]] = {
        "engine": {"device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": 1, "batch": 4},
        "input": {"frames_as": "video", **INPUTS[family]},
        "generation": {"max_new_tokens": 12, "thinking": False},
    }
    homes = {"frames_as": "input", "image_times": "input", "min_pixels": "input", "max_pixels": "input"}
    homes |= {"pixels_of": "input", "dtype": "engine", "batch": "engine", "attention": "engine"}
    for key, value in changes.items():
        made[homes.get(key, "generation")][key] = value
    return {"name": f"tiny_{family}", "weights": {"kind": "built"}, **made}
