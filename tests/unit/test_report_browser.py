"""The report in a real browser, from file://: what it shows, what it hides, and that it never complains."""

import fcntl
import json
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest

from scripts.tables import make_report
from tests.unit import report_sample

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-logging=stderr", "--v=0"),
]

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    assert make_report.main(report_sample.build(root, 300)) == 0
    return root / "results/report.html"


READER = str(report_sample.cell(4))


def browse(report, tmp_path, *options, **state):
    """What Chromium prints with the page open at a state; fails on any word of complaint."""
    address = f"{report.as_uri()}#{urlencode(state)}"
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    ran = subprocess.run(
        [CHROMIUM, *FLAGS, profile, "--virtual-time-budget=3000", *options, address],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert [line for line in ran.stderr.splitlines() if ":CONSOLE:" in line] == []
    return ran.stdout


class Elements(HTMLParser):
    """Every element's attributes, with all the text inside it."""

    VOID = frozenset({"meta", "img", "input", "link", "br"})

    def __init__(self):
        super().__init__()
        self.all, self.open = [], []

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", **dict(attributes)}
        self.all.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        while self.open and self.open.pop()["tag"] != tag:
            pass

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data


def dom(report, tmp_path, **state):
    elements = Elements()
    elements.feed(browse(report, tmp_path, "--dump-dom", **state))
    return elements.all


def having(elements, **wanted):
    names = {name.rstrip("_").replace("_", "-"): value for name, value in wanted.items()}
    return [one for one in elements if all(one.get(name) == value for name, value in names.items())]


def one(elements, **wanted):
    (found,) = having(elements, **wanted)
    return found


def test_table_chart_and_first_case_are_there(report, tmp_path):
    elements = dom(report, tmp_path)
    assert one(elements, id="table-0")["text"] == "Signs <demo>"
    rows = [element["text"] for element in having(elements, tag="th", scope="row")]
    assert rows[:4] == ["Readersreader, 2 frames", "Readersreader, 4 frames", "blind, 4 frames", "later, 4 frames"]
    assert one(elements, scope="colgroup")["text"] == "Subset"
    numbers = [element["text"] for element in having(elements, tag="td") if "data-value" in element]
    assert [number[:2] for number in numbers[5:]] == ["—", "–†", "–†"]
    best = having(elements, tag="strong", class_="value")
    assert len(best) == 1  # no question failed in the second column, some in the first
    assert numbers[3].startswith(best[0]["text"])
    assert having(elements, tag="a", title=f"Show the cases of {READER}")[0]["href"].startswith("#cell=signs%2Freader")
    assert len(having(elements, tag="path", class_="point")) == 3 + 2  # points and the key's
    assert "ROUGE-L over the number of frames" in one(elements, tag="svg", role="img")["aria-label"]
    assert one(elements, tag="h3")["text"] == report_sample.EVIL
    assert "75 right, 150 wrong, 75 failed" in one(elements, id="tally")["text"]


def test_only_rows_near_the_top_are_in_the_page(report, tmp_path):
    shown = having(dom(report, tmp_path), role="option")
    assert shown[0]["aria-setsize"] == "300"
    assert 5 < len(shown) < 60


@pytest.mark.parametrize(("kind", "total"), [("right", 150), ("wrong", 75), ("failed", 75)])
def test_a_filter_shows_nothing_else(report, tmp_path, kind, total):
    shown = having(dom(report, tmp_path, cell=READER, filter=kind), role="option")
    assert {row["data-verdict"] for row in shown} == {kind}
    assert {row["aria-setsize"] for row in shown} == {str(total)}


def test_the_threshold_moves_the_line_between_right_and_wrong(report, tmp_path):
    for threshold, counts in (("0.9", "150 right, 75 wrong, 75 failed"), ("1", "75 right, 150 wrong, 75 failed")):
        assert counts in one(dom(report, tmp_path, cell=READER, threshold=threshold), id="tally")["text"]


def test_a_deep_link_opens_its_case_with_frames_and_boxes(report, tmp_path):
    elements = dom(report, tmp_path, cell=READER, case="signs/v0/q200")
    assert one(elements, tag="h3")["text"] == "What does sign 200 say now?"
    assert one(elements, role="option", aria_selected="true")["aria-posinset"] == "201"
    assert [picture["src"][:23] for picture in having(elements, tag="img")] == ["data:image/jpeg;base64,"] * 4
    assert [picture["alt"] for picture in having(elements, tag="img")][1] == "Frame at 0.67 s"
    boxes = [element for element in having(elements, tag="polygon") if element.get("class") != "halo"]
    assert [box["points"] for box in boxes] == ["40 30 240 34 238 90 38 86"] * 3
    assert boxes[0]["text"] == "AUSGANG <i>→</i> (93 % sure)"


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    root = tmp_path_factory.mktemp("judged")
    assert make_report.main(report_sample.build(root, 24, judged=True)) == 0
    return root / "results/report.html"


def test_a_judged_cell_shows_verdict_score_and_judge(judged, tmp_path):
    elements = dom(judged, tmp_path, cell=READER, case="signs/v1/q3", metric="judge_accuracy by rules")
    assert "12 right" not in one(elements, id="tally")["text"]
    assert "9 right, 6 wrong, 9 failed (right means judge_accuracy by rules = 1)" in one(elements, id="tally")["text"]
    detail = one(elements, id="detail")["text"]
    assert "Judged by rulesyes, 5 of 5 [cut], judged again: no, 2 of 5{'pred': 'yes', 'score': 5}" in detail
    assert "rouge_l 1" in detail
    assert "judge_score" not in detail


def test_what_could_not_be_judged_failed_for_the_judge_s_metrics_alone(judged, tmp_path):
    elements = dom(judged, tmp_path, cell=READER, case="signs/v1/q1", metric="judge_score by rules", filter="failed")
    assert "9 failed (right means judge_score by rules ≥ 3)" in one(elements, id="tally")["text"]
    assert {"not judged: parse_failed", "error:engine"} == {one["text"] for one in having(elements, class_="said")}
    detail = one(elements, id="detail")["text"]
    assert f"not judged: parse_failed (no verdict){report_sample.UNSURE}No." in detail
    elements = dom(judged, tmp_path, cell=READER, case="signs/v1/q1", metric="rouge_l")
    assert "6 failed" in one(elements, id="tally")["text"]


def test_judged_numbers_in_table_and_chart(judged, tmp_path):
    elements = dom(judged, tmp_path)
    numbers = [element for element in having(elements, tag="td") if "data-value" in element]
    assert numbers[1]["text"].startswith("60.0 / 3.2[")
    assert float(numbers[1]["data-value"]) == pytest.approx(60)
    assert 1 < float(numbers[2]["data-value"]) < 5
    assert [number["text"] for number in numbers[-2:]] == ["–†", "–†"]
    links = having(elements, tag="a", title=f"Show the cases of {report_sample.JUDGED_ONLY}")
    assert "metric=judge_score+by+rules" in links[1]["href"]
    assert "group" not in links[1]["href"]
    options = [element["value"] for element in having(elements, tag="option")]
    assert str(report_sample.JUDGED_ONLY) in options


def test_a_score_is_right_from_a_threshold_of_its_own(judged, tmp_path):
    with opened(judged, tmp_path) as page:
        page.choose("Cell", str(report_sample.JUDGED_ONLY))
        page.choose("Metric", "judge_score by rules")
        least = "[...document.querySelectorAll('#controls label')[2].querySelectorAll('option')].map((o) => o.text)"
        page.expect(least, ["exactly 5", *[f"at least {n}" for n in (4, 3, 2, 1)]])
        page.choose("Right if", "5")
        page.says("#tally", "24 cases shown: 6 right, 9 wrong, 9 failed (right means judge_score by rules = 5)")
        assert [e for e in page.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] == []


def test_a_failure_says_what_happened(report, tmp_path):
    detail = one(dom(report, tmp_path, case="signs/v0/q2"), id="detail")["text"]
    assert "error:engine: the engine ran out of memory" in detail
    assert "B: EMERGENCY EXIT 2" in detail


def test_group_and_search_narrow_the_list(report, tmp_path):
    elements = dom(report, tmp_path, group="first", q="SIGN 29")
    asked = [element["text"] for element in having(elements, class_="asked")]
    assert asked == [f"What does sign {n} say now?" for n in (291, 294, 297)]
    assert one(dom(report, tmp_path, q="東京"), id="detail")["text"].count(report_sample.OTHER) >= 1


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"q": "no such text"}, "No cases match"),
        ({"case": "signs/v0/q6"}, "No frames: error:video_undecodable"),
        ({"case": "signs/v0/q4"}, "No text was read on frames of this sampler"),
        ({"cell": str(report_sample.BLIND), "case": "signs/v0/q4"}, "The model was given 0 of these 4"),
        ({"case": "signs/v1/q5"}, "gone.mp4: no such file"),
        ({"filter": "right", "case": "signs/v0/q0"}, "is not among these"),
        ({"cell": "no/such", "metric": "nonsense", "filter": "odd", "threshold": "x"}, "300 cases shown"),
    ],
)
def test_what_is_not_there_is_said(report, tmp_path, state, words):
    assert words in one(dom(report, tmp_path, **state), id="cases")["text"]


@pytest.mark.parametrize("width", [1280, 400])
def test_it_paints_wide_and_narrow(report, tmp_path, width):
    picture = tmp_path / "page.png"
    browse(report, tmp_path, f"--window-size={width},1600", f"--screenshot={picture}")
    from PIL import Image

    image = Image.open(picture).convert("RGB")
    assert image.size == (width, 1600)
    assert len(set(image.get_flattened_data())) > 50


def test_nothing_of_the_records_became_an_element(report, tmp_path):
    text = browse(report, tmp_path, "--dump-dom")
    assert len(re.findall(r"<script(?! type=\"application/json\")", text)) == 1
    assert "<i>" not in text.split("<script", 1)[0]


class Page:
    """An open page that can be clicked and typed in, by the DevTools protocol over a pair of pipes."""

    def __init__(self, send, receive):
        self.send, self.receive, self.rest = send, receive, b""
        self.last, self.session, self.events = 0, None, []

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.send, json.dumps(message).encode() + b"\0")
        while (answer := self.read()).get("id") != self.last:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def read(self):
        while b"\0" not in self.rest:
            part = os.read(self.receive, 65536)
            assert part, "Chromium ended"
            self.rest += part
        whole, _, self.rest = self.rest.partition(b"\0")
        return json.loads(whole)

    def run(self, code):
        """The value of an expression."""
        found = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def expect(self, code, value):
        """Wait until an expression has a value."""
        done = f"JSON.stringify({code}) === {json.dumps(json.dumps(value, ensure_ascii=False, separators=(',', ':')))}"
        self.run(
            "(async () => { const end = Date.now() + 20000;"
            f" while (!({done}) && Date.now() < end) await new Promise((next) => setTimeout(next, 20)); }})()"
        )
        assert self.run(code) == value

    def press(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def choose(self, label, value):
        """Pick an option of a select by its label, as a person would."""
        find = f"[...document.querySelectorAll('#controls label')].find((one) => one.textContent.startsWith('{label}'))"
        self.run(f"({find}).lastChild.value = '{value}', ({find}).lastChild.dispatchEvent(new Event('change')), 0")

    def click(self, selector, at=0):
        self.run(f"document.querySelectorAll('{selector}')[{at}].click()")

    def says(self, selector, text):
        self.expect(f"document.querySelector('{selector}').textContent", text)


@contextmanager
def opened(report, tmp_path):
    (from_page, send), (receive, to_page) = os.pipe(), os.pipe()

    def three_and_four():
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (from_page, to_page)]
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'live'}", "--remote-debugging-pipe"]
    with subprocess.Popen(
        command, close_fds=False, preexec_fn=three_and_four, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as browser:
        os.close(from_page)
        os.close(to_page)
        try:
            page = Page(send, receive)
            target = page.call("Target.createTarget", url="about:blank")["targetId"]
            page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Network", "Runtime", "Log"):
                page.call(f"{domain}.enable")
            page.call("Page.navigate", url=report.as_uri())
            page.expect(
                "document.readyState === 'complete' && document.querySelectorAll('#list .case').length > 0", True
            )
            yield page
        finally:
            browser.terminate()
            os.close(send)
            os.close(receive)


def test_keys_clicks_and_typing(report, tmp_path):
    with opened(report, tmp_path) as page:
        page.choose("Cell", READER)
        page.press("j")
        page.press("j")
        page.says("#detail h3", "What does sign 2 say now?")
        page.expect("location.hash.includes('case=signs%2Fv0%2Fq2')", True)
        page.press("k")
        page.says("#detail .steps span", "2 of 300")
        page.choose("Show", "wrong")
        page.says("#detail .steps span", "1 of 75")
        page.click("#list .case", 3)
        page.says("#detail h3", "What does sign 12 say now?")
        page.run("document.querySelector('#controls input').focus()")
        page.call("Input.insertText", text="sign 296")
        page.says("#detail h3", "What does sign 296 say now?")
        page.press("j")
        page.expect("document.activeElement.value", "sign 296j")


def test_sorting_scrolling_links_and_history(report, tmp_path):
    chosen = "document.querySelector('#controls select').value"
    order = "[...document.querySelectorAll('.table tbody th')].map((one) => one.lastChild.textContent.slice(0, 9))"
    folded = "[...document.querySelectorAll('.table tbody tr')].map((one) => one.classList.contains('again'))"
    with opened(report, tmp_path) as page:
        page.expect(folded, [False, True, False, False])
        page.click(".table thead button", 1)
        page.expect(order, ["reader, 4", "reader, 2", "blind, 4 ", "later, 4 "])
        page.click(".table thead button", 1)
        page.expect(order, ["blind, 4 ", "reader, 2", "reader, 4", "later, 4 "])
        page.expect(folded, [False, False, True, False])
        page.click(".table tbody a")
        page.expect(chosen, str(report_sample.BLIND))
        page.run("history.back()")
        page.expect(chosen, str(report_sample.cell(2)))
        page.run("document.getElementById('list').scrollTop = 1e6")
        page.expect("document.getElementById('rows').lastChild.getAttribute('aria-posinset')", "300")


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_fetched_and_nothing_sticks_out(report, tmp_path, width):
    with opened(report, tmp_path) as page:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        page.choose("Cell", READER)
        page.press("j")
        page.expect(f"document.documentElement.scrollWidth <= {width}", True)
        asked = [e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"]
        assert {url.split(":", 1)[0] for url in asked} <= {"file", "data"}
        assert sum(url.startswith("file:") for url in asked) == 1
        assert [e for e in page.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] == []
