"""Write a site's files from the cluster's own answers: which partitions there are, how large their nodes, which GPUs.

    python -m scripts.cluster.write_site                      # on the login node; writes ~/.config/snakemake/site
    snakemake --profile slurm --profile site -n

Two files: partitions.yaml, by which the executor plugin finds the partition that fits a job, and profile.v9+.yaml, with
the account, the cores of a node and the type of GPU. Every line says from which answer it comes. What only a person can
decide is printed at the end; the files may be edited. They are this site's, not the workflow's: nothing reads them from
the repository.
"""

import argparse
import getpass
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from scripts.cluster import site
from scripts.lib import cli
from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.files import write_text

QUESTIONS = {
    "partitions": ["scontrol", "--oneliner", "show", "partition"],
    "nodes": ["scontrol", "--oneliner", "show", "node"],
    "config": ["scontrol", "show", "config"],
}
MOST_CORES = 16
"""No rule asks for more threads (profiles/slurm)."""
MOST_JOBS = 100
"""What profiles/slurm says."""
GPU_TYPE = re.compile(r"[A-Za-z0-9_.]+")
"""Names that the executor plugin takes as gpu_model; it fails each submission with another."""
NO_NAMES = {"y", "n", "yes", "no", "true", "false", "on", "off", "null"}
"""Words that YAML reads as something else than text."""
SHORTEST_MEMORY_S = 200
"""squeue must know a finished job at least so long where accounting does not."""


def ask(command: list[str], optional: bool = False) -> str:
    """A Slurm command's output.

    Raises:
        EngineError: the command is absent or fails, and is not ``optional``.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        if optional:
            return ""
        raise EngineError(f"{command[0]}: {error}; run this on the cluster's login node") from None
    if done.returncode != 0 and not optional:
        raise EngineError(f"`{' '.join(command)}` failed: {done.stderr.strip()}; run this on the cluster's login node")
    return done.stdout if done.returncode == 0 else ""


def quoted(name: str) -> str:
    """A name as YAML reads it back: in quotes where it could be a number, a truth value or a sign (0123, on)."""
    plain = re.fullmatch(r"[A-Za-z_][\w.-]*", name, re.ASCII) and name.lower() not in NO_NAMES
    return name if plain else json.dumps(name)


def partition_file(offers: list[site.Offer]) -> str:
    """The plugin's partition file: the limits of each partition, and why the others are not in it."""
    lines = [
        "# The partitions that jobs are sent to, read by the executor plugin, which takes the tightest that fits.",
        "# Written by `python -m scripts.cluster.write_site`; sizes are of the largest node that was up.",
        "partitions:",
    ]
    for offer in offers:
        part = offer.partition
        if offer.left_out:
            lines.append(f"  # {part.name}: left out; {offer.left_out}")
            continue
        marks = [
            word
            for word, holds in (("the default", part.default), ("jobs can be pushed off", part.preemptible))
            if holds
        ]
        lines.append(f"  {quoted(part.name)}:" + (f"  # {', '.join(marks)}" if marks else ""))
        if part.minutes is not None:
            lines.append(f"    max_runtime: {part.minutes}  # minutes; MaxTime in `scontrol show partition`")
        lines.append(f"    max_mem_mb: {offer.mem_mb}  # RealMemory less MemSpecLimit in `scontrol show node`")
        lines.append(f"    max_threads: {offer.cpus}  # CPUEfctv or CPUTot in `scontrol show node`, MaxCPUsPerNode")
        if part.max_nodes is not None:
            lines.append(f"    max_nodes: {part.max_nodes}  # MaxNodes in `scontrol show partition`")
        if offer.gpus:
            lines.append(f"    max_gpu: {max(offer.gpus.values())}  # per node; Gres in `scontrol show node`")
            models = sorted(quoted(kind) for kind in offer.gpus if kind)
            if models:
                lines.append(f"    available_gpu_models: [{', '.join(models)}]  # Gres in `scontrol show node`")
    return "\n".join(lines) + "\n"


def gpu_rules(root: Path) -> list[str]:
    """Rules that can ask for a GPU: those whose resources say ``gpu=``."""
    found: list[str] = []
    for file in sorted((root / "rules").glob("*.smk")):
        for name, body in re.findall(
            r"^rule (\w+):\n((?:^(?: .*)?\n)*)", file.read_text(encoding="utf-8"), re.MULTILINE
        ):
            if re.search(r"^\s+gpu=", body, re.MULTILINE):
                found.append(name)
    return found


def profile_file(offers: list[site.Offer], account: site.Association | None, gpu: str | None, rules: list[str]) -> str:
    """The site's profile. It shares only ``cores`` and ``jobs`` with profiles/slurm, which it replaces."""
    used = [offer for offer in offers if not offer.left_out]
    largest = max(offer.cpus for offer in used)
    lines = [
        "# One site's facts, on top of the workflow's own: snakemake --profile slurm --profile THIS_FOLDER",
        "# Written by `python -m scripts.cluster.write_site`.",
        "# Beside this file; the plugin chooses each job's partition by it.",
        "slurm-partition-config: partitions.yaml",
        f"# The largest node in use has {largest} (`scontrol show node`); no rule asks for more than {MOST_CORES}.",
        "# Jobs with more threads are cut to it, and batches of short jobs run in layers of it.",
        f"cores: {min(MOST_CORES, largest)}",
    ]
    if account and account.max_submit and account.max_submit < MOST_JOBS:
        lines += [
            "# MaxSubmitJobs of your account (`sacctmgr show user ... withassoc`).",
            f"jobs: {account.max_submit}",
        ]
    if account:
        lines += ["# `sacctmgr show user ... withassoc`.", "default-resources:"]
        lines += [f"  slurm_account: {quoted(account.account)}"]
    if gpu:
        lines += [f"# From --gpu {gpu}, one of the types in `scontrol show node`; jobs without a GPU ask for 0 of it."]
        lines += ["set-resources:", *(f"  {rule}:\n    gpu_model: {quoted(gpu)}" for rule in rules)]
    return "\n".join(lines) + "\n"


def choose_account(found: list[site.Association], wanted: str | None, notes: list[str]) -> site.Association | None:
    """The account asked for, or the only one, or the user's default."""
    if wanted:
        return next((one for one in found if one.account == wanted), site.Association(wanted, False, None))
    names = ", ".join(one.account for one in found)
    if len(found) > 1:
        chosen = next((one for one in found if one.default), None)
        which = f"your default, {chosen.account}, is written" if chosen else "none is written"
        notes.append(f"accounts: you have {names}; {which}. Choose with --account")
        return chosen
    if not found:
        notes.append("account: Slurm names none for you; if sbatch asks for one, give it with --account")
    return found[0] if found else None


def decisions(offers: list[site.Offer], config: str, gpu: str | None, notes: list[str]) -> None:
    """Add what a person must still decide."""
    used = [offer for offer in offers if not offer.left_out]
    types = sorted({kind for offer in used for kind in offer.gpus if kind})
    if not any(offer.gpus for offer in used):
        notes.append("GPUs: none in these partitions; models that need one will wait for ever")
    elif gpu is None and len(types) > 1:
        notes.append(f"GPUs: {', '.join(types)}; a job takes what is free first. Choose one type with --gpu")
    trials = [offer.partition.name for offer in offers if "trying things out" in offer.left_out]
    if trials:
        notes.append(f"partitions left out by their name: {', '.join(trials)}. Use them with --partitions")
    if any(offer.partition.preemptible for offer in used):
        notes.append(
            "some partitions push jobs off their nodes for better ones; such jobs are queued again and continue"
        )
    age, storage = site.setting(config, "MinJobAge"), site.setting(config, "AccountingStorageType")
    if not storage.endswith("slurmdbd") and age.isdigit() and int(age) < SHORTEST_MEMORY_S:
        notes.append(
            f"MinJobAge is {age} s and there is no accounting: the end of a job may be missed and the job done again;"
            f" ask for {SHORTEST_MEMORY_S} or more"
        )


def check_gpu(gpu: str, offers: list[site.Offer]) -> None:
    """Whether jobs can ask for the type of GPU that the user named.

    Raises:
        ConfigError: the executor plugin takes no such name.
        EngineError: the partitions used have none.
    """
    if not GPU_TYPE.fullmatch(gpu):
        raise ConfigError(
            f"--gpu {gpu}: the executor plugin takes only letters, digits, '_' and '.' in a GPU's type;"
            " leave --gpu out, and choose by --partitions or, in the profile, by a feature of the nodes:"
            " `set-resources: RULE: constraint: FEATURE` (`sinfo --format='%N %f'`)"
        )
    if not any(gpu in offer.gpus for offer in offers if not offer.left_out):
        types = sorted({kind for offer in offers for kind in offer.gpus if kind})
        raise EngineError(
            f"no GPU of type '{gpu}' in the partitions used; the cluster has {', '.join(types) or 'none'}"
        )


def step(args: argparse.Namespace) -> None:
    answers = {name: ask(command) for name, command in QUESTIONS.items()}
    user = args.user or getpass.getuser()
    wanted = "format=DefaultAccount,Account,MaxSubmitJobs"
    known = ask(["sacctmgr", "--parsable2", "--noheader", "show", "user", user, "withassoc", wanted], optional=True)
    found = site.associations(known)
    notes: list[str] = []
    account = choose_account(found, args.account, notes)
    if account and account.max_submit == 0:
        notes.append(f"MaxSubmitJobs of account {account.account} is 0: it takes no jobs now; `jobs` is not written")
    allowed = {account.account} if account else set()
    only = set(args.partitions.split(",")) if args.partitions else None
    machines = site.nodes(answers["nodes"])
    offers = site.offers(site.partitions(answers["partitions"]), machines, allowed, args.gpu, only)
    if all(offer.left_out for offer in offers):
        told = "; ".join(f"{offer.partition.name}: {offer.left_out}" for offer in offers) or "Slurm names none"
        raise EngineError(f"no partition that this workflow could use ({told}); name some with --partitions")
    if args.gpu:
        check_gpu(args.gpu, offers)
    unknown = [node.name for node in machines if not node.cpus]
    if unknown:
        notes.append(f"nodes left out, for Slurm does not say their CPUs or memory: {', '.join(unknown)}")
    decisions(offers, answers["config"], args.gpu, notes)
    rules = gpu_rules(Path(__file__).parents[2])
    write_text(args.out / "partitions.yaml", partition_file(offers))
    write_text(args.out / "profile.v9+.yaml", profile_file(offers, account, args.gpu, rules))
    report(args.out, offers, notes)


def report(out: Path, offers: list[site.Offer], notes: list[str]) -> None:
    """Tell what was found and what is left to decide."""
    for offer in offers:
        if offer.left_out:
            print(f"{offer.partition.name}: left out; {offer.left_out}", file=sys.stderr)
            continue
        gpus = ", ".join(f"{count} {kind or 'GPUs'}" for kind, count in sorted(offer.gpus.items())) or "no GPU"
        limit = "no time limit" if offer.partition.minutes is None else f"{offer.partition.minutes} min"
        size = f"{len(offer.nodes)} nodes of up to {offer.cpus} cores, {offer.mem_mb} MB, {gpus}"
        print(f"{offer.partition.name}: {size}, {limit}", file=sys.stderr)
    for note in notes:
        print(f"to decide: {note}", file=sys.stderr)
    print(f"written: {out}/profile.v9+.yaml and partitions.yaml", file=sys.stderr)
    name = out.name if out.parent == default_folder().parent else out
    print(f"use them: snakemake --profile slurm --profile {name} -n", file=sys.stderr)


def default_folder() -> Path:
    """Where Snakemake finds a profile by its name."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "snakemake" / "site"


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument(
        "--out", type=Path, default=default_folder(), help="folder for the two files (default: %(default)s)"
    )
    parser.add_argument("--account", help="the account to charge (default: your only or default one)")
    parser.add_argument("--gpu", help="the one type of GPU to use, as the cluster names it (default: any)")
    parser.add_argument("--partitions", help="use only these, separated by commas (default: all that fit)")
    parser.add_argument("--user", help="whose accounts (default: you)")
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
