"""A made-up configuration to estimate from, with figures that are easy to add up by hand."""

import shutil

import yaml

from scripts.estimate.planned import Job
from tests.conftest import ROOT

MODEL = {
    "title": "m",
    "adapter": "transformers",
    "image": "base",
    "licence": "none",
    "weights": {"kind": "hub", "id": "a/b", "revision": "0" * 40},
    "needs": ["frames"],
    "resources": {"gpus": 2, "mem_mb": 1000, "runtime_min": 60, "cpus": 1},
    "engine": {"device": "auto", "dtype": "auto", "attention": "sdpa", "threads": 0},
    "input": {"frames_as": "video", "image_times": True, "min_pixels": 1000, "max_pixels": 8000, "pixels_of": "frame"},
    "generation": {"max_new_tokens": 8, "thinking": False},
    "cost": {
        "load_s": {"value": 100, "source": "guess", "note": "read from disk"},
        "question_s": {"value": 2, "source": "measured"},
        "kilotoken_s": {"value": 0.5, "source": "guess", "note": "arithmetic"},
        "pixels_per_token": {"value": 4, "source": "published"},
        "frames_per_token": {"value": 2, "source": "published"},
        "weights_gb": {"value": 5, "source": "published"},
    },
}
GUESS = {"source": "guess", "note": "made up"}
HARDWARE = {
    "cards": {
        "slow": {"title": "Slow", "speed": {"value": 1, **GUESS}, "dollars_per_hour": {"value": 2, **GUESS}},
        "fast": {"title": "Fast", "speed": {"value": 4, **GUESS}, "dollars_per_hour": {"value": 5, **GUESS}},
    },
    "rules": {
        "run_cell": {"per": "question", "mb": {"value": 1, **GUESS}, "folder": "results"},
        "run_shard": {"per": "question", "mb": {"value": 1, **GUESS}, "folder": "results"},
        "fetch_model": {
            "per": "job",
            "cpu_s": {"value": 36, **GUESS},
            "mb": {"value": 0, **GUESS},
            "folder": "models",
        },
        "extract_ocr": {
            "per": "shown_frame",
            "cpu_s": {"value": 3, **GUESS},
            "mb": {"value": 2, **GUESS},
            "folder": "ocr",
        },
        "render_videos": {
            "per": "video_frame",
            "cpu_s": {"value": 0.02, **GUESS},
            "mb": {"value": 0, **GUESS},
            "folder": "videos",
        },
        "other": {
            "per": "job",
            "cpu_s": {"value": 18, **GUESS},
            "mb": {"value": 0, **GUESS},
            "folder": "results",
        },
    },
    "frames": {"other": {"value": 3, **GUESS}},
    "footage": {
        "gb_per_hour_rendered": {"value": 7, **GUESS},
        "minutes_per_video": {"value": 6, **GUESS},
        "fps": {"value": 25, **GUESS},
        "width": {"value": 100, **GUESS},
        "height": {"value": 50, **GUESS},
    },
    "prompts": {"scene_text_tokens": {"value": 20, **GUESS}},
    "images_gb": {"base": {"value": 4, "source": "measured"}, "other": {"value": 9, **GUESS}},
}
API = {
    **{key: MODEL[key] for key in ("title", "image", "licence", "needs")},
    "adapter": "openai",
    "weights": {"kind": "none"},
    "resources": {"gpus": 0, "mem_mb": 1000, "runtime_min": 60, "cpus": 1},
    "remote": {"url": "https://api.invalid/v1", "id": "big-2026-11-30", "dated": True, "key_env": "KEY"},
    "client": {
        "concurrency": 4,
        "timeout_s": 60,
        "image_format": "jpeg",
        "image_times": True,
        "max_tokens_field": "max_tokens",
    },
    "generation": {"max_new_tokens": 500, "thinking": False},
    "cost": {
        "load_s": {"value": 5, **GUESS},
        "question_s": {"value": 2, **GUESS},
        "kilotoken_s": {"value": 1, **GUESS},
        "tokens_per_frame": {"value": 300, "source": "published"},
        "text_tokens": {"value": 100, **GUESS},
        "new_tokens": {"value": 40, **GUESS},
    },
}
PRICE = {
    "in": 2,
    "out": 10,
    "over": [{"tokens": 5000, "in": 4, "out": 20}],
    "as_of": "2026-11-30",
    "source": "published",
}
PRICES = {"models": {"big-2026-11-30": PRICE}}
LIMITS = {
    "budget": {"dollars": 50, "tokens": None},
    "retries": 8,
    "first_wait_s": 1,
    "longest_wait_s": 120,
    "give_up_after": 20,
}
AXES = {"dataset": "d", "model": "m", "sampler": "four", "resolution": "native", "prompt": "seen"}
CELL = Job("run_cell", AXES, 4, {"gpu": 2, "runtime": 60})


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    path.write_text(text, encoding="utf-8")


def edit(path, key, value):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    write(path, {**content, key: value})


def make_repo(root):
    """A configuration of one of each, beside the repository's schemas."""
    shutil.copytree(ROOT / "config" / "schemas", root / "config" / "schemas")
    folder = root / "config"
    write(folder / "hardware.yaml", HARDWARE)
    write(folder / "models" / "m.yaml", MODEL)
    write(folder / "models" / "api.yaml", API)
    write(folder / "prices.yaml", PRICES)
    write(folder / "remote.yaml", LIMITS)
    source = {"kind": "local", "videos": "footage", "questions": "questions.jsonl"}
    write(folder / "datasets" / "d.yaml", {"title": "d", "licence": "none", "source": source})
    write(folder / "samplers" / "four.yaml", {"title": "4", "sampler": "uniform", "n": 4})
    write(folder / "samplers" / "asked.yaml", {"title": "asked", "sampler": "ts_frame"})
    write(folder / "resolutions" / "native.yaml", {"title": "native", "kind": "native"})
    write(folder / "resolutions" / "half.yaml", {"title": "half", "kind": "long_side", "pixels": 50})
    for name, changes in (
        ("seen", {"frames": "sampled"}),
        ("unseen", {"frames": "none"}),
        ("told", {"frames": "none", "scene_text": "ocr", "template": "{scene_text} {question}"}),
    ):
        prompt = {"title": name, "answers": "open", "template": "{question}", "source": "ours"}
        write(folder / "prompts" / f"{name}.yaml", {**prompt, **changes})
    write(root / "questions.jsonl", "{}\n" * 10)
    for name in ("a.mp4", "b.mkv", "c.txt"):
        write(root / "footage" / name, "")
    return root


def job(**changes):
    """The cell's job with other wildcards."""
    return Job("run_cell", {**AXES, **changes}, 4, {"gpu": 2, "runtime": 60})


def asked(**changes):
    """The job of a cell that an API answers."""
    return Job("run_cell", {**AXES, "model": "api", **changes}, 1, {"runtime": 60})
