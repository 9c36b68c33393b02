"""The two YAML files of this stage, config/ocr.yaml and config/keyframes.yaml, checked by the schemas beside them."""

from pathlib import Path
from typing import Any

from scripts.lib import config


def read(kind: str, path: Path) -> dict[str, Any]:
    """The checked content of ``path``; ``kind`` is ``ocr`` or ``keyframes``.

    Raises:
        ConfigError: missing or broken YAML, or content that ``schemas/<kind>.schema.yaml`` beside it refuses.
    """
    return config.read(path, Path(path).parent / "schemas" / f"{kind}.schema.yaml")
