"""How many calls at once, and how fast, on a clock of the tests' own."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.remote.limits import MINUTE, ClosedError, Limits


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_no_more_calls_at_once_than_allowed():
    limits = Limits(3)
    tickets = [limits.try_begin(1) for _ in range(5)]
    assert [ticket is not None for ticket in tickets] == [True, True, True, False, False]
    limits.end(tickets[0])
    assert limits.try_begin(1) and not limits.try_begin(1)


def test_halved_once_for_calls_refused_together_and_again_for_later_ones():
    limits = Limits(8)
    together = [limits.try_begin(1) for _ in range(8)]
    for ticket in together:
        limits.end(ticket, well=False, overloaded=True)
    assert limits.allowed == 4
    for expected in (2, 1, 1):
        limits.end(limits.try_begin(1), well=False, overloaded=True)
        assert limits.allowed == expected


def test_one_more_after_as_many_successes_as_are_allowed_up_to_the_most():
    limits = Limits(4)
    limits.end(limits.try_begin(1), well=False, overloaded=True)
    seen = []
    for _ in range(12):
        limits.end(limits.try_begin(1))
        seen.append(limits.allowed)
    assert seen == [2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4]


def test_other_failures_change_nothing():
    limits = Limits(4)
    for _ in range(20):
        limits.end(limits.try_begin(1), well=False)
    assert limits.allowed == 4


def test_a_wait_that_the_server_asks_for_holds_every_call():
    clock = Clock()
    limits = Limits(4, clock=clock)
    limits.hold(5)
    limits.hold(1)
    clock.now += 4.9
    assert limits.try_begin(1) is None
    clock.now += 0.2
    assert limits.try_begin(1)


def test_what_the_server_counted_replaces_the_estimate():
    limits = Limits(9, tokens_per_min=1000, clock=Clock())
    ticket = limits.try_begin(900)
    assert limits.try_begin(200) is None
    limits.end(ticket, tokens=300)
    assert limits.try_begin(700) and limits.try_begin(1) is None


def test_what_is_counted_after_its_minute_is_counted_no_more():
    clock = Clock()
    limits = Limits(9, tokens_per_min=1000, clock=clock)
    slow = limits.try_begin(900)
    clock.now += MINUTE
    assert limits.try_begin(500)
    limits.end(slow, tokens=100)
    assert limits.try_begin(500) and limits.try_begin(1) is None


def test_a_call_above_the_limit_goes_alone():
    clock = Clock()
    limits = Limits(9, tokens_per_min=1000, clock=clock)
    assert limits.try_begin(5000) and limits.try_begin(1) is None
    clock.now += MINUTE
    assert limits.try_begin(1)


def test_those_that_wait_are_told_of_the_end():
    limits, ended = Limits(1), []
    limits.begin(1)

    def wait():
        with pytest.raises(ClosedError):
            limits.begin(1)
        ended.append(True)

    waiting = [threading.Thread(target=wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    limits.close()
    for thread in waiting:
        thread.join(timeout=20)
    assert len(ended) == 3 and limits.try_begin(1) is None


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(1, 600)),
        st.tuples(st.just("end"), st.sampled_from(["well", "overloaded", "failed"])),
        st.tuples(st.just("pass"), st.floats(0.01, 40, allow_nan=False)),
    ),
    max_size=120,
)


@given(EVENTS, st.integers(1, 6), st.integers(1, 9), st.integers(300, 2000))
def test_no_minute_has_more_than_the_rates_and_no_moment_more_calls_than_allowed(events, most, per_min, tokens_per_min):
    clock = Clock()
    limits = Limits(most, per_min, tokens_per_min, clock)
    begun, under_way = [], []
    for kind, what in events:
        if kind == "pass":
            clock.now += what
        elif kind == "begin":
            ticket = limits.try_begin(what)
            if ticket:
                assert len(under_way) < limits.allowed
                under_way.append(ticket)
                begun.append((clock.now, what))
        elif under_way:
            limits.end(under_way.pop(0), None, well=what == "well", overloaded=what == "overloaded")
        assert 1 <= limits.allowed <= most
        assert limits.under_way == len(under_way)
        last = [tokens for when, tokens in begun if when > clock.now - MINUTE]
        assert len(last) <= per_min
        assert sum(last) <= tokens_per_min or len(last) == 1


@given(st.lists(st.integers(1, 900), min_size=1, max_size=30), st.integers(1, 5), st.integers(100, 1000))
def test_every_call_gets_its_turn(sizes, per_min, tokens_per_min):
    clock = Clock()
    limits = Limits(2, per_min, tokens_per_min, clock)
    for size in sizes:
        waited = 0
        while (ticket := limits.try_begin(size)) is None:
            clock.now += 1
            waited += 1
            assert waited <= MINUTE + 1
        limits.end(ticket)
