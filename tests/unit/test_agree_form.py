"""The rating form in a real browser, from file://: keys, clicks, and the file that it gives back."""

import csv
import html
import io
import json
import re
import subprocess

import pytest

from scripts.agree.answers import read_key
from scripts.agree.sheets import read_sheet
from tests.unit import agree_sample as sample
from tests.unit.test_report_browser import CHROMIUM, FLAGS

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]

PRELUDE = """
<script>
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const type = (id, text) => {
  const input = document.getElementById(id);
  input.value = text;
  input.dispatchEvent(new Event("input", { bubbles: true }));
};
const say = (name, text) => {
  const out = document.createElement("pre");
  out.id = "said-" + name;
  out.textContent = text;
  document.body.append(out);
};
URL.createObjectURL = (blob) => {
  blob.arrayBuffer().then((bytes) => say("file", new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)));
  return "about:blank";
};
HTMLAnchorElement.prototype.click = function () { say("name", this.download); };
</script>
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = sample.build(tmp_path_factory.mktemp("form"))
    sample.make_sheet(made)
    return made


def run(root, tmp_path, script, before=""):
    """The page after a script; fails on any word of complaint.

    Args:
        before: of the page's own script, HTML.
    """
    page = tmp_path / "page.html"
    text = (root / "sheet.html").read_text(encoding="utf-8")
    text = text.replace("<header>", f"{before}<header>")
    page.write_text(text.replace("</html>", f"{PRELUDE}<script>{script}</script></html>"), encoding="utf-8")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    ran = subprocess.run(
        [CHROMIUM, *FLAGS, profile, "--virtual-time-budget=3000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert [line for line in ran.stderr.splitlines() if ":CONSOLE:" in line] == []
    return ran.stdout


def said(page, name):
    found = re.search(rf'<pre id="said-{name}">(.*?)</pre>', page, re.DOTALL)
    return html.unescape(found[1]) if found else None


def text_of(page, name):
    found = re.search(rf'id="{name}"[^>]*>([^<]*)<', page)
    return html.unescape(found[1]) if found else None


def test_every_answer_rated_by_keys_comes_back_as_a_sheet(root, tmp_path):
    page = run(root, tmp_path, """
        type("rater", "Ännchen O'Hara");
        const rows = JSON.parse(document.getElementById("sheet").textContent).rows;
        rows.forEach((row, at) => { press(at % 3 ? "y" : "n"); press(at % 3 ? "4" : "1"); press("ArrowRight"); });
        type("comment", "=1+1");
        document.getElementById("download").click();
    """)  # fmt: skip
    text = said(page, "file")
    assert text_of(page, "progress") == "30 of 30 rated"
    assert said(page, "name") == "ratings-Ännchen-O-Hara.csv"
    file = tmp_path / "back.csv"
    file.write_text(text, encoding="utf-8", newline="")
    found = read_sheet(file)
    key = read_key(root / "key.json")
    assert [one.id for one in found] == list(key)
    assert [(one.verdict, one.score) for one in found] == [("yes", 4) if at % 3 else ("no", 1) for at in range(30)]
    assert {one.rater for one in found} == {"Ännchen O'Hara"}
    assert [one.comment for one in found][-1] == "=1+1"
    for one in found:
        given = key[one.id]
        # An HTML dump turns line ends of a pre element into \\n; the file itself keeps what it was given.
        assert one.answer.replace("\r\n", "\n") == given.answer.replace("\r\n", "\n")
        assert (one.question, one.truth) == (given.question, given.truth)


def test_its_cells_are_those_of_the_sheet(root, tmp_path):
    """Guarded in JavaScript as in Python, for every hard text."""
    page = run(
        root, tmp_path, 'type("rater", "A"); press("y"); press("4"); document.getElementById("download").click();'
    )
    made = list(csv.DictReader(io.StringIO(said(page, "file").lstrip("\ufeff"), newline="")))
    given = sample.rows(root / "sheet.csv")
    for name in ("id", "question", "correct answer", "answer"):
        assert [row[name] for row in made] == [row[name] for row in given], name


def test_contradictions_and_halves_do_not_go_out(root, tmp_path):
    page = run(root, tmp_path, """
        document.getElementById("download").click();
        say("first", document.getElementById("problem").textContent);
        type("rater", "A");
        press("y"); press("0");
        say("second", document.getElementById("problem").textContent);
        press("ArrowRight"); press("3"); press("ArrowRight");
        document.getElementById("download").click();
        say("third", document.getElementById("place").textContent);
        press("0"); press("5");
        document.getElementById("download").click();
        say("fourth", document.getElementById("problem").textContent);
    """)  # fmt: skip
    assert said(page, "first") == "Enter your name first."
    assert said(page, "second") == "yes and 0 contradict each other."
    assert said(page, "third") == "Answer 1 of 30"
    assert said(page, "fourth") == "Yes or no is missing."
    assert said(page, "file") is None


def test_what_was_entered_is_there_when_the_page_opens_again(root, tmp_path):
    """By way of what the page keeps in the browser, which this one forgets when it is closed at once."""
    page = run(root, tmp_path, """
        type("rater", "A"); press("n"); press("2"); press("ArrowRight");
        say("kept", JSON.stringify(Object.entries(localStorage)));
    """)  # fmt: skip
    ((name, kept),) = json.loads(said(page, "kept"))
    before = f"<script>localStorage.setItem({json.dumps(name)}, {json.dumps(kept)})</script>"
    page = run(root, tmp_path, "", before)
    assert text_of(page, "progress") == "1 of 30 rated"
    assert text_of(page, "place") == "Answer 2 of 30"
    spoiled = f"<script>localStorage.setItem({json.dumps(name)}, 'not ours')</script>"
    assert text_of(run(root, tmp_path, "", spoiled), "progress") == "0 of 30 rated"


def test_the_next_person_starts_anew(root, tmp_path):
    page = run(root, tmp_path, """
        window.confirm = () => true;
        type("rater", "A"); press("n"); press("2"); press("ArrowRight");
        document.getElementById("anew").click();
        say("kept", JSON.stringify(Object.values(localStorage).map(JSON.parse).map((one) => one.rater)));
    """)  # fmt: skip
    assert said(page, "kept") == '[""]'
    assert (text_of(page, "progress"), text_of(page, "place")) == ("0 of 30 rated", "Answer 1 of 30")


def test_a_browser_that_keeps_nothing_says_so_as_long_as_it_does(root, tmp_path):
    refuses = "<script>Storage.prototype.setItem = () => { throw new Error('no'); };</script>"
    page = run(root, tmp_path, 'press("y"); press("4"); press("ArrowRight");', refuses)
    assert text_of(page, "storage") == "This browser keeps nothing: download before you close the page."
    assert text_of(page, "progress") == "1 of 30 rated"


def test_answers_are_text_and_never_page(root, tmp_path):
    page = run(root, tmp_path, """
        const rows = JSON.parse(document.getElementById("sheet").textContent).rows;
        const at = rows.findIndex((row) => row.answer.includes("<b>"));
        for (let i = 0; i < at; i++) press("ArrowRight");
        say("bold", String(document.querySelectorAll("b").length));
        say("answer", document.getElementById("answer").textContent);
    """)  # fmt: skip
    assert said(page, "bold") == "0"
    assert said(page, "answer") == "</script><b>no</b>"
