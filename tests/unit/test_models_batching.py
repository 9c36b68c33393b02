"""Batches: none lost, none asked twice, and what running out of memory teaches."""

import json
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib.errors import EngineError
from scripts.models import batching
from scripts.models.batching import Limits, batched, remembered
from scripts.models.protocol import Reply, Request

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # torch

MODEL = {"name": "m", "weights": {"kind": "built"}, "engine": {"batch": 8}, "input": {}, "generation": {}}


def request(key, kind="a"):
    return Request(str(key), [], [], "", kind, "", None)


def kind(one):
    return one.prompt


class Device:
    """Answers with the key; has room for so many questions of each kind, and refuses some keys."""

    def __init__(self, room, refused=()):
        self.room, self.refused, self.calls = room, set(refused), []

    def __call__(self, batch):
        self.calls.append([one.key for one in batch])
        assert len({one.prompt for one in batch}) == 1
        if len(batch) > self.room[batch[0].prompt]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if any(one.key in self.refused for one in batch):
            raise EngineError("index out of range")
        return [Reply("ok", answer=one.key) for one in batch]


@given(
    kinds=st.text("ab", max_size=40),
    most=st.integers(1, 9),
    room=st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.integers(0, 9)}),
    refused=st.sets(st.integers(0, 39), max_size=3),
)
def test_every_request_is_answered_once_whatever_fits(kinds, most, room, refused):
    asked = [request(number, one) for number, one in enumerate(kinds)]
    device, drawn = Device(room, map(str, refused)), []
    most_waiting = 0

    def source():
        for one in asked:
            drawn.append(one)
            yield one

    answered = []
    for one, reply in batched(device, Limits(most), kind)(source()):
        answered.append((one, reply))
        most_waiting = max(most_waiting, len(drawn) - len(answered))
    assert [one for one, _ in answered] == asked
    assert most_waiting <= most  # the others of its batch, and one of the next kind

    for one, reply in answered:
        fails = room[one.prompt] == 0 or int(one.key) in refused
        assert (reply.status, reply.answer) == (("error:engine", "") if fails else ("ok", one.key))
        assert reply.attempts == sum(one.key in call for call in device.calls)
        if reply.status == "ok":
            held = [call for call in device.calls if one.key in call][-1]
            assert reply.batch == len(held) <= min(most, room[one.prompt])
    limit = {"a": most, "b": most}
    for call in device.calls:
        one = asked[int(call[0])].prompt
        assert len(call) <= limit[one]
        if len(call) > max(1, room[one]):
            limit[one] = len(call) // 2


def test_a_batch_that_fails_otherwise_costs_only_the_question_at_fault():
    device = Device({"a": 9}, refused={"2"})
    replies = [reply for _, reply in batched(device, Limits(4), kind)(map(request, range(4)))]
    assert [(reply.status, reply.batch, reply.attempts) for reply in replies] == [
        ("ok", 1, 2),
        ("ok", 1, 2),
        ("error:engine", 1, 2),
        ("ok", 1, 2),
    ]
    assert [reply.detail for reply in replies] == ["", "", "index out of range", ""]


def test_a_question_too_large_by_itself_says_so_and_changes_nothing_for_the_rest():
    device = Device({"a": 4, "huge": 0})
    asked = [request(0, "huge"), *(request(number) for number in range(1, 5))]
    replies = [reply for _, reply in batched(device, Limits(4), kind)(asked)]
    assert replies[0].status == "error:engine" and replies[0].detail.startswith("out of GPU memory with this question")
    assert [reply.batch for reply in replies[1:]] == [4] * 4


def test_each_reply_has_its_share_of_the_successful_call(monkeypatch):
    ticks = iter([0.0, 5.0, 11.0, 20.0, 26.0])  # the first call starts at 0 and runs out of memory

    monkeypatch.setattr(batching.time, "monotonic", lambda: next(ticks))
    replies = [reply for _, reply in batched(Device({"a": 2}), Limits(4), kind)(map(request, range(4)))]
    assert [reply.seconds for reply in replies] == [3.0, 3.0, 3.0, 3.0]
    assert [reply.attempts for reply in replies] == [2, 2, 2, 2]


def test_nothing_of_a_failed_call_is_alive_when_it_is_asked_again():
    held = []

    class Tensor:
        pass

    def device(batch):
        assert all(reference() is None for reference in held)
        inside = Tensor()
        held.append(weakref.ref(inside))
        if len(batch) > 1:
            try:
                raise RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")
            except RuntimeError:
                raise torch.OutOfMemoryError("as above") from None
        return [Reply("ok") for _ in batch]

    assert len(list(batched(device, Limits(4), kind)(map(request, range(3))))) == 3
    assert len(held) == 4


@given(most=st.integers(1, 64), room=st.integers(1, 64))
def test_a_second_job_starts_where_the_first_got_to(tmp_path_factory, most, room):
    file = tmp_path_factory.mktemp("limits") / "batch_sizes" / "m.json"
    first, second = Device({"a": room}), Device({"a": room})
    list(batched(first, Limits(most, file), kind)(map(request, range(100))))
    list(batched(second, Limits(most, file), kind)(map(request, range(100))))
    assert file.exists() == (most > room)
    assert all(len(call) <= room for call in second.calls)
    fits = most
    while fits > room:
        fits //= 2
    assert len(second.calls[0]) == fits
    smaller = Limits(2, file)  # the YAML was changed by hand: what was learnt only ever lowers it
    assert smaller.of("a") <= 2 and smaller.of("unseen") == 2


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"most_together": 3}', '{"most_together": {"a": "2"}}', "\x00", "7"]
)
def test_a_broken_file_counts_as_empty_and_is_replaced(tmp_path, content, capsys):
    file = tmp_path / "m.json"
    file.write_text(content)
    limits = Limits(8, file)
    assert limits.of("a") == 8
    assert limits.halve("a", 8) == 4 and Limits(8, file).of("a") == 4
    assert capsys.readouterr().err == f"out of memory with 8 questions at once (a): 4 from now on (kept in {file})\n"


@pytest.mark.parametrize("known", [0, -1, True, 2.5, None])
def test_a_senseless_number_is_ignored(tmp_path, known):
    file = tmp_path / "m.json"
    file.write_text(json.dumps({"most_together": {"a": known, "b": 2}}))
    assert (Limits(8, file).of("a"), Limits(8, file).of("b")) == (8, 2)


def test_a_folder_that_cannot_be_made_stops_nothing(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    limits = Limits(8, tmp_path / "file" / "m.json")
    replies = [reply for _, reply in batched(Device({"a": 3}), limits, kind)(map(request, range(8)))]
    assert {reply.status for reply in replies} == {"ok"} and limits.of("a") == 2
    assert "not kept for later jobs" in capsys.readouterr().err


def test_jobs_side_by_side_keep_what_both_learnt(tmp_path):
    file = tmp_path / "m.json"
    one, other = Limits(16, file), Limits(16, file)
    one.halve("a", 16)
    other.halve("b", 4)
    one.halve("b", 16)
    assert json.loads(file.read_text())["most_together"] == {"a": 8, "b": 2}
    assert one.of("b") == 2


def test_what_was_learnt_is_of_one_model_and_one_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT_IN_VIDEO_CACHE", str(tmp_path))
    monkeypatch.delenv("APPTAINER_CONTAINER", raising=False)
    here = remembered(MODEL, "NVIDIA H200")
    assert here.parent == tmp_path / "batch_sizes"
    assert here == remembered({**MODEL, "title": "M", "cost": {"load_s": 1}}, "NVIDIA H200")
    others = [
        remembered(MODEL, "NVIDIA A100"),
        remembered({**MODEL, "engine": {"batch": 16}}, "NVIDIA H200"),
        remembered({**MODEL, "input": {"max_pixels": 1}}, "NVIDIA H200"),
        remembered({**MODEL, "generation": {"max_new_tokens": 9}}, "NVIDIA H200"),
    ]
    assert len({here, *others}) == 5
    monkeypatch.delenv("TEXT_IN_VIDEO_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert remembered(MODEL, "").parent == tmp_path / "home" / ".cache" / "text-in-video" / "batch_sizes"
