"""Print finished tables (their Markdown) and where every form of them lies. What `make demo` ends with."""

import argparse
from pathlib import Path

from scripts.lib import cli
from scripts.lib.errors import DataError


def where(folder: Path, name: str) -> list[Path]:
    """The files of one table, in the order a reader wants them."""
    found = [folder / f"{name}.{suffix}" for suffix in ("pdf", "tex", "csv", "json")]
    return [file for file in found if file.is_file()]


def step(args: argparse.Namespace) -> None:
    for name in args.tables:
        markdown = args.table_dir / f"{name}.md"
        if not markdown.is_file():
            raise DataError(f"{markdown}: no such file; make it with: snakemake {markdown}")
        print("\n" + markdown.read_text(encoding="utf-8").rstrip())
        print("\nFiles: " + "  ".join(map(str, where(args.table_dir, name))))
    if args.report:
        print(f"\nCases, figures and all tables on one page: {args.report}")


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--tables", nargs="+", required=True, help="table names, e.g. demo/rolling")
    parser.add_argument("--table-dir", type=Path, default=Path("results/tables"))
    parser.add_argument("--report", type=Path, help="also name this page")
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
