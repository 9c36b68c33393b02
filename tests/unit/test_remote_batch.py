"""Batches at a server that loses, expires, refuses and shuffles: every question ends with one outcome."""

import json
import signal
from collections import Counter

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.lib.errors import ConfigError, EngineError
from scripts.remote.batch import ask_batch
from scripts.remote.chat import Chat, Endpoint
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
"""Dollars of a call in a batch."""
CREATE = "POST /v1/batches"
BATCH = {"requests": 100, "poll_s": 60, "rounds": 3}


def chats(count):
    def made(at):
        return Chat(f"{at:04x}", lambda: [{"role": "user", "content": f"q{at}"}], 2 * TOKENS_OUT, 2 * TOKENS_IN)

    return [made(at) for at in range(count)]


def ask(server, folder, count=5, batch=None, dollars=None, stopping=None, own_server=False, limits=()):
    """Outcomes by question's number; asserts that none has two."""
    told = LIMITS | {"budget": {"dollars": dollars, "tokens": None}} | dict(limits)
    endpoint = Endpoint(server.url, "" if own_server else KEY, "fault-1", 20.0)
    given_ = Settings(
        endpoint, 1, told, prices=None if own_server else PRICES, ledger=None if own_server else folder / "spent.jsonl"
    )
    asked = ask_batch(given_, chats(count), BATCH | (batch or {}), folder / "b.batches", stopping, lambda _: None)
    found = [(int(chat.key, 16), outcome) for chat, outcome in asked]
    assert len(found) == len(dict(found))
    return dict(found)


def spent(folder):
    last = {line["id"]: line for line in map(json.loads, (folder / "spent.jsonl").read_text().splitlines())}
    return sum(line["dollars"] for line in last.values()), Counter(line["state"] for line in last.values())


def statuses(found):
    return [found[at].status for at in sorted(found)]


def test_a_batch_in_any_order_gives_each_its_answer(tmp_path):
    with BatchServer() as server:
        found = ask(server, tmp_path, 20)
    assert [found[at].text for at in range(20)] == [f"answer to q{at}" for at in range(20)]
    assert {(one.status, one.attempts, one.tokens_in, one.model) for one in found.values()} == {
        ("ok", 1, TOKENS_IN, "fault-1")
    }
    assert {one.dollars for one in found.values()} == {CALL}
    total, states = spent(tmp_path)
    assert (total, states) == (pytest.approx(20 * CALL), Counter(spent=1))
    assert len(server.batches) == 1
    assert {one["authorization"] for one in server.headers} == {f"Bearer {KEY}"}
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert KEY.encode() not in written


def test_many_questions_go_in_batches_of_the_size_that_is_allowed(tmp_path):
    with BatchServer() as server:
        found = ask(server, tmp_path, 23, {"requests": 10})
    assert len(found) == 23
    assert [len(one["requests"]) for one in server.batches.values()] == [10, 10, 3]


def test_what_expired_is_asked_again_and_what_was_paid_is_kept(tmp_path):
    with BatchServer(Fate(["ok", "expired"], "expired")) as server:
        found = ask(server, tmp_path)
    assert statuses(found) == ["ok"] * 5
    assert server.asked == {"q0": 1, "q1": 2, "q2": 2, "q3": 2, "q4": 2}
    assert [found[at].attempts for at in range(5)] == [1, 2, 2, 2, 2]
    assert spent(tmp_path)[0] == pytest.approx(5 * CALL)


def test_what_always_expires_ends_as_an_error_after_its_rounds(tmp_path):
    fates = [Fate(["expired"], "expired") for _ in range(9)]
    with BatchServer(*fates) as server:
        found = ask(server, tmp_path, 3)
    assert statuses(found) == ["error:timeout"] * 3
    assert len(server.batches) == 1 + BATCH["rounds"]
    assert spent(tmp_path)[0] == 0


def test_errors_of_single_questions(tmp_path):
    answers = ["ok", "500", "too_long", "filter", "filtered", "refusal", "length", "empty", "bad_request", "429"]
    with BatchServer(Fate(answers)) as server:
        found = ask(server, tmp_path, 10)
    assert statuses(found) == [
        *("ok", "ok", "error:too_long", "refused", "refused", "refused", "truncated", "ok", "error:request", "ok")
    ]
    assert [found[at].by_filter for at in (3, 4, 5)] == [True, True, False]
    assert found[6].text == "half an answ"
    assert server.asked == {f"q{at}": 2 if at in (1, 7, 9) else 1 for at in range(10)}


def test_missing_lines_are_asked_again(tmp_path):
    with BatchServer(Fate(["ok", "none", "ok", "none"])) as server:
        found = ask(server, tmp_path)
    assert statuses(found) == ["ok"] * 5
    assert server.asked == {"q0": 1, "q1": 2, "q2": 1, "q3": 2, "q4": 2}


def test_broken_foreign_and_second_lines_count_for_nothing(tmp_path, capsys):
    with BatchServer(Fate(["odd", "twice", "ok"])) as server:
        found = ask(server, tmp_path)
    assert [found[at].text for at in (0, 2)] == ["answer to q0", "answer to q2"]
    assert statuses(found) == ["ok"] * 5
    assert server.asked["q0"] == 1
    assert "3 lines of its files are no first result" in capsys.readouterr().err


def test_files_that_a_batch_does_not_name(tmp_path):
    with BatchServer(Fate(no_files=True)) as server:
        found = ask(server, tmp_path)
    assert statuses(found) == ["ok"] * 5
    assert set(server.asked.values()) == {2}
    assert spent(tmp_path)[0] > 5 * CALL, "the server may bill what it lost"


def test_a_batch_that_the_server_forgets_is_sent_again(tmp_path, capsys):
    with BatchServer(Fate(gone=True)) as server:
        found = ask(server, tmp_path)
    assert statuses(found) == ["ok"] * 5
    assert "the server does not know it any more" in capsys.readouterr().err


def test_a_cancelled_batch_ends_the_job_and_keeps_what_it_answered(tmp_path):
    with BatchServer(Fate(["ok", "cancelled"], "cancelled")) as server:
        endpoint = Endpoint(server.url, KEY, "fault-1", 20.0)
        asked = ask_batch(Settings(endpoint, 1, LIMITS), chats(3), BATCH, tmp_path / "b", None, lambda _: None)
        assert next(asked)[1].status == "ok"
        with pytest.raises(EngineError, match="was cancelled by somebody; run again"):
            next(asked)
        found = ask(server, tmp_path, 3)
    assert statuses(found) == ["ok"] * 3


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (
            [{"code": "invalid_json_line", "message": "not JSON", "line": 3}],
            r"refused: invalid_json_line not JSON \(line 3\);",
        ),
        ([{"code": "a", "message": "b"}, {"code": "c", "message": "d"}], "refused: a b, and 1 more; mend what it says"),
        ([], "refused: no reason given"),
        (
            [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}],
            "lower batch.requests, or run again",
        ),
    ],
)
def test_a_file_that_is_refused_as_a_whole_ends_the_job_in_one_line(tmp_path, errors, message):
    with (
        BatchServer(Fate(status="failed", errors=errors)) as server,
        pytest.raises(EngineError, match=message) as raised,
    ):
        ask(server, tmp_path)
    assert "\n" not in str(raised.value)
    assert spent(tmp_path)[0] == 0


def test_a_full_queue_waits_for_our_other_batch(tmp_path):
    full = Fate(status="failed", errors=[{"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}])
    with BatchServer(Fate(polls=5), full) as server:
        found = ask(server, tmp_path, 20, {"requests": 10})
    assert statuses(found) == ["ok"] * 20
    assert len(server.batches) == 3


def test_a_server_without_batches_says_what_to_do(tmp_path):
    with BatchServer() as server:
        server.trouble = lambda call: "404" if call.endswith("files") else ""
        with pytest.raises(EngineError, match="if this server has no Batch API, take `batch` out"):
            ask(server, tmp_path)


def test_a_wrong_key_says_so(tmp_path):
    with BatchServer() as server:
        server.trouble = lambda _: "401"
        with pytest.raises(EngineError, match="fault-1: HTTP 401") as raised:
            ask(server, tmp_path)
    assert KEY not in str(raised.value)


def test_passing_failures_are_repeated_and_create_nothing_twice(tmp_path):
    """The answer to the call that creates a batch is lost: it is looked for before another is created."""
    counts = Counter()

    def trouble(call):
        counts[call] += 1
        return "" if counts[call] > 1 else "late 500" if call == CREATE else "503"

    with BatchServer() as server:
        server.trouble = trouble
        found = ask(server, tmp_path)
    assert statuses(found) == ["ok"] * 5
    assert len(server.batches) == 1


def test_an_outage_while_waiting_ends_the_job_and_the_next_finds_its_batch(tmp_path):
    with BatchServer(Fate(polls=3)) as server:
        server.trouble = lambda call: "503" if call.startswith("GET") else ""
        with pytest.raises(EngineError, match=r"3 times in a row; .*batches that were sent stay at the server"):
            ask(server, tmp_path)
        server.trouble = lambda _: ""
        found = ask(server, tmp_path)
    assert statuses(found) == ["ok"] * 5
    assert set(server.asked.values()) == {1}
    assert spent(tmp_path)[0] == pytest.approx(5 * CALL)


def test_told_to_stop_it_leaves_its_batch_to_the_next_run(tmp_path):
    with BatchServer(Fate(polls=2)) as server:
        assert ask(server, tmp_path, stopping=lambda: bool(server.batches)) == {}
        found = ask(server, tmp_path)
    assert statuses(found) == ["ok"] * 5
    assert len(server.batches) == 1


def test_questions_that_nobody_asks_any_more_are_paid_and_dropped(tmp_path, capsys):
    with BatchServer(Fate(polls=2)) as server:
        ask(server, tmp_path, 5, stopping=lambda: bool(server.batches))
        found = ask(server, tmp_path, 3)
    assert statuses(found) == ["ok"] * 3
    assert spent(tmp_path)[0] == pytest.approx(5 * CALL)
    assert "2 results are not asked for any more" in capsys.readouterr().err


def test_a_budget_makes_batches_smaller_and_then_stops(tmp_path):
    most = 4 * CALL  # by the estimate of ``chats``, at the price of a batch: 2 of what is counted
    with BatchServer() as server, pytest.raises(EngineError, match="budget"):
        ask(server, tmp_path, 30, dollars=most)
    total, states = spent(tmp_path)
    assert 0 < total <= most
    assert set(states) == {"spent"}
    assert all(len(one["requests"]) <= 2 for one in server.batches.values())


def test_a_journal_of_another_server_is_not_taken_for_ours(tmp_path):
    with BatchServer(Fate(polls=2)) as server:
        ask(server, tmp_path, stopping=lambda: bool(server.batches))
        with BatchServer() as other, pytest.raises(ConfigError, match=f"is at {server.url}, not at {other.url}"):
            ask(other, tmp_path)


def test_keys_that_can_not_name_a_request(tmp_path):
    with BatchServer() as server:
        asked = Settings(Endpoint(server.url, KEY, "fault-1", 20.0), 1, LIMITS)
        for keys, message in ((["q/1"], "can't name a request"), (["aa", "aa"], "asked twice")):
            with pytest.raises(ConfigError, match=message):
                list(ask_batch(asked, [Chat(key, list, 1, 1) for key in keys], BATCH, tmp_path / "b"))
    assert not server.calls


KINDS = ["ok", "none", "expired", "500", "429", "too_long", "filter", "refusal", "length", "empty", "odd", "twice"]
FATES = st.builds(
    Fate,
    answers=st.lists(st.sampled_from(KINDS), min_size=1, max_size=8),
    status=st.sampled_from(["completed", "expired"]),
    polls=st.integers(0, 2),
    no_files=st.booleans(),
    gone=st.booleans(),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FATES, max_size=5), st.integers(1, 4))
def test_whatever_becomes_of_batches_every_question_ends_once(tmp_path_factory, fates, size):
    folder = tmp_path_factory.mktemp("batch")
    with BatchServer(*fates) as server:
        found = ask(server, folder, 8, {"requests": size})
    assert sorted(found) == list(range(8))
    assert all(1 <= server.asked[f"q{at}"] <= 1 + BATCH["rounds"] for at in range(8))
    total, states = spent(folder)
    assert set(states) == {"spent"}
    assert total >= CALL * sum(one.status in ("ok", "truncated") for one in found.values()) - 1e-9


# Killed, as a whole job.


def cell(folder, server, count):
    asked = sample.questions(count)
    batch = {"requests": 100, "poll_s": 0.01, "rounds": 2}
    return sample.write_cell(folder, server, sample.predictions(asked), asked, again_share=0.0, batch=batch)


def test_every_question_of_a_cell_ends_with_one_judgement(tmp_path, monkeypatch):
    """A batch that expires after a part, one with an error file and lines that are missing, in any order; and a reply
    that can't be read, which is asked for again in a call of its own."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    first = Fate(["ok", "expired", "ok", "expired", "none", "odd", "twice", "expired", "too_long", "filter"], "expired")
    second = Fate(["500", "ok", "none"])
    with BatchServer(first, second) as server:
        server.reply = sample.says({0: sample.NO, 2: "I can't tell.", 3: sample.NO, -1: sample.YES})
        made = sample.judge(cell(tmp_path, server, 10))
    assert [one.key for one in made] == [one.key for one in sample.questions(10)]
    assert [one.status for one in made] == ["ok"] * 8 + ["api_failed", "content_filter"]
    assert [one.verdict for one in made[:8]] == ["no", "yes", "yes", "no", "yes", "yes", "yes", "yes"]
    assert made[2].flags == ["repaired"]
    assert [one.calls for one in made] == [1, 3, 2, 2, 3, 1, 1, 3, 1, 1]


def test_batches_at_the_server_are_not_asked_again_one_by_one(tmp_path, monkeypatch, capsys):
    """The user takes `batch` out of the judge's file while one is on its way."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with BatchServer(Fate(polls=3)) as server:
        server.reply = sample.says({})
        folder = cell(tmp_path, server, 6)
        server.trouble = lambda call: "503" if call.startswith("GET") else ""
        sample.judge(folder, code=1)
        server.trouble = lambda _: ""
        judge = (folder / "config/judges/far.yaml").read_text(encoding="utf-8")
        (folder / "config/judges/far.yaml").write_text(
            yaml.safe_dump({key: value for key, value in yaml.safe_load(judge).items() if key != "batch"}),
            encoding="utf-8",
        )
        sample.judge(folder, code=1)
        assert "put `batch` back to have their verdicts" in capsys.readouterr().err
        (folder / "config/judges/far.yaml").write_text(judge, encoding="utf-8")
        assert [one.verdict for one in sample.judge(folder)] == ["yes"] * 6
    assert set(server.asked.values()) == {1}


MOMENTS = ("before it is created", "after it is created", "while it waits", "with its results")


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_nothing_is_asked_twice(tmp_path, moment, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with BatchServer(Fate(polls=3)) as server:
        server.reply = sample.says({1: sample.NO})
        folder = cell(tmp_path, server, 6)
        server.lock.acquire()  # nothing is answered before there is somebody to kill it
        process = sample.start(folder)

        def trouble(call):
            where = {
                "before it is created": call == CREATE,
                "after it is created": call == CREATE,
                "while it waits": call.startswith("GET /v1/batches/"),
                "with its results": call.endswith("/content"),
            }[moment]
            if not where or process.poll() is not None:
                return ""
            if moment == "after it is created":
                body = {"input_file_id": "file-0", "endpoint": "/v1/chat/completions", "metadata": {"run": token()}}
                server.create(body)
            process.send_signal(signal.SIGKILL)
            process.wait()
            return "500"

        def token():
            (journal,) = folder.glob("cache/*/*.batches")
            return json.loads(journal.read_text(encoding="utf-8").splitlines()[-1])["run"]

        server.trouble = trouble
        server.lock.release()
        assert process.wait() == -signal.SIGKILL
        made = sample.judge(folder)
    assert [one.verdict for one in made] == ["yes", "no", "yes", "yes", "yes", "yes"]
    assert len(server.batches) == 1
    assert set(server.asked.values()) == {1}
    last = {line["id"]: line for line in map(json.loads, (folder / "spent.jsonl").read_text().splitlines())}
    assert {line["state"] for line in last.values()} == {"spent"}
    assert len([line for line in last.values() if line["dollars"]]) == 1
