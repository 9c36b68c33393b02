"""Answers and verdicts that a plan's jobs have in the cache from an earlier start: they are not asked for again."""

from pathlib import Path

from scripts.estimate.planned import ANSWERING, JUDGING, Job
from scripts.lib import cells
from scripts.lib.cache import fingerprint

CACHES = {JUDGING: "judgements", **dict.fromkeys(ANSWERING, "predictions")}
"""Rule to folder, below resources/cache."""


class Kept:
    """The files in the caches (scripts/infer/cell.py: a folder per setting, in it a file per writer)."""

    def __init__(self, root: Path = Path()) -> None:
        self.root = root
        self._files: dict[tuple[str, str], list[Path]] = {}
        for cache in set(CACHES.values()):
            for file in (root / "resources" / "cache" / cache).glob("*/*.jsonl"):
                self._files.setdefault((cache, file.stem), []).append(file)

    def answers(self, job: Job) -> int:
        """That this job has written so far, under the setting it ran with last.

        Whether that setting still holds is not known here: what goes into its name takes a model's own libraries.
        """
        if job.rule not in CACHES:
            return 0
        writer = fingerprint(str((self.root / written(job)).absolute()))
        files = self._files.get((CACHES[job.rule], writer), [])
        if not files:
            return 0
        with max(files, key=lambda file: file.stat().st_mtime).open("rb") as lines:
            return sum(line.endswith(b"\n") for line in lines)


def written(job: Job) -> Path:
    """The file that a model's or a judge's job makes."""
    cell = cells.PATTERN.format(**job.wildcards)
    if job.rule == JUDGING:
        return Path("results", "judgements", job.wildcards["judge"], cell, "judgements.jsonl")
    folder = Path("results", "predictions", cell)
    return (
        folder / "shards" / f"{job.wildcards['shard']}.jsonl"
        if "shard" in job.wildcards
        else folder / "predictions.jsonl"
    )
