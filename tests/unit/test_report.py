"""The report's file: all records in it, nothing in it that runs or loads, the same bytes every time."""

import base64
import io
import json
import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib import jsonl
from scripts.lib.records import FramePlan, Prediction
from scripts.tables import make_report, report_data, report_frames
from tests.unit import report_sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    arguments = report_sample.build(root)
    assert make_report.main(arguments) == 0
    return root, arguments


@pytest.fixture
def copy(sample, tmp_path):
    """The sample in a folder of its own, to break."""
    root, arguments = sample
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    return tmp_path, [word.replace(str(root), str(tmp_path)) for word in arguments]


def page(root):
    return (root / "results/report.html").read_text(encoding="utf-8")


def block(text, name):
    found = re.search(rf'<script type="application/json" id="{re.escape(name)}">(.*?)</script>', text)
    return json.loads(found[1])


def test_every_case_and_question_is_in_the_page(sample):
    text = page(sample[0])
    questions = block(text, "questions:signs")
    assert [question["key"] for question in questions] == [f"signs/v{i % 2}/q{i}" for i in range(12)]
    assert questions[0]["question"] == report_sample.EVIL
    assert questions[1]["answers"] == [report_sample.OTHER]
    cases = block(text, f"cases:{report_sample.cell(4)}")
    assert cases["question"] == list(range(12))
    assert cases["status"] == ["ok", "ok", "error:engine", "ok"] * 3
    assert cases["answer"][1:4] == [report_sample.OTHER[1:], "", "EMERGENCY EXIT 3"]
    scores = cases["metrics"]["rouge_l"]
    assert scores[2::4] == [None] * 3
    assert scores[3::4] == [1.0] * 3
    assert all(0.9 < near < 1 for near in scores[1::4])


def test_the_table_is_that_of_make_table(sample):
    (table,) = block(page(sample[0]), "report")["tables"]
    assert [row["label"] for row in table["rows"]][2:] == ["blind, 4 frames", "later, 4 frames"]
    dash, later = table["rows"][2]["entries"][1], table["rows"][3]["entries"][0]
    partial, best = table["rows"][1]["entries"]
    assert (partial["rank"], partial["used"], partial["text"]) == (0, "9/12", f"{partial['value']:.1f}")
    assert partial["interval"].startswith("[")
    assert (best["rank"], best["used"]) == (1, "")
    assert (dash["text"], dash["value"]) == ("—", None)
    assert later["text"] == "–†"
    assert any("3 error:engine" in note for note in table["footnotes"])
    assert str(report_sample.MISSING) not in block(page(sample[0]), "report")["cells"]


def test_a_table_of_an_older_specification_is_refused(copy, capsys):
    root, arguments = copy
    path = root / report_sample.TABLE
    path.write_text(path.read_text(encoding="utf-8").replace("How well", "How badly"), encoding="utf-8")
    assert make_report.main(arguments) == 1
    assert "made for another version" in capsys.readouterr().err


def test_pictures_are_small_jpegs_of_the_frames_that_were_sampled(sample):
    from PIL import Image

    pictures = block(page(sample[0]), "pictures:signs/v0")
    assert list(pictures) == ["0", "20", "40", "60"]
    image = Image.open(io.BytesIO(base64.b64decode(pictures["20"])))
    assert (image.format, image.size) == ("JPEG", (320, 192))
    red, _, blue = image.getpixel((20, 120))
    assert red > 150 > 100 > blue


def test_ocr_boxes_are_in_pixels_of_the_source(sample):
    read = block(page(sample[0]), "ocr:signs/uniform_4/native")["v0"]["0"]
    assert read == [480, 288, [["AUSGANG <i>→</i>", 0.93, [40, 30, 240, 34, 238, 90, 38, 86]]]]
    assert block(page(sample[0]), "ocr:signs/uniform_2/native") is None


def test_frames_that_the_model_was_not_given_are_marked(sample):
    text = page(sample[0])
    assert block(text, f"cases:{report_sample.BLIND}")["used"][0] == []
    assert block(text, f"cases:{report_sample.cell(4)}")["used"] == [None] * 12
    plan = FramePlan(key="k", video="v", status="ok", frames=[0, 9, 18], times=[0.0, 0.3, 0.6])
    assert report_data.used_frames(plan, Prediction(key="k", status="ok", times=[0.3001, 0.6])) == [1, 2]


def test_a_video_that_cannot_be_decoded_is_named_and_stops_nothing(sample):
    problems = block(page(sample[0]), "report")["problems"]
    assert list(problems) == ["signs/v1"]
    assert "gone.mp4" in problems["signs/v1"]


def test_the_page_holds_no_markup_from_records_and_no_address(sample):
    text = page(sample[0])
    assert "alert(1)</script>" not in text
    assert "<b>" not in text
    assert text.count("<script>") == 1
    assert re.findall(r"(?:https?:)?//[a-z][^\s\"'`]*", re.sub(r"^\s*//.*$", "", text, flags=re.M)) == [
        "http://www.w3.org/2000/svg"
    ]
    assert "default-src 'none'" in text


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_embedded_values_come_back_and_cannot_end_their_block(value):
    text = make_report.embed("x", value)
    body = text.removeprefix('<script type="application/json" id="x">').removesuffix("</script>")
    assert "<" not in body
    assert json.loads(body) == value


def test_equal_inputs_give_equal_bytes_and_decode_nothing_twice(sample, tmp_path, capsys):
    root, arguments = sample
    before = page(root)
    for cache, decoded in ((root / "resources/cache/thumbnails", 1), (tmp_path, 2)):  # v1 is tried again, v0 is known
        assert make_report.main([*arguments, "--cache", str(cache)]) == 0
        assert f" {decoded}/{decoded} video parts" in capsys.readouterr().err
        assert page(root) == before


def test_the_date_is_that_of_source_date_epoch(copy, monkeypatch):
    root, arguments = copy
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert make_report.main(arguments) == 0
    assert block(page(root), "report")["date"] == "2023-11-14"


def test_too_many_frames_are_thinned_and_said(copy):
    root, arguments = copy
    assert make_report.main([*arguments, "--max-frames", "3"]) == 0
    text = page(root)
    assert "Pictures of 3 of the 8 sampled frames" in block(text, "report")["notes"][0]
    assert len(block(text, "pictures:signs/v0")) <= 3


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("results/tables/demo/signs.json", "make_table"),
        ("results/scores/signs/reader/uniform_2/native/plain/cases.jsonl", "score_cell"),
        ("results/predictions/signs/reader/uniform_2/native/plain/predictions.jsonl", "run_cell"),
        ("resources/datasets/signs/questions.jsonl", "questions"),
        ("resources/datasets/signs/frame_times.jsonl", "probe_videos"),
        ("resources/frames/signs/uniform_4.jsonl", "build_frames"),
    ],
)
def test_a_missing_input_is_one_line_with_the_rule_that_makes_it(copy, capsys, path, remedy):
    root, arguments = copy
    (root / path).unlink()
    assert make_report.main(arguments) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"error: {root / path}: no such file")
    assert remedy in message
    assert message.count("\n") == 1


def test_files_of_different_runs_are_refused(copy, capsys):
    root, arguments = copy
    path = root / "results/predictions" / report_sample.cell(2).path / "predictions.jsonl"
    jsonl.write(path, list(jsonl.read(path, Prediction))[1:])
    assert make_report.main(arguments) == 1
    assert "case 'signs/v0/q0' has no prediction" in capsys.readouterr().err


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Root and arguments of a report of judged scores."""
    root = tmp_path_factory.mktemp("judged")
    arguments = report_sample.build(root, judged=True)
    assert make_report.main(arguments) == 0
    return root, arguments


def test_judged_numbers_keep_their_scale_and_lead_to_their_cases(judged):
    report = block(page(judged[0]), "report")
    both, alone, later = (row["entries"] for row in report["tables"][0]["rows"])
    assert [entry["metric"] for entry in both] == ["rouge_l", "judge_accuracy by rules", "judge_score by rules"]
    assert [entry["group"] for entry in both] == ["all"] * 3  # the mean over categories is of all cases
    assert both[1]["value"] == pytest.approx(100 * 4 / 7)  # 12 less 3 that failed less 2 not judged
    assert both[1]["text"] == "57.1 / 3.1"
    assert 1 <= both[2]["low"] <= both[2]["value"] <= both[2]["high"] <= 5
    assert (alone[0]["text"], alone[1]["cell"]) == ("—", str(report_sample.JUDGED_ONLY))
    assert [entry["cell"] for entry in later] == [str(report_sample.cell(2)), None, None]
    cells = report["cells"]
    assert cells[str(report_sample.JUDGED_ONLY)]["metrics"] == ["judge_accuracy by rules", "judge_score by rules"]
    assert cells[str(report_sample.cell(4))]["metrics"][-2:] == ["judge_accuracy by rules", "judge_score by rules"]
    assert "anls" in cells[str(report_sample.cell(4))]["metrics"]


@pytest.mark.parametrize("which", [report_sample.cell(4), report_sample.JUDGED_ONLY])
def test_judgements_stand_beside_the_answers(judged, which):
    cases = block(page(judged[0]), f"cases:{which}")
    assert cases["question"] == list(range(12))
    assert cases["status"] == ["ok", "ok", "error:engine", "ok"] * 3  # those of the model, not of the judge
    assert cases["metrics"]["judge_accuracy by rules"][:6] == [0.0, None, None, 1.0, 0.0, 1.0]
    assert cases["metrics"]["judge_score by rules"][:6] == [1.0, None, None, 5.0, 1.0, 4.0]
    made = cases["judged"]["rules"]
    assert made[1] == {
        "status": "parse_failed",
        "raw": report_sample.UNSURE,
        "raw_repair": "No.",
        "detail": "no verdict",
    }
    assert made[2] == {"status": "no_answer"}
    assert (made[3]["verdict"], made[3]["score"], made[3]["again_verdict"]) == ("yes", 5.0, "no")
    assert block(page(judged[0]), f"cases:{report_sample.cell(2)}")["judged"] == {}


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("judged/rules/{}/cases.jsonl", "score_judgements"),
        ("judgements/rules/{}/judgements.jsonl", "judge_cell"),
    ],
)
def test_missing_judged_files_name_the_rule(judged, tmp_path, capsys, path, rule):
    root, arguments = judged
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    gone = tmp_path / "results" / path.format(report_sample.JUDGED_ONLY)
    gone.unlink()
    assert make_report.main([word.replace(str(root), str(tmp_path)) for word in arguments]) == 1
    assert capsys.readouterr().err == f"error: {gone}: no such file; run the rule {rule}, which makes it\n"


@given(st.integers(0, 300))
def test_every_beginning_of_the_order_is_spread(n):
    order = report_frames.spread_order(n)
    assert sorted(order) == list(range(n))
    if n >= 8:
        assert {4 * at // n for at in order[:8]} >= {0, 1, 2, 3} or n < 16


@given(st.lists(st.lists(st.integers(0, 40), max_size=9, unique=True).map(sorted), max_size=12), st.integers(0, 60))
def test_frames_are_kept_up_to_the_limit_and_evenly(cases, limit):
    wanted = [("d", f"v{at}", frames) for at, frames in enumerate(cases)]
    chosen = report_frames.choose_frames(wanted, limit)
    assert len(chosen) == min(limit, sum(map(len, cases)))
    kept = [sum(video == f"v{at}" for _, video, _ in chosen) for at in range(len(cases))]
    most = max(kept, default=0)
    assert all(count >= min(most - 1, len(frames)) for count, frames in zip(kept, cases, strict=True))
