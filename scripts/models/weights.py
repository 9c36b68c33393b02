"""Where a model's weights are, and what identifies them."""

import hashlib
from pathlib import Path
from typing import Any

from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.files import sha256
from scripts.models import pins

LARGE = 64 * 1024 * 1024
"""Bytes from which a file counts by name and size: hashing 16 GB of a pinned revision would take minutes a job."""

REVISION_FILE = "revision.txt"
"""In a folder made by fetch_model: the commit that was downloaded, of a pinned model too."""

PATTERNS = ("*.safetensors", "pytorch_model*.bin")
"""Files that hold weights, in the folder or (a model in parts, such as VILA) below it."""


def check(model: dict[str, Any], weights: Path | None) -> None:
    """Refuse a missing, unneeded or wrong ``--weights``.

    Raises:
        ConfigError: the model needs a folder and got none, or the other way round.
        EngineError: the folder is missing, holds no weights, or those of another revision than the model's.
    """
    kind = model["weights"]["kind"]
    if kind == "none":
        if weights is not None:
            raise ConfigError(f"model '{model['name']}' has no weights; drop --weights")
        return
    rule = "fetch_model" if kind == "hub" else "the rule that builds it"
    if weights is None:
        raise ConfigError(f"model '{model['name']}' needs --weights, the folder made by {rule}")
    if not (weights / "config.json").is_file() or not any(any(weights.rglob(pattern)) for pattern in PATTERNS):
        raise EngineError(f"{weights}: no config.json with {' or '.join(PATTERNS)}; run {rule}")
    if kind == "hub":
        pinned, found = model["weights"]["revision"], fetched(weights)
        if pinned and found != pinned:
            where = f"config/models/{model['name']}.yaml"
            raise EngineError(f"{weights}: holds revision {found}, {where} asks for {pinned}; rerun fetch_model")


def fetched(weights: Path) -> str:
    """The commit that fetch_model downloaded into a folder, 40 hex digits.

    Raises:
        EngineError: the folder doesn't say.
    """
    file = weights / REVISION_FILE
    if not file.is_file():
        raise EngineError(f"{file}: no such file, so nothing says which revision this is; rerun fetch_model")
    return file.read_text(encoding="utf-8").strip()


def identity(weights: Path | None) -> str:
    """16 hex digits over the files of a folder: their content, or name and size from 64 MiB on; empty without one."""
    if weights is None:
        return ""
    digest = hashlib.sha256()
    for file in sorted(path for path in weights.rglob("*") if path.is_file()):
        name = file.relative_to(weights).as_posix()
        if any(part.startswith(".") for part in Path(name).parts):  # download bookkeeping, Snakemake's time stamp
            continue
        size = file.stat().st_size
        digest.update(f"{name} {size} {sha256(file) if size < LARGE else ''}\n".encode())
    return digest.hexdigest()[:16]


def revision(model: dict[str, Any], weights: Path | None) -> str:
    """What a prediction records: the hub's commit, the id of a model behind an API, or the identity of weights made
    here; with ``unpinned:`` before it where the model's file leaves its version open; empty without any of these.

    Raises:
        EngineError: see ``fetched``.
    """
    if "remote" in model:
        found = str(model["remote"]["id"])
    elif model["weights"]["kind"] == "hub" and weights is not None:
        found = fetched(weights)
    else:
        found = identity(weights)
    return f"{pins.PREFIX}{found}" if found and pins.unpinned(model) else found
