"""LaTeX of any text: ASCII, balanced, and really typeset where a LaTeX engine is installed."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib import latex
from scripts.lib.errors import EngineError
from scripts.tables import make_pdf

NASTY = r"""\ ~ ^ # $ % & _ { } [x] * " ' ` `` '' -- --- ,, << >> < > | ?` !` @ / \input{x} \\[1cm] %"""
LETTERS = "“curly” ‘single’ „low“ – — … café Ångström Łódź İstanbul ǘ ñ ç ß œ ø ﬁ £5 20 °C ± × ≤ → µ τ Δ λ ² †‡ © §"
OTHERS = "？，ＦＵＬＬ ₹ € ą മലയാളം Кириллица 出口 ไทย दिल्ली 😀 \u202e \x00 \x7f \u200b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50% & #3", r"50\% \& \#3"),
        ("a_b {c} $", r"a\_b \{c\} $\mathdollar$"),
        ("~^\\", r"\~{}\^{}\textbackslash{}"),
        ("[x]*", "{[}x{]}{*}"),
        ("“é” ’", r"{``}\'{e}{''} {'}"),
        ("two\nlines\t\u00a0end ", "two lines end"),
        ("e\u0301", r"\'{e}"),
        ("ï", r"\"{\i}"),
        ("ş", r"\c{s}"),
        ("ǘ", r"{\ttfamily{[}U+01D8{]}}\allowbreak{}"),
        ("τ ≤ 0.5", r"$\tau$ $\le$ 0.5"),
        ("？", "?"),
        ("മ", r"{\ttfamily{[}U+0D2E{]}}\allowbreak{}"),
        ("😀", r"{\ttfamily{[}U+1F600{]}}\allowbreak{}"),
    ],
)
def test_escape(text: str, expected: str) -> None:
    assert latex.escape(text) == expected


@given(st.text(max_size=60))
def test_any_text_is_ascii_balanced_and_one_line(text: str) -> None:
    escaped = latex.escape(text)
    assert escaped.isascii()
    assert escaped.isprintable()
    bare = escaped.replace("\\{", "").replace("\\}", "")
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert "%" not in escaped.replace("\\%", "")


@given(st.text(max_size=40))
def test_labels_are_plain(text: str) -> None:
    made = latex.label(text)
    assert made
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:.-")


def nasty_table() -> str:
    columns = [latex.Column(NASTY, "50% & more"), latex.Column("b", "50% & more"), *[latex.Column(OTHERS[:9])] * 3]
    cells = [(r"\textbf{61.2}", r"{\scriptsize {[}50.1, 70.2{]} 38/40}")] * 5
    lines = [
        latex.Line("[starts like an option]", cells, "Section_1 & co"),
        latex.Line("*starts like a star", cells, "Section_1 & co"),
        latex.Line(NASTY, cells, OTHERS),
        *[latex.Line(f"{LETTERS} {at}", cells, OTHERS) for at in range(60)],
    ]
    return latex.table(latex.Layout(NASTY + LETTERS + OTHERS, "tab:größe_x", columns, [LETTERS, OTHERS * 20]), lines)


@pytest.mark.parametrize("engine", ["pdflatex", "lualatex", "tectonic"])
def test_nasty_table_compiles(tmp_path: Path, engine: str) -> None:
    path = shutil.which(engine)
    if path is None:
        pytest.skip(f"no {engine} on PATH")
    pdf = tmp_path / "tablé.pdf"
    make_pdf.typeset(nasty_table(), pdf, path)
    first = pdf.read_bytes()
    assert first.startswith(b"%PDF")
    assert [file.name for file in tmp_path.iterdir()] == [pdf.name]
    if engine == "pdflatex":
        make_pdf.typeset(nasty_table(), pdf, path)
        assert pdf.read_bytes() == first


def test_no_font_is_drawn_on_the_spot(tmp_path: Path) -> None:
    path = shutil.which("pdflatex")
    if path is None:
        pytest.skip("no pdflatex on PATH")
    pdf = tmp_path / "t.pdf"
    make_pdf.typeset(r"\pdfobjcompresslevel0 " + nasty_table(), pdf, path)
    fonts = pdf.read_bytes()
    assert b"/Type1" in fonts
    assert b"/Type3" not in fonts


def test_broken_table_says_what_is_wrong(tmp_path: Path) -> None:
    path = shutil.which("pdflatex") or shutil.which("lualatex")
    if path is None:
        pytest.skip("no pdflatex or lualatex on PATH")
    pdf = tmp_path / "t.pdf"
    with pytest.raises(EngineError, match=r"Undefined control sequence.*t\.pdf\.log") as raised:
        make_pdf.typeset(r"before \nosuchcommand after", pdf, path)
    assert "\n" not in str(raised.value)
    assert "nosuchcommand" in (tmp_path / "t.pdf.log").read_text(encoding="utf-8")
    assert not pdf.exists()
    make_pdf.typeset("fine", pdf, path)
    assert [file.name for file in tmp_path.iterdir()] == ["t.pdf"]


def test_shell_stays_closed(tmp_path: Path) -> None:
    path = shutil.which("pdflatex")
    if path is None:
        pytest.skip("no pdflatex on PATH")
    target = tmp_path / "made"
    make_pdf.typeset(rf"\immediate\write18{{touch {target}}}x", tmp_path / "t.pdf", path)
    assert not target.exists()


def test_no_engine_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineError, match="install one"):
        make_pdf.find_engine()
