"""Files, JSON Lines, records and the cache: whole or absent, and a line number for every fault."""

import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib import jsonl, records
from scripts.lib.cache import Cache, fingerprint
from scripts.lib.errors import DataError
from scripts.lib.files import STALE_S, atomic_path, sha256, write_text
from scripts.lib.records import OcrBox, Question, Source, Track


def source(**changes):
    return Source(**{"id": "clip", "path": "clip.mp4", "source": "test", "licence": "CC0-1.0", **changes})


def question(**changes):
    fields = {
        "key": "d/v/1",
        "video": "v",
        "question_id": "1",
        "question": "Was?",
        "answers": ["Grün"],
        "category": "now",
    }
    return Question(**{**fields, **changes})


def test_atomic_path_leaves_nothing_behind_on_failure(tmp_path):
    target = tmp_path / "deep" / "table.tex"
    with pytest.raises(RuntimeError), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError("killed")
    assert list(target.parent.iterdir()) == []


def test_atomic_path_keeps_the_old_file_until_the_new_one_is_whole(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), atomic_path(target) as temporary:
        temporary.write_text("new")
        raise RuntimeError
    assert target.read_text() == "old"
    write_text(target, "né")
    assert target.read_bytes() == "né".encode()


def test_atomic_path_makes_files_that_others_may_read(tmp_path):
    write_text(tmp_path / "a", "x")
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~umask


def test_sha256_of_known_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_round_trip_and_normalisation(tmp_path):
    decomposed = "Café मलयाळം"
    assert jsonl.write(tmp_path / "q.jsonl", [question(question=decomposed)]) == 1
    (back,) = jsonl.read(tmp_path / "q.jsonl", Question)
    assert back.question == "Café मलयाळം"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "q.jsonl:2: Source field the line: Invalid JSON"),
        ('{"id":"a","path":"a.mp4","source":"s"}', "q.jsonl:2: Source field licence: Field required"),
        (
            '{"id":7,"path":"a.mp4","source":"s","licence":"x"}',
            "q.jsonl:2: Source field id: Input should be a valid string",
        ),
        ('{"id":"a","path":"","source":"s","licence":"x","fps":1}', "q.jsonl:2: Source field fps: Extra inputs"),
    ],
)
def test_a_broken_line_is_named_by_file_line_and_field(tmp_path, line, complaint):
    path = tmp_path / "q.jsonl"
    path.write_text(source().model_dump_json() + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(DataError) as error:
        list(jsonl.read(path, Source))
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_and_non_utf8_files_are_data_errors(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        list(jsonl.read(tmp_path / "none.jsonl", Source))
    (tmp_path / "latin.jsonl").write_bytes('{"id":"Café"}'.encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        list(jsonl.read(tmp_path / "latin.jsonl", Source))


def test_read_unique_refuses_a_second_line_of_the_same_key(tmp_path):
    jsonl.write(tmp_path / "s.jsonl", [source(), source(path="other.mp4")])
    with pytest.raises(DataError, match="id 'clip' occurs twice"):
        jsonl.read_unique(tmp_path / "s.jsonl", Source, "id")


def test_question_options_need_their_letter():
    assert question(options=["a", "b"], ground_truth="B").ground_truth == "B"
    with pytest.raises(ValueError, match="come together"):
        question(options=["a", "b"])
    with pytest.raises(ValueError, match="not the letter of one of 2"):
        question(options=["a", "b"], ground_truth="C")


@given(st.text(), st.lists(st.tuples(st.floats(0, 1e4), st.tuples(*[st.floats(-1e4, 1e4)] * 4)), max_size=4))
def test_tracks_survive_json(text, boxes):
    track = Track(video="v", text=text, t_start=0.0, t_end=1.0, box=(0.0, 0.0, 1.0, 1.0), boxes=boxes, sightings=1)
    assert jsonl.parse(Track, track.model_dump_json(), "here") == track


def test_cache_survives_and_extends(tmp_path):
    path = tmp_path / "c" / "work.jsonl"
    with Cache(path) as cache:
        cache.put("a", {"text": "ä"})
    with Cache(path) as cache:
        assert cache["a"] == {"text": "ä"}
        assert "b" not in cache
        cache.put("b", 2)
    with Cache(path) as cache:
        assert len(cache) == 2


@given(cut=st.integers(1, 60))
def test_a_torn_last_line_is_dropped_and_overwritten(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cache") / "work.jsonl"
    with Cache(path) as cache:
        cache.put("first", "kept")
        whole = path.stat().st_size
        cache.put("second", "x" * 50)
    os.truncate(path, max(whole, path.stat().st_size - cut))
    with Cache(path) as cache:
        assert cache["first"] == "kept"
        assert "second" not in cache
        cache.put("third", 3)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [key for key, _ in lines] == ["first", "third"]


def test_cache_reads_what_siblings_finished(tmp_path):
    with Cache(tmp_path / "one.jsonl") as one:
        one.put("a", 1)
    with Cache(tmp_path / "two.jsonl", also=[tmp_path / "one.jsonl", tmp_path / "absent.jsonl"]) as two:
        assert two["a"] == 1
        two.put("b", 2)
    assert "a" not in (tmp_path / "two.jsonl").read_text()


def test_fingerprint_ignores_key_order_and_sees_every_value():
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert fingerprint("a", "b") != fingerprint("ab")


def test_a_second_writer_waits_for_the_first(tmp_path, capsys):
    path = tmp_path / "work.jsonl"
    first = Cache(path)
    first.put("a", 1)
    opened = threading.Event()

    def second():
        with Cache(path) as cache:
            assert "b" in cache, "it must see what the first wrote while it waited"
            opened.set()

    thread = threading.Thread(target=second)
    thread.start()
    while "waiting for another process" not in capsys.readouterr().err:
        pass
    assert not opened.is_set()
    first.put("b", 2)
    first.close()
    thread.join(10)
    assert opened.is_set()


def left_over(target, name, age_s=2 * STALE_S):
    """A temporary file of a run that was killed some time ago."""
    file = target.parent / name
    file.write_text("half")
    then = time.time() - age_s
    os.utime(file, (then, then))
    return file


def test_what_a_killed_run_left_beside_a_target_is_swept(tmp_path):
    target = tmp_path / "größe [1].jsonl"
    stale = left_over(target, ".größe [1].abcdef_1.jsonl")
    others = [
        left_over(target, ".größe [1].abcdef_1.json"),
        left_over(target, ".größe 1.abcdef_1.jsonl"),
        left_over(target, ".größe [1].abcdef_1.x.jsonl"),
        left_over(target, "größe [1].abcdef_1.jsonl"),
        left_over(target, ".größe [1].abcdef_2.jsonl", age_s=STALE_S / 2),
    ]
    write_text(target, "whole")
    assert not stale.exists()
    assert sorted(tmp_path.iterdir()) == sorted([*others, target])


def test_a_slow_writer_of_the_same_target_keeps_its_file(tmp_path):
    target = tmp_path / "a.mp4"
    with atomic_path(target) as slow:
        slow.write_text("slow")
        os.utime(slow, (0, 0))
        write_text(target, "fast")
        assert slow.read_text() == "slow"
    assert target.read_text() == "slow"
    assert list(tmp_path.iterdir()) == [target]


def test_a_killed_writers_file_is_swept(tmp_path):
    target = tmp_path / "a.txt"
    code = (
        "import os, signal, sys; from pathlib import Path; from scripts.lib.files import atomic_path\n"
        "with atomic_path(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code, str(target)], cwd=root, check=False).returncode != 0
    (left,) = tmp_path.iterdir()
    os.utime(left, (0, 0))
    write_text(target, "whole")
    assert list(tmp_path.iterdir()) == [target]


def test_a_mark_of_windows_before_the_first_line_is_passed_over(tmp_path):
    lines = source(id="é").model_dump_json() + "\r\n" + source(id="b").model_dump_json() + "\r\n"
    (tmp_path / "s.jsonl").write_bytes(lines.encode("utf-8-sig"))
    assert [record.id for record in jsonl.read(tmp_path / "s.jsonl", Source)] == ["é", "b"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_record_takes_a_number_that_json_cannot_write(bad):
    corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]
    for changes in ({"confidence": bad}, {"polygon": [*corners, (0.0, bad)]}):
        with pytest.raises(ValueError, match="finite"):
            OcrBox(**{"text": "a", "confidence": 0.5, "polygon": corners, **changes})
    for changes in ({"t_question": bad}, {"qa_times": [bad]}, {"evidence": [(0.0, bad)]}):
        with pytest.raises(ValueError, match="finite"):
            question(**changes)


def test_every_number_of_every_record_is_finite():
    known = [records.Record]
    for kind in known:
        known += kind.__subclasses__()
        assert kind.model_config["allow_inf_nan"] is False, kind
    assert len(known) > 10


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"options": ["Café", "b", "Cafe\u0301"], "ground_truth": "B"}, "option 'Café' is there twice"),
        ({"evidence": [[1.0, 1.0], [5.0, 2.0]]}, "evidence.1: .*ends at 2 s, before it starts at 5 s"),
        ({"category": "all"}, "category: .*'all' means every question; rename"),
        ({"subsets": ["now", "all"]}, "subsets.1: .*'all' means every question"),
    ],
)
def test_a_question_that_cannot_be_meant_is_refused(tmp_path, changes, complaint):
    line = {**question().model_dump(mode="json"), **changes}
    (tmp_path / "q.jsonl").write_text(json.dumps(line), encoding="utf-8")
    with pytest.raises(DataError, match=f"q.jsonl:1: Question field .*{complaint}") as error:
        list(jsonl.read(tmp_path / "q.jsonl", Question))
    assert "\n" not in str(error.value)


def test_a_question_may_be_about_what_was_before_the_first_frame():
    asked = question(evidence=[(-1.0, 0.0)], t_question=-0.5, options=["a", "A "], ground_truth="A")
    assert asked.evidence == [(-1.0, 0.0)]
