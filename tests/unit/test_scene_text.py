"""The text on frames in words, and readings made elsewhere as that text."""

import json
import re
import unicodedata
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scripts.infer import scene_text
from scripts.lib import jsonl
from scripts.lib.errors import DataError
from scripts.lib.records import FramePlan, OcrBox, OcrFrame, Video
from scripts.ocr import fetch_scene_text, readings

ROOT = Path(__file__).parents[2]
SQUARE = [(10.0, 20.0), (110.0, 20.0), (110.0, 50.0), (10.0, 50.0)]


def box(text, left=0.0, top=0.0, height=20.0):
    corners = [(left, top), (left + 50, top), (left + 50, top + height), (left, top + height)]
    return OcrBox(text=text, confidence=0.9, polygon=corners)


def frame(t, *boxes, number=0):
    return OcrFrame(video="v", frame=number, t=t, width=640, height=360, boxes=list(boxes))


def test_one_line_for_each_moment():
    frames = [
        frame(1.0),
        frame(3.0, box("EXIT"), box("Main  St\n", left=80)),
        frame(7.04, box("Main St", left=80), box("EXIT")),
        frame(8.0),
        frame(9.0, box("EXIT"), box(" ")),
    ]
    assert scene_text.text(frames) == '[t=3.0-7.0s] "EXIT", "Main St"\n[t=9.0s] "EXIT"'


def test_a_sentence_for_each_frame():
    frames = [frame(3.0, box("EXIT"), box("Main St", left=80)), frame(4.0), frame(5.0, box("EXIT"))]
    assert scene_text.text(frames, numbered=True) == (
        'The scene texts in Frame 0 include: "EXIT", "Main St". The scene texts in Frame 1 include: (no text found).'
        ' The scene texts in Frame 2 include: "EXIT".'
    )


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("frames", [[], [frame(1.0)], [frame(1.0, box(" ")), frame(2.0)]])
def test_no_text_at_all(frames, numbered):
    assert scene_text.text(frames, numbered) == "(no text found)"


def test_reading_order_is_by_lines():
    slanted = [box("c", left=200, top=108), box("b", left=90, top=104), box("a", left=0, top=100), box("z", top=140)]
    high_then_low = [box("big", left=300, top=10, height=80), box("small", left=0, top=60, height=10)]
    assert [one.text for one in scene_text.reading_order(slanted)] == ["a", "b", "c", "z"]
    assert [one.text for one in scene_text.reading_order(high_then_low)] == ["small", "big"]


PLACE = st.integers(-50, 400).map(float)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
BOXES = st.lists(st.builds(box, TEXTS, PLACE, PLACE, st.integers(0, 90).map(float)), max_size=6)


@given(st.lists(BOXES, max_size=5), st.randoms(use_true_random=False))
def test_the_text_hangs_on_the_frames_alone(shown, random):
    frames = [frame(float(t), *boxes) for t, boxes in enumerate(shown)]
    shuffled = [one.model_copy(update={"boxes": random.sample(one.boxes, len(one.boxes))}) for one in frames]
    for numbered in (False, True):
        said = scene_text.text(frames, numbered)
        assert said == scene_text.text(shuffled, numbered)
        assert said == unicodedata.normalize("NFC", said) != ""


def seen(text):
    """The characters of a text that are neither white space nor invisible, ``"`` as ``'``."""
    found = unicodedata.normalize("NFD", text)
    kept = (char for char in found if not char.isspace() and unicodedata.category(char) not in ("Cc", "Cf"))
    return unicodedata.normalize("NFD", "".join(kept)).replace('"', "'")


@given(st.lists(BOXES, max_size=5))
def test_no_text_is_lost_or_added(shown):
    frames = [frame(float(t), *boxes) for t, boxes in enumerate(shown)]
    for one in frames:
        told = re.findall(r'"([^"]*)"', scene_text.listed(one.boxes))
        read = [seen(box.text) for box in scene_text.reading_order(one.boxes)]
        assert [seen(words) for words in told] == [words for words in read if words]
    said = scene_text.text(frames)
    spans = re.findall(r"(?m)^\[t=(\d)\.0(?:-(\d)\.0)?s\] ", said)
    held = [t for first, last in spans for t in range(int(first), int(last or first) + 1)]
    assert held == [t for t, one in enumerate(frames) if any(seen(read.text) for read in one.boxes)]


def test_a_text_can_not_leave_its_quotes():
    assert (
        scene_text.listed([box('6" PIPE", "x'), box("a\r\n\u200b\x07 b\u202e", left=80)]) == '"6\' PIPE\', \'x", "a b"'
    )


MARKS = [
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|vision_start|>", "<|image_pad|>", "<|video_pad|>"),  # Qwen
    *("<think>", "</think>", "<tool_call>"),
    *("<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>", "<|reserved_special_token_0|>"),  # Llama 3
    *("<IMG_CONTEXT>", "<img>", "</img>", "<ref>", "</box>", "<quad>"),  # InternVL
    *("<image>", "<video>", "<im_start>", "<im_patch>", "<s>", "</s>", "<unk>", "<<SYS>>"),  # LLaVA
    *("<image>./</image>", "<slice>", "<image_id>"),  # MiniCPM-V
]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("around", ["{}", "a{}b", "<{}", "<\u200b{}", "|{}|"])
def test_no_mark_of_a_models_format_is_told(mark, around):
    hidden = mark[0] + "\u200b" + mark[1:]
    for read in (around.format(mark), around.format(hidden)):
        told = scene_text.listed([box(read)])
        assert not [one for one in MARKS if one in told]
        assert seen(told) == seen(f"'{read}'"), "and yet it can be read"


@given(st.text(st.sampled_from('<>|/"_aé \u0338\u200b\n3'), max_size=12))
def test_what_is_told_holds_no_mark_and_a_second_time_changes_nothing(text):
    told = scene_text.written(text)
    assert not re.search(r'<[|/_a-zé]|"', told)
    assert scene_text.written(told) == told == unicodedata.normalize("NFC", told)


@pytest.mark.parametrize("text", ["I <3 NY", "a < b > c", "<- EXIT ->", "5<6", "<<<", "'n'", "Straße 50 %", "出口"])
def test_signs_stay_as_they_are_read(text):
    assert scene_text.written(text) == text


# Readings made elsewhere


def corners(points):
    return [{"x": x, "y": y} for x, y in points]


def azure_read(text="Main St", width=960, height=540):
    line = {"boundingBox": [value for point in SQUARE for value in point], "text": text, "language": "en"}
    line["words"] = [{"text": "Main", "confidence": 0.98}, {"text": "St", "confidence": 0.92}]
    page = {"page": 1, "angle": 0.1, "width": width, "height": height, "unit": "pixel", "lines": [line]}
    return {"status": "succeeded", "analyzeResult": {"version": "3.2", "readResults": [page]}}


def azure_image_analysis(text="Main St", width=960, height=540):
    words = [{"text": "Main", "confidence": 0.98, "boundingPolygon": []}, {"text": "St", "confidence": 0.92}]
    line = {"text": text, "boundingPolygon": corners(SQUARE), "words": words}
    size = {"width": width, "height": height}
    return {"modelVersion": "2023-10-01", "metadata": size, "readResult": {"blocks": [{"lines": [line]}]}}


def roadtextvqa(whole="Main St\n", words=(("Main", 10), ("St", 80))):
    annotations = [{"description": whole, "locale": "en", "boundingPoly": {"vertices": corners(SQUARE)}}]
    for word, left in words:
        right = left + (60 if word == "Main" else 30)
        vertices = corners([(left, 20), (right, 20), (right, 50), (left, 50)])
        annotations.append({"description": word, "boundingPoly": {"vertices": vertices}})
    return {"textAnnotations": annotations} if whole else {}


REPLIES = {"azure_read": azure_read, "azure_image_analysis": azure_image_analysis, "roadtextvqa": roadtextvqa}


@pytest.mark.parametrize("kind", REPLIES)
def test_each_format_gives_its_lines(kind):
    reading = readings.parse(kind, REPLIES[kind](), "f.json")
    [line] = reading.boxes
    assert (line.text, line.polygon) == ("Main St", SQUARE)
    assert line.confidence == pytest.approx(1.0 if kind == "roadtextvqa" else 0.95)
    assert reading.size == (None if kind == "roadtextvqa" else (960, 540))


def test_the_examples_of_the_page_are_what_is_read():
    page = (ROOT / "docs" / "scene_text.md").read_text(encoding="utf-8")
    examples = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    for kind, example in zip(REPLIES, examples, strict=True):
        [line] = readings.parse(kind, example.get("12", example), "page").boxes
        assert (line.text, line.polygon) == ("Main St", SQUARE)


def test_google_leaves_zeros_out_and_words_make_lines():
    reply = roadtextvqa("Main St\nMain\n", [("Main", 0), ("St", 80), ("Main", 0)])
    del reply["textAnnotations"][3]["boundingPoly"]["vertices"][0]["x"]
    reply["fullTextAnnotation"] = {"pages": [{"width": 1280, "height": 720}], "text": "..."}
    reading = readings.parse("roadtextvqa", reply, "f.json")
    assert [line.text for line in reading.boxes] == ["Main St", "Main"]
    assert reading.boxes[1].polygon[0] == (0.0, 20.0)
    assert reading.size == (1280, 720)
    assert readings.parse("roadtextvqa", {}, "f.json").boxes == []


@pytest.mark.parametrize("whole", ["Main\n", "Main St and more", "Maine St"])
def test_words_that_are_not_the_lines_stand_alone(whole):
    found = readings.parse("roadtextvqa", roadtextvqa(whole), "f.json").boxes
    assert [line.text for line in found] == ["Main", "St"]


def broken(kind, change):
    reply = REPLIES[kind]()
    change(reply)
    return kind, reply


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("azure_read", lambda one: one.update(status="running"), "status: Input should be 'succeeded'"),
        ("azure_read", lambda one: one.pop("analyzeResult"), "analyzeResult: Field required"),
        ("azure_read", lambda one: one["analyzeResult"]["readResults"][0].update(unit="inch"), "readResults.0.unit"),
        ("azure_read", lambda one: one["analyzeResult"]["readResults"][0]["lines"][0].pop("text"), "lines.0.text"),
        ("azure_read", lambda one: one["analyzeResult"]["readResults"][0]["lines"][0]["boundingBox"].pop(),
         "lines.0.boundingBox"),
        ("azure_image_analysis", lambda one: one.pop("readResult"), "readResult: Field required"),
        ("azure_image_analysis", lambda one: one["metadata"].update(width=0), "metadata.width"),
        ("roadtextvqa", lambda one: one.update(error={"message": "no"}), "error"),
        ("roadtextvqa", lambda one: one.update(responses=[one.pop("textAnnotations")]), "no textAnnotations in it"),
        ("roadtextvqa", lambda one: one["textAnnotations"][1].pop("description"), "textAnnotations.1.description"),
    ],
)  # fmt: skip
def test_a_wrong_reply_is_named_by_file_and_field(kind, change, field):
    with pytest.raises(DataError, match=rf"^f.json: {kind} field .*{re.escape(field)}"):
        readings.parse(*broken(kind, change), "f.json")


@given(st.lists(st.integers(0, 200), unique=True, max_size=9), st.integers(0, 200), st.integers(0, 30))
def test_the_nearest_reading_within_the_tolerance(ticks, tick, tolerance):
    times = sorted(one / 10 for one in ticks)
    near = fetch_scene_text.nearest(times, tick / 10, tolerance / 10)
    best = min((abs(one - tick), one) for one in ticks) if ticks else None
    assert near == (best[1] / 10 if best and best[0] <= tolerance else None)


def video(name, width=1920, height=1080, rotation=0):
    facts = {"duration_s": 10.0, "fps_avg": 30.0, "n_frames": 300, "vfr": False, "codec": "h264", "status": "ok"}
    size = {"width": width, "height": height, "rotation": rotation}
    return Video(id=name, dataset="d", path="", sha256="0" * 64, **size, **facts, source="", licence="")


def run(folder: Path, plans: dict[str, dict[int, float]], videos: list[Video], **source) -> int:
    """The whole step on a folder's ``read``."""
    (folder / "config" / "datasets").mkdir(parents=True, exist_ok=True)
    (folder / "config" / "schemas").unlink(missing_ok=True)
    (folder / "config" / "schemas").symlink_to(ROOT / "config" / "schemas")
    content = {"title": "d", "licence": "l", "source": {"kind": "local", "videos": "v", "questions": "q"}}
    content["scene_text"] = {"theirs": {"files": str(folder / "read"), **source}}
    (folder / "config" / "datasets" / "d.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    shown = [
        FramePlan(key=f"d/{name}/1", video=name, status="ok", frames=list(frames), times=list(frames.values()))
        for name, frames in plans.items()
    ]
    jsonl.write(folder / "frames.jsonl", [*shown, *shown])  # two questions on the same frames
    jsonl.write(folder / "videos.jsonl", videos)
    inputs = ["--dataset", f"{folder}/config/datasets/d.yaml", "--source", "theirs"]
    inputs += ["--frames", f"{folder}/frames.jsonl", "--videos", f"{folder}/videos.jsonl"]
    return fetch_scene_text.main([*inputs, "--scene-text", f"{folder}/out.jsonl", "--log", f"{folder}/log"])


def put(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def written(folder):
    return list(jsonl.read(folder / "out.jsonl", OcrFrame))


def test_frames_get_the_nearest_reading_at_their_own_size(tmp_path):
    put(
        tmp_path / "read" / "é.json",
        {"0": azure_read("start"), "frame_00006": azure_read("one"), "13": azure_read("2")},
    )
    plans = {unicodedata.normalize("NFC", "é"): {0: 0.0, 40: 1.333, 75: 2.5, 150: 5.0}, "gone": {3: 0.1}}
    assert run(tmp_path, plans, [video("é"), video("gone")], format="azure_read", fps=6) == 0
    made = written(tmp_path)
    assert [(one.frame, one.t, one.boxes[0].text) for one in made] == [
        (0, 0.0, "start"),
        (40, 1.333, "one"),
        (75, 2.5, "2"),
    ]
    assert made[0].boxes[0].polygon == [(2 * x, 2 * y) for x, y in SQUARE]
    assert (made[0].width, made[0].height, made[0].read_as) == (1920, 1080, None)
    assert (
        "3 of 5 frames have a reading, with 3 lines of text; 1 of 2 videos have none" in (tmp_path / "log").read_text()
    )


def test_a_file_for_each_moment_in_seconds(tmp_path):
    put(tmp_path / "read" / "walk" / "1.5s.json", azure_image_analysis(width=540, height=960))
    put(tmp_path / "read" / "walk" / "9.json", azure_image_analysis("late"))
    turned = [video("walk", rotation=90)]
    assert run(tmp_path, {"walk": {45: 1.6, 90: 3.0}}, turned, format="azure_image_analysis", tolerance_s=0.1) == 0
    [made] = written(tmp_path)
    assert (made.frame, made.width, made.height, made.boxes[0].text) == (45, 1080, 1920, "Main St")
    assert made.boxes[0].polygon == [(2 * x, 2 * y) for x, y in SQUARE], "upright, as the player shows it"


def test_frames_numbered_from_one(tmp_path):
    put(tmp_path / "read" / "v.json", {"frame_1": azure_read("start"), "frame_7": azure_read("one")})
    plans = {"v": {0: 0.0, 30: 1.0}}
    assert run(tmp_path, plans, [video("v")], format="azure_read", fps=6, first=1, tolerance_s=0) == 0
    assert [(one.t, one.boxes[0].text) for one in written(tmp_path)] == [(0.0, "start"), (1.0, "one")]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"first": 1}, "scene_text.theirs.first: numbers frames; give fps too"),
        ({"first": 2, "fps": 6}, "v.json: 1: '1' is before the first frame, 2"),
    ],
)
def test_frame_numbers_that_can_not_be(tmp_path, capsys, numbers, message):
    put(tmp_path / "read" / "v.json", {"1": azure_read()})
    assert run(tmp_path, {"v": {0: 0.0}}, [video("v")], format="azure_read", **numbers) == 1
    assert message in capsys.readouterr().err


def test_the_files_of_roadtextvqa(tmp_path):
    put(tmp_path / "read" / "ocr" / "19_30.json", roadtextvqa())
    put(tmp_path / "read" / "ocr" / "19_60.json", {})
    assert run(tmp_path, {"19": {30: 1.0, 60: 2.0}}, [video("19")], format="roadtextvqa", fps=30) == 0
    first, second = written(tmp_path)
    assert (first.boxes[0].text, first.boxes[0].polygon, second.boxes) == ("Main St", SQUARE, [])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no such folder; correct scene_text.*.files"),
        ({"notes.txt": "x"}, "no file <video>.json or <video>/<moment>.json in it"),
        ({"v.json": "{"}, "v.json: not JSON"),
        ({"v.json": [1]}, "v.json: must be an object of readings by moment"),
        ({"v.json": {"first": azure_read()}}, "v.json: first: 'first' is no moment"),
        ({"v.json": {"1": {"status": "failed"}}}, "v.json: 1: azure_read field"),
        ({"v.json": {"1": azure_read()}, "v/1.0.json": azure_read()}, "v.json: 1: a second reading of 1 s"),
        ({"v.json": {"40": azure_read()}}, "no reading within 0.5 s of any of 1 frames"),
        ({"other.json": {"1": azure_read()}}, "no reading within 0.5 s of any of 1 frames"),
    ],
)
def test_files_that_can_not_be_used(tmp_path, capsys, files, message):
    for name, content in files.items():
        put(tmp_path / "read" / name, content)
    assert run(tmp_path, {"v": {30: 1.0}}, [video("v")], format="azure_read") == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_source_that_the_data_set_does_not_have(tmp_path, capsys):
    put(tmp_path / "read" / "v.json", {"1": azure_read()})
    assert run(tmp_path, {"v": {30: 1.0}}, [video("v")], format="azure_read") == 0
    command = ["--dataset", f"{tmp_path}/config/datasets/d.yaml", "--source", "their", "--frames", "f"]
    command += ["--videos", "v", "--scene-text", "o"]
    assert fetch_scene_text.main(command) == 1
    assert "no scene_text 'their' (did you mean 'theirs'?)" in capsys.readouterr().err
