"""Told to stop, a run leaves what waits, hands on what is on its way, and ends."""

import threading
from dataclasses import replace

import pytest

from scripts.remote.chat import Caller, Endpoint
from scripts.remote.limits import ClosedError
from scripts.remote.pool import ask_all
from tests.conftest import wait_until
from tests.unit.fault_server import FaultServer, scripted
from tests.unit.test_remote_pool import KEY, asked, billed, chat, spent


def test_what_waits_for_a_repeat_is_left_and_what_is_on_its_way_is_yielded():
    ends = {"held good": "ok", "held long": "error:too_long"}
    script = {"busy": ["429 retry-after=100"], "good": ["held ok"], "long": ["held too_long"], "bad": ["held 500"]}
    under_way, drawn = [*ends, "held bad", "busy 1", "busy 2"], []

    def stream():
        for text in [*under_way, "later 1", "later 2"]:
            drawn.append(text)
            yield chat(text)

    with FaultServer(scripted(script)) as server:

        def stopping():
            told = set(server.asked) == set(under_way) and server.at_once == 3
            if told:
                server.let_go.set()
            return told

        settled = asked(server, concurrency=5, limits={"longest_wait_s": 120})
        found = [(one.key, outcome.status) for one, outcome in ask_all(settled, stream(), stopping=stopping)]
        assert sorted(found) == sorted(ends.items())
        assert server.asked == dict.fromkeys(under_way, 1) and drawn == under_way


@pytest.mark.parametrize(
    ("steps", "status", "rate", "limits"),
    [
        ([], "ok", 1, {}),
        (["429 retry-after=100"], "error:rate_limit", None, {"retries": 0, "longest_wait_s": 120}),
    ],
    ids=["rate", "hold"],
)
def test_what_waits_for_its_turn_is_left_and_has_no_money_set_aside(tmp_path, steps, status, rate, limits):
    answered, waiting = threading.Event(), threading.Event()

    def messages():
        waiting.set()
        return [{"role": "user", "content": "later"}]

    def stream():
        yield chat("first")
        answered.wait(60)
        yield from (replace(chat(text), messages=messages) for text in "abc")

    money = billed(tmp_path, dollars=1e9)
    with FaultServer(lambda _: steps) as server:
        settled = asked(server, **money | {"limits": money["limits"] | limits}, requests_per_min=rate)
        outcomes = ask_all(settled, stream(), clock=lambda: 0.0, stopping=waiting.is_set)
        assert next(outcomes)[1].status == status
        answered.set()
        assert list(outcomes) == [] and set(server.asked) == {"first"}
    assert len((tmp_path / "spent.jsonl").read_text().splitlines()) == 2


def test_nobody_waits_for_a_question_that_is_still_being_made():
    told, made = threading.Event(), threading.Event()

    def stream():
        yield chat("first")
        told.set()
        made.wait(60)
        yield chat("second")

    with FaultServer() as server:
        found = [one.key for one, _ in ask_all(asked(server), stream(), stopping=told.is_set)]
        assert not made.is_set()
        made.set()
        assert found == ["first"] and set(server.asked) == {"first"}


def test_told_before_it_began_it_asks_nothing():
    with FaultServer() as server:
        assert list(ask_all(asked(server), map(chat, "abc"), stopping=lambda: True)) == []
        assert not server.asked


def test_a_question_that_waits_for_a_repeat_has_no_money_set_aside(tmp_path):
    """A kill in a storm of 429s leaves no calls that count as spent for ever."""
    while_waiting = []
    with FaultServer(lambda _: ["429", "500", "ok"]) as server:
        settled = asked(server, **billed(tmp_path, dollars=1e9))
        list(ask_all(settled, [chat("a")], wait=lambda _: while_waiting.append(spent(tmp_path))))
    assert [(dollars, set(states)) for dollars, states in while_waiting] == [(0, {"spent"})] * 2


def test_a_call_that_is_ended_on_its_way_stays_at_its_estimate(tmp_path):
    with FaultServer(scripted({"silent": ["silence"]})) as server:
        settled = asked(server, timeout_s=1000, concurrency=3, **billed(tmp_path, dollars=1e9))
        stream = ask_all(settled, map(chat, ["silent 1", "silent 2", "good"]))
        next(stream)
        wait_until(lambda: server.asked.total() == 3)
        stream.close()
    assert spent(tmp_path)[1] == {"spent": 1, "reserved": 2}


def test_a_call_that_close_overtook_was_never_sent():
    with FaultServer() as server:
        caller = Caller(Endpoint(server.url, KEY, "fault-1", 1000))
        gate, ends = threading.Event(), []
        caller._loop.call_soon_threadsafe(gate.wait)  # the thread that sends is busy

        def call():
            with pytest.raises(ClosedError):
                caller.call([{"role": "user", "content": "a"}], 1)
            ends.append(True)

        asking, closing = threading.Thread(target=call), threading.Thread(target=caller.close)
        asking.start()
        wait_until(lambda: bool(caller._calls))
        closing.start()
        asking.join(60)
        gate.set()
        closing.join(60)
        call()  # closed before it was asked at all
        assert ends == [True, True] and not server.asked
