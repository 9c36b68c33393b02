"""Answers that cells of a plan have in the cache from an earlier start: they are not asked again."""

from pathlib import Path

from scripts.estimate.planned import ANSWERING, Job
from scripts.lib import cells
from scripts.lib.cache import fingerprint

CACHE = Path("resources", "cache", "predictions")


class Kept:
    """The files of answers in the cache (scripts/infer/cell.py: a folder per setting, in it a file per writer)."""

    def __init__(self, root: Path = Path()) -> None:
        self.root = root
        self._files: dict[str, list[Path]] = {}
        for file in (root / CACHE).glob("*/*.jsonl"):
            self._files.setdefault(file.stem, []).append(file)

    def answers(self, job: Job) -> int:
        """That this job has written so far, under the setting it ran with last.

        Whether that setting still holds is not known here: what goes into its name takes a model's own libraries.
        """
        if job.rule not in ANSWERING:
            return 0
        files = self._files.get(fingerprint(str((self.root / predictions(job)).absolute())), [])
        if not files:
            return 0
        with max(files, key=lambda file: file.stat().st_mtime).open("rb") as lines:
            return sum(line.endswith(b"\n") for line in lines)


def predictions(job: Job) -> Path:
    """The file that a model's job makes."""
    folder = Path("results", "predictions", cells.PATTERN.format(**job.wildcards))
    return (
        folder / "shards" / f"{job.wildcards['shard']}.jsonl"
        if "shard" in job.wildcards
        else folder / "predictions.jsonl"
    )
