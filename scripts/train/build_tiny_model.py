"""Make a Qwen3-VL of half a million random weights, with tokenizer and processor, without any download.

It has the real model's architecture, message format and time marks, so everything around a model can be run and tested
on a laptop in seconds. It is UNTRAINED: its answers are noise and say nothing about Qwen3-VL. The tokenizer, its
training text and the chat template are made here. The same seed gives the same bytes.

Random weights alone fall into a loop of one word and never stop, so that every reply would be cut and none scored. Two
scales are therefore raised (END_SCALE, FOCUS): the noise wanders on, and most replies end by themselves, at lengths
from one token to a few dozen.
"""

import argparse
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from scripts.lib import cli, torchvision_cpu

VERSION = 1
"""Raise it when other weights, another tokenizer or another processor come out of the same seed."""

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
THINK = ["<think>", "</think>"]
"""Marks that stay visible when special tokens are dropped from a reply."""
VOCABULARY = 396

END_SCALE = 2.5
"""How much larger the output row of <|im_end|> is than that of other words: its score is as random, but wins sooner."""
FOCUS = 4.0
"""How much sharper attention is than at random: each word written changes what is attended to, so no loop lasts."""

# Marks of the message format and of a chain of thought stay whole, numbers fall into groups of three digits.
SPLIT = (
    r"<\p{N}+\.\p{N} seconds>|system\n|user\n|assistant\n|</?answer>|\[t=|s\] '|' at \[|\p{N}{1,3}"
    r"| ?\p{L}+|\s+|[^\s\p{L}\p{N}]"
)

CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'video' -%}<|vision_start|><|video_pad|><|vision_end|>
{%- elif part.type == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>
{%- else -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""

SENTENCES = (
    "What is the content of large text rolling or printing in the video?",
    "What does the sign say now?",
    "What did the first sign say?",
    "What did the sign before this one say?",
    "Read all text in the video in order.",
    "system\nYou read text in videos.",
    "user\n<0.5 seconds>",
    "assistant\n[t=0.5s] 'OPEN' at [120,300,480,420], [t=12.0s] 'EXIT' at [5,40,999,1000]",
    "<answer>OPEN EXIT</answer>",
    "Unanswerable, no text can be seen. The right option is B.",
)
WORDS = (  # noqa: SIM905 - a list would fill a page
    "the and of to in is it on at for from with this that open closed exit enter stop go left right north south east"
    " west street road station market bread coffee water river bridge garden school library museum platform ticket"
    " train bus gate hotel pharmacy bakery repair sale today tomorrow morning evening city village mountain harbour"
).split()


def corpus(lines: int = 400) -> list[str]:
    """The text that the tokenizer is trained on: our own sentences, and lines of common words and numbers."""
    rng = random.Random(0)
    made = list(SENTENCES) * 20
    for _ in range(lines):
        words = rng.choices(WORDS, k=6)
        made.append(" ".join(word.upper() if rng.random() < 0.3 else word for word in words))
        made.append(
            f"[t={rng.randrange(600) / 10}s] '{words[0].upper()}' at [{rng.randrange(1000)},{rng.randrange(1000)}]"
        )
    return made


def build_tokenizer() -> Any:
    """Byte-level BPE over ``corpus()``; every text can be written and read back, in any script."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL) - len(THINK),
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    bpe.train_from_iterator(corpus(), trainer)
    bpe.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    bpe.add_tokens([AddedToken(token, special=False, normalized=False) for token in THINK])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=SPECIAL[1:],
        model_max_length=32768,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


def build_processor(tokenizer: Any) -> Any:
    """Qwen3-VL's own processor classes around our tokenizer and chat template."""
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    common: dict[str, Any] = {
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "size": {"shortest_edge": 32 * 32, "longest_edge": 32 * 32 * 1024},
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**common),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**common, do_sample_frames=False, cap_pixels_per_frame=False),
        chat_template=CHAT_TEMPLATE,
    )


def configuration(tokenizer: Any) -> Any:
    """2 text layers of 96, 1 vision layer of 64; the words it reads and those it writes have weights of their own."""
    from transformers import Qwen3VLConfig

    hidden, heads, initial = 96, 3, 0.12
    placeholders = {
        f"{name}_token_id": tokenizer.convert_tokens_to_ids(f"<|{token}|>")
        for name, token in (
            ("image", "image_pad"),
            ("video", "video_pad"),
            ("vision_start", "vision_start"),
            ("vision_end", "vision_end"),
        )
    }
    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": hidden,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": heads,
            "num_key_value_heads": 1,
            "head_dim": hidden // heads,
            "max_position_embeddings": 32768,
            "initializer_range": initial,
            "pad_token_id": tokenizer.pad_token_id,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_interleaved": True,
                "mrope_section": [6, 5, 5],
            },
        },
        vision_config={
            "depth": 1,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 2,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": hidden,
            "num_position_embeddings": 256,
            "initializer_range": initial,
            "deepstack_visual_indexes": [0],
        },
        tie_word_embeddings=False,
        **placeholders,
    )


def build_model(tokenizer: Any, seed: int) -> Any:
    """About half a million random weights, with the two raised scales of this module."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(configuration(tokenizer))
    with torch.no_grad():
        model.lm_head.weight[tokenizer.eos_token_id] *= END_SCALE
        for layer in model.model.language_model.layers:
            layer.self_attn.q_norm.weight *= FOCUS
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.bos_token_id = None
    return model


def build(seed: int, out: Path) -> int:
    """Write model, tokenizer and processor into the folder ``out``, whole or not at all; return how many weights."""
    torchvision_cpu.install()
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        model.save_pretrained(temporary)
        build_processor(tokenizer).save_pretrained(temporary)
        temporary.chmod(0o755)  # mkdtemp makes a private folder; a lab shares its models
        if out.exists():
            shutil.rmtree(out)
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return sum(weight.numel() for weight in model.parameters())


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the random weights")
    parser.add_argument("--out", type=Path, required=True, help="folder to make, as save_pretrained writes it")
    return parser


def step(args: argparse.Namespace) -> None:
    weights = build(args.seed, args.out)
    print(f"{args.out}: {weights} random weights, seed {args.seed}; untrained, its answers are noise")


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
