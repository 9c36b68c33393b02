"""How large a data set is: counted where its files are there and stay, else from its settings."""

import json
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from scripts.estimate.figures import Book
from scripts.estimate.planned import Job
from scripts.lib import config

HARDWARE = "config/hardware.yaml"
VIDEOS = {".mp4", ".mkv", ".webm", ".avi", ".mov"}
QUESTIONS_BY = ("build_scenarios", "fetch_dataset")
"""The rules that make a data set's questions."""

Yaml = Mapping[str, Any]


class DataSet:
    """One data set. What is asked of it is looked up then, so that only the guesses that matter are reported."""

    def __init__(self, name: str, sizes: "Sizes") -> None:
        self.name, self.sizes = name, sizes
        self.content = config.load("dataset", name, sizes.root / "config")
        self.source: Yaml = self.content["source"]
        self.folder = sizes.root / "resources" / "datasets" / name

    @cached_property
    def questions(self) -> float:
        """Counted where they are there; of a rendered set that is not, at most."""
        made = self.folder / "questions.jsonl"
        if made.is_file() and not any(self.sizes.remade(rule, self.name) for rule in QUESTIONS_BY):
            return float(sum(1 for _ in lines(made)))
        own = self.sizes.root / self.source["questions"] if self.source["kind"] == "local" else None
        if own and own.is_file():
            return float(sum(1 for _ in lines(own)))
        return self._expected("questions", self._settings.get("questions", 0.0))

    @cached_property
    def hours(self) -> float:
        """Of all its videos."""
        if "hours" in self._probed:
            return self._probed["hours"]
        if "hours" in self.content.get("expected", {}) or "hours" in self._settings:
            return self._expected("hours", self._settings.get("hours", 0.0))
        videos = self._expected("videos", 0.0) or len(local_videos(self.sizes.root / self.source["videos"]))
        return videos * self.sizes.footage("minutes_per_video") / 60

    @property
    def video_frames(self) -> float:
        return self.hours * 3600 * self._picture("fps")

    @property
    def width(self) -> float:
        return self._picture("width")

    @property
    def height(self) -> float:
        return self._picture("height")

    @property
    def gb(self) -> float:
        """What making or fetching its footage adds to the disk; videos of the user's own stay where they are."""
        rendered = self.hours * self.sizes.footage("gb_per_hour_rendered") if self._settings else 0.0
        return self._expected("gb", rendered)

    @cached_property
    def _probed(self) -> dict[str, float]:
        if self.sizes.remade("probe_videos", self.name):
            return {}
        return measured(self.folder / "videos.jsonl")

    @cached_property
    def _settings(self) -> dict[str, float]:
        return {} if self.source["kind"] == "local" else rendered(self.source)

    def _picture(self, key: str) -> float:
        known = self._probed.get(key) or self._expected(key, self._settings.get(key, 0.0))
        return known or self.sizes.footage(key)

    def _expected(self, key: str, otherwise: float) -> float:
        """What the data set's file expects, if it says."""
        if key not in self.content.get("expected", {}):
            return otherwise
        return self.sizes.book.take(f"config/datasets/{self.name}.yaml", self.content, "expected", key)


class Sizes:
    """Data sets and samplers, as far as the plan will not make them anew."""

    def __init__(self, jobs: tuple[Job, ...], hardware: Yaml, book: Book, root: Path = Path()) -> None:
        self.hardware, self.book, self.root = hardware, book, root
        self._remade = {(job.rule, job.wildcards.get("dataset"), job.wildcards.get("sampler")) for job in jobs}
        self._datasets: dict[str, DataSet] = {}
        self._frames: dict[tuple[str, str], float] = {}

    def dataset(self, name: str) -> DataSet:
        if name not in self._datasets:
            self._datasets[name] = DataSet(name, self)
        return self._datasets[name]

    def frames(self, dataset: str, sampler: str) -> float:
        """That a question sees, on average where the frames are chosen already, else at most."""
        if (dataset, sampler) not in self._frames:
            self._frames[dataset, sampler] = self._shown(dataset, sampler)
        return self._frames[dataset, sampler]

    def remade(self, rule: str, dataset: str, sampler: str | None = None) -> bool:
        """Whether the plan makes this anew, so that what lies there says nothing."""
        return (rule, dataset, sampler) in self._remade

    def footage(self, key: str) -> float:
        """What hardware.yaml takes for footage of which nothing is known."""
        return self.book.take(HARDWARE, self.hardware, "footage", key)

    def _shown(self, dataset: str, sampler: str) -> float:
        file = self.root / "resources" / "frames" / dataset / f"{sampler}.jsonl"
        if file.is_file() and not self.remade("build_frames", dataset, sampler):
            counts = [len(json.loads(line)["frames"]) for line in lines(file)]
            if counts:
                return sum(counts) / len(counts)
        content = config.load("sampler", sampler, self.root / "config")
        if "n" in content:
            return float(content["n"])
        known = self.hardware["frames"]
        kind = content["sampler"] if content["sampler"] in known else "other"
        return self.book.take(HARDWARE, self.hardware, "frames", kind)


def lines(file: Path) -> Iterator[str]:
    """Those that are not blank."""
    with file.open(encoding="utf-8") as opened:
        yield from filter(str.strip, opened)


def local_videos(folder: Path) -> list[Path]:
    """Files of the user's own footage."""
    return [file for file in folder.rglob("*") if file.suffix.lower() in VIDEOS and not file.name.startswith(".")]


def measured(file: Path) -> dict[str, float]:
    """Hours, frames a second and mean sides of videos that were probed; empty where none was, or none is good."""
    records = [json.loads(line) for line in lines(file)] if file.is_file() else []
    good = [record for record in records if record["status"] == "ok" and record["duration_s"]]
    if not good:
        return {}
    seconds = sum(record["duration_s"] for record in good)
    sides = {side: sum(record[side] for record in good) / len(good) for side in ("width", "height")}
    return {"hours": seconds / 3600, "fps": sum(record["n_frames"] for record in good) / seconds, **sides}


def rendered(source: Yaml) -> dict[str, float]:
    """What the settings of a synthetic data set come to: mean duration, and at most so many questions."""
    per_video = sum(source["questions"].values()) if "questions" in source else 1
    return {
        "questions": float(source["videos"] * per_video),
        "hours": source["videos"] * log_uniform_mean(*source["duration_s"]) / 3600,
        "fps": sum(source["fps"]) / 2,
        "width": float(source["width"]),
        "height": float(source["height"]),
    }


def log_uniform_mean(low: float, high: float) -> float:
    """Of what is drawn log-uniformly between two numbers."""
    return (high - low) / math.log(high / low) if high > low else float(low)


def shrunk(resolution: Yaml, width: float, height: float) -> float:
    """Pixels of a frame at a resolution; nothing is enlarged."""
    if resolution["kind"] == "native":
        return width * height
    side = float(resolution["pixels"])
    if resolution["kind"] == "square":
        return min(width, side) * min(height, side)
    scale = min(1.0, side / max(width, height))
    return width * height * scale**2
