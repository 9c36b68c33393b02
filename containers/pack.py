"""From an image's folder to a .sif whose bytes depend on nothing but the folder's content.

`apptainer build` would do it in one step, but writes the time of building into the labels and the header, and packs
files in the order in which threads finish. Here labels are set first, times are cut at one moment, one thread packs in
a fixed order, and the header's random id and times are blanked.
"""

import json
import os
import struct
import subprocess
from pathlib import Path
from typing import Any

from scripts.lib.errors import EngineError

LABELS = ".singularity.d/labels.json"
# SIF header: launch line (32 bytes), magic, version and architecture (16), id (16), time of creation and of change (8
# each), two counts, and where the table of descriptors starts. A descriptor's own two times come after 41 bytes.
ID, TABLE, DESCRIPTOR_TIMES = 48, 96, 41


def call(command: list[str], log: Path, **more: Any) -> None:
    """Run a command with its output in ``log``.

    Raises:
        EngineError: it failed; the message ends with its last lines.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False, **more)
    if done.returncode:
        tail = " | ".join(log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-4:])
        raise EngineError(f"{command[0]} failed, see {log}: {tail}")


def set_labels(root: Path, labels: dict[str, str]) -> None:
    """Labels of the .def and of ours, without the time of building and the builder's version."""
    file = root / LABELS
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    kept = {key: value for key, value in found.items() if not key.startswith("org.label-schema")}
    file.write_text(json.dumps(kept | labels, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def clamp_times(root: Path, epoch: int) -> None:
    """No file is younger than ``epoch``; older times, which packages carry, stay."""
    for folder, folders, files in os.walk(root, topdown=False):
        for name in [*files, *folders]:
            path = Path(folder, name)
            if path.lstat().st_mtime > epoch:
                os.utime(path, (epoch, epoch), follow_symlinks=False)
    os.utime(root, (epoch, epoch))


def blank_header(sif: Path) -> None:
    """Zero the id and the times in a SIF's header and descriptors."""
    with sif.open("r+b") as file:
        (table,) = struct.unpack_from("<q", file.read(TABLE + 8), TABLE)
        file.seek(ID)
        file.write(bytes(16 + 16))
        file.seek(table + DESCRIPTOR_TIMES)
        file.write(bytes(16))


def pack(root: Path, sif: Path, labels: dict[str, str], epoch: int, log: Path) -> Path:
    """Write ``sif`` from the folder ``root`` and return it.

    Raises:
        EngineError: mksquashfs or apptainer failed.
    """
    set_labels(root, labels)
    clamp_times(root, epoch)
    squash = sif.with_suffix(".squashfs")
    for file in (squash, sif):
        file.unlink(missing_ok=True)
    call(
        [
            *("mksquashfs", str(root), str(squash), "-noappend", "-all-root", "-no-xattrs", "-processors", "1"),
            *("-comp", "zstd", "-Xcompression-level", "3", "-quiet", "-no-progress"),
        ],
        log,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
    )
    call(["apptainer", "sif", "new", str(sif)], log)
    # One object: a squashfs (1) that is the system's partition (2) for x86-64 (2).
    part = ["--datatype", "4", "--partfs", "1", "--parttype", "2", "--partarch", "2", "--groupid", "1"]
    call(["apptainer", "sif", "add", *part, str(sif), str(squash)], log)
    squash.unlink()
    blank_header(sif)
    return sif
