"""Remove the lock that a killed Snakemake left in this folder; leave it when a Snakemake is still at work here.

Snakemake refuses to start in a folder that another run has locked, and cannot know whether that run is alive. This
looks for a living Snakemake whose working directory is this folder. `make demo` calls it, so that a killed demo is
simply run again; by hand: `python -m scripts.unlock`.
"""

import argparse
import os
import sys
from pathlib import Path

from scripts.lib import cli
from scripts.lib.errors import WorkflowError


def snakemakes_in(folder: Path) -> list[int]:
    """Process ids of living Snakemakes whose working directory is ``folder``."""
    import psutil

    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        command = process.info["cmdline"] or []
        named = any(Path(word).name == "snakemake" for word in command[:3])
        if named and process.info["cwd"] == str(folder) and process.info["pid"] != os.getpid():
            found.append(process.info["pid"])
    return found


SHARED = {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "ceph", "fuse.sshfs"}


def file_system(folder: Path) -> str:
    """Type of the file system that holds a folder, e.g. ``ext4``; empty where it can't be told."""
    import psutil

    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    return next((mounts[place] for place in [folder, *folder.parents] if place in mounts), "")


def step(args: argparse.Namespace) -> None:
    folder = args.folder.resolve()
    locks = sorted((folder / ".snakemake" / "locks").glob("*.lock"))
    if not locks:
        return
    if file_system(folder) in SHARED:
        raise WorkflowError(f"{folder}: is locked, perhaps by another machine; if none is at work: snakemake --unlock")
    alive = snakemakes_in(folder)
    if alive:
        raise WorkflowError(f"{folder}: Snakemake (process {alive[0]}) is at work here; wait for it or end it first")
    for lock in locks:
        lock.unlink()
    print("removed the lock that a killed run left behind", file=sys.stderr)


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="the folder that Snakemake runs in (default: this one)"
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
