"""The YAML files under config/: one per data set, model, sampler, resolution, prompt or table, each with a schema.

Runs inside the Snakefile too, so it needs nothing beyond PyYAML and jsonschema.
"""

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from scripts.lib.errors import ConfigError
from scripts.lib.text import did_you_mean

ROOT = Path("config")
FOLDERS = {
    "dataset": "datasets",
    "model": "models",
    "sampler": "samplers",
    "resolution": "resolutions",
    "prompt": "prompts",
    "judge": "judges",
    "table": "tables",
    "agreement": "agreement",
}


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice: YAML forbids it, and PyYAML silently takes the last."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if (key.tag, key.value) in seen:
                raise yaml.MarkedYAMLError(None, None, f"key '{key.value}' occurs twice; remove one", key.start_mark)
            seen.add((key.tag, key.value))
        return node


def path_of(kind: str, name: str, root: Path = ROOT) -> Path:
    """Where the YAML of a name is (tables are ``<paper>/<table>``)."""
    return root / FOLDERS[kind] / f"{name}.yaml"


def names(kind: str, root: Path = ROOT) -> set[str]:
    """All names of a kind that have a file."""
    folder = root / FOLDERS[kind]
    return {file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.yaml")}


def load(kind: str, name: str, root: Path = ROOT) -> dict[str, Any]:
    """The checked content of one YAML file, with its ``name`` added.

    Raises:
        ConfigError: no such name, broken YAML, or content that the schema refuses.
    """
    path = path_of(kind, name, root)
    if not path.is_file():
        raise ConfigError(f"no {kind} '{name}'{did_you_mean(name, names(kind, root))}; {kind}s live in {path.parent}/")
    return {"name": name, **read(path, root / "schemas" / f"{kind}.schema.yaml")}


def read(path: Path, schema: Path) -> dict[str, Any]:
    """One YAML file, checked.

    Raises:
        ConfigError: the file is missing, broken, or refused by the schema.
    """
    content: dict[str, Any] = _yaml(Path(path))
    check(content, _schema(Path(schema).resolve()), str(path))
    return content


@cache
def _schema(path: Path) -> Any:
    """A schema, read once: it serves every file of its kind, and on a cluster each job reads the Snakefile again."""
    return _yaml(path)


def check_settings(settings: dict[str, Any], root: Path = ROOT) -> None:
    """Refuse settings of a run (config.yaml with whatever was laid over it) that the schema doesn't know.

    Raises:
        ConfigError: see ``check``.
    """
    check(settings, _yaml(root / "schemas" / "config.schema.yaml"), "config")


def read_file(kind: str, path: Path) -> dict[str, Any]:
    """The checked content of ``.../config/<folder>/<name>.yaml`` given by path, with its ``name`` added: what a rule's
    command line passes. The schema is looked up beside the folder."""
    path = Path(path)
    root = next((parent.parent for parent in path.parents if parent.name == FOLDERS[kind]), None)
    if root is None:
        raise ConfigError(f"{path}: a {kind} file lives in a folder named {FOLDERS[kind]}/")
    return load(kind, path.relative_to(root / FOLDERS[kind]).with_suffix("").as_posix(), root)


def _yaml(path: Path) -> Any:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from None


def check(content: Any, schema: dict[str, Any], where: str) -> None:
    """Refuse ``content`` that does not fit ``schema``, with a suggestion for a mistyped key.

    Raises:
        ConfigError: names the file, the place in it, and the nearest known key or the schema's complaint.
    """
    validator = jsonschema.Draft202012Validator(schema)
    error = jsonschema.exceptions.best_match(validator.iter_errors(content))
    if error is None:
        return
    place = ".".join(map(str, error.absolute_path)) or "top level"
    if error.validator == "additionalProperties" and isinstance(error.schema, dict):
        known = error.schema.get("properties", {})
        unknown = next(key for key in error.instance if key not in known)
        raise ConfigError(f"{where}: {place}: unknown key '{unknown}'{did_you_mean(unknown, known)}")
    if error.validator == "enum":
        raise ConfigError(
            f"{where}: {place}: '{error.instance}' is not known{did_you_mean(error.instance, error.validator_value)}"
        )
    raise ConfigError(f"{where}: {place}: {error.message}")
