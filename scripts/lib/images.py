"""The containers that rules run in. ``containers/images.yaml`` is the only place with digests; a file's name holds its
digest, because Snakemake's container trigger sees nothing but the name."""

import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from scripts.lib import config
from scripts.lib.errors import ConfigError
from scripts.lib.files import sha256, write_text
from scripts.lib.text import did_you_mean

FOLDER = Path("containers")
IMAGES = FOLDER / "images.yaml"
SCHEMA = Path("config/schemas/images.schema.yaml")
CACHE_VARIABLE = "TEXT_IN_VIDEO_CACHE"
"""Names the folder for weights and compiled kernels, which jobs see as BOUND."""
BOUND = Path("/cache")
SEEN = FOLDER / ".cache" / "seen.json"
"""Digests of files already read, so that gigabytes are hashed once and not at every start."""


@cache
def catalogue() -> dict[str, Any]:
    """``images.yaml`` as it stands: epoch, bases, images.

    Raises:
        ConfigError: missing, broken, refused by its schema, or an image on a base that is not there.
    """
    content = config.read(IMAGES, SCHEMA)
    known = {*content["bases"], *content["images"]}
    for name, image in content["images"].items():
        if image["base"] not in known - {name}:
            raise ConfigError(
                f"{IMAGES}: {name}: no base '{image['base']}'{did_you_mean(image['base'], known - {name})}"
            )
    return content


def spec(name: str) -> dict[str, Any]:
    """What ``images.yaml`` says of one image: base, locks, debs, sources, digest.

    Raises:
        ConfigError: no such image.
    """
    images: dict[str, dict[str, Any]] = catalogue()["images"]
    if name not in images:
        raise ConfigError(f"{IMAGES}: no image '{name}'{did_you_mean(name, images)}")
    return images[name]


def check_models(models: Iterable[dict[str, Any]]) -> None:
    """Whether the images that models name are there to name.

    Raises:
        ConfigError: of the first that is not.
    """
    for model in models:
        try:
            spec(model["image"])
        except ConfigError as error:
            raise ConfigError(f"{config.path_of('model', model['name'])}: {error}") from None


def file_name(name: str, digest: str) -> str:
    """``containers/<name>-<first 12 digits of its sha256>.sif``, or without digits until a digest is recorded."""
    short = digest.removeprefix("sha256:")[:12]
    return str(FOLDER / (f"{name}-{short}.sif" if short else f"{name}.sif"))


def path(name: str) -> str:
    """The image file that rules use.

    Raises:
        ConfigError: no such image.
    """
    return file_name(name, spec(name)["digest"])


def has(name: str) -> bool:
    """Whether the image file is on this machine."""
    return Path(path(name)).is_file()


def _seen() -> dict[str, dict[str, Any]]:
    """The digests read before; none where there is no readable record of them."""
    try:
        content = json.loads(SEEN.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    entries = content.items() if isinstance(content, dict) else ()
    return {name: entry for name, entry in entries if isinstance(entry, dict) and {"identity", "digest"} <= set(entry)}


def digest(file: Path) -> str:
    """``sha256:…`` of an image file, read again only when its size, times or inode have changed."""
    status = file.stat()
    identity = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    seen = _seen()
    known = seen.get(file.name)
    if known and known.get("identity") == identity:
        return str(known["digest"])
    found = f"sha256:{sha256(file)}"
    # Entries of files that are gone go with them.
    seen = {name: entry for name, entry in seen.items() if (file.parent / name).is_file()}
    write_text(SEEN, json.dumps(seen | {file.name: {"identity": identity, "digest": found}}, indent=1))
    return found


def check_file(name: str) -> str:
    """Whether the image file is there with the bytes that ``images.yaml`` names; returns its digest.

    Raises:
        ConfigError: not built, absent, or other bytes.
    """
    wanted, file = spec(name)["digest"], Path(path(name))
    build = f"`containers/build.sh {name}`"
    if not wanted:
        raise ConfigError(f"image '{name}' has no digest in {IMAGES}: nobody has built it yet; run {build}")
    if not file.is_file():
        raise ConfigError(f"{file} is not here: run {build}, or copy the file from where it was built")
    found = digest(file)
    if found != wanted:
        raise ConfigError(
            f"{file} is not the image that {IMAGES} names: digest {found}, not {wanted}; restore it or run {build}"
        )
    return found


def cache_folder() -> Path:
    """The folder that jobs see as /cache, by its name outside of containers."""
    return Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "text-in-video").absolute()


def cache_here() -> Path:
    """The same folder, as this process sees it."""
    return BOUND if os.environ.get("APPTAINER_CONTAINER") and BOUND.is_dir() else cache_folder()


def make_cache() -> None:
    """Make the folder that jobs see as /cache, and let Apptainer bind it, beside what the user has bound.

    Raises:
        ConfigError: it cannot be made, or its name cannot be bound.
    """
    folder = cache_folder()
    if set(",:") & set(str(folder)):
        raise ConfigError(
            f"{folder}: Apptainer binds no folder with ',' or ':' in its name; set {CACHE_VARIABLE} to another"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be made ({error.strerror}); set {CACHE_VARIABLE} to a folder of yours"
        ) from None
    bound = os.environ.get("APPTAINER_BIND", "").split(",")
    if f"{folder}:{BOUND}" not in bound:
        os.environ["APPTAINER_BIND"] = ",".join([*filter(None, bound), f"{folder}:{BOUND}"])


def running() -> str:
    """Digest of the image that this process runs in; empty outside of the images named here."""
    inside = os.environ.get("APPTAINER_CONTAINER")
    if not inside:
        return ""
    return next((str(one["digest"]) for name, one in catalogue()["images"].items() if _is(name, inside)), "")


def _is(name: str, file: str) -> bool:
    """Whether a file, wherever it lies, has the name of an image's."""
    return Path(path(name)).name == Path(file).name


def check_files(paths: Iterable[str | None]) -> None:
    """``check_file`` for the images behind the container paths of jobs (None: a job without), before any starts.

    Raises:
        ConfigError: of the first that is not right, by name.
    """
    by_path = {path(name): name for name in catalogue()["images"]}
    for one in sorted(filter(None, paths)):
        if one in by_path:
            check_file(by_path[one])
