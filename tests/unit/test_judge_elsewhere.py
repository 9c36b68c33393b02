"""Judgements from a file of somebody else: rows that fit, rows of another answer, and rows that are no verdict."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.judges import elsewhere, find
from scripts.judges.protocol import Item, Run
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.records import Judgement, Prediction, Question

FIELDS = {"verdict": "acc", "score": "score", "answer": "said"}


def item(name: str, answer: str = "EXIT", raw: str = "") -> Item:
    key = f"d/v/{name}"
    question = Question(key=key, video="v", question_id=name, question="what?", answers=["x"], category="c")
    return Item(question, Prediction(key=key, status="ok", raw=raw or answer, answer=answer))


def row(name: object, verdict: object = "yes", score: object = 5, said: object = "exit", **more) -> dict:
    return {"video_id": "v", "question_id": name, "acc": verdict, "score": score, "said": said, **more}


def judge(folder: Path, rows: object, items: list[Item], name: str = "theirs.json", **fields) -> list[Judgement]:
    file = folder / name
    file.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    told = {"name": "theirs", "kind": "elsewhere", "fields": {**FIELDS, **fields}}
    return list(find("elsewhere")(Run(told, items, files=(file,))))


def test_rows_find_their_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        row(8.0, "YES ", 4.5),
        row("8.1", False, "0"),
        row("8.10", "no", 1, said="something else"),
        row("other", "yes", 5),
    ]
    made = judge(tmp_path, rows, [item("8"), item("8.1"), item("8.10"), item("9")])
    assert [one.key for one in made] == ["d/v/8", "d/v/8.1", "d/v/8.10", "d/v/9"]
    assert [(one.status, one.verdict, one.score) for one in made] == [
        ("ok", "yes", 4.5),
        ("ok", "no", 0.0),
        ("no_judgement", None, None),
        ("no_judgement", None, None),
    ]
    details = ["", "", "theirs.json, row 3: is of another answer, 'something else'", "theirs.json: no row"]
    assert [one.detail for one in made] == details
    assert {one.judge.partition(" ")[0] for one in made} == {"theirs.json"}
    assert {(one.calls, one.dollars, one.raw) for one in made} == {(0, None, "")}
    said = capsys.readouterr().err
    assert "4 rows, 3 of the 4 questions found" in said
    assert "1 rows of no question of this data set" in said


@pytest.mark.parametrize(
    ("answer", "raw", "judged", "same"),
    [
        ("EXIT", "EXIT", " exit\n", True),
        ("Exit on\nthe left", "Exit on\nthe left", "exit onthe left", True),
        ("EXIT", "A sign?\n</think>\n\nEXIT", "a sign?</think>exit", True),
        ("EXIT", "A sign?\n</think>\n\nEXIT", "exit", True),
        ("Cafe\u0301", "Cafe\u0301", "café", True),
        ("30", "30", 30, True),
        ("EXIT", "EXIT", "exit 7", False),
        ("EXIT", "EXIT", None, False),
    ],
)
def test_the_answer_that_was_judged_must_be_ours(
    tmp_path: Path, answer: str, raw: str, judged: object, same: bool
) -> None:
    made = judge(tmp_path, [row("1", said=judged)], [item("1", answer, raw)])
    assert made[0].status == ("ok" if same else "no_judgement")


@pytest.mark.parametrize(
    ("verdict", "score", "status", "detail"),
    [
        ("true", 5, "ok", ""),
        ("no", None, "ok", ""),
        ("not yes", 5, "parse_failed", "'acc' is 'not yes', neither yes nor no"),
        (1, 5, "parse_failed", "'acc' is '1', neither yes nor no"),
        (["yes"], 5, "parse_failed", "'acc' is '[\"yes\"]', neither yes nor no"),
        ("yes", 7, "parse_failed", "'score' is '7', no number from 0 to 5"),
        ("yes", "-0.5", "parse_failed", "'score' is '-0.5', no number from 0 to 5"),
        ("yes", "5/5", "parse_failed", "'score' is '5/5', no number from 0 to 5"),
        ("yes", "nan", "parse_failed", "'score' is 'nan', no number from 0 to 5"),
        ("yes", True, "parse_failed", "'score' is 'true', no number from 0 to 5"),
        (None, 5, "no_judgement", "nothing in 'acc'"),
        (" ", 5, "no_judgement", "nothing in 'acc'"),
    ],
)
def test_what_is_no_verdict(tmp_path: Path, verdict: object, score: object, status: str, detail: str) -> None:
    made = judge(tmp_path, [row("1", verdict, score)], [item("1")])[0]
    assert (made.status, made.detail) == (status, detail and f"theirs.json, row 1: {detail}")
    assert (made.verdict is None) == (status != "ok")


@given(st.text(max_size=12))
def test_any_score_is_a_number_in_range_or_none(text: str) -> None:
    value = elsewhere.read_score(text)
    assert value is None or 0 <= value <= 5


def test_two_rows_of_one_question(tmp_path: Path) -> None:
    assert judge(tmp_path, [row("1"), row("1.0")], [item("1")])[0].verdict == "yes"
    for other in (row("1", "no"), row("1", score=4), row("1", said="left")):
        with pytest.raises(DataError, match=r"theirs\.json: rows 1 and 2 answer question '1' of video 'v' differently"):
            judge(tmp_path, [row("1"), other], [item("1")])


def test_keys_of_ones_own_and_a_table(tmp_path: Path) -> None:
    text = "clip,number,right,points\nv,1.0,True,4\nv,2,no,\n"
    file = tmp_path / "theirs.csv"
    file.write_text(text, encoding="utf-8")
    fields = {"verdict": "right", "score": "points", "video": "clip", "question": "number"}
    run = Run({"name": "theirs", "fields": fields}, [item("1"), item("2")], files=(file,))
    made = list(elsewhere.judge(run))
    assert [(one.verdict, one.score) for one in made] == [("yes", 4.0), ("no", None)]


@pytest.mark.parametrize(
    ("rows", "fields", "words"),
    [
        ([row("1")], {"verdict": "pred"}, "no row has 'pred' .the first has: video_id, .*; set fields.verdict"),
        ([row("1")], {"answer": "reply"}, "no row has 'reply' .*; set fields.answer"),
        ([row("1")], {"question": "number"}, "no row has 'number' .*; set fields.question"),
        ([row("1"), {"acc": "yes"}], {}, "row 2: no id in 'video_id' .*; set fields.video, or correct the row"),
        (
            [row("7")],
            {},
            "none of its 1 rows is of a question of this data set; .* or set fields.video and fields.question",
        ),
        ("{", {}, "line 1: not JSON"),
    ],
)
def test_files_that_are_no_good(tmp_path: Path, rows: object, fields: dict, words: str) -> None:
    with pytest.raises(DataError, match=rf"theirs\.json: {words}"):
        judge(tmp_path, rows, [item("1")], **fields)


def test_one_file_for_one_cell(tmp_path: Path) -> None:
    for files in ((), (tmp_path / "a", tmp_path / "b")):
        with pytest.raises(ConfigError, match=f"judge theirs: {len(files)} files for one cell"):
            list(elsewhere.judge(Run({"name": "theirs", "fields": FIELDS}, [item("1")], files=files)))
