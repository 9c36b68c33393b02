"""Print what was spent on APIs so far: by model, by table and, with --cells, by cell.

    python -m scripts.estimate.spent
    python -m scripts.estimate.spent --cells

By model: resources/cache/spent.jsonl, to which every call is added when it ends, whatever came of it; a call whose end
nobody saw counts at its upper estimate. That is the sum to compare with a bill.

By table and by cell: what their answers and judgements came to. An answer that was judged in one cell and known in the
next stands in both, and a cell that was made again counts once; so these say what each would cost alone, and don't add
up to the first sum.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.estimate.prices import SPENT
from scripts.estimate.show import table
from scripts.estimate.sizes import lines
from scripts.lib import cli
from scripts.lib.errors import DataError

KINDS = ("answers", "judging")


@dataclass
class Model:
    """What one model of a vendor has come to."""

    calls: int = 0
    """Or batches, which are reserved and counted as one."""
    tokens: int = 0
    dollars: float = 0.0
    open_dollars: float = 0.0
    """Of this: of calls whose end nobody saw."""

    def add(self, call: dict[str, Any]) -> None:
        self.calls += 1
        self.tokens += call["tokens"]
        self.dollars += call["dollars"]
        self.open_dollars += call["dollars"] if call["state"] == "reserved" else 0.0


def by_model(ledger: Path) -> dict[str, Model]:
    """Sums by the name that the server knows a model by.

    Raises:
        DataError: a line in the middle of the file is none of its own.
    """
    last: dict[str, dict[str, Any]] = {}
    read = list(lines(ledger)) if ledger.is_file() else []
    for number, line in enumerate(read, 1):
        try:
            call = json.loads(line)
            last[call["id"]] = {key: call[key] for key in ("model", "tokens", "dollars", "state")}
        except (ValueError, KeyError, TypeError):
            if number < len(read):  # the last one may be cut short: the run that was killed there mends the file
                raise DataError(f"{ledger}: line {number}: not a call; remove it") from None
    models: dict[str, Model] = {}
    for call in last.values():
        models.setdefault(call["model"], Model()).add(call)
    return dict(sorted(models.items()))


def by_table(results: Path) -> dict[str, dict[str, Any]]:
    """Costs of answers and of judging by table, as its JSON has them."""
    files = sorted((results / "tables").rglob("*.json"))
    found = {file.relative_to(results / "tables").with_suffix("").as_posix(): _read(file).get("cost") for file in files}
    return {name: cost["total"] for name, cost in found.items() if cost}


def by_cell(results: Path) -> dict[str, dict[str, Any]]:
    """The same by what was scored: ``scores/<cell>`` and ``judged/<judge>/<cell>``."""
    files = [file for folder in ("scores", "judged") for file in sorted((results / folder).rglob("scores.json"))]
    found = {file.parent.relative_to(results).as_posix(): _read(file).get("cost") for file in files}
    return {name: cost for name, cost in found.items() if cost}


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise DataError(f"{file}: not what this workflow writes there; remove it and run again")
    return content


def report(ledger: Path, results: Path, cells: bool) -> str:
    """All of it, as text."""
    models = by_model(ledger)
    rows = [["model", "calls", "tokens", "$", "of this, end not seen: $"]]
    rows += [
        [name, f"{one.calls:,}", f"{one.tokens:,}", f"{one.dollars:,.2f}", f"{one.open_dollars:,.2f}"]
        for name, one in models.items()
    ]
    sums = [sum(getattr(one, key) for one in models.values()) for key in ("calls", "tokens", "dollars", "open_dollars")]
    rows.append(["total", *(f"{value:,}" for value in sums[:2]), *(f"{value:,.2f}" for value in sums[2:])])
    blocks = [table(rows) if models else f"Nothing was spent: {ledger} has no call."]
    blocks += list(_parts("table", by_table(results)))
    blocks += list(_parts("scored", by_cell(results))) if cells else []
    return "\n\n".join(blocks) + "\n"


def _parts(what: str, costs: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A table of those that cost anything; none where nothing did."""
    rows = [[what, *(f"{kind}: {unit}" for kind in KINDS for unit in ("tokens", "$"))]]
    for name, cost in costs.items():
        parts = [cost.get(kind) or {} for kind in KINDS]
        if any(part.get("dollars") or part.get("tokens_in") for part in parts):
            rows.append([name, *(text for part in parts for text in _shown(part))])
    if len(rows) > 1:
        yield table([*rows, ["(each alone)", "", "", "", ""]])


def _shown(part: dict[str, Any]) -> tuple[str, str]:
    """Tokens and dollars; dashes where nobody counted."""
    counted = [part[name] for name in ("tokens_in", "tokens_out") if part.get(name) is not None]
    dollars = part.get("dollars")
    return f"{sum(counted):,}" if counted else "-", "-" if dollars is None else f"{dollars:,.4f}"


def step(args: argparse.Namespace) -> None:
    print(report(args.ledger, args.results, args.cells), end="")


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.prog = "python -m scripts.estimate.spent"
    parser.add_argument("--cells", action="store_true", help="also by cell")
    parser.add_argument("--ledger", type=Path, default=Path(SPENT), help="default: %(default)s")
    parser.add_argument("--results", type=Path, default=Path("results"), help="default: %(default)s")
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
