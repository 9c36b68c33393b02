"""Hours, dollars and disk of each job of a plan.

A question costs a model ``question_s``, whatever is shown, and ``kilotoken_s`` for each 1000 visual tokens. A job costs
``load_s`` once; one of n shards has an nth of the questions. A faster card is faster at questions, not at loading. What
other rules cost goes by job, question, frame shown or frame of footage (config/hardware.yaml).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scripts.estimate.figures import Book
from scripts.estimate.planned import Job
from scripts.estimate.sizes import HARDWARE, Sizes, Yaml, shrunk
from scripts.lib import cells
from scripts.lib.errors import ConfigError

ANSWERING = ("run_cell", "run_shard")
"""The rules that run a model on a data set's questions."""
FOOTAGE = ("render_videos", "fetch_dataset")


@dataclass(frozen=True)
class Cost:
    """Of one job."""

    job: Job
    questions: float = 0
    """That a model answers in it."""
    cpu_h: float = 0
    gpu_h: Mapping[str, float] = field(default_factory=dict)
    """By card; GPUs times hours."""
    wall_h: float = 0
    """From start to end, on the slowest card; a model without GPU has one core, other rules have all of theirs."""
    api_dollars: float = 0
    gb: float = 0
    folder: str = ""
    """Where most of its files go."""

    @property
    def gpu_limit_h(self) -> float:
        """What Slurm bills at most for one attempt."""
        return self.job.gpus * self.job.limit_h

    @property
    def cpu_limit_h(self) -> float:
        return 0.0 if self.job.gpus else self.job.threads * self.job.limit_h


def visual_tokens(model: Yaml, take: Callable[..., float], frames: float, pixels: float) -> float:
    """Of one question.

    Args:
        take: a figure of the model's ``cost``, by its key.
        frames: that the model sees.
        pixels: of one of them, before the model's own limits.
    """
    cost = model["cost"]
    if not frames or "kilotoken_s" not in cost:
        return 0.0
    if "tokens_per_frame" in cost:
        each = take("tokens_per_frame")
    else:
        limits = model.get("input", {})
        pixels = max(limits.get("min_pixels", 0), min(pixels, limits.get("max_pixels", math.inf)))
        each = pixels / take("pixels_per_token")
    shared = take("frames_per_token") if "frames_per_token" in cost else 1.0
    # The last of an odd number of frames stands twice.
    return each * math.ceil(frames / shared)


class Costs:
    """The costs of a plan's jobs."""

    def __init__(self, hardware: Yaml, configs: Mapping[str, Mapping[str, Yaml]], sizes: Sizes, book: Book) -> None:
        """
        Args:
            configs: model, prompt and resolution: each a mapping of names to what their files say.
        """
        self.hardware, self.configs, self.sizes, self.book = hardware, configs, sizes, book

    def of(self, job: Job) -> Cost:
        """One job's.

        Raises:
            ConfigError: a model's file doesn't say what it costs.
        """
        rule = job.rule if job.rule in self.hardware["rules"] else "other"
        known = self.hardware["rules"][rule]
        units = self._units(job, known["per"])
        cpu_s = self._rule(rule, "cpu_s") * units if "cpu_s" in known else 0.0
        gb = self._rule(rule, "mb") * units / 1000
        name = job.wildcards.get("model", "")
        if job.rule == "fetch_model" and "weights_gb" in self._model(name)["cost"]:
            gb += self._figure(name, "weights_gb")
        if job.rule in FOOTAGE:
            gb += self.sizes.dataset(job.wildcards["dataset"]).gb
        hours = {"cpu_h": cpu_s / 3600, "wall_h": cpu_s / 3600 / job.threads}
        answered = self._answers(job) if job.rule in ANSWERING else {}
        return Cost(job, **{**hours, "gb": gb, "folder": known["folder"], **answered})

    def _answers(self, job: Job) -> dict[str, Any]:
        """What a model's job has beside its files."""
        name = job.wildcards["model"]
        each, load = self._question_s(job.wildcards), self._figure(name, "load_s")
        questions = self._questions(job)
        bill = self._figure(name, "dollars_per_question") if "dollars_per_question" in self._model(name)["cost"] else 0
        found: dict[str, Any] = {"questions": questions, "api_dollars": bill * questions}
        if not job.gpus:
            hours = (load + questions * each) / 3600
            return {**found, "cpu_h": hours, "wall_h": hours}
        walls = {}
        for card in self.hardware["cards"]:
            speed = self.book.take(HARDWARE, self.hardware, "cards", card, "speed")
            walls[card] = (load + questions * each / speed) / 3600
        gpu_h = {card: job.gpus * hours for card, hours in walls.items()}
        return {**found, "gpu_h": gpu_h, "wall_h": max(walls.values())}

    def _question_s(self, wildcards: Mapping[str, str]) -> float:
        """Seconds on the first card, or of a CPU core."""
        name, dataset = wildcards["model"], wildcards["dataset"]
        model = self._model(name)
        sees = "frames" in model["needs"] and self.configs["prompt"][wildcards["prompt"]]["frames"] == "sampled"
        tokens = 0.0
        if sees and "kilotoken_s" in model["cost"]:
            footage = self.sizes.dataset(dataset)
            pixels = shrunk(self.configs["resolution"][wildcards["resolution"]], footage.width, footage.height)
            frames = self.sizes.frames(dataset, wildcards["sampler"])
            tokens = visual_tokens(model, lambda key: self._figure(name, key), frames, pixels)
        seconds = self._figure(name, "question_s")
        return seconds + (self._figure(name, "kilotoken_s") * tokens / 1000 if tokens else 0.0)

    def _questions(self, job: Job) -> float:
        """Of its data set; of a shard, its share."""
        count = cells.parse_shard(job.wildcards["shard"])[1] if "shard" in job.wildcards else 1
        return self.sizes.dataset(job.wildcards["dataset"]).questions / count

    def _units(self, job: Job, per: str) -> float:
        dataset = job.wildcards.get("dataset")
        if per == "job" or dataset is None:
            return 1.0
        if per == "video_frame":
            return self.sizes.dataset(dataset).video_frames
        questions = self._questions(job)
        return questions * self.sizes.frames(dataset, job.wildcards["sampler"]) if per == "shown_frame" else questions

    def _rule(self, rule: str, key: str) -> float:
        return self.book.take(HARDWARE, self.hardware, "rules", rule, key)

    def _figure(self, model: str, key: str) -> float:
        return self.book.take(f"config/models/{model}.yaml", self._model(model), "cost", key)

    def _model(self, name: str) -> Yaml:
        model = self.configs["model"][name]
        if "cost" not in model:
            raise ConfigError(
                f"config/models/{name}.yaml: says nothing of its cost, which an estimate needs; add `cost:` as in"
                " config/models/qwen3_vl_8b.yaml"
            )
        return model
