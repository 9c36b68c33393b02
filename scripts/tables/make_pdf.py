r"""Typeset one table (the .tex of make_table) as a PDF page of its own.

Uses whichever of pdflatex, lualatex and tectonic is found first; nothing beyond booktabs, graphicx and geometry is
needed. Commands in the table cannot start programs (no shell escape), and LaTeX is stopped after a minute.
"""

import argparse
import math
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from scripts.lib import cli
from scripts.lib.errors import DataError, EngineError
from scripts.lib.files import atomic_path, write_text

LATEX = ["-interaction=nonstopmode", "-halt-on-error", "-file-line-error", "-no-shell-escape"]
ENGINES = {
    "pdflatex": LATEX,
    "lualatex": LATEX,
    "tectonic": ["--untrusted", "--keep-logs", "--chatter", "minimal"],
}
"""Engine to its options. Tectonic comes last: on its first run it downloads its packages."""

TIMEOUT_S = 60
JOB = "page"
MARGIN_MM = 15
MM_PER_PT = 25.4 / 72.27
WIDE_COLUMNS = 3
"""Columns of numbers beyond which the page lies on its side."""


def find_engine() -> str:
    """Path of the first LaTeX engine there is.

    Raises:
        EngineError: there is none.
    """
    found = next((path for name in ENGINES if (path := shutil.which(name))), None)
    if found is None:
        raise EngineError(
            f"no LaTeX engine ({', '.join(ENGINES)}) on PATH; install one (texlive-latex-recommended, or tectonic from"
            " conda-forge), or use the .md and .csv forms of the table"
        )
    return found


def page(tex: str, longer_mm: int = 0) -> str:
    """A document that inputs the table on an A4 page, on its side for many columns, and so much longer than A4."""
    start = tex.find(r"\begin{tabular}")
    columns = tex[start : tex.find("\n", start)].count("r@")
    width, height = (297, 210) if columns > WIDE_COLUMNS else (210, 297)
    height += longer_mm
    return rf"""\ifdefined\pdftrailerid\pdftrailerid{{}}\fi
\documentclass[11pt]{{article}}
\usepackage[paperwidth={width}mm,paperheight={height}mm,margin={MARGIN_MM}mm]{{geometry}}
\usepackage{{booktabs,graphicx}}
\pagestyle{{empty}}
\begin{{document}}
\input{{table}}
\end{{document}}
"""


def typeset(tex: str, pdf: Path, engine: str) -> None:
    """Write ``pdf`` whole or not at all; the same ``tex`` gives the same bytes with pdflatex.

    Raises:
        EngineError: LaTeX failed or took too long; its log is kept as ``<pdf>.log``.
    """
    pdf.parent.mkdir(parents=True, exist_ok=True)
    kept = pdf.with_name(pdf.name + ".log")
    with tempfile.TemporaryDirectory(dir=pdf.parent, prefix=".make_pdf.") as name:
        folder = Path(name)
        (folder / "table.tex").write_text(tex, encoding="utf-8")
        said, text = _run(engine, folder, page(tex))
        if too_long := re.search(r"Float too large for page by ([\d.]+)pt", text):
            said, text = _run(engine, folder, page(tex, math.ceil(float(too_long.group(1)) * MM_PER_PT)))
        made = folder / f"{JOB}.pdf"
        if said or not made.is_file():
            write_text(kept, text)
            raise EngineError(f"{pdf}: {Path(engine).name}: {said or first_error(text)}; the whole log is in {kept}")
        with atomic_path(pdf) as temporary:
            shutil.copyfile(made, temporary)
    kept.unlink(missing_ok=True)


def _run(engine: str, folder: Path, document: str) -> tuple[str, str]:
    """Run LaTeX once (a table has no references to settle).

    Returns:
        What went wrong (empty when nothing did) and the log.
    """
    (folder / f"{JOB}.tex").write_text(document, encoding="utf-8")
    said = _complaint(engine, folder)
    log = folder / f"{JOB}.log"
    return said, log.read_text(encoding="utf-8", errors="replace") if log.is_file() else said


def _complaint(engine: str, folder: Path) -> str:
    name = Path(engine).name
    command = [engine, *ENGINES[name], f"{JOB}.tex"]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1", "max_print_line": "1000"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return f"not finished within {TIMEOUT_S} s"
    except OSError as error:
        return f"could not be started ({error.strerror})"
    if done.returncode == 0:
        return ""
    return first_error((done.stdout + done.stderr).decode("utf-8", errors="replace"))


def first_error(log: str) -> str:
    """The first line of a LaTeX log that says what is wrong."""
    found = re.search(r"^(?:!|error:|\S+:\d+:)\s*(.+)$", log, re.MULTILINE)
    return found.group(0).strip() if found else "failed without saying why"


def step(args: argparse.Namespace) -> None:
    if not args.tex.is_file():
        raise DataError(f"{args.tex}: no such file; run make_table")
    typeset(args.tex.read_text(encoding="utf-8"), args.pdf, find_engine())


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--tex", type=Path, required=True, help="table environment written by make_table")
    parser.add_argument("--pdf", type=Path, required=True, help="page to write")
    return parser


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
