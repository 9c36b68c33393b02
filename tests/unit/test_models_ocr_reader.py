from pathlib import Path

import pytest
import yaml

from scripts.lib.records import OcrBox, OcrFrame
from scripts.models import ocr_reader
from scripts.models.protocol import Request

SETTINGS = yaml.safe_load((Path(__file__).parents[2] / "config" / "ocr.yaml").read_text(encoding="utf-8"))["tracks"]
# A blank half second between signs; the camera ends on the third one.
SHOWN = ["GİRİŞ", "GİRİŞ", "GİRİŞ", "", "41 KM", "41 KM", "41 KM", "", "ΕΞΟΔΟΣ", "ΕΞΟΔΟΣ", "ΕΞΟΔΟΣ"]


def frame(index: int, text: str) -> OcrFrame:
    corners = [(100.0, 100.0), (300.0, 100.0), (300.0, 140.0), (100.0, 140.0)]
    boxes = [OcrBox(text=text, confidence=0.95, polygon=corners)] if text else []
    return OcrFrame(video="v", frame=index * 15, t=index * 0.5, width=640, height=360, boxes=boxes)


FRAMES = [frame(index, text) for index, text in enumerate(SHOWN)]


def ask(question, frames=FRAMES, options=None):
    answerer = ocr_reader.load({"ocr_settings": SETTINGS}, None, 0)
    request = Request("k", [], [one.t for one in frames], "", "unused", question, options, frames)
    ((same, reply),) = answerer([request])
    assert same is request
    return reply


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What does the sign say now?", "ΕΞΟΔΟΣ"),
        ("What did the first sign say?", "GİRİŞ"),
        ("What did the sign before this one say?", "41 KM"),
        ("What was written earlier?", "41 KM"),
    ],
)
def test_temporal_words_choose_the_text(question, answer):
    reply = ask(question)
    assert (reply.status, reply.answer) == ("ok", answer)
    assert reply.times == [one.t for one in FRAMES]
    assert reply.visual_tokens is None and reply.height == 0


def test_without_a_temporal_word_all_text_is_read_in_order():
    answer = ask("What is the content of large text rolling or printing in the video?").answer
    positions = [answer.find(text) for text in ("GİRİŞ", "41 KM", "ΕΞΟΔΟΣ")]
    assert -1 not in positions and positions == sorted(positions)


def test_a_word_inside_another_is_no_temporal_word():
    assert ocr_reader.asked_for("Is there snow on the knowledge centre?") == "all"
    assert ocr_reader.asked_for("What stood there before now?") == "previous"


def test_on_a_blank_last_frame_now_is_unanswerable_and_before_is_the_last_sign():
    frames = FRAMES[:8]
    reply = ask("What does the sign say now?", frames)
    assert (reply.status, reply.answer) == ("unanswerable", "")
    assert ask("What did the sign before this one say?", frames).answer == "41 KM"


def test_one_frame_is_enough_for_now_and_shows_nothing_earlier():
    assert ask("What does the sign say now?", FRAMES[-1:]).answer == "ΕΞΟΔΟΣ"
    assert ask("What is written?", FRAMES[-1:]).answer == "ΕΞΟΔΟΣ"
    assert ask("What did the sign before this one say?", FRAMES[-1:]).status == "unanswerable"


def test_choosing_takes_the_most_similar_option():
    options = ["Giriş", "14 KM", "41 km", "ΕΞΟΔΟΣ"]
    assert ask("What did the first sign say?", options=options).answer == "A"
    assert ask("What did the sign before this one say?", options=options).answer == "C"


def test_nothing_read_chooses_nothing():
    reply = ask("What did the first sign say?", [frame(0, ""), frame(1, "")], ["yes", "no"])
    assert (reply.status, reply.answer) == ("unanswerable", "")
