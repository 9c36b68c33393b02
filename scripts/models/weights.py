"""Where a model's weights are, and what identifies them."""

import hashlib
from pathlib import Path
from typing import Any

from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.files import sha256

LARGE = 64 * 1024 * 1024
"""Bytes from which a file counts by name and size: hashing 16 GB of a pinned revision would take minutes a job."""


def check(model: dict[str, Any], weights: Path | None) -> None:
    """Refuse a missing or unneeded ``--weights``.

    Raises:
        ConfigError: the model needs a folder and got none, or the other way round.
        EngineError: the folder is missing or holds no weights.
    """
    kind = model["weights"]["kind"]
    if kind == "none":
        if weights is not None:
            raise ConfigError(f"model '{model['name']}' has no weights; drop --weights")
        return
    rule = "fetch_model" if kind == "hub" else "the rule that builds it"
    if weights is None:
        raise ConfigError(f"model '{model['name']}' needs --weights, the folder made by {rule}")
    if not (weights / "config.json").is_file() or not any(weights.glob("*.safetensors")):
        raise EngineError(f"{weights}: no config.json with *.safetensors; run {rule}")


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
    """What a prediction records: the hub revision, or the identity of weights made here; empty without weights."""
    pinned: str | None = model["weights"].get("revision")
    return pinned or identity(weights)
