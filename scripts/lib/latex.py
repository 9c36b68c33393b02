r"""Text and tables as LaTeX that compiles everywhere: pure ASCII, and only commands that any engine and font setup has.

``escape`` is the one way any text (cell, caption, heading) gets into LaTeX. It leaves no non-ASCII character, so no
inputenc, font encoding or Unicode engine is needed: with T1, pdflatex on a small TeX installation starts Metafont to
draw bitmap fonts, and where that is missing it fails. Accented Latin letters, quotes, dashes, Greek and common
signs are written as commands. Any other character (Cyrillic, CJK, Malayalam, emoji) is shown by its code point,
``[U+0D2E]``: no font of a plain installation has it, and a wrong or missing glyph in a published table would go unseen.

A table needs booktabs and graphicx in the preamble.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from scripts.lib.text import nfc

ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d", "\u0327": "c", "\u0331": "b",
}  # fmt: skip
LETTERS = {
    "æ": r"\ae", "Æ": r"\AE", "œ": r"\oe", "Œ": r"\OE", "ø": r"\o", "Ø": r"\O", "ł": r"\l", "Ł": r"\L", "ß": r"\ss",
    "ı": r"\i", "ȷ": r"\j", "å": r"\aa", "Å": r"\AA", "…": r"\dots",
}  # fmt: skip
GREEK_CAPITALS = ("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega")
GREEK_SMALL = ("alpha", "beta", "epsilon", "zeta", "eta", "iota", "kappa", "mu", "nu", "rho", "tau", "chi")
MATHS = {
    "±": r"\pm", "×": r"\times", "÷": r"\div", "−": "-", "≤": r"\le", "≥": r"\ge", "≠": r"\ne", "≈": r"\approx",
    "→": r"\rightarrow", "←": r"\leftarrow", "↑": r"\uparrow", "↓": r"\downarrow", "·": r"\cdot", "∞": r"\infty",
    "∈": r"\in", "∆": r"\Delta", "µ": r"\mu", "²": "^2", "³": "^3", "°": r"^\circ", "•": r"\bullet",
    # As text these would come from a bitmap font (TS1), as mathematics they don't.
    "$": r"\mathdollar", "£": r"\mathsterling", "§": r"\mathsection", "¶": r"\mathparagraph", "†": r"\dagger",
    "‡": r"\ddagger", "<": "<", ">": ">", "|": "|",
}  # fmt: skip
for _name in (*GREEK_CAPITALS, *map(str.lower, GREEK_CAPITALS), *GREEK_SMALL):
    _case = "SMALL" if _name.islower() else "CAPITAL"
    MATHS[unicodedata.lookup(f"GREEK {_case} LETTER {_name.upper().replace('LAMBDA', 'LAMDA')}")] = "\\" + _name
PLAIN = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\^{}", "~": r"\~{}", "`": r"\`{}", '"': r"{\ttfamily\char34}",
    # After \\ an opening bracket or a star would be read as its argument; a closing one could end another argument.
    "[": "{[}", "]": "{]}", "*": "{*}",
    # Two of these in a row would become another sign (dash or quote).
    "-": "{-}", "'": "{'}", ",": "{,}",
    "“": "{``}", "”": "{''}", "‘": "{`}", "’": "{'}", "„": "{,}{,}", "‚": "{,}",
    "–": "{--}", "—": "{---}", "‐": "{-}", "‑": r"\mbox{-}",
}  # fmt: skip
NO_MORE_THAN_ONE = "-',"


def escape(text: str) -> str:
    """``text`` as LaTeX for running text: ASCII, one line, nothing of it read as a command.

    White space becomes single blanks, full-width ASCII its usual form, any character beyond a plain installation its
    code point in brackets.
    """
    flat = " ".join(nfc(text).split())
    return "".join(
        character if character in NO_MORE_THAN_ONE and flat[at + 1 : at + 2] != character else _one(character)
        for at, character in enumerate(flat)
    )


def _one(character: str) -> str:
    if character in PLAIN:
        return PLAIN[character]
    if character in LETTERS:
        return LETTERS[character] + "{}"
    if character in MATHS:
        return f"${MATHS[character]}$"
    if " " <= character <= "~":
        return character
    if "\uff01" <= character <= "\uff5e":
        return _one(chr(ord(character) - 0xFEE0))
    return _accented(character) or rf"{{\ttfamily{{[}}U+{ord(character):04X}{{]}}}}\allowbreak{{}}"


def _accented(character: str) -> str | None:
    """A letter with one accent as a command; None for anything else (a second accent would be set beside the first)."""
    parts = unicodedata.normalize("NFD", character)
    if len(parts) != 2 or not parts[0].isascii() or parts[1] not in ACCENTS:
        return None
    above = unicodedata.combining(parts[1]) == 230
    base = {"i": r"\i", "j": r"\j"}.get(parts[0], parts[0]) if above else parts[0]
    return f"\\{ACCENTS[parts[1]]}{{{base}}}"


def label(text: str) -> str:
    r"""``text`` as the argument of ``\label``: letters, digits, colons, stops and hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9:.]+", "-", plain).strip("-") or "table"


@dataclass(frozen=True)
class Column:
    """A column of numbers: its heading and, optionally, the heading it shares with its neighbours. Not escaped."""

    heading: str
    over: str = ""


@dataclass(frozen=True)
class Line:
    """One row: its label (not escaped) and, for each column, LaTeX of the number and of what stands beside it."""

    label: str
    cells: Sequence[tuple[str, str]]
    section: str = ""


@dataclass(frozen=True)
class Layout:
    """What is around the rows. Nothing of it escaped yet."""

    caption: str
    label: str
    columns: Sequence[Column]
    notes: Sequence[str] = field(default_factory=list)


WIDE_LABEL = 42
"""Letters of a row label beyond which the first column wraps."""


def table(layout: Layout, lines: Sequence[Line]) -> str:
    """A floating table with rules of booktabs, shrunk where it is wider than the page (measured by LaTeX itself)."""
    wraps = any(len(line.label) > WIDE_LABEL for line in lines)
    first = "p{60mm}" if wraps else "l"
    body: list[str] = []
    for position, (section, members) in enumerate(groupby(lines, key=lambda line: line.section)):
        if position:
            body.append(r"\midrule")
        if section:
            body.append(rf"\multicolumn{{{1 + 2 * len(layout.columns)}}}{{l}}{{\textit{{{escape(section)}}}}} \\")
        body += [_row(line, wraps) for line in members]
    return "\n".join(
        [
            r"\begin{table}[!htbp]",
            r"\centering",
            rf"\caption{{{escape(layout.caption)}}}",
            rf"\label{{{label(layout.label)}}}",
            r"\smallskip",
            r"\small",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{first}{'r@{~}l' * len(layout.columns)}}}",
            r"\toprule",
            *_head(layout.columns),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            *[rf"\par\smallskip{{\footnotesize\raggedright {escape(note)}\par}}" for note in layout.notes],
            r"\end{table}",
            "",
        ]
    )


def _row(line: Line, wraps: bool) -> str:
    cells = [part for cell in line.cells for part in cell]
    return (r"\raggedright " if wraps else "") + " & ".join([escape(line.label), *cells]) + r" \\"


def _head(columns: Sequence[Column]) -> list[str]:
    """The shared headings over a thin rule, if there are any, and the headings."""
    spans: list[str] = []
    rules: list[str] = []
    at = 2
    for over, members in groupby(columns, key=lambda column: column.over):
        width = 2 * len(list(members))
        spans.append(rf"\multicolumn{{{width}}}{{c}}{{{escape(over)}}}")
        if over:
            rules.append(rf"\cmidrule(lr){{{at}-{at + width - 1}}}")
        at += width
    headings = [rf"\multicolumn{{2}}{{c}}{{{escape(column.heading)}}}" for column in columns]
    shared = [" & ".join(["", *spans]) + r" \\", " ".join(rules)] if rules else []
    return [*shared, " & ".join(["", *headings]) + r" \\"]
