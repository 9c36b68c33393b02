"""A server of OpenAI's protocol that fails as it is told, and counts.

A question is known by the last text of its messages. It is answered by its steps, one for each time it is asked, the
last one for all further times; without steps it gets an answer. As a program, it outlives whoever asks it:

    python tests/unit/fault_server.py --port-file F [--script S] [--delay-s 0.05]

writes its port to F. S is a JSON object of regular expressions and steps, e.g. ``{"question 7": ["429", "ok"]}``; the
first that is found in a question's text is the question's. ``GET /counts`` gives, by text, how often it was asked and
answered.
"""

import argparse
import json
import re
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DRIP_S = 0.02
"""Between two bytes of a reply that never ends."""
TOKENS_IN, TOKENS_OUT = 100, 10
"""What every reply is said to take."""


def completion(text: str, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A reply as OpenAI's API sends it."""
    usage = {"prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT, "total_tokens": TOKENS_IN + TOKENS_OUT}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    head = {"id": "c", "object": "chat.completion", "created": 0, "model": "fault-1", "system_fingerprint": "fp_1"}
    return {**head, "choices": [choice], "usage": usage}


def failure(code: str | None, message: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "error", "code": code, "param": param}}


ERRORS: dict[str, tuple[int, dict[str, Any]]] = {
    "429": (429, failure("rate_limit_exceeded", "Rate limit reached")),
    "429 in words": (429, failure("rate_limit_exceeded", "Rate limit reached. Please try again in 7ms. Visit us.")),
    "quota": (429, failure("insufficient_quota", "You exceeded your current quota")),
    "500": (500, failure(None, "The server had an error")),
    "503": (503, failure(None, "Overloaded")),
    "401": (401, failure("invalid_api_key", "Incorrect API key provided")),
    "404": (404, failure("model_not_found", "The model does not exist")),
    "filter": (400, failure("content_filter", "The response was filtered")),
    "too_long": (400, failure("context_length_exceeded", "This model's maximum context length is 128000 tokens")),
    "field": (400, failure("unsupported_parameter", "Unsupported parameter: 'max_tokens'", "max_tokens")),
    "bad_request": (400, failure("invalid_image_format", "You uploaded an unsupported image", "messages.0")),
}
REPLIES: dict[str, dict[str, Any]] = {
    "empty": completion(""),
    "empty_choices": {**completion(""), "choices": []},
    "length": completion("half an answ", "length"),
    "filtered_reply": completion("", "content_filter"),
    "refusal": completion("", refusal="I can't help with that."),
    "error_in_200": failure("server_error", "upstream failed"),
    "no_usage": {key: value for key, value in completion("an answer").items() if key != "usage"},
    "much": {**completion("an answer"), "usage": {"prompt_tokens": 100, "completion_tokens": 600, "total_tokens": 700}},
    "thoughts": completion("<think>so it is</think>Answer: 42"),
}


class FaultServer:
    """The server, listening on a port of this machine from the start; also a context manager.

    Args:
        steps: of a question's text, the names of what it gets: ``ok``, those of ``ERRORS`` and ``REPLIES``, ``cut``,
            ``silence``, ``drip``, ``drip_head``, ``malformed``, ``echo <status>`` (says back what it was sent, the key
            too), an error with what it asks to wait (``429 retry-after=2``, ``503 retry-after-ms=5``, ``429 date``), or
            ``held <step>``: that step, once ``let_go`` is set.
        delay_s: before each reply.
    """

    def __init__(self, steps: Callable[[str], list[str]] = lambda _: [], delay_s: float = 0.0) -> None:
        self.steps, self.delay_s = steps, delay_s
        self.reply: Callable[[str], str] = "answer to {}".format
        """What a good answer says to a question's text."""
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.over, self.let_go = threading.Event(), threading.Event()
        handler = type("Handler", (_Handler,), {"fault": self})
        self.http = _Http(("127.0.0.1", 0), handler)
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> "FaultServer":
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.let_go.set()
        self.http.shutdown()
        self.http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    """Connections that wait to be accepted; by default 5, and the kernel lets those beyond wait a second."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a client that left
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    fault: FaultServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        with self.fault.lock:
            counts = {"asked": dict(self.fault.asked), "answered": dict(self.fault.answered)}
        self._send(200, counts)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else content[-1]["text"]
        with self.fault.lock:
            fault = self.fault
            steps = fault.steps(text) or ["ok"]
            step = steps[min(fault.asked[text], len(steps) - 1)]
            fault.asked[text] += 1
            fault.bodies.append(body)
            fault.headers.append({name.lower(): value for name, value in self.headers.items()})
            fault.at_once += 1
            fault.most_at_once = max(fault.most_at_once, fault.at_once)
        try:
            fault.over.wait(fault.delay_s)
            self._do(step, text)
        except OSError:
            self.close_connection = True  # the client has left
        finally:
            with fault.lock:
                fault.at_once -= 1

    def _do(self, step: str, text: str) -> None:
        name, _, wish = step.partition(" ")
        if step == "ok" or step in REPLIES:
            good = completion(self.fault.reply(text))
            self._send(200, good if step == "ok" else REPLIES[step])
            with self.fault.lock:
                self.fault.answered[text] += 1
        elif name == "held":
            self.fault.let_go.wait()
            self._do(wish, text)
        elif step in ERRORS:
            self._send(*ERRORS[step])
        elif name == "echo":
            said = f"what is {self.headers['Authorization']} for?"
            self._send(int(wish), completion(said) if wish == "200" else failure(None, said))
        elif name in ERRORS:
            header, _, value = wish.partition("=")
            wait = {"retry-after": formatdate(usegmt=True)} if wish == "date" else {header: value}
            self._send(*ERRORS[name], wait)
        else:
            self.close_connection = True
            {"cut": self._cut, "silence": self._silence, "malformed": self._malformed}.get(name, self._drip)(step)

    def _send(self, status: int, content: object, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self._head(status, len(body), headers or {})
        self.wfile.write(body)

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _cut(self, _: str) -> None:
        """Half of a reply, then the connection is reset."""
        self._head(200, 1000, {})
        self.wfile.write(b'{"choices": [{"mess')
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _silence(self, _: str) -> None:
        """Nothing, until the client leaves."""
        self.rfile.read(1)

    def _malformed(self, _: str) -> None:
        body = b'{"choices": [{"message": {"content": "half'
        self._head(200, len(body), {})
        self.wfile.write(body)

    def _drip(self, step: str) -> None:
        """A byte now and then, of the body or already of the head, until the client leaves."""
        if step == "drip_head":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        else:
            self._head(200, 1_000_000, {})
        while not self.fault.over.wait(DRIP_S):
            self.wfile.write(b" ")


def scripted(script: dict[str, list[str]]) -> Callable[[str], list[str]]:
    """Steps by regular expression; the first that is found in a text counts."""
    return lambda text: next((steps for pattern, steps in script.items() if re.search(pattern, text)), [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--delay-s", type=float, default=0.0)
    args = parser.parse_args()
    script = json.loads(args.script.read_text(encoding="utf-8")) if args.script else {}
    server = FaultServer(scripted(script), args.delay_s)
    whole = args.port_file.with_suffix(".part")
    whole.write_text(str(server.port), encoding="utf-8")
    whole.replace(args.port_file)
    server.http.serve_forever()


if __name__ == "__main__":
    main()
