"""What a failed call means, and how long a server asks to wait."""

import json
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib.errors import EngineError
from scripts.remote.chat import key_from, read_reply
from scripts.remote.failures import CallError, classify, wanted_wait

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
CLIENT = openai.AsyncOpenAI(api_key="none")
REQUEST = httpx2.Request("POST", "https://host/v1/chat/completions")


def refused(status, body, headers=None):
    """The client's exception for a reply of this status."""
    response = httpx2.Response(status, json=body, headers=headers, request=REQUEST)
    error = CLIENT._make_status_error_from_response(response)
    assert isinstance(error, openai.APIStatusError) and error.status_code == status
    return classify(error, NOW)


def openai_error(code, message="", param=None):
    return {"error": {"code": code, "message": message, "type": "t", "param": param}}


ANTHROPIC = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
GOOGLE_KEY = {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID"}}
GOOGLE_RATE = [
    {
        "error": {
            "code": 429,
            "message": "You exceeded your current quota, please check your plan and billing details.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}],
        }
    }
]
FORBIDDEN_FIELD = {"detail": [{"type": "extra_forbidden", "loc": ["body", "top_k"]}]}
CASES = [
    (401, openai_error("invalid_api_key", "Incorrect API key provided: sk-12***"), "job", "access"),
    (403, openai_error("unsupported_country_region_territory", "Country not supported"), "job", "access"),
    (400, GOOGLE_KEY, "job", "access"),
    (404, openai_error("model_not_found", "The model `x` does not exist"), "job", "model"),
    (400, openai_error("model_not_found", "The requested model 'x' does not exist."), "job", "model"),
    (429, openai_error("insufficient_quota", "You exceeded your current quota"), "job", "quota"),
    (402, openai_error(None, "Insufficient Balance"), "job", "quota"),
    (400, {"error": {"type": "x", "message": "Your credit balance is too low to access the API"}}, "job", "quota"),
    (400, openai_error("unsupported_parameter", "Use 'max_completion_tokens'", "max_tokens"), "job", "field"),
    (400, openai_error("unsupported_value", "'temperature' does not support 0", "temperature"), "job", "field"),
    (400, openai_error("unsupported_value", "this image", "messages[0].content"), "question", "request"),
    (422, FORBIDDEN_FIELD, "job", "field"),
    (400, openai_error("content_filter", "filtered by Azure's content management policy"), "question", "refused"),
    (400, openai_error("SensitiveContentDetected.InputImage", "may contain sensitive"), "question", "refused"),
    (403, openai_error(None, "Your input was flagged"), "question", "refused"),
    (400, openai_error("context_length_exceeded", "maximum context length is 128000"), "question", "too_long"),
    (429, openai_error("rate_limit_exceeded", "Request too large for gpt-4o on TPM"), "question", "too_long"),
    (413, "Payload Too Large", "question", "too_long"),
    (400, openai_error("invalid_image_format", "unsupported image", "messages.0"), "question", "request"),
    (400, {}, "question", "request"),
    (418, None, "question", "request"),
    (429, openai_error("rate_limit_exceeded", "Rate limit reached"), "passing", "rate_limit"),
    (429, GOOGLE_RATE, "passing", "rate_limit"),
    (408, {}, "passing", "timeout"),
    (409, {}, "passing", "server"),
    (500, "<html>", "passing", "server"),
    (502, None, "passing", "server"),
    (529, ANTHROPIC, "passing", "server"),
]


@pytest.mark.parametrize(("status", "body", "scope", "kind"), CASES)
def test_what_a_refusal_means(status, body, scope, kind):
    failure = refused(status, body)
    assert (failure.scope, failure.kind) == (scope, kind)
    assert failure.detail.startswith(f"HTTP {status}") and "\n" not in failure.detail
    assert failure.overloaded == (status in (429, 503, 529)) and not failure.billed


def test_words_on_a_wrong_key_are_left_out():
    assert refused(401, openai_error("invalid_api_key", "Incorrect API key provided: sk-12***")).detail == "HTTP 401"


def test_a_wait_is_read_from_the_reply_wherever_it_is():
    assert refused(429, GOOGLE_RATE).wait_s == 34
    assert refused(503, {}, {"Retry-After": "3"}).wait_s == 3
    assert refused(400, {}, {"Retry-After": "3"}).wait_s is None


WAITS = [
    ({"retry-after": "2"}, "", 2),
    ({"retry-after": "0.5"}, "", 0.5),
    ({"retry-after": "-4"}, "", 0),
    ({"retry-after-ms": "128", "retry-after": "9"}, "", 0.128),
    ({"retry-after-ms": "soon", "retry-after": "9"}, "", 9),
    ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, "", 90),
    ({"retry-after": format_datetime(NOW - timedelta(seconds=90), usegmt=True)}, "", 0),
    ({"retry-after": "Sun, 01 Mar 2026 12:00:30 -0000"}, "", 30),
    ({"retry-after": "later"}, "Please try again in 3s.", 3),
    ({"retry-after": "nan"}, "", None),
    ({}, "Limit 3, Used 3. Please try again in 128ms. Visit https://host", 0.128),
    ({}, "Please try again in 6m0s.", 360),
    ({}, "Please try again in 1h2m3.5s", 3723.5),
    ({}, "Please retry in 34.074824224s.", 34.074824224),
    ({}, "Please retry after 20 seconds.", 20),
    ({}, "try again in 2 minutes", 120),
    ({}, "try again later", None),
    ({}, "in 5s you could try", None),
    ({}, "", None),
]


@pytest.mark.parametrize(("headers", "message", "seconds"), WAITS)
def test_how_long_a_server_asks_to_wait(headers, message, seconds):
    assert wanted_wait(headers, message, NOW) == (seconds if seconds is None else pytest.approx(seconds))


WORDS = st.one_of(
    st.text(max_size=40), st.from_regex(r"[a-zA-Z]{3}, \d+ [A-Z][a-z]{2} \d+ \d+:\d+:\d+ [-+A-Z0-9]{0,5}")
)


@given(WORDS, WORDS, st.one_of(WORDS, st.from_regex(r"try again in [0-9.hms ]{1,20}")))
def test_whatever_a_server_asks_it_is_a_time_or_nothing(milliseconds, after, message):
    wait = wanted_wait({"retry-after-ms": milliseconds, "retry-after": after}, message, NOW)
    assert wait is None or (wait >= 0 and math.isfinite(wait))


NAMES = st.sampled_from(["choices", "message", "content", "usage", "error", "text", "code", "prompt_tokens"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from([400, 402, 404, 422, 429, 500]))
def test_whatever_an_error_holds_it_is_classified(body, status):
    assert refused(status, body).scope in ("job", "question", "passing")


@given(st.one_of(JSON.map(json.dumps), st.text(max_size=60)))
def test_whatever_a_reply_holds_it_is_a_reply_or_a_failure(body):
    try:
        assert isinstance(read_reply(body).text, str)
    except CallError as failure:
        assert failure.scope == "passing" and failure.billed


def test_thoughts_that_a_server_leaves_out_of_the_count_are_counted():
    usage = '{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115}'
    reply = read_reply(f'{{"choices": [{{"message": {{"content": "a"}}}}], "usage": {usage}}}')
    assert (reply.tokens_in, reply.tokens_out) == (10, 105)


@pytest.mark.parametrize("value", ["", "  ", "two words", "sk-tёst"])
def test_a_key_that_is_none_is_refused_without_saying_it(monkeypatch, value):
    monkeypatch.setenv("SOME_API_KEY", value)
    with pytest.raises(EngineError, match="SOME_API_KEY") as error:
        key_from("SOME_API_KEY")
    assert not value.strip() or value not in str(error.value)


def test_a_key_is_taken_without_the_line_break_of_the_file_it_came_from(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-1\n")
    assert key_from("SOME_API_KEY") == "sk-1"
    assert key_from("") == ""
