"""Check the images on this machine against images.yaml and the locks: file, digest, labels, packages inside.

A line per image. `ok`, `not built` (no digest is recorded) and `elsewhere` (recorded, but its file is not on this
machine) are no errors unless the image was asked for by name; anything else is. Images that images.yaml no longer names
are listed as stale.

examples:
  python -m containers.verify              every image
  python -m containers.verify ocr tables   these, and they must be here
"""

import argparse
import json
import re
import sys
from pathlib import Path

from packaging.version import Version
from spython.main import Client

from containers import pack
from containers.build import ENVS, labels_for
from scripts.lib import cli, images
from scripts.lib.errors import ConfigError, EngineError

# importlib.metadata is part of every Python: nothing has to be in the image for this.
LIST_PACKAGES = """
import json, re
from importlib.metadata import distributions
print(json.dumps({re.sub("[-_.]+", "-", d.metadata["Name"]).lower(): d.version for d in distributions()}))
"""


def inside(file: Path, command: list[str]) -> str:
    """What a command prints inside an image.

    Raises:
        EngineError: it failed there, or Apptainer is not here.
    """
    pack.need("apptainer")
    answer = Client.execute(str(file), command, options=["--cleanenv", "--no-home"], return_result=True, quiet=True)
    text = answer["message"] if isinstance(answer["message"], str) else "".join(answer["message"])
    if answer["return_code"]:
        raise EngineError(f"{file}: {command[0]} failed inside: {text.strip()[-300:]}")
    return text


def locked(name: str) -> dict[str, str]:
    """Package -> version, over all locks of an image."""
    text = "".join((ENVS / f"{lock}.lock").read_text(encoding="utf-8") for lock in images.spec(name).get("locks", []))
    pins = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==([^\s;\\]+)", text, re.M)
    return {re.sub("[-_.]+", "-", package).lower(): str(Version(version)) for package, version in pins}


def compare(kind: str, wanted: dict[str, str], found: dict[str, str], extra: bool) -> list[str]:
    """What differs, a line each; ``extra`` says whether more than what is wanted counts."""
    lines = [
        f"{kind} {name}: {found.get(name, 'absent')}, not {version}"
        for name, version in sorted(wanted.items())
        if found.get(name) != version
    ]
    return lines + [f"{kind} {name}: in no lock" for name in sorted(set(found) - set(wanted)) if extra]


def problems(name: str) -> list[str]:
    """Everything that is not as images.yaml and the locks say; empty when all is."""
    file = Path(images.path(name))
    try:
        images.check_file(name)
    except ConfigError as error:
        return [str(error)]
    labels = json.loads(inside(file, ["cat", "/.singularity.d/labels.json"]))
    found = compare("label", labels_for(name, labels), labels, extra=False)
    listed = json.loads(inside(file, ["/opt/venv/bin/python", "-c", LIST_PACKAGES]))
    # 1.002 and 1.2 are one version.
    packages = {package: str(Version(version)) for package, version in listed.items()}
    # In a venv of uv there is nothing but the lock: a package more is a package nobody pinned.
    found += compare("package", locked(name), packages, extra=True)
    debs = ENVS / f"{name}.debs"
    if debs.is_file():
        there = inside(file, ["dpkg-query", "-W", "-f", "${Package}=${Version}\\n"])
        found += compare("Debian package", _pairs(debs.read_text(encoding="utf-8")), _pairs(there), extra=False)
    return found


def stale() -> list[Path]:
    """Image files here that images.yaml no longer names."""
    named = {images.path(name) for name in images.catalogue()["images"]}
    return sorted(file for file in images.FOLDER.glob("*.sif") if str(file) not in named)


def _pairs(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.split())


def main(argv: list[str] | None = None) -> int:
    """Verify images and say what is wrong with each."""
    arguments = cli.parser(__doc__)
    arguments.add_argument("names", nargs="*", metavar="NAME", help="images that must be here; default: all that are")

    def step(args: argparse.Namespace) -> None:
        bad = []
        for name in args.names or images.catalogue()["images"]:
            digest = images.spec(name)["digest"]
            if not args.names and not (digest and images.has(name)):
                print(f"{name}: {'elsewhere' if digest else 'not built'}")
                continue
            wrong = problems(name)
            bad += [name] if wrong else []
            print(
                f"{name}: {'; '.join(wrong[:8]) + (' …' if wrong[8:] else '') if wrong else f'ok ({digest[:19]})'}",
                flush=True,
            )
        for file in stale():
            print(f"{file}: stale, can be removed")
        if bad:
            raise ConfigError(
                f"{len(bad)} image{'s' * (len(bad) > 1)} not as {images.IMAGES} and the locks say (above): "
                f"run `containers/build.sh {' '.join(bad)}`, or copy the files from where they were built"
            )

    return cli.run(step, arguments, argv)


if __name__ == "__main__":
    sys.exit(main())
