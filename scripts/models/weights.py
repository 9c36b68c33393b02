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
"""In a folder made by fetch_model: the commit that was downloaded, of a pinned model too; then a line for each vision
tower, with its id and commit."""

TOWERS = "towers"
"""Folder within, with a folder for each of ``weights.towers``, named as the hub's repository without its owner."""

PATTERNS = ("*.safetensors", "pytorch_model*.bin")
"""Files that hold weights, in the folder or (a model in parts, such as VILA) below it."""


def check(model: dict[str, Any], weights: Path | None) -> None:
    """Refuse a missing, unneeded or wrong ``--weights``.

    Raises:
        ConfigError: the model needs a folder and got none, or the other way round.
        EngineError: the folder is missing, holds no weights, lacks one of ``weights.towers``, or any of them is of
            another revision than the model's file says.
    """
    kind = model["weights"]["kind"]
    if kind == "none":
        if weights is not None:
            raise ConfigError(f"model '{model['name']}' has no weights; drop --weights")
        return
    rule = "fetch_model" if kind == "hub" else "the rule that builds it"
    if weights is None:
        raise ConfigError(f"model '{model['name']}' needs --weights, the folder made by {rule}")
    _check_files(weights, rule)
    if kind == "hub":
        _check_revision(model, weights, model["weights"]["revision"], fetched(weights))
        for tower in model["weights"].get("towers", ()):
            folder = tower_folders(model, weights)[tower["id"]]
            _check_files(folder, rule)
            _check_revision(model, folder, tower["revision"], fetched_tower(weights, tower["id"]))


def _check_files(folder: Path, rule: str) -> None:
    """A model in parts has weights below its folder; those of a vision tower are not the model's."""
    held = (file.relative_to(folder) for pattern in PATTERNS for file in folder.rglob(pattern))
    if not (folder / "config.json").is_file() or all(file.parts[0] == TOWERS for file in held):
        raise EngineError(f"{folder}: no config.json with {' or '.join(PATTERNS)}; run {rule}")


def _check_revision(model: dict[str, Any], folder: Path, pinned: str, found: str) -> None:
    if pinned and found != pinned:
        where = f"config/models/{model['name']}.yaml"
        raise EngineError(f"{folder}: holds revision {found}, {where} asks for {pinned}; rerun fetch_model")


def tower_folders(model: dict[str, Any], weights: Path) -> dict[str, Path]:
    """Where the vision towers of ``weights.towers`` are, by their ids on the hub."""
    towers = model["weights"].get("towers", ())
    return {tower["id"]: weights / TOWERS / tower["id"].rpartition("/")[2] for tower in towers}


def fetched(weights: Path) -> str:
    """The commit that fetch_model downloaded into a folder, 40 hex digits.

    Raises:
        EngineError: the folder doesn't say.
    """
    return _record(weights)[0]


def fetched_tower(weights: Path, name: str) -> str:
    """The commit of a vision tower that fetch_model downloaded beside the weights, 40 hex digits.

    Raises:
        EngineError: the folder doesn't say.
    """
    for line in _record(weights)[1:]:
        found, _, commit = line.partition(" ")
        if found == name:
            return commit
    raise EngineError(f"{weights / REVISION_FILE}: says nothing of the vision tower {name}; rerun fetch_model")


def _record(weights: Path) -> list[str]:
    file = weights / REVISION_FILE
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    if not lines:
        raise EngineError(f"{file}: no such file, so nothing says which revision this is; rerun fetch_model")
    return lines


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

    Vision towers follow the hub's commit, as ``+clip-vit-large-patch14-336@ce19dc912ca5``.

    Raises:
        EngineError: see ``fetched``.
    """
    if "remote" in model:
        found = str(model["remote"]["id"])
    elif model["weights"]["kind"] == "hub" and weights is not None:
        commits = {folder.name: fetched_tower(weights, name) for name, folder in tower_folders(model, weights).items()}
        found = fetched(weights) + "".join(f"+{name}@{commit[:12]}" for name, commit in commits.items())
    else:
        found = identity(weights)
    return f"{pins.PREFIX}{found}" if found and pins.unpinned(model) else found
