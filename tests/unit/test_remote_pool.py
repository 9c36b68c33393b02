"""Many questions to a server that fails as it is told: every one ends with a status, and the totals add up."""

import json
import random
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.lib.errors import ConfigError, EngineError
from scripts.remote.chat import Chat, Endpoint
from scripts.remote.pool import Settings, ask_all, backoff
from tests.unit.fault_server import TOKENS_IN, TOKENS_OUT, FaultServer, scripted

KEY = "sk-a-secret-of-the-user"
LIMITS = {
    "budget": {"dollars": None, "tokens": None},
    "retries": 2,
    "first_wait_s": 0.001,
    "longest_wait_s": 5.0,
    "give_up_after": 1000,
}
PRICES = {"models": {"fault-1": {"in": 10_000.0, "out": 100_000.0}}}
CALL = (TOKENS_IN * 10_000 + TOKENS_OUT * 100_000) / 1e6
"""Dollars of a call as the server counts."""
MOST = (2 * TOKENS_IN * 10_000 + 2 * TOKENS_OUT * 100_000) / 1e6
"""Dollars of a call by the estimate of ``chat``."""


def chat(text):
    return Chat(text, lambda: [{"role": "user", "content": text}], 2 * TOKENS_OUT, 2 * TOKENS_IN)


def asked(server, limits=(), concurrency=8, timeout_s=30.0, **more):
    endpoint = Endpoint(server.url, KEY, "fault-1", timeout_s)
    return Settings(endpoint, concurrency, LIMITS | dict(limits), **more)


def outcomes(server, texts, **more):
    answered = [(one.key, outcome) for one, outcome in ask_all(asked(server, **more), map(chat, texts))]
    assert len(answered) == len(dict(answered))
    return dict(answered)


def billed(tmp_path, dollars=None, tokens=None):
    budget = {"budget": {"dollars": dollars, "tokens": tokens}}
    return {"limits": budget, "prices": PRICES, "ledger": tmp_path / "spent.jsonl"}


def spent(tmp_path):
    lines = map(json.loads, (tmp_path / "spent.jsonl").read_text().splitlines())
    last = {line["id"]: line for line in lines}.values()
    return sum(line["dollars"] for line in last), Counter(line["state"] for line in last)


# How each step ends: its status when it stays so, calls of 3 at most, calls that are counted or may be billed.
ENDS = {
    "ok": ("ok", 1, 1, 0),
    "no_usage": ("ok", 1, 0, 1),
    "length": ("truncated", 1, 1, 0),
    "filtered_reply": ("refused", 1, 1, 0),
    "refusal": ("refused", 1, 1, 0),
    "filter": ("refused", 1, 0, 0),
    "too_long": ("error:too_long", 1, 0, 0),
    "bad_request": ("error:request", 1, 0, 0),
    "echo 400": ("error:request", 1, 0, 0),
    "429": ("error:rate_limit", 3, 0, 0),
    "429 in words": ("error:rate_limit", 3, 0, 0),
    "429 retry-after=0.01": ("error:rate_limit", 3, 0, 0),
    "429 retry-after-ms=5": ("error:rate_limit", 3, 0, 0),
    "429 date": ("error:rate_limit", 3, 0, 0),
    "429 retry-after=60": ("error:rate_limit", 1, 0, 0),
    "500": ("error:server", 3, 0, 0),
    "503": ("error:server", 3, 0, 0),
    "error_in_200": ("error:server", 3, 0, 3),
    "empty": ("error:reply", 3, 3, 0),
    "empty_choices": ("error:reply", 3, 0, 3),
    "malformed": ("error:reply", 3, 0, 3),
    "cut": ("error:connection", 3, 0, 3),
}


def test_every_question_ends_with_its_status_and_the_totals_add_up(tmp_path):
    texts = [f"{step}#{number}" for number in range(3) for step in ENDS]
    random.Random(1).shuffle(texts)
    with FaultServer(lambda text: [text.split("#")[0]]) as server:
        found = outcomes(server, texts, **billed(tmp_path, dollars=1e9))
    assert set(found) == set(texts)
    for text, outcome in found.items():
        status, calls, counted, unknown = ENDS[text.split("#")[0]]
        assert (outcome.status, outcome.attempts) == (status, calls), text
        assert server.asked[text] == calls
        assert outcome.tokens_in == (counted * TOKENS_IN or None)
        assert outcome.tokens_out == (counted * TOKENS_OUT or None)
        assert (outcome.dollars or 0) == pytest.approx(counted * CALL + unknown * MOST), text
        assert outcome.status == "ok" or outcome.detail or outcome.status == "truncated"
    assert sum(outcome.attempts for outcome in found.values()) == server.asked.total()
    dollars, states = spent(tmp_path)
    assert dollars == pytest.approx(sum(outcome.dollars or 0 for outcome in found.values()))
    assert states.keys() == {"spent"}


def test_a_server_that_never_ends_its_reply_is_left():
    script = {"always silence": ["silence"]} | {step: [step, "ok"] for step in ("silence", "drip", "drip_head")}
    with FaultServer(lambda text: script.get(text, [])) as server:
        found = outcomes(server, [*script, "good"], timeout_s=2, limits={"retries": 1})
    ends = dict.fromkeys([*script, "good"], "ok") | {"always silence": "error:timeout"}
    assert {key: outcome.status for key, outcome in found.items()} == ends
    assert {found[text].attempts for text in script} == {2}


def test_an_empty_reply_of_our_own_server_is_what_the_model_says():
    with FaultServer(scripted({"nothing": ["empty"]})) as server:
        found = outcomes(server, ["nothing"], own_server=True)["nothing"]
    assert (found.status, found.text, found.attempts) == ("ok", "", 1)


def test_a_filter_is_told_from_a_model_that_does_not_want_to():
    texts = ["filter", "filtered_reply", "refusal", "ok"]
    with FaultServer(lambda text: [text]) as server:
        found = outcomes(server, texts)
    assert [found[text].status for text in texts] == ["refused", "refused", "refused", "ok"]
    assert [found[text].by_filter for text in texts] == [True, True, False, False]


def test_a_server_that_is_not_there():
    with FaultServer() as server:
        pass
    found = outcomes(server, ["a", "b"])
    assert {outcome.status for outcome in found.values()} == {"error:connection"}
    assert "no connection" in found["a"].detail and found["a"].dollars is None


def test_what_passes_is_answered_and_the_server_named():
    steps = ["429 retry-after-ms=1", "500", "ok"]
    with FaultServer(lambda _: steps) as server:
        found = outcomes(server, [str(number) for number in range(20)])
    for key, outcome in found.items():
        assert (outcome.status, outcome.text, outcome.attempts) == ("ok", f"answer to {key}", 3)
        assert (outcome.model, outcome.system_fingerprint) == ("fault-1", "fp_1")


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_each_question_is_yielded_once_whatever_fails(data):
    kinds = ["ok", "429", "429 retry-after-ms=1", "500", "cut", "malformed", "empty", "empty_choices", "filter"]
    scripts = data.draw(st.lists(st.lists(st.sampled_from(kinds), min_size=1, max_size=4), max_size=12))
    with FaultServer(lambda text: scripts[int(text)]) as server:
        texts = [str(number) for number in range(len(scripts))]
        found = outcomes(server, texts, concurrency=data.draw(st.integers(1, 6)))
    assert set(found) == set(texts)
    assert server.asked == {key: outcome.attempts for key, outcome in found.items()}
    for text, steps in zip(texts, scripts, strict=True):
        tried = [*steps, *steps[-1:] * 3][:3]
        final = next((step for step in tried if step in ("ok", "filter")), "failed")
        status = {"ok": "ok", "filter": "refused"}.get(final, "error")
        assert found[text].status.split(":")[0] == status


def test_the_server_decides_how_many_at_once():
    with FaultServer(delay_s=0.01) as server:
        outcomes(server, map(str, range(30)), concurrency=4)
        assert 2 <= server.most_at_once <= 4


def test_no_more_is_drawn_than_there_is_room_for():
    drawn = []

    def stream():
        for number in range(40):
            drawn.append(number)
            yield chat(str(number))

    with FaultServer() as server:
        for done, _ in enumerate(ask_all(asked(server, concurrency=4), stream())):
            assert len(drawn) <= done + 4
    assert len(drawn) == 40


def test_outcomes_are_handed_on_while_the_next_question_is_being_made():
    """A kill in a long decode must not lose replies that were there."""
    answered = threading.Event()

    def stream():
        yield chat("first")
        assert answered.wait(60), "the first outcome waited for the second question"
        yield chat("second")

    with FaultServer() as server:
        for _ in ask_all(asked(server), stream()):
            answered.set()
        assert sum(server.answered.values()) == 2


def test_closing_the_stream_ends_the_calls_on_their_way():
    with FaultServer(scripted({"silent": ["silence"]})) as server:
        stream = ask_all(asked(server, timeout_s=1000), map(chat, ["silent 1", "good", "silent 2", "silent 3"]))
        assert next(stream)[0].key == "good"
        stream.close()  # without this, a thousand seconds


def test_questions_that_wait_for_their_turn_end_with_the_stream_and_with_the_job():
    with FaultServer(scripted({"a": ["401"]})) as server:
        slow = asked(server, requests_per_min=1)
        with pytest.raises(EngineError, match="HTTP 401"):
            list(ask_all(slow, map(chat, "aaaa"), clock=lambda: 0.0))  # its minute never passes
        stream = ask_all(slow, map(chat, "bcd"), clock=lambda: 0.0)
        next(stream)
        stream.close()
    assert server.asked.total() == 2


@pytest.mark.parametrize(
    ("step", "remedy"),
    [("401", "check it"), ("404", "remote.id"), ("quota", "top it up"), ("field", "generation or client")],
)
def test_what_no_question_can_pass_ends_the_job_after_what_was_on_its_way(step, remedy):
    script = scripted({r"^[012]$": ["ok"], ".": [step]})
    done = []
    with FaultServer(script, delay_s=0.005) as server, pytest.raises(EngineError, match=remedy) as error:
        done.extend(one.key for one, _ in ask_all(asked(server, concurrency=3), map(chat, map(str, range(100)))))
    assert set(done) >= {"0", "1", "2"} and server.asked.total() < 12
    assert str(error.value).startswith("fault-1: HTTP 4") and "\n" not in str(error.value)


def test_an_outage_ends_the_job_and_one_good_answer_does_not_let_it():
    with FaultServer(scripted({"[05]$": ["ok"], ".": ["500"]})) as server:
        found = outcomes(server, map(str, range(40)), concurrency=1, limits={"give_up_after": 5})
        assert Counter(outcome.status for outcome in found.values()) == {"ok": 8, "error:server": 32}
    done = []
    with FaultServer(scripted({"^[01]$": ["ok"], "^2$": ["too_long"], ".": ["500"]})) as server:
        with pytest.raises(EngineError, match="5 questions in a row failed, the last with error:server HTTP 500"):
            settled = asked(server, concurrency=2, limits={"give_up_after": 5})
            done.extend(one.key for one, _ in ask_all(settled, map(chat, map(str, range(100)))))
        assert {"0", "1", "2"} <= set(done) and len(done) <= 8 + 2


def test_questions_that_a_server_refuses_for_their_own_sake_are_no_outage():
    bad = [f"bad {number}" for number in range(12)]
    with FaultServer(scripted({"bad": ["bad_request"]})) as server:
        found = outcomes(server, [*bad, "good"], concurrency=2, limits={"give_up_after": 5})
    assert [found[text].status for text in (*bad, "good")] == ["error:request"] * 12 + ["ok"]


def test_the_budget_is_not_passed_and_is_used_to_the_last_call(tmp_path):
    done = []
    with FaultServer(delay_s=0.002) as server, pytest.raises(EngineError, match=r"raise budget\.dollars") as error:
        stream = ask_all(asked(server, **billed(tmp_path, dollars=20.5 * CALL)), map(chat, map(str, range(100))))
        done.extend(outcome for _, outcome in stream)
    assert {outcome.status for outcome in done} == {"ok"}
    # A further call could take twice what it really does, so the last but one is where it ends.
    assert len(done) == 19 == server.asked.total()
    assert f"${19 * CALL:.2f} of ${20.5 * CALL:.2f} are spent, and the next call could take" in str(error.value)
    with FaultServer() as server:  # more money, and only what is left is to pay
        assert len(outcomes(server, ["x"], **billed(tmp_path, dollars=21 * CALL))) == 1


def test_a_budget_of_tokens_holds_without_any_price(tmp_path):
    more = billed(tmp_path, tokens=10 * (TOKENS_IN + TOKENS_OUT)) | {"prices": {"models": {}}}
    done = []
    with FaultServer() as server, pytest.raises(EngineError, match=r"raise budget\.tokens"):
        done.extend(outcome for _, outcome in ask_all(asked(server, **more), map(chat, map(str, range(100)))))
    assert len(done) == 9 and done[0].dollars is None


def test_without_money_for_a_repeat_a_question_ends_as_it_failed(tmp_path):
    with FaultServer(lambda _: ["malformed"]) as server:
        found = outcomes(server, ["a"], **billed(tmp_path, dollars=1.5 * MOST))
    assert found["a"].status == "error:reply" and "budget is reached" in found["a"].detail
    assert found["a"].attempts == 1


def test_no_dollars_without_a_price(tmp_path):
    with FaultServer() as server, pytest.raises(ConfigError, match="no price of 'fault-1'"):
        more = billed(tmp_path, dollars=1.0) | {"prices": {"models": {}}}
        next(ask_all(asked(server, **more), [chat("a")]))


def test_the_key_is_sent_and_never_comes_back():
    steps = ["echo 200", "echo 400", "echo 500", "echo 401", "echo 429"]
    said = ""
    with FaultServer(lambda text: [text]) as server:
        for step in steps:
            try:
                said += repr(outcomes(server, [step]))
            except EngineError as error:
                said += str(error) + repr(error.__context__) + repr(error.__cause__)
        assert all(headers["authorization"] == f"Bearer {KEY}" for headers in server.headers)
    assert "what is Bearer … for?" in said and KEY not in said and KEY not in repr(asked(server))


def test_waits_double_and_a_servers_wish_is_kept():
    waits = []
    steps = ["500", "500", "429 retry-after=3", "ok"]
    limits = {"retries": 5, "first_wait_s": 1.0}
    now = [0.0]

    def wait(seconds):
        waits.append(seconds)
        now[0] += seconds

    with FaultServer(lambda _: steps) as server:
        found = list(ask_all(asked(server, limits=limits), [chat("a")], wait=wait, clock=lambda: now[0]))
    assert found[0][1].status == "ok"
    first, second, third = waits
    assert 0.5 <= first <= 1 <= second <= 2 and third >= 3


@given(st.integers(1, 10**6), st.floats(0.001, 10), st.floats(0.001, 1000), st.integers())
def test_waits_have_a_bound(attempt, first, longest, seed):
    wait = backoff(attempt, {"first_wait_s": first, "longest_wait_s": longest}, random.Random(seed))
    assert min(first, longest) / 2 <= wait <= longest


def test_the_fault_server_is_a_program_that_counts(tmp_path):
    port_file, script = tmp_path / "port", tmp_path / "script.json"
    script.write_text(json.dumps({"7": ["500", "ok"]}))
    program = Path(__file__).with_name("fault_server.py")
    words = [sys.executable, str(program), "--port-file", str(port_file), "--script", str(script)]
    with subprocess.Popen(words) as process:
        try:
            while not port_file.exists():
                assert process.poll() is None
            root = f"http://127.0.0.1:{port_file.read_text()}"
            settled = Settings(Endpoint(f"{root}/v1", "", "fault-1", 30), 4, LIMITS)
            assert {outcome.status for _, outcome in ask_all(settled, map(chat, ["6", "7"]))} == {"ok"}
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            counts = json.load(direct.open(f"{root}/counts"))
        finally:
            process.terminate()
    assert counts == {"asked": {"6": 1, "7": 2}, "answered": {"6": 1, "7": 1}}
