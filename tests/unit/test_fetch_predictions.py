"""Answers made elsewhere: files of our own with every kind of trouble, and the real ones of another project."""

import csv
import hashlib
import io
import json
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scripts.infer import fetch_predictions as fetch
from scripts.lib import jsonl
from scripts.lib import rows as rows_of
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.records import Prediction, Question
from tests.conftest import ROOT
from tests.unit.third_party_sample import ANNOTATIONS, THEIRS, egotextvqa


def question(video, name, words="what does it say?", options=None):
    truth = {"options": options, "ground_truth": "A"} if options else {}
    key = f"d/{video}/{name}"
    return Question(key=key, video=video, question_id=name, question=words, answers=["x"], category="c", **truth)


def by_key(*questions):
    return {one.key: one for one in questions}


ASKED = by_key(question("11", "8"), question("11", "8.1"), question("11", "8.10"), question("v b", "x"))


def row(video, name, answer, **more):
    return {"video_id": video, "question_id": name, "answer": answer, **more}


def build(folder, rows, questions=ASKED, answers="open", name="answers.json", **block):
    file = folder / name
    if rows is not None:  # else it is there
        file.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    settings = fetch.Settings(**{"file": file, "answer_field": "answer", "source": "ours", **block})
    return {one.key: one for one in fetch.build(settings, Path("config/models/m.yaml"), questions, answers)}


def statuses(made):
    return {key.removeprefix("d/"): one.status for key, one in made.items()}


def test_every_question_gets_its_row_or_a_status(tmp_path):
    rows = [
        row("11", "8.1", "Unanswerable, I see no sign."),
        row("11", "8", "Answer: EXIT\n"),
        row("v b", "x", None),
        row("another data set", "1", "left out"),
    ]
    made = build(tmp_path, rows)
    assert list(made) == list(ASKED), "one each, in the order of the questions"
    expected = {"11/8": "ok", "11/8.1": "unanswerable", "11/8.10": "error:not_in_file", "v b/x": "error:no_answer"}
    assert statuses(made) == expected
    first = made["d/11/8"]
    assert (first.raw, first.answer) == ("Answer: EXIT\n", "EXIT")
    assert (first.times, first.height, first.visual_tokens, first.dollars) == ([], 0, None, None)
    digest = hashlib.sha256((tmp_path / "answers.json").read_bytes()).hexdigest()
    assert {(one.engine, one.model_revision) for one in made.values()} == {("elsewhere: ours", digest[:16])}


def test_ids_are_strings_and_only_a_whole_number_may_have_a_zero_behind_it(tmp_path):
    """As numbers and as text. 8.10 is a number of its own, also where JSON has it as a number."""
    text = (
        '[{"video_id": 11, "question_id": 8.0, "answer": "a"}, {"video_id": 11.0, "question_id": 8.1, "answer": "b"},'
        ' {"video_id": "11", "question_id": 8.10, "answer": "c"}]'
    )
    assert [one.answer for one in build(tmp_path, text).values()] == ["a", "b", "c", ""]
    as_text = [row("11", "8.0", "a"), row("11", " 8.1 ", "b"), row("11.0", "8.10", "c"), row("11", "08", "left out")]
    assert [one.answer for one in build(tmp_path, as_text).values()] == ["a", "b", "c", ""]


def test_a_question_with_the_very_id_comes_before_one_alike(tmp_path):
    both = by_key(question("v", "8"), question("v", "8.0"))
    made = build(tmp_path, [row("v", "8.0", "second"), row("v", 8, "first"), row("v", "8.00", "which?")], both)
    assert [one.answer for one in made.values()] == ["first", "second"]


@given(st.text(min_size=1, max_size=6), st.integers(-999, 9999))
def test_only_whole_numbers_are_shortened(name, number):
    assert rows_of.plain(f"{number}.0") == rows_of.plain(f"{number}.00") == str(number)
    assert rows_of.plain(f"{number}.10") == f"{number}.10"
    assert rows_of.plain(name) in (name, name.partition(".")[0])


def test_thoughts_are_split_off_with_or_without_an_opening_tag(tmp_path):
    rows = [
        row("11", "8", "<think>EXIT?</think>\n\nEXIT"),
        row("11", "8.1", "there is no sign.\n</think>\n\nUnanswerable"),
        row("11", "8.10", "<think>unanswerable? let me look at"),
        row("v b", "x", "x</think><answer>y</answer>"),
    ]
    made = build(tmp_path, rows, thinking=True)
    assert list(statuses(made).values()) == ["ok", "unanswerable", "truncated", "ok"]
    assert [one.raw for one in made.values()] == [one["answer"] for one in rows], "kept whole"
    answers = [one.answer for one in made.values()]
    assert answers[:2] + answers[3:] == ["EXIT", "Unanswerable", "y"]


def test_thoughts_that_nobody_spoke_of_are_pointed_out(tmp_path, capsys):
    made = build(tmp_path, [row("11", "8", "hm</think>EXIT")])
    assert made["d/11/8"].answer == "hm</think>EXIT"
    assert "1 answers have </think> in them, taken whole; predictions.thinking splits there" in capsys.readouterr().err


@given(
    st.dictionaries(
        st.sampled_from(["8", "8.1", "8.10"]),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
        min_size=1,
    )
)
def test_every_format_says_the_same(tmp_path_factory, given_answers):
    rows = [row("11", name, answer) for name, answer in given_answers.items()]
    written = io.StringIO(newline="")
    table = csv.DictWriter(written, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    # A line of JSON may hold U+2028, which ends lines for some.
    lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in rows) + "\n"
    files = {
        "a.json": json.dumps(rows),
        "b.json": json.dumps([{"split": "x", "data": rows}]),
        "c.json": json.dumps({"data": rows}),
        "d.jsonl": "\ufeff" + lines,
        "e.CSV": "\ufeff" + written.getvalue(),
    }
    folder = tmp_path_factory.mktemp("formats")
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())
    read = [rows_of.read_rows(folder / name) for name in files]
    assert all(one == rows for one in read)


def test_a_table_of_pandas_is_read(tmp_path):
    """Ids as decimals, an empty cell where nothing was answered, a reply of several lines and of any length."""
    text = f'video_id,question_id,answer\n11,8.0,"a\r\n""b"", c"\n11,8.1,\nv b,x,{"long " * 40000}\n'
    (tmp_path / "answers.csv").write_bytes(text.encode())
    made = build(tmp_path, None, name="answers.csv")
    assert list(statuses(made).values()) == ["ok", "error:no_answer", "error:not_in_file", "ok"]
    assert made["d/11/8"].raw == 'a\r\n"b", c'
    assert len(made["d/v b/x"].raw) == 200_000


@pytest.mark.parametrize(
    ("answer", "status", "raw"),
    [
        (30, "ok", "30"),
        (8.10, "ok", "8.1"),
        (True, "ok", "true"),
        (float("nan"), "error:no_answer", ""),
        (" \n", "error:no_answer", ""),
        ("cut \ud83d", "ok", "cut \ufffd"),
    ],
)
def test_an_answer_may_be_a_number_and_blank_is_none(tmp_path, answer, status, raw):
    made = build(tmp_path, [row("11", "8", answer)])["d/11/8"]
    assert (made.status, made.raw) == (status, raw)
    assert jsonl.parse(Prediction, made.model_dump_json(), "here") == made


def test_letters_are_asked_only_where_there_are_options(tmp_path):
    asked = by_key(question("v", "1", options=["yes", "no"]), question("v", "2"))
    made = build(tmp_path, [row("v", "1", "B"), row("v", "2", "A")], asked, answers="option")
    assert [one.status for one in made.values()] == ["ok", "error:no_options"]
    assert made["d/v/1"].answer == "B"


def test_one_question_answered_twice(tmp_path, capsys):
    same = [row("11", "8", "a"), row("11", 8, "a"), row("11", "8.1", None), row("11", "8.1", None)]
    assert build(tmp_path, same)["d/11/8"].answer == "a"
    assert "2 rows say what an earlier row says" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"answers\.json: rows 2 and 4 answer question '8' of video '11' differently"):
        build(tmp_path, [row("v b", "x", "q"), row("11", "8", "a"), row("x", "y", "a"), row("11", 8.0, "b")])


def test_other_words_and_other_data_sets_are_counted(tmp_path, capsys):
    rows = [
        row("11", "8", "a", question="WHAT does\nit say?"),
        row("11", "8.1", "a", question="what did it say?"),
        row("v b", "x", "a", question="who?"),
        *(row("elsewhere", number, "b") for number in range(3)),
    ]
    build(tmp_path, rows)
    said = capsys.readouterr().err
    assert "6 rows, 3 of the 4 questions found" in said
    assert "3 rows of no question of this data set, the first of video 'elsewhere', question '0'" in said
    assert "2 rows ask in other words" in said
    assert "row 2 has 'what did it say?', d/11/8.1 has 'what does it say?'" in said


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row("x", "1", "a")], "none of its 1 rows .* video 'x' .* question '1' .* video '11' and question '8'"),
        (
            [{"video": "11", "question_id": "8", "answer": "a"}],
            "row 1: no id in 'video_id' .it has: video, question_id",
        ),
        ([row("11", "8", "a"), row("11", None, "a")], "row 2: no id in 'question_id'"),
        ([row("11", ["8"], "a")], "row 1: no id in 'question_id'"),
        ([{**row("11", "8", "a"), "answer": ["a"]}], "question '8' of video '11': 'answer' is no text but"),
        ([{"video_id": "11", "question_id": "8", "reply": "a"}], "no row has 'answer' .*question_id, reply"),
        ([], "no row in it"),
        ('["a"]', "not a list of rows"),
        ("7", "not a list of rows"),
        ('[{"video_id": "11",\n"question_id" "8"}]', "line 2: not JSON"),
        ('{"video_id": "11"}\n{"video_id": \n', "line 2: not JSON"),
    ],
)
def test_a_file_that_is_no_good_is_one_clear_line(tmp_path, rows, words):
    with pytest.raises(DataError, match=rf"answers\.json: {words}"):
        build(tmp_path, rows)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match=r"none\.json: no such file; put the answers there"):
        rows_of.read_rows(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes('["é"]'.encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.json: not UTF-8"):
        rows_of.read_rows(tmp_path / "latin.json")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"ragged\.csv: row 2: more fields than the header"):
        rows_of.read_rows(tmp_path / "ragged.csv")
    (tmp_path / "open.csv").write_text('a,b\n1,"2\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"open\.csv: not readable as CSV"):
        rows_of.read_rows(tmp_path / "open.csv")


def test_another_file_than_the_one_meant_is_refused(tmp_path):
    rows = [row("11", "8", "a")]
    meant = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    assert build(tmp_path, rows, revision=meant)["d/11/8"].answer == "a"
    with pytest.raises(ConfigError, match=rf"its sha256 is [0-9a-f]{{64}}, and config/models/m\.yaml means {meant}"):
        build(tmp_path, [*rows, row("11", "8.1", "b")], revision=meant)


@pytest.fixture
def command(tmp_path):
    """The step on files of its own, as a rule calls it: its exit status."""
    model = yaml.safe_load((ROOT / "config" / "models" / "human.yaml").read_text(encoding="utf-8"))
    block = {"file": str(tmp_path / "theirs.json"), "answer_field": "a", "video_field": "v", "question_field": "q"}
    path = tmp_path / "config" / "models" / "theirs.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump({**model, "predictions": block}), encoding="utf-8")
    (tmp_path / "config" / "schemas").symlink_to(ROOT / "config" / "schemas")
    (tmp_path / "theirs.json").write_text('{"v": 11, "q": 8, "a": "EXIT"}', encoding="utf-8")
    jsonl.write(tmp_path / "questions.jsonl", ASKED.values())
    prompt = ROOT / "config" / "prompts" / "v_q.yaml"
    files = ["--questions", tmp_path / "questions.jsonl", "--predictions", tmp_path / "out" / "predictions.jsonl"]
    return lambda: fetch.main([str(one) for one in ["--model", path, "--prompt", prompt, *files]])


def test_the_command_writes_predictions(command, tmp_path, capsys):
    assert command() == 0
    made = list(jsonl.read(tmp_path / "out" / "predictions.jsonl", Prediction))
    assert [one.key for one in made] == list(ASKED)
    assert (made[0].answer, made[0].engine) == ("EXIT", "elsewhere: not said")
    assert "4 questions: 3 error:not_in_file, 1 ok" in capsys.readouterr().err


def test_the_command_fails_in_one_line_and_leaves_nothing(command, tmp_path, capsys):
    (tmp_path / "theirs.json").unlink()
    assert command() == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    model = tmp_path / "config" / "models" / "theirs.yaml"
    blind = yaml.safe_load((ROOT / "config" / "models" / "blind.yaml").read_text(encoding="utf-8"))
    model.write_text(yaml.safe_dump(blind), encoding="utf-8")
    assert command() == 1
    assert "adapter 'blind' answers by itself" in capsys.readouterr().err


@pytest.mark.skipif(not THEIRS.is_dir() or not ANNOTATIONS.is_dir(), reason=f"no {THEIRS} and {ANNOTATIONS} here")
@pytest.mark.parametrize(
    ("name", "thinking", "indoor", "outdoor", "split"),
    [
        ("Qwen3-VL-2B-Instruct_predictions", False, {"ok": 199}, {"ok": 486}, 0),
        ("Qwen3-VL-2B-Instruct_results", False, {"ok": 199}, {"ok": 486}, 0),
        ("Qwen3-VL-2B-Thinking_predictions", True, {"ok": 193, "truncated": 6}, {"ok": 449, "truncated": 37}, 642),
        ("Qwen3-VL-2B-Thinking_results", True, {"ok": 193, "truncated": 6}, {"ok": 449, "truncated": 37}, 642),
    ],
)
def test_the_real_files_of_another_project(name, thinking, indoor, outdoor, split, capsys):
    """685 rows each: every one finds its question, in the words of the annotations."""
    settings = fetch.Settings(THEIRS / f"{name}.json", "gemini-2.5-flash", thinking=thinking, source="a fork's own run")
    found, answered = Counter(), []
    for part, asked, expected in (("indoor", 2216, indoor), ("outdoor", 4848, outdoor)):
        made = fetch.build(settings, Path("m.yaml"), by_key(*egotextvqa(part)), "open")
        counts = Counter(one.status for one in made)
        found += Counter({status: count for status, count in counts.items() if status != "error:not_in_file"})
        answered += [one for one in made if one.raw]
        assert counts == {**expected, "error:not_in_file": asked - sum(expected.values())}
    assert found.total() == len(answered) == 685
    said = capsys.readouterr().err
    assert "other words" not in said and "an earlier row" not in said
    thoughts = [one for one in answered if thinking and "</think>" in one.raw]
    assert len(thoughts) == split
    assert all("<think>" not in one.raw and "</think>" not in one.answer for one in thoughts)
    assert all(one.raw.rstrip().endswith(one.answer) for one in thoughts)
    together = fetch.build(settings, Path("m.yaml"), by_key(*egotextvqa("indoor"), *egotextvqa("outdoor")), "open")
    assert sum(one.status != "error:not_in_file" for one in together) == 685
