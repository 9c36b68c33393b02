"""What must make a rule run again beside its input files.

Snakemake compares a rule's params with those of the last run; these functions give it something to compare. They run
in the Snakefile, so they import nothing of the stages.
"""

import hashlib
import re
from pathlib import Path

from scripts.lib.errors import ConfigError


def versions(*modules: str | Path) -> str:
    """The ``VERSION`` constants of modules, e.g. ``scripts/lib/probe.py 1``: raising one reruns what the module makes.

    Read from the source, because importing it would need the stages' packages.

    Raises:
        ConfigError: a module without such a constant.
    """
    found = []
    for module in modules:
        match = re.search(
            r"^(?:[A-Z]+_)?VERSION = \"?([\w.]+)\"?$", Path(module).read_text(encoding="utf-8"), re.MULTILINE
        )
        if match is None:
            raise ConfigError(f"{module}: has no line VERSION = ...; a rule goes by it")
        found.append(f"{module} {match.group(1)}")
    return ", ".join(found)


def folder_state(folder: Path) -> str:
    """A digest of the names, sizes and times of all files below a folder; ``absent`` where there is none."""
    folder = Path(folder)
    if not folder.is_dir():
        return "absent"
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        about = file.stat()
        digest.update(f"{file.relative_to(folder)}\0{about.st_size}\0{about.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
