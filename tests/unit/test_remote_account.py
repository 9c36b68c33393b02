"""What calls cost where a server counts more than was expected, and whom a server is told that they are for."""

import json
import threading
from dataclasses import replace

import pytest

from scripts.lib.errors import EngineError
from scripts.remote.chat import Caller, Endpoint
from scripts.remote.pool import ask_all
from tests.conftest import wait_until
from tests.unit.fault_server import TOKENS_IN, FaultServer
from tests.unit.test_remote_pool import CALL, KEY, MOST, asked, billed, chat, outcomes, spent

MUCH = (TOKENS_IN * 10_000 + 600 * 100_000) / 1e6
"""Dollars of a reply with 600 tokens, where 20 were allowed."""


def test_what_calls_come_to_beyond_their_estimate_is_expected_of_all_further_ones(tmp_path, capsys):
    """Else each of them could pass the budget, not only those that were on their way at the first."""
    budget = 20.5 * MUCH
    with FaultServer(lambda _: ["much"], delay_s=0.01) as server:
        with pytest.raises(EngineError, match=f"the next call could take \\${MUCH:.4f}"):
            list(ask_all(asked(server, **billed(tmp_path, dollars=budget)), map(chat, map(str, range(100)))))
        assert server.asked.total() == 20
    assert spent(tmp_path)[0] == pytest.approx(20 * MUCH)
    said = capsys.readouterr().err
    assert said.count("fault-1: a call came to 700 tokens where at most 220 were expected") == 1


def test_only_calls_on_their_way_pass_a_budget_by_what_they_take_beyond_their_estimate(tmp_path):
    with FaultServer(lambda _: ["held much"]) as server:

        def let_go_of_three():
            wait_until(lambda: server.at_once == 3)
            server.let_go.set()

        threading.Thread(target=let_go_of_three, daemon=True).start()
        with pytest.raises(EngineError, match=r"raise budget\.dollars"):
            settled = asked(server, concurrency=3, **billed(tmp_path, dollars=4 * MOST))
            list(ask_all(settled, map(chat, map(str, range(100)))))
        assert server.asked.total() == 3


def test_a_question_whose_money_another_took_is_asked_when_there_is_some_again(tmp_path):
    """Both are begun while there is money for either."""
    both, times = threading.Barrier(2), {"a": 0, "b": 0}

    def messages(text):
        times[text] += 1
        if times[text] == 1:
            both.wait(60)
        return [{"role": "user", "content": text}]

    chats = [replace(chat(text), messages=lambda text=text: messages(text)) for text in times]
    with FaultServer(delay_s=0.05) as server:
        settled = asked(server, concurrency=2, **billed(tmp_path, dollars=1.5 * MOST + CALL / 10))
        found = {one.key: outcome for one, outcome in ask_all(settled, chats)}
        assert server.asked == {"a": 1, "b": 1}
    assert {key: (one.status, one.attempts) for key, one in found.items()} == dict.fromkeys("ab", ("ok", 1))
    open_, paid = {}, 0.0
    for line in map(json.loads, (tmp_path / "spent.jsonl").read_text().splitlines()):
        if line["state"] == "reserved":
            open_[line["id"]] = line["dollars"]
        else:
            del open_[line["id"]]
            paid += line["dollars"]
        assert paid + sum(open_.values()) <= 1.5 * MOST + CALL / 10
    assert paid == pytest.approx(2 * CALL)


ENVIRONMENT = {
    "OPENAI_ORG_ID": "org-for-openai",
    "OPENAI_PROJECT_ID": "proj-for-openai",
    "OPENAI_CUSTOM_HEADERS": "X-Gateway: secret-for-openai\nAuthorization: Bearer secret-for-openai",
}


def test_other_vendors_are_not_told_what_the_environment_says_to_openai(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with FaultServer() as server:
        assert outcomes(server, ["a"])["a"].status == "ok"
    (headers,) = server.headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert not [name for name, value in headers.items() if "for-openai" in value]
    assert not {"openai-organization", "openai-project", "x-gateway"} & set(headers)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://api.openai.com.host.example/v1", False),
        ("https://notapi.openai.com/v1", False),
        ("http://127.0.0.1:8000/v1", False),
    ],
)
def test_openai_is_told_for_whom_the_calls_are(monkeypatch, url, told):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    caller = Caller(Endpoint(url, KEY, "m", 5))
    try:
        sent = caller._client.default_headers
        assert (sent["OpenAI-Organization"] == "org-for-openai") is told
        assert (sent["OpenAI-Project"] == "proj-for-openai") is told
        assert ("X-Gateway" in sent) is told
    finally:
        caller.close()
