"""Models behind OpenAI's protocol: what is sent, and how what comes back is read."""

import base64
import os
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib import config
from scripts.lib.errors import EngineError
from scripts.models import find, openai_chat
from scripts.models.protocol import Request
from tests.unit.fault_server import FaultServer

ROOT = Path(__file__).resolve().parents[2] / "config"
LIMITS = {
    "budget": {"dollars": None, "tokens": None},
    "retries": 1,
    "first_wait_s": 0.001,
    "longest_wait_s": 1.0,
    "give_up_after": 100,
}
CLIENT = {
    "concurrency": 4,
    "timeout_s": 30,
    "image_format": "png",
    "image_times": True,
    "max_tokens_field": "max_tokens",
}
REMOTES = [
    name for name in sorted(config.names("model", ROOT)) if config.load("model", name, ROOT)["adapter"] == "openai"
]


def model(server, client=(), **generation):
    return {
        "remote": {"url": server.url, "id": "fault-1", "dated": True, "key_env": ""},
        "client": CLIENT | dict(client),
        "generation": {"max_new_tokens": 50, "thinking": False} | generation,
        "limits": LIMITS,
        "prices": {"models": {}},
        "ledger": "never made",
    }


def request(prompt="What does the sign say?", frames=(), times=None, system=""):
    times = [0.5 + number for number in range(len(frames))] if times is None else times
    return Request(prompt, frames, times, system, prompt, prompt, None)


def frames(count, height=24, width=40, seed=3):
    """Smooth pictures, so that JPEG keeps their colours."""
    small = np.random.default_rng(seed).integers(0, 256, (count, 3, 4, 3), dtype=np.uint8)
    return [cv2.resize(one, (width, height)) for one in small]


def answered(server, requests, **settings):
    return {one.key: reply for one, reply in openai_chat.load(model(server, **settings), None, 0)(requests)}


def pixels(part):
    head, _, data = part["image_url"]["url"].partition(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), 1), cv2.COLOR_BGR2RGB)


def test_frames_go_with_their_times_then_the_prompt():
    shown = frames(3)
    with FaultServer() as server:
        reply = answered(server, [request(frames=shown, times=[0.04, 1.26, 60], system="Be brief.")]).popitem()[1]
    system, user = server.bodies[0]["messages"]
    assert system == {"role": "system", "content": "Be brief."} and user["role"] == "user"
    *parts, last = user["content"]
    assert [part["text"] for part in parts[::2]] == ["<0.0 seconds>", "<1.3 seconds>", "<60.0 seconds>"]
    for part, frame in zip(parts[1::2], shown, strict=True):
        assert set(part["image_url"]) == {"url"}
        np.testing.assert_array_equal(pixels(part), frame)
    assert last == {"type": "text", "text": "What does the sign say?"}
    assert (reply.height, reply.width, list(reply.times)) == (24, 40, [0.04, 1.26, 60])
    assert reply.visual_tokens is None and (reply.frames_note, reply.times_told) == ("", "each")


def test_jpeg_keeps_the_colours_and_detail_is_sent_where_it_is_set():
    shown = frames(1, 96, 128)
    with FaultServer() as server:
        found = answered(
            server,
            [request(frames=shown)],
            client={"image_format": "jpeg", "image_detail": "low", "image_times": False},
        )
    assert found.popitem()[1].times_told == "none"
    image, text = server.bodies[0]["messages"][0]["content"]
    assert image["image_url"]["detail"] == "low" and text["type"] == "text"
    assert np.abs(pixels(image).astype(int) - shown[0]).mean() < 6  # swapped channels differ by dozens
    assert np.abs(pixels(image).astype(int) - shown[0][..., ::-1]).mean() > 20


def test_a_question_without_frames_is_only_text():
    with FaultServer() as server:
        reply = answered(server, [request(times=[1.0, 2.0])]).popitem()[1]
    assert server.bodies[0]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "What does the sign say?"}]}
    ]
    assert (reply.height, reply.width, list(reply.times), reply.times_told) == (0, 0, [], "")


def test_only_what_the_models_file_sets_is_sent():
    with FaultServer() as server:
        answered(server, [request("a")])
        answered(
            server,
            [request("b")],
            client={"max_tokens_field": "max_completion_tokens", "body": {"reasoning_effort": "low"}},
            temperature=0,
            top_p=0.9,
        )
    first, second = server.bodies
    assert set(first) == {"messages", "model", "max_tokens"} and first["max_tokens"] == 50
    assert set(second) - set(first) == {"max_completion_tokens", "reasoning_effort", "temperature", "top_p"}
    assert (second["model"], second["temperature"], second["top_p"]) == ("fault-1", 0, 0.9)


@pytest.mark.parametrize("name", REMOTES)
def test_each_remote_model_of_the_repository_is_asked_as_its_file_says(name, monkeypatch, tmp_path):
    chosen = config.load("model", name, ROOT)
    monkeypatch.setenv(chosen["remote"]["key_env"], "sk-a-secret-of-the-user")
    limits = config.read(ROOT / "remote.yaml", ROOT / "schemas" / "remote.schema.yaml")
    prices = config.read(ROOT / "prices.yaml", ROOT / "schemas" / "prices.schema.yaml")
    with FaultServer() as server:
        chosen["remote"]["url"] = server.url
        chosen |= {"limits": limits, "prices": prices, "ledger": str(tmp_path / "spent.jsonl")}
        adapter = find(chosen["adapter"])
        ((_, reply),) = adapter.load(chosen, None, 0)([request(frames=frames(2))])
    body = server.bodies[0]
    assert body[chosen["client"]["max_tokens_field"]] == chosen["generation"]["max_new_tokens"]
    assert body["model"] == chosen["remote"]["id"]
    assert ("temperature" in body) == ("temperature" in chosen["generation"])
    assert reply.status == "ok" and reply.dollars > 0
    assert f'"model": "{chosen["remote"]["id"]}"' in (tmp_path / "spent.jsonl").read_text()


READINGS = [
    ("ok", "ok", "answer to {}"),
    ("thoughts", "ok", "42"),
    ("length", "truncated", "half an answ"),
    ("refusal", "refused", ""),
    ("filter", "refused", ""),
    ("empty", "error:reply", ""),
    ("500", "error:server", ""),
]


def test_replies_are_read_and_named():
    with FaultServer(lambda text: [text]) as server:
        found = answered(server, [request(step) for step, _, _ in READINGS], thinking=True)
    for step, status, answer in READINGS:
        assert (found[step].status, found[step].answer) == (status, answer.format(step))
    assert found["thoughts"].raw == "<think>so it is</think>Answer: 42"
    assert (found["ok"].tokens_in, found["ok"].tokens_out, found["ok"].attempts) == (100, 10, 1)
    assert found["empty"].attempts == found["500"].attempts == 2
    client, place, served, fingerprint = found["ok"].engine.split(", ")
    assert client.startswith("openai ") and place == "server on this machine"
    assert (served, fingerprint) == ("fault-1", "fp_1")


def test_the_word_for_no_answer_is_read():
    with FaultServer() as server:
        server.reply = lambda _: "Answer: Unanswerable. No sign is visible."
        found = answered(server, [request()]).popitem()[1]
    assert (found.status, found.answer) == ("unanswerable", "Unanswerable. No sign is visible.")


def test_a_server_without_a_key_bills_nobody(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with FaultServer() as server:
        found = answered(server, [request()])
    assert found.popitem()[1].dollars is None and not os.listdir(tmp_path)  # noqa: PTH208
    assert server.headers[0]["authorization"] == "Bearer none"


def test_a_key_that_is_not_set_is_named(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EngineError, match="OPENAI_API_KEY is not set"):
        openai_chat.load(config.load("model", "gpt_4o", ROOT), None, 0)


@given(st.text(max_size=200), st.text(max_size=50), st.integers(0, 5))
def test_the_estimate_of_text_is_never_too_low(prompt, system, count):
    shown = [np.zeros((8, 8, 3), np.uint8)] * count
    most = openai_chat.most_tokens(request(prompt, shown, system=system))
    assert most >= len(prompt.encode()) + len(system.encode()) + count * 1548


SIZES = [(512, 512), (768, 768), (720, 1280), (1080, 1920), (2160, 3840), (448, 252), (360, 640)]


@pytest.mark.parametrize("size", SIZES)
def test_the_estimate_of_images_covers_what_vendors_publish(size):
    height, width = size
    most = openai_chat.most_tokens(request("", [np.zeros((*size, 3), np.uint8)]))
    scale = min(1, 2048 / max(height, width))
    scale *= min(1, 768 / (min(height, width) * scale))
    tiles = -(-round(height * scale) // 512) * -(-round(width * scale) // 512)
    unit = min(max(min(height, width) // 1.5, 256), 768)
    gemini = 258 * int(-(-height // unit)) * int(-(-width // unit))
    assert most >= max(85 + 170 * tiles, gemini, height * width / 750, height * width / 784)
