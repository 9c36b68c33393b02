"""Hours, dollars and disk of each job of a plan.

A question costs a model ``question_s``, whatever is shown, and ``kilotoken_s`` for each 1000 visual tokens. A job costs
``load_s`` once; one of n shards has an nth of the questions. A faster card is faster at questions, not at loading; a
limit of questions or tokens a minute holds on any. An API bills tokens read and written, by config/prices.yaml. A judge
that is a language model is asked for every question, and for a share of them twice. What other rules cost goes by job,
question, frame shown or frame of footage (config/hardware.yaml).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scripts.estimate.figures import Book
from scripts.estimate.planned import ANSWERING, JUDGING, Job
from scripts.estimate.prices import Prices
from scripts.estimate.sizes import HARDWARE, Sizes, Yaml, shrunk
from scripts.estimate.tokens import Tokens, visual_tokens
from scripts.lib import cells
from scripts.lib.errors import ConfigError

FOOTAGE = ("render_videos", "fetch_dataset")


@dataclass(frozen=True)
class Cost:
    """Of one job."""

    job: Job
    questions: float = 0
    """That a model answers in it, or a judge is asked."""
    kept: int = 0
    """Answers, or a judge's replies, that it has in the cache from an earlier start."""
    cpu_h: float = 0
    gpu_h: Mapping[str, float] = field(default_factory=dict)
    """By card; GPUs times hours."""
    wall_h: float = 0
    """From start to end, on the slowest card; a model without GPU has one core, other rules have all of theirs."""
    tokens: Tokens = field(default_factory=Tokens)
    """Of all its questions, where an API bills them."""
    api_dollars: float = 0
    api_limit_dollars: float = 0
    """The same with every reply as long as it may be."""
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


class Costs:
    """The costs of a plan's jobs."""

    def __init__(
        self, hardware: Yaml, configs: Mapping[str, Mapping[str, Yaml]], sizes: Sizes, prices: Prices, book: Book
    ) -> None:
        """
        Args:
            configs: model, judge, prompt and resolution: each a mapping of names to what their files say.
        """
        self.hardware, self.configs, self.sizes, self.prices, self.book = hardware, configs, sizes, prices, book

    def of(self, job: Job) -> Cost:
        """One job's.

        Raises:
            ConfigError: a model's file doesn't say what it costs.
        """
        rule = job.rule if job.rule in self.hardware["rules"] else "other"
        known = self.hardware["rules"][rule]
        units = self._units(job, known["per"])
        gb = self._rule(rule, "mb") * units / 1000
        name = job.wildcards.get("model", "")
        if job.rule == "fetch_model" and "weights_gb" in self._model(name)["cost"]:
            gb += self._figure(name, "weights_gb")
        if job.rule in FOOTAGE:
            gb += self.sizes.dataset(job.wildcards["dataset"]).gb
        if job.rule in ANSWERING:
            spent = self._answers(job)
        elif job.rule == JUDGING and "remote" in self.configs["judge"][job.wildcards["judge"]]:
            spent = self._verdicts(job)
        elif job.gpus and "gpu_s" in known:
            spent = self._on_cards(job, lambda speed: self._rule(rule, "gpu_s") * units / speed)
        else:
            cpu_s = self._rule(rule, "cpu_s") * units if "cpu_s" in known else 0.0
            spent = {"cpu_h": cpu_s / 3600, "wall_h": cpu_s / 3600 / job.threads}
        return Cost(job, gb=gb, folder=known["folder"], **spent)

    def _on_cards(self, job: Job, seconds: Callable[[float], float]) -> dict[str, Any]:
        """Hours of a job with GPUs: ``seconds`` of a card of so many times the first one's speed."""
        walls = {}
        for card in self.hardware["cards"]:
            walls[card] = seconds(self.book.take(HARDWARE, self.hardware, "cards", card, "speed")) / 3600
        return {"gpu_h": {card: job.gpus * hours for card, hours in walls.items()}, "wall_h": max(walls.values())}

    def _answers(self, job: Job) -> dict[str, Any]:
        """What a model's job has beside its files."""
        name, questions = job.wildcards["model"], self._questions(job)
        tokens = self._tokens(job.wildcards)
        each, load = self._figure(name, "question_s"), self._figure(name, "load_s")
        if tokens.frames and "kilotoken_s" in self._model(name)["cost"]:
            each += self._figure(name, "kilotoken_s") * tokens.frames / 1000
        model = self._model(name)
        pace = pace_s(model.get("client", {}), tokens)

        def seconds(speed: float) -> float:
            return max(load + questions * each / speed, questions * pace)

        found: dict[str, Any] = {"questions": questions}
        if "remote" in model:
            found |= self._bill(name, model, tokens, questions)
        if job.gpus:
            return {**found, **self._on_cards(job, seconds)}
        return {**found, "cpu_h": seconds(1) / 3600, "wall_h": seconds(1) / 3600}

    def _tokens(self, wildcards: Mapping[str, str]) -> Tokens:
        """Of one question: those of the frames for any model, the others for APIs."""
        name, dataset, sampler = wildcards["model"], wildcards["dataset"], wildcards["sampler"]
        model, prompt = self._model(name), self.configs["prompt"][wildcards["prompt"]]
        visual = 0.0
        if "frames" in model["needs"] and prompt["frames"] == "sampled":
            footage = self.sizes.dataset(dataset)

            def pixels() -> float:
                return shrunk(self.configs["resolution"][wildcards["resolution"]], footage.width, footage.height)

            frames = self.sizes.frames(dataset, sampler)
            visual = visual_tokens(model, lambda key: self._figure(name, key), frames, pixels)
        if "remote" not in model:
            return Tokens(visual)
        text = self._figure(name, "text_tokens")
        if "scene_text" in prompt:
            told = self.book.take(HARDWARE, self.hardware, "prompts", "scene_text_tokens")
            text += told * self.sizes.frames(dataset, sampler)
        return Tokens(visual, text, self._figure(name, "new_tokens"), model["generation"]["max_new_tokens"])

    def _verdicts(self, job: Job) -> dict[str, Any]:
        """What a judge's job has beside its files. How long the vendor takes for a batch is not known."""
        name = job.wildcards["judge"]
        judge = self.configs["judge"][name]

        def figure(key: str) -> float:
            return self.book.take(f"config/judges/{name}.yaml", judge, "cost", key)

        calls = self._questions(job) * (1 + judge["again_share"])
        tokens = Tokens(0, figure("text_tokens"), figure("new_tokens"), judge["generation"]["max_new_tokens"])
        hours = 0.0
        if "batch" not in judge:
            hours = calls * max(figure("question_s"), pace_s(judge["client"], tokens)) / 3600
        bill = self._bill(judge_label(name), judge, tokens, calls, batch="batch" in judge)
        return {"questions": calls, "cpu_h": hours, "wall_h": hours, **bill}

    def _bill(self, who: str, asked: Yaml, tokens: Tokens, questions: float, batch: bool = False) -> dict[str, Any]:
        """What an API bills."""
        dollars = [
            self.prices.dollars(who, asked, tokens.read, new, batch) * questions
            for new in (tokens.new, tokens.most_new)
        ]
        return {"tokens": tokens.times(questions), "api_dollars": dollars[0], "api_limit_dollars": dollars[1]}

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
        content = self._model(model)
        if key not in content["cost"]:
            raise ConfigError(
                f"config/models/{model}.yaml: cost says no {key}, which an estimate needs; add it as in"
                " config/models/gpt_4o.yaml"
            )
        return self.book.take(f"config/models/{model}.yaml", content, "cost", key)

    def _model(self, name: str) -> Yaml:
        model = self.configs["model"][name]
        if "cost" not in model:
            raise ConfigError(
                f"config/models/{name}.yaml: says nothing of its cost, which an estimate needs; add `cost:` as in"
                " config/models/qwen3_vl_8b.yaml"
            )
        return model


def pace_s(client: Yaml, tokens: Tokens) -> float:
    """Seconds between two questions that a limit of the client asks for, 0 without one."""
    pace = 60 / client["requests_per_min"] if "requests_per_min" in client else 0.0
    if "tokens_per_min" in client:
        pace = max(pace, 60 * (tokens.read + tokens.new) / client["tokens_per_min"])
    return pace


def judge_label(name: str) -> str:
    """What a judge is called among the APIs."""
    return f"judge {name}"
