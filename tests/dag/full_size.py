"""A made-up configuration of full size, to plan with: the data sets of three papers at their real sizes, 25 models and
300 cells, some of them in shards. Nothing of it can run: the videos are empty files.
"""

import os
import re
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import environment, snakemake_command

DATASETS = {
    "egotextvqa_indoor": (813, 2216),
    "egotextvqa_outdoor": (694, 4848),
    "myego": (541, 5012),
    "vitexqa": (5147, 6864),
}
"""Videos and questions, as published."""
SAMPLERS = {
    "egotextvqa_indoor": ("uniform_8", "uniform_fps1_32", "fixed_5s_8"),
    "egotextvqa_outdoor": ("uniform_8", "ts_frame", "fixed_5s_8"),
    "myego": ("uniform_fps1_32", "qa_frames", "moment_aware_8"),
    "vitexqa": ("uniform_16", "uniform_32", "keyframes_32"),
}
MODELS = 25
SHARDED, SHARDS = 10, 4
"""So many models answer a cell in so many jobs."""
TABLES = sum(map(len, SAMPLERS.values())) + len(SAMPLERS)
CELLS = MODELS * sum(map(len, SAMPLERS.values()))


def expected_jobs() -> dict[str, int]:
    """What a plan from nothing has of each rule, but for ``make_pdf``, which depends on the machine."""
    per_model = CELLS // MODELS
    frames = {(dataset, sampler) for dataset, samplers in SAMPLERS.items() for sampler in samplers}
    return {
        "fetch_dataset": len(DATASETS),
        "probe_videos": len(DATASETS),
        "extract_keyframes": 1,
        "build_frames": len(frames),
        "fetch_ocr_models": 1,
        "extract_ocr": per_model,  # for the one model that reads text
        "fetch_model": MODELS - 1,
        "run_cell": (MODELS - SHARDED) * per_model,
        "run_shard": SHARDED * SHARDS * per_model,
        "merge_shards": SHARDED * per_model,
        "score_cell": CELLS,
        "make_table": TABLES,
        "make_report": 1,
        "all": 1,
    }


def write(folder: Path) -> None:
    """Put the configuration into a copy of the repository."""
    config = folder / "config"
    for dataset in DATASETS:
        _write_dataset(folder, dataset)
    models = _write_models(config / "models")
    tables = {}
    for dataset, samplers in SAMPLERS.items():
        paper = dataset.split("_")[0]
        for sampler in samplers:
            tables[f"{paper}/{dataset}_{sampler}"] = _table(dataset, [sampler], models)
        tables[f"{paper}/{dataset}"] = _table(dataset, list(samplers), models)
    for name, table in tables.items():
        _write_yaml(config / "tables" / f"{name}.yaml", table)
    settings = yaml.safe_load((config / "config.yaml").read_text(encoding="utf-8"))
    _write_yaml(config / "config.yaml", {**settings, "tables": list(tables)})


def _write_yaml(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _write_dataset(folder: Path, name: str) -> None:
    """The videos are there, because a plan looks at every one's size and time."""
    videos, questions = DATASETS[name]
    footage = folder / "footage" / name
    footage.mkdir(parents=True)
    for number in range(videos):
        (footage / f"{number:05}.mp4").touch()
    lines = (f'{{"key":"{name}/{number % videos:05}/{number}"}}\n' for number in range(questions))
    (folder / "footage" / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    source = {"kind": "local", "videos": f"footage/{name}", "questions": f"footage/{name}.jsonl"}
    content = {"title": name, "licence": "made up", "source": source}
    _write_yaml(folder / "config" / "datasets" / f"{name}.yaml", content)


def _write_models(folder: Path) -> list[str]:
    """OCR alone, and copies of a model of the hub under other names."""
    copied = yaml.safe_load((folder / "qwen3_vl_8b.yaml").read_text(encoding="utf-8"))
    names = [f"model_{number:02}" for number in range(1, MODELS)]
    for number, name in enumerate(names):
        shards = {"shards": SHARDS} if number < SHARDED else {}
        _write_yaml(folder / f"{name}.yaml", {**copied, "title": name, "resources": {**copied["resources"], **shards}})
    return ["ocr_reader", *names]


def _table(dataset: str, samplers: list[str], models: list[str]) -> dict[str, Any]:
    """Models by samplers and metrics."""
    metrics = ("rouge_l", "lcs_precision", "anls_paper", "exact_match")
    columns = [
        {"label": f"{sampler} {metric}", "heading": metric, "over": sampler, "sampler": sampler, "metric": metric}
        for sampler in samplers
        for metric in metrics
    ]
    return {
        "title": dataset,
        "caption": "Made up.",
        "label": f"{dataset}-{samplers[0]}-{len(samplers)}".replace("_", "-"),
        "defaults": {"dataset": dataset, "resolution": "native", "prompt": "v_q"},
        "columns": columns,
        "rows": [{"label": model, "model": model} for model in models],
        "compare": [{"rows": [models[0], model], "column": columns[0]["label"]} for model in models[1:4]],
    }


@dataclass(frozen=True)
class Plan:
    """A dry run and what it took."""

    status: int
    output: str
    seconds: float
    cpu_s: float
    peak_mb: float

    @property
    def jobs(self) -> dict[str, int]:
        """Rule to number of jobs, as Snakemake sums them up."""
        return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", self.output, re.MULTILINE)}

    @property
    def submissions(self) -> dict[str, int]:
        """Group or rule to the number of jobs handed to an executor: all jobs of a group are one, a target is none."""
        groups = re.findall(r"^\[[^]]*\] Group job (\S+) \(", self.output, re.MULTILINE)
        alone = re.findall(r"^rule (\w+):\n((?: +.*\n)+)", self.output, re.MULTILINE)
        # A rule without a log is a target, and local
        return dict(Counter([*groups, *(rule for rule, about in alone if "\n    log: " in f"\n{about}")]))


def plan(folder: Path, *arguments: str) -> Plan:
    """``snakemake -n`` in a checkout, with its own use of time and memory."""
    output = folder / "plan.txt"
    command = snakemake_command("-n", *arguments)
    start = time.monotonic()
    with output.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=file, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Plan(
        status=process.returncode,
        output=output.read_text(encoding="utf-8"),
        seconds=time.monotonic() - start,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_mb=used.ru_maxrss / 1024,
    )
