"""Made-up clusters, in the form in which Slurm's commands answer, and `write_site` asking them."""

from pathlib import Path

import pytest

from scripts.cluster import write_site

CONFIG = """Configuration data as of today
AccountingStorageType   = accounting_storage/slurmdbd
MinJobAge               = 300 sec
"""
Cluster = dict[str, list[str]]


def node(name, parts, cpus=64, mem=512000, gres="(null)", state="IDLE", more=""):
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 CPUTot={cpus} AvailableFeatures=(null) Gres={gres}"
        f" OS=Linux 5.14.0 #1 SMP RealMemory={mem} State={state} ThreadsPerCore=1 Partitions={parts} {more}"
        " Comment=of the hall"
    )


def partition(name, time="2-00:00:00", more="State=UP Default=NO AllowAccounts=ALL RootOnly=NO MaxNodes=UNLIMITED"):
    return f"PartitionName={name} AllowGroups=ALL MaxTime={time} MaxCPUsPerNode=UNLIMITED PreemptMode=OFF {more}"


def ask_made_up(
    monkeypatch: pytest.MonkeyPatch, out: Path, cluster: Cluster, *arguments: str, users: str = "", config: str = CONFIG
) -> int:
    """Run `write_site` on a made-up cluster; its exit status."""

    def ask(command, optional=False):
        if command[0] == "sacctmgr":
            return users
        return config if command[-1] == "config" else "\n".join(cluster[f"{command[-1]}s"])

    monkeypatch.setattr(write_site, "ask", ask)
    return write_site.main(["--out", str(out), *arguments])
