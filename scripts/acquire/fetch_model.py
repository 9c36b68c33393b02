"""Download a model's weights from the hub, at exactly the revision that its YAML pins.

The folder appears only when all of it is there; what a killed download left beside it is taken up again. A gated model
needs its licence accepted on the hub's page and a token in HF_TOKEN. Where compute nodes have no network, run this step
on a login node first.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

from scripts.lib import cli, config
from scripts.lib.errors import ConfigError, EngineError

OTHER_FRAMEWORKS = ["*.msgpack", "*.h5", "*.ot", "*.onnx", "*.gguf", "*.pth", "original/*", "onnx/*"]
"""Second copies of the same weights, which nothing here reads."""


def fetch(model: dict[str, Any], out: Path) -> None:
    """Put a snapshot of the model's repository into ``out``, whole or not at all.

    Args:
        model: content of a file in config/models.

    Raises:
        ConfigError: the model's weights do not come from a hub.
        EngineError: no network, no access, no such model or revision.
    """
    weights = model["weights"]
    if weights["kind"] != "hub":
        raise ConfigError(f"model '{model['name']}': weights.kind is '{weights['kind']}'; only hub is fetched")
    part = out.with_name(f".{out.name}.{weights['revision'][:12]}.part")
    _download(weights["id"], weights["revision"], part)
    shutil.rmtree(part / ".cache", ignore_errors=True)
    if out.exists():
        shutil.rmtree(out)
    part.replace(out)


def _download(name: str, revision: str, folder: Path) -> None:
    import huggingface_hub
    from huggingface_hub import errors

    where = f"{name} at {revision[:12]}"
    try:
        huggingface_hub.snapshot_download(name, revision=revision, local_dir=folder, ignore_patterns=OTHER_FRAMEWORKS)
    except errors.GatedRepoError:
        remedy = "accept its licence on its hub page, then set HF_TOKEN to a token of that account"
        raise EngineError(f"{where}: access is restricted; {remedy}") from None
    except errors.RevisionNotFoundError:
        raise EngineError(f"{where}: the hub has no such revision; correct weights.revision") from None
    except errors.RepositoryNotFoundError:
        remedy = "correct weights.id, or set HF_TOKEN if it is private"
        raise EngineError(f"{where}: the hub has no such model; {remedy}") from None
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        why = " ".join(str(error.__cause__ or error).split())[:200]
        remedy = "check the network, HF_HUB_OFFLINE and the free space, then rerun: it goes on where it stopped"
        raise EngineError(f"{where}: not downloaded ({why}); {remedy}") from None


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="YAML under config/models/ with weights from a hub")
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    return parser


def step(args: argparse.Namespace) -> None:
    fetch(config.read_file("model", args.model), args.out)


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
