"""What is known of a batch between two jobs: the journal, the money that is set aside, and the server's list."""

import json
import signal
from collections import Counter

import pytest

from scripts.lib.errors import DataError, EngineError
from scripts.remote.batch import ask_batch
from scripts.remote.budget import Amount
from scripts.remote.chat import Chat, Endpoint
from scripts.remote.journal import Journal, Run
from scripts.remote.pool import Settings
from tests.unit import judge_sample as sample
from tests.unit.batch_server import BatchServer, Fate
from tests.unit.fault_server import TOKENS_IN, TOKENS_OUT

KEY = "sk-a-secret-of-the-user"
LIMITS = {
    "budget": {"dollars": None, "tokens": None},
    "retries": 2,
    "first_wait_s": 0.001,
    "longest_wait_s": 5.0,
    "give_up_after": 1000,
}
PRICES = {"models": {"fault-1": {"in": 10_000.0, "out": 100_000.0, "batch": 0.5}}}
CALL = 0.5 * (TOKENS_IN * 10_000 + TOKENS_OUT * 100_000) / 1e6
"""Dollars of a call in a batch; its estimate is twice that."""
CREATE = "POST /v1/batches"
LIST = "GET /v1/batches"
POLLS = 200
"""More waits than any of these jobs takes: one that waits on is waiting for nothing."""
FULL = [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}]


def chats(texts):
    def made(text):
        return Chat(text, lambda: [{"role": "user", "content": text}], 2 * TOKENS_OUT, 2 * TOKENS_IN)

    return map(made, texts)


def ask(server, folder, texts="abcde", stopping=None, prices=PRICES):
    """Outcomes by question's text, which is a hexadecimal digit and its key too."""
    waits = iter(range(POLLS))
    told = Settings(Endpoint(server.url, KEY, "fault-1", 20.0), 1, LIMITS, None, None, prices, folder / "spent.jsonl")
    batch = {"requests": 100, "poll_s": 60, "rounds": 3}
    asked = ask_batch(told, chats(texts), batch, folder / "j.batches", stopping, lambda _: next(waits))
    return {chat.key: outcome for chat, outcome in asked}


def entries(folder):
    """The last line of the ledger for each batch."""
    lines = map(json.loads, (folder / "spent.jsonl").read_text(encoding="utf-8").splitlines())
    return list({line["id"]: line for line in lines}.values())


def events(folder):
    return [json.loads(line)["event"] for line in (folder / "j.batches").read_text(encoding="utf-8").splitlines()]


def left_behind(server, folder, texts="abcde"):
    """A job that is told to stop as soon as its batch is at the server."""
    count = len(server.batches)
    assert ask(server, folder, texts, stopping=lambda: len(server.batches) > count) == {}


# Money.


def test_a_batch_on_its_way_has_its_estimate_set_aside_and_then_counts_as_what_it_came_to(tmp_path):
    with BatchServer(Fate(polls=2)) as server:
        left_behind(server, tmp_path)
        (before,) = entries(tmp_path)
        ask(server, tmp_path)
    (after,) = entries(tmp_path)
    assert (before["state"], before["dollars"]) == ("reserved", pytest.approx(5 * 2 * CALL))
    assert (after["state"], after["dollars"]) == ("spent", pytest.approx(5 * CALL))
    assert after["tokens"] == 5 * (TOKENS_IN + TOKENS_OUT)
    assert before["id"] == after["id"] == server.batches["batch_0"]["metadata"]["run"]


def test_without_a_price_for_batches_the_full_one_counts_and_is_said(tmp_path, capsys):
    full = {"models": {"fault-1": {"in": 10_000.0, "out": 100_000.0}}}
    with BatchServer() as server:
        found = ask(server, tmp_path, prices=full)
    assert {one.dollars for one in found.values()} == {2 * CALL}
    assert "no `batch` of 'fault-1': its batches count at the full price" in capsys.readouterr().err


def test_a_batch_that_the_server_refuses_to_create_costs_nothing(tmp_path):
    with BatchServer() as server:
        server.trouble = lambda call: "bad_request" if call == CREATE else ""
        with pytest.raises(EngineError, match="unsupported image; mend what it says, or take `batch` out"):
            ask(server, tmp_path)
    assert [(one["state"], one["dollars"]) for one in entries(tmp_path)] == [("spent", 0.0)]
    assert events(tmp_path) == ["submitting", "over"]


def test_results_that_were_handed_on_in_part_are_paid_once_and_the_rest_is_had_without_asking(tmp_path):
    with BatchServer() as server:
        told = Settings(
            Endpoint(server.url, KEY, "fault-1", 20.0), 1, LIMITS, None, None, PRICES, tmp_path / "spent.jsonl"
        )
        batch = {"requests": 100, "poll_s": 60, "rounds": 3}
        asked = ask_batch(told, chats("abcde"), batch, tmp_path / "j.batches", None, lambda _: None)
        had = {next(asked)[0].key for _ in range(2)}
        asked.close()
        assert events(tmp_path) == ["submitting", "submitted"]
        found = ask(server, tmp_path, sorted(set("abcde") - had))
    assert (len(had), len(found)) == (2, 3)
    assert set(server.asked.values()) == {1}
    assert [(one["state"], one["dollars"]) for one in entries(tmp_path)] == [("spent", pytest.approx(5 * CALL))]
    assert events(tmp_path) == ["submitting", "submitted", "over"]


# What the server's list says.


def test_a_batch_of_which_nobody_heard_is_found_among_those_of_others(tmp_path):
    """It was created, the answer was lost and the server gone with it; others made theirs meanwhile."""
    with BatchServer() as server:
        server.trouble = lambda call: "late 500" if call == CREATE else "503" if call == LIST else ""
        with pytest.raises(EngineError, match="3 times in a row"):
            ask(server, tmp_path)
        assert events(tmp_path) == ["submitting"]
        for at, metadata in enumerate([None, {}, {"run": "another"}, {"of": "somebody"}, None]):
            others = server.batches["batch_0"] | {"id": f"other_{at}", "metadata": metadata}
            server.batches[f"other_{at}"] = others
        server.trouble = lambda _: ""
        found = ask(server, tmp_path)
    assert {one.status for one in found.values()} == {"ok"}
    assert server.calls.count(CREATE) == 1
    assert server.calls.count(LIST) >= 3, "it took several pages"
    assert set(server.asked.values()) == {1}


def test_a_batch_that_was_never_created_is_created_by_the_next_job(tmp_path):
    with BatchServer() as server:
        server.trouble = lambda call: "503" if call == CREATE else ""
        with pytest.raises(EngineError, match=r"3 times in a row; .*run again to go on"):
            ask(server, tmp_path)
        assert [one["state"] for one in entries(tmp_path)] == ["reserved"]
        server.trouble = lambda _: ""
        ask(server, tmp_path)
    assert set(server.asked.values()) == {1}
    assert sorted(one["dollars"] for one in entries(tmp_path)) == [0, pytest.approx(5 * CALL)]
    assert {one["state"] for one in entries(tmp_path)} == {"spent"}


def test_a_batch_that_its_server_lists_late_is_not_created_twice(tmp_path):
    with BatchServer() as server:
        page, lists = server.page, Counter()

        def late(after, limit):
            lists["all"] += 1
            return page(after, limit) if lists["all"] > 1 else {"object": "list", "data": [], "has_more": False}

        server.page = late
        server.trouble = lambda call: "late 500" if call == CREATE and not server.batches else ""
        ask(server, tmp_path)
    assert len(server.batches) == 1


def test_who_waits_for_room_does_not_wait_for_a_batch_that_failed(tmp_path):
    """The queue is full with an earlier job's batch; nobody asks its questions any more, and it comes to nothing."""
    earlier = Fate(status="failed", polls=4, errors=[{"code": "a", "message": "b"}])
    with BatchServer(earlier, Fate(status="failed", errors=FULL)) as server:
        left_behind(server, tmp_path, "abc")
        found = ask(server, tmp_path, "def")
    assert {key: one.status for key, one in found.items()} == dict.fromkeys("def", "ok")
    assert len(server.batches) == 3


# What is said and what is kept.


def test_what_the_server_says_of_the_key_is_not_passed_on(tmp_path, capsys):
    told = [{"code": "x", "message": f"your key {KEY} is odd"}]
    with BatchServer(Fate(status="failed", errors=told)) as server:
        server.reply = lambda text: f"{text} by {KEY}"
        with pytest.raises(EngineError, match="your key … is odd") as raised:
            ask(server, tmp_path)
        found = ask(server, tmp_path)
    assert found["a"].text == "a by …"
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir()).decode()
    assert KEY not in str(raised.value) + written + "".join(capsys.readouterr())


def test_answers_come_through_with_all_their_signs(tmp_path):
    signs = "no\u2028end\u0085of a line, \U0001f469\u200d\U0001f680 \u4f60 \"{'"
    with BatchServer() as server:
        server.reply = lambda _: signs
        found = ask(server, tmp_path)
    assert [one.text for one in found.values()] == [signs] * 5


def test_the_money_for_a_refused_account_has_its_remedy(tmp_path):
    told = [{"code": "billing_hard_limit_reached", "message": "Billing hard limit has been reached"}]
    with (
        BatchServer(Fate(status="failed", errors=told)) as server,
        pytest.raises(EngineError, match="has been reached; the account has nothing left: top it up"),
    ):
        ask(server, tmp_path)


# The file.


def run(name="r"):
    return Run(name, "u", ["a", "b"], Amount(10, 0.5))


def test_a_journal_says_what_is_not_over(tmp_path):
    path = tmp_path / "below" / "j.batches"
    first = Journal(path, "u", lambda _: None)
    for name in "rst":
        first.submitting(run(name))
    first.submitted(run("s"), "batch_7")
    first.over(run("t"), "completed")
    first.close()
    again = Journal(path, "u", lambda _: None)
    again.close()
    assert list(again.runs) == ["r", "s"]
    assert (again.runs["r"], again.runs["s"].batch) == (run("r"), "batch_7")


def test_a_line_that_a_kill_cut_is_dropped_wherever_it_was_cut(tmp_path):
    path = tmp_path / "j.batches"
    journal = Journal(path, "u", lambda _: None)
    journal.submitting(run("r"))
    start = path.stat().st_size
    journal.submitted(run("r"), "batch_7")
    journal.close()
    whole = path.read_bytes()
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        again = Journal(path, "u", lambda _: None)
        again.submitting(run("s"))
        again.close()
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert [(line["event"], line["run"]) for line in lines] == [("submitting", "r"), ("submitting", "s")]
        assert again.runs["r"].batch == ""


@pytest.mark.parametrize(
    "line", ["x", "[]", "{}", '{"event":"submitted","run":"unknown","batch":"b"}', '{"event":"?","run":"r"}', "1"]
)
def test_a_line_of_another_kind_is_named(tmp_path, line):
    path = tmp_path / "j.batches"
    path.write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"j\.batches: not a line of this file: .*; remove it"):
        Journal(path, "u", lambda _: None)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file/j: cannot be written"):
        Journal(tmp_path / "file" / "j", "u", lambda _: None)


def test_a_second_job_waits_for_the_first_and_then_knows_what_it_did(tmp_path, capsys):
    first = Journal(tmp_path / "j", "u", lambda _: None)
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            first.submitting(run())
            first.close()

    second = Journal(tmp_path / "j", "u", wait)
    second.close()
    assert (list(second.runs), len(waits)) == (["r"], 3)
    assert capsys.readouterr().err.count("waiting for another process") == 1


def test_told_to_stop_while_another_job_is_at_it_nothing_is_sent(tmp_path):
    other = Journal(tmp_path / "j.batches", "u", lambda _: None)
    looks = iter([False, False, True, True])
    with BatchServer() as server:
        assert ask(server, tmp_path, stopping=lambda: next(looks)) == {}
    other.close()
    assert not server.calls


# As a whole job.


def test_a_signal_while_it_waits_ends_the_job_and_the_next_one_has_the_results(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    asked = sample.questions(6)
    with BatchServer(Fate(polls=10**9)) as server:
        server.reply = sample.says({1: sample.NO})
        batch = {"requests": 100, "poll_s": 0.01, "rounds": 2}
        folder = sample.write_cell(tmp_path, server, sample.predictions(asked), asked, again_share=0.0, batch=batch)
        with server.lock:  # it is answered when there is somebody to send the signal
            process, told = sample.start(folder), []

            def trouble(call):
                if call.startswith("GET /v1/batches/") and not told:
                    told.append(call)  # a second signal ends it at once
                    process.send_signal(signal.SIGTERM)
                return ""

            server.trouble = trouble
        assert process.wait() == 1
        assert not (folder / "judgements.jsonl").exists()
        server.batches["batch_0"]["fate"].polls = 0
        made = sample.judge(folder)
    assert [one.verdict for one in made] == ["yes", "no", "yes", "yes", "yes", "yes"]
    assert set(server.asked.values()) == {1}
