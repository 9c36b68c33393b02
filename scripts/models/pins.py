"""Whether a model's file says which version of it is meant.

A number from a model that can change under its name can't be made again, so such a model runs only where the settings
name it.

Runs inside the Snakefile too, so it loads no engine.
"""

from collections.abc import Collection
from typing import Any

from scripts.lib.errors import ConfigError

PREFIX = "unpinned:"
"""What the revision on a record begins with where nothing was pinned; what was got instead follows."""


def unpinned(model: dict[str, Any]) -> str:
    """Why the model's version is open, in a few words; empty where it is fixed."""
    weights, remote = model.get("weights", {"kind": "none"}), model.get("remote")
    if weights["kind"] == "hub" and not weights["revision"]:
        return "weights.revision is empty"
    if towers := [tower["id"] for tower in weights.get("towers", ()) if not tower["revision"]]:
        return f"weights.towers: the revision of {', '.join(towers)} is empty"
    if remote is not None and not remote["dated"]:
        return f"remote.id '{remote['id']}' names no dated version"
    return ""


def check(model: dict[str, Any], allowed: Collection[str], folder: str = "models") -> None:
    """Refuse a model whose version is open, unless it is among those ``allowed``.

    Args:
        model: content of a file in config/models, or in another ``folder`` there (judges), with its ``name``.

    Raises:
        ConfigError: names the file, and both ways out.
    """
    why, name = unpinned(model), model["name"]
    if not why or name in allowed:
        return
    pin = "write the commit you want there" if "remote" not in model else "write one that does, with dated: true"
    raise ConfigError(f"config/{folder}/{name}.yaml: {why}; {pin}, or put {name} into allow_unpinned of config.yaml")
