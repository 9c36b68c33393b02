"""What a cluster says of itself, read from the output of Slurm's own commands. Pure: text in, records out."""

import re
from dataclasses import dataclass, field

from scripts.lib.errors import DataError

TRIAL = re.compile(r"debug|devel|\bdev\b|test|interact|jupyter|login|visu|\bviz\b", re.IGNORECASE)
"""Partitions for trying things out: they let a user run a job or two, and would win every short job."""
MIG = re.compile(r"\d+g\.\d+gb", re.IGNORECASE)
"""A slice of a GPU, as Slurm's gres.conf names it."""
GONE = {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN", "FUTURE", "MAINT"}
"""States of nodes that do not come back by themselves; those switched off to save power come back for a job."""


@dataclass(frozen=True)
class Node:
    name: str
    cpus: int
    mem_mb: int
    gpus: dict[str, int]
    """Number of GPUs by type; "" where the cluster names no type."""
    usable: bool
    state: str
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class Partition:
    name: str
    minutes: int | None
    """Longest run time; None: no limit."""
    up: bool
    default: bool
    max_nodes: int | None
    max_cpus: int | None
    accounts: frozenset[str] | None
    """Accounts that may use it; None: all."""
    root_only: bool
    preemptible: bool


@dataclass(frozen=True)
class Association:
    account: str
    default: bool
    max_submit: int | None


@dataclass
class Offer:
    """One partition as jobs see it: the largest of its usable nodes, or why it is left out."""

    partition: Partition
    nodes: list[Node]
    left_out: str = ""
    gpus: dict[str, int] = field(default_factory=dict)

    @property
    def cpus(self) -> int:
        largest = max(node.cpus for node in self.nodes)
        return min(largest, self.partition.max_cpus or largest)

    @property
    def mem_mb(self) -> int:
        return max(node.mem_mb for node in self.nodes)


def records(text: str, key: str) -> list[dict[str, str]]:
    """The ``Key=value`` lines of ``scontrol --oneliner``; values without spaces are all we read."""
    lines = [line for line in text.splitlines() if line.startswith(f"{key}=")]
    return [dict(re.findall(r"(?:^|\s)([A-Za-z:]+)=(\S*)", line)) for line in lines]


def minutes(time: str) -> int | None:
    """Slurm's ``[days-]hours:minutes:seconds``, ``minutes`` or ``UNLIMITED``, in whole minutes.

    Raises:
        DataError: another form.
    """
    if time in ("UNLIMITED", "INFINITE", "", "NONE"):
        return None
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", time)
    if not found:
        raise DataError(
            f"'{time}' is no time limit as Slurm writes it; give the partitions by hand, see profiles/sites"
        )
    days, first, second, third = found.groups()
    if days is None and second is None:
        return int(first)
    if days is None and third is None:
        return int(first)  # minutes:seconds
    return int(days or 0) * 1440 + int(first) * 60 + int(second or 0)


def gpus(gres: str) -> dict[str, int]:
    """GPUs by type from a node's ``Gres=``: ``gpu:a100:4(S:0-1),nvme:1`` has four of type a100."""
    found: dict[str, int] = {}
    for name, count in re.findall(r"(?:^|,)gpu(?::([^:,()]+))?:(\d+)(?=[(,]|$)", gres):
        found[name] = found.get(name, 0) + int(count)
    return found


def nodes(text: str) -> list[Node]:
    """``scontrol --oneliner show node``. One whose CPUs or memory Slurm does not say has 0 CPUs and is not used."""
    found = []
    for one in records(text, "NodeName"):
        state = one.get("State", "UNKNOWN")
        cpus = number(one.get("CPUEfctv") or one.get("CPUTot", ""))
        mem_mb = number(one.get("RealMemory", ""))
        known = bool(cpus and mem_mb)
        found.append(
            Node(
                name=one["NodeName"],
                cpus=cpus if cpus and known else 0,
                mem_mb=mem_mb - (number(one.get("MemSpecLimit", "")) or 0) if mem_mb and known else 0,
                gpus=gpus(one.get("Gres", "")),
                usable=known and not GONE & set(re.split(r"[+*~#!%$@^-]", state)),
                state=state,
                partitions=tuple(filter(None, one.get("Partitions", "").split(","))),
            )
        )
    return found


def number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def partitions(text: str) -> list[Partition]:
    """``scontrol --oneliner show partition``."""
    found = []
    for one in records(text, "PartitionName"):
        allowed = one.get("AllowAccounts", "ALL")
        found.append(
            Partition(
                name=one["PartitionName"],
                minutes=minutes(one.get("MaxTime", "UNLIMITED")),
                up=one.get("State", "UP") == "UP",
                default=one.get("Default", "NO") == "YES",
                max_nodes=number(one.get("MaxNodes", "")),
                max_cpus=number(one.get("MaxCPUsPerNode", "")),
                accounts=None if allowed == "ALL" else frozenset(allowed.split(",")),
                root_only=one.get("RootOnly", "NO") == "YES",
                preemptible=one.get("PreemptMode", "OFF") not in ("OFF", "GANG"),
            )
        )
    return found


def associations(text: str) -> list[Association]:
    """``sacctmgr --parsable2 --noheader show user NAME withassoc format=DefaultAccount,Account,MaxSubmitJobs``."""
    found: dict[str, Association] = {}
    for line in text.splitlines():
        default, account, submit = [*line.strip().split("|"), "", ""][:3]
        if account and account not in found:
            found[account] = Association(account, account == default, number(submit))
    return list(found.values())


def setting(config: str, name: str) -> str:
    """One value of ``scontrol show config``, without its unit; empty where it is not there."""
    found = re.search(rf"^{name}\s*=\s*(\S+)", config, re.MULTILINE)
    return found.group(1) if found else ""


def offers(
    parts: list[Partition],
    machines: list[Node],
    accounts: set[str],
    gpu: str | None = None,
    only: set[str] | None = None,
) -> list[Offer]:
    """Every partition with its usable nodes, and the reason where this workflow should not use it.

    Args:
        gpu: the one type of GPU that jobs are to get; partitions that have only others are left out.
        only: the partitions that the user named; the others are left out.
    """
    found = []
    for part in parts:
        here = [node for node in machines if part.name in node.partitions]
        usable = [node for node in here if node.usable]
        offer = Offer(part, usable)
        for node in usable:
            for kind, count in node.gpus.items():
                if not MIG.search(kind) or kind == gpu:
                    offer.gpus[kind] = max(count, offer.gpus.get(kind, 0))
        others = bool(offer.gpus) and gpu is not None and gpu not in offer.gpus
        reasons = {
            "not among the partitions asked for": only is not None and part.name not in only,
            "its state is not UP": not part.up,
            "for root only": part.root_only,
            "none of your accounts may use it": bool(
                part.accounts is not None and accounts and not part.accounts & accounts
            ),
            f"none of its {len(here)} nodes is up and of known size": not usable,
            f"has no GPU of type {gpu}": others,
            "by its name, it is for trying things out": only is None and bool(TRIAL.search(part.name)),
        }
        offer.left_out = next((reason for reason, holds in reasons.items() if holds), "")
        found.append(offer)
    return found
