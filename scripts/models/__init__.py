"""The models and the few engines that run them.

How to add a model:

1. Write ``config/models/<name>.yaml``. A model that transformers loads by itself (AutoModelForImageTextToText) needs
   nothing else: copy the file of a model of the same family and change its id, revision, limits and resources.
2. Only for another engine: add a small file here with ``VERSION`` (raise it whenever answers may change), ``PACKAGES``
   (distributions whose version may change answers), ``load`` and ``conditions`` (see protocol.py), then a line in
   ``ADAPTERS`` below and its name in ``adapter`` of config/schemas/model.schema.yaml.
3. Name the model in a table under config/tables/ and run that table: only its new cells are computed.
"""

import importlib
import importlib.metadata
from dataclasses import dataclass

from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.text import did_you_mean
from scripts.models.protocol import Conditions, Loader

ADAPTERS = {
    # Yardsticks without a network.
    "blind": "scripts.models.blind",
    "ocr_reader": "scripts.models.ocr_reader",
    # Whatever transformers loads by itself, in the job's own process.
    "transformers": "scripts.models.hf_image_text",
    # OpenAI's protocol: somebody else's server, or one that the job starts on its own GPUs.
    "openai": "scripts.models.openai_chat",
    "vllm": "scripts.models.vllm_server",
    # Models with code of their own, each family in an image of its own.
    "cogvlm2_video": "scripts.models.cogvlm2_video",
    "internvl_chat": "scripts.models.internvl_chat",
    "llava_next": "scripts.models.llava_next",
    "longvu": "scripts.models.longvu",
    "minicpm_v": "scripts.models.minicpm_v",
    "sharegpt4video": "scripts.models.sharegpt4video",
    "videollama3": "scripts.models.videollama3",
    "vila": "scripts.models.vila",
}
"""All but ``predictions``: answers made elsewhere are read from a file by a rule of their own, fetch_predictions."""


@dataclass(frozen=True)
class Adapter:
    """One entry of ``ADAPTERS``, imported."""

    load: Loader
    conditions: Conditions
    engine: str
    """Name and version of the adapter and of the packages that do its work; part of a cache's fingerprint."""


def find(name: str) -> Adapter:
    """Import the adapter of a name.

    Raises:
        ConfigError: no such adapter.
        EngineError: a package that it needs is not installed.
    """
    if name not in ADAPTERS:
        raise ConfigError(f"no adapter '{name}'{did_you_mean(name, ADAPTERS)}; they are listed in scripts/models")
    module = importlib.import_module(ADAPTERS[name])
    parts = [f"{name} {module.VERSION}"]
    for package in module.PACKAGES:
        try:
            parts.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            raise EngineError(f"adapter '{name}' needs the package {package}; install it, or use the image") from None
    return Adapter(module.load, module.conditions, ", ".join(parts))
