"""A server of OpenAI's Batch API that does to each batch what it is told, and remembers what it was sent."""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.unit.fault_server import ERRORS, _Http, completion, failure

Lines = list[dict[str, Any]]


@dataclass
class Fate:
    """What becomes of one batch.

    ``answers``: for each question what its line says: ``ok``, ``none`` (no line), ``expired``, ``cancelled``, a key of
    ERRORS (a response with that status), ``filtered``, ``refusal``, ``length``, ``empty``, ``odd`` (a broken line, and
    an answer to what was not asked), ``twice`` (two, the second another one); the last for all further ones.
    """

    answers: list[str] = field(default_factory=lambda: ["ok"])
    status: str = "completed"
    errors: Lines | None = None
    """Of the file as a whole, with status ``failed``."""
    polls: int = 1
    """How often it is said to be under way."""
    no_files: bool = False
    """Its lines are lost: it names no files."""
    gone: bool = False
    """The server forgets it."""


class BatchServer:
    """The server; also a context manager.

    Args:
        fates: of the batches, in the order in which they are created; a plain one for all further.
    """

    def __init__(self, *fates: Fate) -> None:
        self.fates = list(fates)
        self.reply: Callable[[str], str] = "answer to {}".format
        self.files: dict[str, str] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.asked: Counter[str] = Counter()
        """By text, in calls, and in batches that were created and not refused as a whole."""
        self.trouble: Callable[[str], str] = lambda _: ""
        """What a call (``POST /v1/batches``) gets instead: a key of ERRORS, or ``late <key>`` after it was done."""
        self.calls: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"owner": self})
        self.http = _Http(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def __enter__(self) -> "BatchServer":
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    # What the API does.

    def upload(self, text: str) -> dict[str, Any]:
        name = f"file-{len(self.files)}"
        self.files[name] = text
        return {"id": name, "object": "file", "bytes": len(text), "purpose": "batch"}

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        name = f"batch_{len(self.batches)}"
        fate = self.fates[len(self.batches)] if len(self.batches) < len(self.fates) else Fate()
        requests = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        assert all(one["url"] == body["endpoint"] == "/v1/chat/completions" for one in requests)
        batch = {"id": name, "object": "batch", "status": "in_progress", "metadata": body["metadata"]}
        self.batches[name] = batch | {"requests": requests, "fate": fate, "polls": 0}
        if fate.status != "failed":
            self.asked.update(one["body"]["messages"][-1]["content"] for one in requests)
        return self.shown(name)

    def shown(self, name: str) -> dict[str, Any]:
        batch = self.batches[name]
        hidden = ("fate", "polls", "requests")
        counts = {"total": len(batch["requests"]), **{key: batch.get(key, 0) for key in ("completed", "failed")}}
        return {key: value for key, value in batch.items() if key not in hidden} | {"request_counts": counts}

    def retrieve(self, name: str) -> dict[str, Any] | None:
        batch = self.batches.get(name)
        if batch is None or batch["fate"].gone:
            return None
        batch["polls"] += 1
        if batch["status"] == "in_progress" and batch["polls"] > batch["fate"].polls:
            self._end(batch)
        return self.shown(name)

    def _end(self, batch: dict[str, Any]) -> None:
        fate = batch["fate"]
        batch["status"] = fate.status
        if fate.status == "failed":
            batch["errors"] = {"object": "list", "data": fate.errors or []}
            return
        lines: dict[str, Lines] = {"output": [], "error": []}
        for at, request in enumerate(batch["requests"]):
            kind = fate.answers[min(at, len(fate.answers) - 1)]
            for target, line in _lines(kind, request, self.reply):
                lines[target].append(line)
        batch["completed"], batch["failed"] = len(lines["output"]), len(lines["error"])
        if not fate.no_files:
            for target, found in lines.items():
                random.Random(batch["id"]).shuffle(found)
                texts = [line["broken"] if "broken" in line else json.dumps(line, ensure_ascii=False) for line in found]
                batch[f"{target}_file_id"] = self.upload("\n".join(texts) + "\n")["id"] if found else None

    def page(self, after: str, limit: int) -> dict[str, Any]:
        names = [name for name in reversed(self.batches) if not self.batches[name]["fate"].gone]
        first = names.index(after) + 1 if after else 0
        limit = min(limit, 2)  # so that a few batches take several pages
        data = [self.shown(name) for name in names[first : first + limit]]
        return {"object": "list", "data": data, "has_more": first + limit < len(names)}


def _lines(kind: str, request: dict[str, Any], reply: Callable[[str], str]) -> list[tuple[str, dict[str, Any]]]:
    key, text = request["custom_id"], request["body"]["messages"][-1]["content"]

    def response(body: dict[str, Any], status: int = 200) -> dict[str, Any]:
        return {"id": "r", "custom_id": key, "response": {"status_code": status, "body": body}, "error": None}

    undone = {"id": "r", "custom_id": key, "response": None}
    good = ("output", response(completion(reply(text))))
    foreign = response(completion("x")) | {"custom_id": "zz"}
    made: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "ok": [good],
        "none": [],
        "expired": [("error", undone | {"error": {"code": "batch_expired", "message": "not executed in time"}})],
        "cancelled": [("error", undone | {"error": {"code": "batch_cancelled", "message": "was cancelled"}})],
        "filtered": [("output", response(completion("", "content_filter")))],
        "refusal": [("output", response(completion("", refusal="I can't help with that.")))],
        "length": [("output", response(completion("half an answ", "length")))],
        "empty": [("output", response(completion("")))],
        "twice": [good, ("error", response(failure(None, "no, after all"), 500))],
        "odd": [("output", {"broken": '{"custom_id": "q'}), good, ("output", foreign)],
    }
    if kind in ERRORS:
        status, body = ERRORS[kind]
        return [("error", response(body, status))]
    return made[kind]


class _Handler(BaseHTTPRequestHandler):
    owner: BatchServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer("GET", b"")

    def do_POST(self) -> None:
        self._answer("POST", self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, method: str, body: bytes) -> None:
        url = urlsplit(self.path)
        with self.owner.lock:
            self.owner.calls.append(f"{method} {url.path}")
            self.owner.headers.append({name.lower(): value for name, value in self.headers.items()})
            trouble = self.owner.trouble(self.owner.calls[-1])
            if not trouble or trouble.startswith("late "):
                status, content = self._do(method, url.path, url.query, body)
            if trouble:
                status, content = ERRORS[trouble.removeprefix("late ")]
        sent = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def _do(self, method: str, path: str, query: str, body: bytes) -> tuple[int, Any]:
        parts = path.removeprefix("/v1/").split("/")
        if parts == ["chat", "completions"]:
            text = json.loads(body)["messages"][-1]["content"]
            self.owner.asked[text] += 1
            return 200, completion(self.owner.reply(text))
        if method == "POST" and parts == ["files"]:
            return 200, self.owner.upload(self._file(body))
        if method == "POST" and parts == ["batches"]:
            return 200, self.owner.create(json.loads(body))
        if parts == ["batches"]:
            asked = parse_qs(query)
            return 200, self.owner.page(asked.get("after", [""])[0], int(asked.get("limit", ["20"])[0]))
        found: Any = None
        if parts[0] == "batches":
            found = self.owner.retrieve(parts[1])
        elif parts[-1] == "content":
            found = self.owner.files.get(parts[1])
        return (200, found) if found is not None else (404, failure(None, f"No such thing: {parts[1]}"))

    def _file(self, body: bytes) -> str:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        for part in message_from_bytes(head + body).get_payload():
            if part.get_param("name", header="content-disposition") == "file":
                return part.get_payload(decode=True).decode()
        raise AssertionError("no file in the form")
