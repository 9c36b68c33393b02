"""The costs of all jobs, summed up as people ask for them: by rule, by model, by folder."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from scripts.estimate.costs import Cost, Costs, judge_label
from scripts.estimate.figures import Book, Figure
from scripts.estimate.images import missing
from scripts.estimate.kept import Kept
from scripts.estimate.planned import ANSWERING, JUDGING, Plan
from scripts.estimate.prices import Budget, Prices, read_budget
from scripts.estimate.sizes import HARDWARE, Sizes, Yaml
from scripts.estimate.tokens import Tokens
from scripts.lib import cells, config


@dataclass(frozen=True)
class Sum:
    """Of some jobs."""

    jobs: int
    cells: int
    """Distinct ones that a model answers."""
    questions: float
    cpu_h: float
    gpu_h: dict[str, float]
    """By card, as are the dollars."""
    dollars: dict[str, float]
    """What the GPUs cost."""
    tokens: Tokens
    """That APIs bill."""
    api_dollars: float
    api_limit_dollars: float
    """With every reply as long as it may be."""
    kept: int
    """Answers, and judges' replies, in the cache, from an earlier start."""
    cpu_limit_h: float
    gpu_limit_h: float
    limit_dollars: dict[str, float]
    """Of the GPUs."""


@dataclass(frozen=True)
class Estimate:
    """All that is printed."""

    plan: Plan
    cards: dict[str, str]
    """Name to title."""
    rules: dict[str, Sum]
    models: dict[str, Sum]
    judges: dict[str, Sum]
    """Those that are language models; as ``judge_label`` calls them."""
    answering: Sum
    """Of all models."""
    total: Sum
    """Of all rules."""
    prices: dict[str, str]
    """Model or judge to the day of its price; of APIs only."""
    budget: Budget | None
    """Where an API is asked."""
    disk_gb: dict[str, float]
    """Folder to what will be added."""
    too_long: list[str]
    """Jobs that the estimate sees end at their time limit, one line for each model or rule."""
    guesses: list[Figure]


def estimate(plan: Plan, root: Path = Path()) -> Estimate:
    """What a plan costs.

    Args:
        root: the repository.

    Raises:
        ConfigError: a file of the configuration that is wrong or says too little.
    """
    book = Book()
    hardware = config.read(root / HARDWARE, root / "config" / "schemas" / "hardware.schema.yaml")
    configs = {kind: _load_all(kind, root / "config") for kind in ("model", "judge", "prompt", "resolution")}
    prices, kept = Prices(book, root), Kept(root)
    costs = Costs(hardware, configs, Sizes(plan.jobs, hardware, book, root), prices, book)
    found = [replace(costs.of(job), kept=kept.answers(job)) for job in plan.jobs]
    rates = dict.fromkeys(hardware["cards"], 0.0)
    if any(cost.job.gpus for cost in found):
        rates = {card: book.take(HARDWARE, hardware, "cards", card, "dollars_per_hour") for card in rates}

    def add(some: Iterable[Cost]) -> Sum:
        return added(list(some), rates)

    answering = [cost for cost in found if cost.job.rule in ANSWERING]
    judging = [cost for cost in found if cost.job.rule == JUDGING and cost.questions]
    disk = {folder: sum(cost.gb for cost in some) for folder, some in by(found, lambda cost: cost.folder).items()}
    containers = {job.image for job in plan.jobs if job.image}
    if containers:
        disk["containers"] = missing(containers, hardware, book, root)
    return Estimate(
        plan,
        {card: content["title"] for card, content in hardware["cards"].items()},
        {rule: add(some) for rule, some in by(found, lambda cost: cost.job.rule).items()},
        {model: add(some) for model, some in by(answering, lambda cost: cost.job.wildcards["model"]).items()},
        {judge_label(name): add(some) for name, some in by(judging, lambda cost: cost.job.wildcards["judge"]).items()},
        add(answering),
        add(found),
        prices.dates,
        read_budget(root) if prices.dates else None,
        disk,
        [_too_long(place, some) for place, some in by(found, _overdue).items() if place],
        book.guesses(),
    )


def added(costs: list[Cost], rates: Mapping[str, float]) -> Sum:
    """The sum of some jobs' costs, at dollars of a GPU hour by card."""
    gpu_h = {card: sum(cost.gpu_h.get(card, 0.0) for cost in costs) for card in rates}
    limit = sum(cost.gpu_limit_h for cost in costs)
    return Sum(
        jobs=len(costs),
        cells=len({cell_of(cost) for cost in costs if cost.job.rule in ANSWERING}),
        questions=sum(cost.questions for cost in costs),
        cpu_h=sum(cost.cpu_h for cost in costs),
        gpu_h=gpu_h,
        dollars={card: gpu_h[card] * rate for card, rate in rates.items()},
        tokens=sum((cost.tokens for cost in costs), Tokens()),
        api_dollars=sum(cost.api_dollars for cost in costs),
        api_limit_dollars=sum(cost.api_limit_dollars for cost in costs),
        kept=sum(cost.kept for cost in costs),
        cpu_limit_h=sum(cost.cpu_limit_h for cost in costs),
        gpu_limit_h=limit,
        limit_dollars={card: limit * rate for card, rate in rates.items()},
    )


def cell_of(cost: Cost) -> str:
    """The cell that a model's job belongs to."""
    return cells.PATTERN.format(**cost.job.wildcards)


def by(costs: Iterable[Cost], key: Callable[[Cost], str]) -> dict[str, list[Cost]]:
    """Groups in the order of their names."""
    groups: dict[str, list[Cost]] = {}
    for cost in costs:
        groups.setdefault(key(cost), []).append(cost)
    return dict(sorted(groups.items()))


def _overdue(cost: Cost) -> str:
    """Where its time limit is set, if the job is seen to end at it."""
    if not cost.job.limit_h or cost.wall_h <= cost.job.limit_h:
        return ""
    if cost.job.rule == JUDGING:
        return f"config/judges/{cost.job.wildcards['judge']}.yaml"
    return (
        f"config/models/{cost.job.wildcards['model']}.yaml" if cost.job.rule in ANSWERING else f"rule {cost.job.rule}"
    )


def _too_long(place: str, costs: list[Cost]) -> str:
    longest = max(costs, key=lambda cost: cost.wall_h)
    remedy = "its threads or runtime" if place.startswith("rule ") else "resources.runtime_min"
    remedy += " or resources.shards" if longest.job.rule in ANSWERING else ""
    return (
        f"{place}: {len(costs)} of its jobs look longer than their limit of {longest.job.limit_h:.1f} h (up to"
        f" {longest.wall_h:.1f} h); raise {remedy}"
    )


def _load_all(kind: str, root: Path) -> dict[str, Yaml]:
    return {name: config.load(kind, name, root) for name in sorted(config.names(kind, root))}


def as_json(found: Estimate) -> dict[str, Any]:
    """The estimate as JSON has it."""
    return {
        "jobs": len(found.plan.jobs),
        "submissions": found.plan.groups + found.plan.alone,
        "rules": {name: asdict(one) for name, one in found.rules.items()},
        "models": {name: asdict(one) for name, one in found.models.items()},
        "judges": {name: asdict(one) for name, one in found.judges.items()},
        "total": asdict(found.total),
        "prices": found.prices,
        "budget": found.budget and asdict(found.budget),
        "disk_gb": found.disk_gb,
        "too_long": found.too_long,
        "guesses": [asdict(one) for one in found.guesses],
    }
