"""From an image's folder to a .sif whose bytes depend on nothing but the folder's content.

`apptainer build` would do it in one step, but writes the time of building into the labels and the header, and packs
files in the order in which threads finish. Here labels are set first, times are cut at one moment, one thread packs in
a fixed order, and the header's random id and times are blanked.
"""

import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from scripts.lib.errors import EngineError

LABELS = ".singularity.d/labels.json"
# SIF header: launch line (32 bytes), magic, version and architecture (16), id (16), time of creation and of change (8
# each), two counts, and where the table of descriptors starts. A descriptor has its object's place in the file after 17
# bytes and its own two times after 41.
ID, TABLE, PLACE, DESCRIPTOR_TIMES = 48, 96, 17, 41
REMEDY = {
    "apptainer": "install Apptainer 1.2 or newer",
    "mksquashfs": "install squashfs-tools",
    "unsquashfs": "install squashfs-tools",
    "mmdebstrap": "install mmdebstrap, or build where a container registry answers",
}
HELD: list[int] = []
"""Descriptors that commands inherit: the lock of a killed build holds until its last command has ended."""


def need(program: str) -> None:
    """Whether a program is on this machine.

    Raises:
        EngineError: it is not; the message says what to install.
    """
    if not shutil.which(program):
        raise EngineError(f"{program} is not here: {REMEDY.get(program, 'install it')} (containers/README.md)")


def call(command: list[str], log: Path, env: dict[str, str] | None = None) -> None:
    """Run a command with its output in ``log``, where addresses lose their user and password.

    Raises:
        EngineError: it is not here, or it failed; the message ends with its last lines.
    """
    need(command[0])
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("a", encoding="utf-8", buffering=1) as out,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=env,
            pass_fds=HELD,
        ) as process,
    ):
        for line in process.stdout or ():
            out.write(re.sub(r"(://)[^/\s]*@", r"\1***@", line))
    if process.returncode:
        tail = " | ".join(log.read_text(encoding="utf-8").strip().splitlines()[-4:])
        raise EngineError(f"{command[0]} failed, see {log}: {tail}")


def set_labels(root: Path, labels: dict[str, str]) -> None:
    """Labels of the .def and of ours, without the time of building and the builder's version."""
    file = root / LABELS
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    kept = {key: value for key, value in found.items() if not key.startswith("org.label-schema")}
    file.write_text(json.dumps(kept | labels, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_labels(sif: Path) -> dict[str, str]:
    """The labels inside a .sif, read without running it; none where it is not such a file."""
    with tempfile.TemporaryDirectory() as folder, sif.open("rb") as file:
        try:
            (table,) = struct.unpack_from("<q", file.read(TABLE + 8), TABLE)
            file.seek(table + PLACE)
            (place,) = struct.unpack("<q", file.read(8))
            command = ["unsquashfs", "-no-progress", "-no-xattrs", "-offset", str(place), "-dest", f"{folder}/root"]
            call([*command, str(sif), LABELS], Path(folder, "log"))
            return dict(json.loads(Path(folder, "root", LABELS).read_text(encoding="utf-8")))
        except (struct.error, OSError, ValueError, EngineError):
            return {}


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
