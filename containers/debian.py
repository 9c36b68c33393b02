"""The root that all images stand on: Debian from a container registry, or made here from the packages' mirror."""

import re
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from containers.pack import call
from scripts.lib import images

CACHE = images.FOLDER / ".cache"
APT = Path("/etc/apt")
REGISTRY = "https://registry-1.docker.io/v2/"


def registry_answers() -> bool:
    """Whether Docker Hub can be reached: it shows its first page or asks for a token. Anything else is no registry."""
    try:
        with urllib.request.urlopen(REGISTRY, timeout=10) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        return error.code == 401
    except OSError:
        return False


def make_root(base: dict[str, Any], log: Path) -> Path:
    """A Debian root made here from the packages' mirror, once."""
    suite = base["suite"]
    root = CACHE / f"debian-{suite}"
    if root.is_dir():
        return root
    print(f"base: making a Debian root from the package mirror (about a minute); log: {log}", file=sys.stderr)
    partial = CACHE / f"debian-{suite}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    tar = (CACHE / "debian.tar").absolute()
    # The hook leaves no trace of the mirror: install.sh is told where packages come from.
    forget = (
        'rm -rf "$1"/etc/apt/sources.list* "$1"/var/lib/apt/lists "$1"/var/cache/apt;'
        ' mkdir -p "$1"/etc/apt/sources.list.d "$1"/var/lib/apt/lists/partial "$1"/var/cache/apt/archives/partial'
    )
    call(
        ["mmdebstrap", "--variant=minbase", f"--customize-hook={forget}", suite, str(tar), *mirrors(suite)],
        log,
    )
    # No device nodes: they cannot be unpacked in a user namespace, and apptainer brings its own.
    call(["tar", "-C", str(partial), "--exclude=./dev/*", "--no-same-owner", "-xf", str(tar)], log)
    tar.unlink()
    partial.rename(root)
    return root


def mirrors(suite: str, folder: Path = APT) -> list[str]:
    """Where Debian's packages come from, as lines of sources.list: what this machine's own files name for that release,
    else Debian itself. Sources that are not Debian's (a vendor's list, which may call its suite the same) are left out.
    """
    wanted = (suite, f"{suite}-updates", f"{suite}-security")
    entries: list[tuple[str, str]] = []
    for file in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]:
        if file.suffix in (".list", ".sources") and file.is_file():  # apt reads no others
            text = file.read_text(encoding="utf-8", errors="replace")
            entries += _lines(text) if file.suffix == ".list" else _stanzas(text)
    kept = [
        (uri, one)
        for uri, one in dict.fromkeys(entries)
        if one in wanted and urlsplit(uri).path.rstrip("/").endswith(("/debian", "/debian-security"))
    ]
    if suite not in [one for _, one in kept]:
        kept = [("http://deb.debian.org/debian", one) for one in wanted[:2]]
        kept += [("http://deb.debian.org/debian-security", wanted[2])]
    return [f"deb {uri} {one} main" for uri, one in kept]


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """(URI, suite) of each line `deb [options] URI suite component…` that offers main."""
    for uri, suite, components in re.findall(r"^\s*deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)([^#\n]*)", text, re.M):
        if "main" in components.split():
            yield uri, suite


def _stanzas(text: str) -> Iterator[tuple[str, str]]:
    """(URI, suite) pairs of the stanzas of a .sources file that offer main."""
    for stanza in re.split(r"\n\s*\n", re.sub(r"^#.*\n?", "", text, flags=re.M)):
        pairs = re.findall(r"^([A-Za-z-]+):(.*(?:\n[ \t].*)*)", stanza, re.M)
        fields = {key.lower(): value.split() for key, value in pairs}
        off = [one.lower() for one in fields.get("enabled", [])] in (["no"], ["false"], ["off"], ["0"])
        if off or "deb" not in fields.get("types", []) or "main" not in fields.get("components", []):
            continue
        yield from ((uri, suite) for uri in fields.get("uris", []) for suite in fields.get("suites", []))
