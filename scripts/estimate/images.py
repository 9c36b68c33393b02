"""Containers that a plan's jobs run in and this machine hasn't got."""

from collections.abc import Set
from pathlib import Path

from scripts.estimate.figures import Book
from scripts.estimate.sizes import HARDWARE, Yaml
from scripts.lib import images


def missing(files: Set[str], hardware: Yaml, book: Book, root: Path = Path()) -> float:
    """GB of those image files that are to be built or copied."""
    names = {images.path(name): name for name in images.catalogue()["images"]}
    absent = [names.get(file, "other") for file in sorted(files) if not (root / file).is_file()]
    known = hardware["images_gb"]
    return sum(book.take(HARDWARE, hardware, "images_gb", name if name in known else "other") for name in absent)
