"""The containers that rules run in. ``containers/images.yaml`` is the only place with digests; a file's name holds its
digest, because Snakemake's container trigger sees nothing but the name."""

from functools import cache
from pathlib import Path

import yaml

from scripts.lib.errors import ConfigError
from scripts.lib.text import did_you_mean

IMAGES = Path("containers/images.yaml")


@cache
def _images() -> dict[str, str]:
    content: dict[str, str] = yaml.safe_load(IMAGES.read_text(encoding="utf-8"))
    return content


def path(name: str) -> str:
    """The image file of a name: ``containers/<name>-<first 12 digits of its sha256>.sif``, or without digits until the
    image is built and its digest recorded.

    Raises:
        ConfigError: no such image.
    """
    images = _images()
    if name not in images:
        raise ConfigError(f"{IMAGES}: no image '{name}'{did_you_mean(name, images)}")
    digest = images[name].removeprefix("sha256:")[:12]
    return f"containers/{name}-{digest}.sif" if digest else f"containers/{name}.sif"


def has(name: str) -> bool:
    """Whether the image file is on this machine."""
    return Path(path(name)).is_file()
