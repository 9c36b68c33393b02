"""Containers that a plan's jobs run in and this machine hasn't got."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.estimate.figures import Book
from scripts.estimate.planned import Job
from scripts.estimate.sizes import HARDWARE, Yaml
from scripts.lib import images

RULE = re.compile(r"^rule (\w+):\n((?:^(?: .*)?\n)*)", re.MULTILINE)
IMAGE = re.compile(r"container:\s+images\.path\((?:\"\w+\" if \w+ else )?\"(\w+)\"\)")


def of_rules(folder: Path) -> dict[str, str]:
    """Rule to image, read off the rule files: no plan tells. Rules that take their model's image are left out."""
    found = {}
    for file in sorted(folder.glob("*.smk")):
        for name, body in RULE.findall(file.read_text(encoding="utf-8")):
            image = IMAGE.search(body)
            if image:
                found[name] = image[1]
    return found


def missing(jobs: Iterable[Job], models: Mapping[str, Yaml], hardware: Yaml, book: Book, root: Path = Path()) -> float:
    """GB of the images to get."""
    fixed = of_rules(root / "rules")
    needed = {
        fixed[job.rule] if job.rule in fixed else models[job.wildcards["model"]]["image"]
        for job in jobs
        if job.rule in fixed or "model" in job.wildcards
    }
    known = hardware["images_gb"]
    absent = [name for name in needed if not (root / images.path(name)).is_file()]
    return sum(book.take(HARDWARE, hardware, "images_gb", name if name in known else "other") for name in absent)
