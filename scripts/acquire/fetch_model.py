"""Download a model's weights from the hub, at exactly the revision that its YAML pins.

The folder appears only when all of it is there; what a killed download left beside it is taken up again. A gated model
needs its licence accepted on the hub's page and a token in HF_TOKEN. Where compute nodes have no network, run this step
on a login node first.

A model without a pinned revision is refused, unless --allow-unpinned: then it is the hub's newest commit. Which commit
it was is in revision.txt, either way.

Vision towers that the model's own code would load from the hub while it runs (weights.towers) come along, each at its
revision, into towers/ below the folder.
"""

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.lib import cli, config, files
from scripts.lib.errors import ConfigError, EngineError
from scripts.models import pins
from scripts.models.weights import REVISION_FILE, tower_folders

OTHER_FRAMEWORKS = ["*.msgpack", "*.h5", "*.ot", "*.onnx", "*.gguf", "*.pth", "original/*", "onnx/*"]
"""Second copies of the same weights, which nothing here reads."""


def fetch(model: dict[str, Any], out: Path, allow_unpinned: bool = False) -> None:
    """Put a snapshot of the model's repository, and of its vision towers', into ``out``, whole or not at all.

    Args:
        model: content of a file in config/models.
        allow_unpinned: take the newest commit where the file names none.

    Raises:
        ConfigError: the model's weights do not come from a hub, or nothing says which revision of them.
        EngineError: no network, no access, no such model or revision.
    """
    weights = model["weights"]
    if weights["kind"] != "hub":
        raise ConfigError(f"model '{model['name']}': weights.kind is '{weights['kind']}'; only hub is fetched")
    pins.check(model, [model["name"]] if allow_unpinned else [])
    towers = weights.get("towers", ())
    revision = weights["revision"] or _newest(weights["id"], "weights")
    commits = {tower["id"]: tower["revision"] or _newest(tower["id"], "weights.towers") for tower in towers}
    # Named by all revisions, so that no file of another one is in it.
    part = out.with_name(f".{out.name}.{'-'.join(commit[:12] for commit in (revision, *commits.values()))}.part")
    _download(weights["id"], revision, part, "weights")
    folders = tower_folders(model, part)
    for name, commit in commits.items():
        _download(name, commit, folders[name], "weights.towers")
    for folder in (part, *folders.values()):
        shutil.rmtree(folder / ".cache", ignore_errors=True)
    named = "".join(f"{name} {commit}\n" for name, commit in commits.items())
    files.write_text(part / REVISION_FILE, f"{revision}\n{named}")
    if out.exists():
        shutil.rmtree(out)
    part.replace(out)


def _newest(name: str, key: str) -> str:
    """The commit that the hub would give now to somebody who asks for none.

    Args:
        key: in the model's file, with the repository's ``id`` and ``revision``.
    """
    import huggingface_hub

    with _one_line(f"{name}, newest commit", key):
        found = huggingface_hub.HfApi().model_info(name).sha
    if not found:
        raise EngineError(f"{name}: the hub names no newest commit; write one into {key}.revision")
    return str(found)


def _download(name: str, revision: str, folder: Path, key: str) -> None:
    import huggingface_hub

    with _one_line(f"{name} at {revision[:12]}", key):
        huggingface_hub.snapshot_download(name, revision=revision, local_dir=folder, ignore_patterns=OTHER_FRAMEWORKS)


@contextmanager
def _one_line(where: str, key: str) -> Iterator[None]:
    """Turn whatever the hub's client raises into an EngineError with a remedy."""
    import httpx2  # what the hub's client speaks with: asked for a commit, it lets its errors through
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError:
        remedy = "accept its licence on its hub page, then set HF_TOKEN to a token of that account"
        raise EngineError(f"{where}: access is restricted; {remedy}") from None
    except errors.RevisionNotFoundError:
        raise EngineError(f"{where}: the hub has no such revision; correct {key}.revision") from None
    except errors.RepositoryNotFoundError:
        remedy = f"correct {key}.id, or set HF_TOKEN if it is private"
        raise EngineError(f"{where}: the hub has no such model; {remedy}") from None
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, httpx2.HTTPError, OSError) as error:
        why = " ".join(str(error.__cause__ or error).split())[:200]
        remedy = "check the network, HF_HUB_OFFLINE and the free space, then rerun: it goes on where it stopped"
        raise EngineError(f"{where}: not downloaded ({why}); {remedy}") from None


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="YAML under config/models/ with weights from a hub")
    parser.add_argument(
        "--allow-unpinned", action="store_true", help="take the newest commit where the YAML names none"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    return parser


def step(args: argparse.Namespace) -> None:
    fetch(config.read_file("model", args.model), args.out, args.allow_unpinned)


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
