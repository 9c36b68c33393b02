"""Print what a target would cost before anything is spent: jobs, CPU and GPU hours, tokens, dollars and disk.

    python -m scripts.estimate                                      what a plain `snakemake` would make
    python -m scripts.estimate demo --profile slurm                 one target, as a profile runs it
    python -m scripts.estimate demo_signs -- --forceall             whatever follows -- goes to Snakemake

Nothing is called, downloaded or started, and no key is needed. What must run is asked of Snakemake (a dry run), so what
is there already costs nothing. A question then costs:

  seconds     question_s + kilotoken_s x visual tokens / 1000, and no less than a limit of requests or tokens a minute
              leaves room for; a job costs load_s besides. Times GPUs: GPU hours. A faster card divides all but load_s
  tokens in   text_tokens + frames x tokens_per_frame, or x pixels at the cell's resolution / pixels_per_token; without
              frames where the prompt shows none, with scene_text_tokens for each frame where it tells their text
  tokens out  new_tokens; `at most` takes the model's max_new_tokens
  dollars     tokens x config/prices.yaml for models that somebody else runs, GPU hours x dollars_per_hour for others
  judging     by a language model: every answer once, a share of them twice (again_share), at the price of its Batch API
              where its file says `batch`

Seconds and tokens are the `cost` of each model in config/models/ and judge in config/judges/, questions and footage
come from the files or settings of each data set, the rest is in config/hardware.yaml. Every number there says whether
it is a guess, and the guesses that went in are listed at the end. Answers imported from a file cost nothing. The
budget that is shown is that of config/remote.yaml, less what runs have spent (resources/cache/spent.jsonl). What was
spent, afterwards: python -m scripts.estimate.spent
"""

import argparse
import json
from pathlib import Path

from scripts.estimate import show, total
from scripts.estimate.planned import dry_run
from scripts.lib import cli, files

# Planned as on nodes of so many cores, so that the numbers don't depend on the machine that makes the plan.
ALONE = ["--profile", "laptop", "--cores", "16"]


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.prog = "python -m scripts.estimate"
    parser.add_argument("target", nargs="*", help="as for snakemake: names or files (default: all)")
    parser.add_argument("--configfile", nargs="+", action="extend", default=[], help="as for snakemake")
    parser.add_argument(
        "--config", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="as for snakemake"
    )
    parser.add_argument("--profile", action="append", default=[], help="as for snakemake (default: laptop)")
    parser.add_argument("--json", type=Path, help="also write the estimate to this file")
    return parser


def arguments(args: argparse.Namespace) -> list[str]:
    """Snakemake's command line."""
    line = list(args.target)
    for name in args.profile:
        line += ["--profile", name]
    for option in ("configfile", "config"):
        if getattr(args, option):
            line += [f"--{option}", *getattr(args, option)]
    return line if args.profile else line + ALONE


def step(args: argparse.Namespace) -> None:
    found = total.estimate(dry_run(arguments(args)))
    if args.json:
        files.write_text(args.json, json.dumps(total.as_json(found), indent=2, ensure_ascii=False) + "\n")
    asked = " ".join(args.target) or "all"
    print(show.text(found, " ".join([asked, *(f"with {name}" for name in args.configfile)])), end="")


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
