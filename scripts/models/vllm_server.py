"""Models behind a server that the job starts on its own GPUs: ``vllm serve``, or ``transformers serve``.

The server listens on this machine alone, answers nobody without the key that was made for it, and goes when the job
goes, however that ends (scripts/lib/guard.py). It is asked by the client that also asks remote ones (openai_chat.py).

vLLM puts questions through the network in batches that depend on what is on its way at the moment: the last digits of
the arithmetic, and with them a rare reply, may differ from run to run. ``transformers serve`` takes one at a time.

A question that holds a special token of the model is refused before it is sent: the server would take the token for
one. Which these are is read from the tokenizer's files (TOKENIZER_FILES); nothing is refused where there are none, say
only a ``tokenizer.model``.
"""

import atexit
import contextlib
import importlib.metadata
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.progress import clock
from scripts.models import openai_chat
from scripts.models.hf_inputs import refuse_special
from scripts.models.protocol import Answered, Answerer, Reply, Request
from scripts.models.transformers_serve import KEY_VARIABLE

VERSION = "2"
PACKAGES = ("openai",)

DEPENDS_ON = {"vllm": ("vllm", "transformers", "torch"), "transformers": ("transformers", "torch")}
"""Packages whose version may change the answers of a server."""

REPOSITORY = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
STARTS = 3
"""Should somebody take the chosen port before the server does."""
POLL_S = 0.25
SAY_S = 10.0
"""Between two lines that say that the server is still starting."""
REPEATS = {"retries": 2, "first_wait_s": 0.5, "longest_wait_s": 5.0}
"""In place of those of config/remote.yaml: a server of one's own that doesn't answer has no outage to wait for."""
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
KEPT_BYTES = 20_000
"""Of the end of its log, for standard error when it fails; the error itself is one line."""


@dataclass
class Server:
    """A server that runs beside this process."""

    model_id: str
    """What it calls its model."""
    title: str
    """The program's command, for messages."""
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    port: int
    held: socket.socket
    """Bound to the port without listening, so that no other process is given it."""
    key: str = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/v1"

    @property
    def dead(self) -> bool:
        return self.process.poll() is not None

    def words(self) -> list[str]:
        """The last lines that it wrote."""
        size = os.fstat(self.log.fileno()).st_size
        text = os.pread(self.log.fileno(), KEPT_BYTES, max(0, size - KEPT_BYTES)).decode("utf-8", errors="replace")
        lines = text.replace(self.key, "(key)").replace("\r", "\n").splitlines()
        return [line.rstrip() for line in lines if line.strip()]

    def failure(self, what: str) -> EngineError:
        """Stop it; give an error of one line, and print what it said to standard error."""
        words = self.words()  # before it says that it was stopped
        self.stop()
        print(f"the end of what `{self.title}` wrote:", *words, sep="\n    ", file=sys.stderr, flush=True)
        telling = [line for line in words if "rror" in line] or words or ["nothing"]
        return EngineError(f"`{self.title}` {what}; its last words, more of them above: {telling[-1].strip()[:300]}")

    def stop(self) -> None:
        """Ask it to end, and kill it with all that it started if it doesn't. Nothing happens the second time."""
        pipe = self.process.stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):
            if not pipe.closed:
                pipe.write(b"q")
        pipe.close()
        self.process.wait()
        self.held.close()
        atexit.unregister(self.stop)


def load(model: dict[str, Any], weights: Path | None, seed: int) -> Answerer:
    """Start the server, wait until it answers, and ask it.

    Raises:
        ConfigError: a setting that the program doesn't take.
        EngineError: the program is not installed, ends at once or is not ready after ``server.start_s`` seconds; later,
            while questions are asked, that it has ended.
    """
    assert weights is not None
    told = settings(model, seed)
    found = conditions(model)
    place = [found["program"], found["gpu"], f"openai {importlib.metadata.version('openai')}"]
    marks = special_words(weights)
    server = start(model, weights, seed)
    ask = refusing(marks, openai_chat.answerer(server.url, server.key, server.model_id, told))
    return watched(server, ask, ", ".join(filter(None, place)))


def conditions(model: dict[str, Any]) -> dict[str, Any]:
    """The program with its version, and the GPUs that it will use: others may give other answers.

    Raises:
        EngineError: the program is not installed.
    """
    program = model["server"]["program"]
    versions = []
    for package in DEPENDS_ON[program]:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            raise EngineError(
                f"`{program} serve` needs the package {package}; install it, or use the image {model['image']}"
            ) from None
    on_gpu = model.get("engine", {}).get("device") != "cpu"
    place = {"program": ", ".join(versions), "gpu": gpus(max(1, model["resources"]["gpus"])) if on_gpu else ""}
    return {**place, "client": openai_chat.VERSION}


def gpus(most: int) -> str:
    """The first ``most`` that this process sees, as the driver names them: ``2 x NVIDIA H200``; empty without one."""
    import torch

    if not torch.cuda.is_available():
        return ""
    names = [torch.cuda.get_device_name(number) for number in range(min(most, torch.cuda.device_count()))]
    return ", ".join(f"{names.count(name)} x {name}" for name in sorted(set(names)))


def settings(model: dict[str, Any], seed: int) -> dict[str, Any]:
    """The model as the client is to see it: greedy unless its YAML says otherwise, sampled with the given seed.

    What a checkpoint has as defaults (sampling, repetition penalty) is not used: vLLM is started that way,
    ``transformers serve`` is told so with every question.

    Raises:
        ConfigError: ``transformers serve`` takes no top_k.
    """
    generation = {"temperature": 0, **model["generation"]}
    body = dict(model["client"].get("body", {}))
    if generation["temperature"]:
        body.setdefault("seed", seed)
    if model["server"]["program"] == "transformers":
        if "top_k" in generation:
            raise ConfigError(f"{model['title']}: `transformers serve` takes no top_k; leave it out, or use vllm")
        body["frequency_penalty"] = generation.pop("repetition_penalty", 1.0) - 1.0  # what it makes of that field
    client, limits = {**model["client"], "body": body}, {**model["limits"], **REPEATS}
    return {**model, "generation": generation, "client": client, "limits": limits}


def command(model: dict[str, Any], weights: Path, seed: int, model_id: str, port: int) -> list[str]:
    """The server's command line. What the model's YAML adds comes last, so that it overrides."""
    engine = {"dtype": "auto", "device": "auto", "attention": "auto", **model.get("engine", {})}
    shared = [str(weights), "--host", LOOPBACK, "--port", str(port), "--dtype", engine["dtype"]]
    if model["server"]["program"] == "vllm":
        words = ["vllm.entrypoints.cli.main", "serve", *shared, "--served-model-name", model_id, "--seed", str(seed)]
        words += ["--tensor-parallel-size", str(max(1, model["resources"]["gpus"])), "--generation-config", "vllm"]
        words += ["--disable-uvicorn-access-log"]
    else:
        words = ["scripts.models.transformers_serve", "serve", *shared, "--device", engine["device"]]
        words += ["--attn-implementation", engine["attention"]] if engine["attention"] != "auto" else []
    return [sys.executable, "-m", *words, *model["server"]["arguments"]]


def start(model: dict[str, Any], weights: Path, seed: int) -> Server:
    """A server that answers, on a free port of this machine. It ends with this process at the latest.

    Raises:
        EngineError: as ``load``.
    """
    deadline = time.monotonic() + model["server"]["start_s"]
    for _ in range(STARTS):
        server = spawn(model, weights.resolve(), seed)
        if ready(server, model.get("name", model["title"]), deadline):
            return server
        if not any("address already in use" in line.lower() for line in server.words()):
            break
        server.stop()
    raise server.failure(f"ended with code {server.process.wait()} before it was ready")


def spawn(model: dict[str, Any], weights: Path, seed: int) -> Server:
    """Start the program under the guard."""
    program = model["server"]["program"]
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the server, which sets it too, may listen there
    held.bind((LOOPBACK, 0))
    port = held.getsockname()[1]
    key = secrets.token_urlsafe(32)  # not an argument: those can be seen by everybody
    model_id = model.get("name", "model") if program == "vllm" else str(weights)  # which the other can't be told
    log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts.lib.guard", str(os.getpid()), *command(model, weights, seed, model_id, port)],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=REPOSITORY,
        env={**os.environ, KEY_VARIABLE: key, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        start_new_session=True,  # Ctrl-C is ours to handle
    )
    server = Server(model_id, f"{program} serve", process, log, port, held, key)
    atexit.register(server.stop)
    return server


def ready(server: Server, name: str, deadline: float) -> bool:
    """Wait until the server lists its model; False if it ends instead.

    Raises:
        EngineError: ``deadline`` has passed.
    """
    begun = said = time.monotonic()
    while not server.dead:
        if listed(server):
            print(f"{name}: `{server.title}` is ready after {clock(time.monotonic() - begun)}", file=sys.stderr)
            return True
        now = time.monotonic()
        if now > deadline:
            raise server.failure(f"was not ready after {clock(now - begun)}; raise server.start_s if it takes longer")
        if now - said >= SAY_S:
            last = (server.words() or ["no word yet"])[-1].strip()[:120]
            print(f"{name}: waiting for `{server.title}`, {clock(now - begun)}: {last}", file=sys.stderr, flush=True)
            said = now
        time.sleep(POLL_S)
    return False


def listed(server: Server) -> bool:
    """Whether the server says that it serves our model, to somebody who has our key."""
    request = urllib.request.Request(f"{server.url}/models", headers={"Authorization": f"Bearer {server.key}"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=2) as answer:
            return any(one["id"] == server.model_id for one in json.load(answer)["data"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def special_words(weights: Path) -> list[str]:
    """The special tokens that the tokenizer's files of a checkpoint name, longest first.

    Raises:
        EngineError: a file that isn't JSON.
    """
    found: set[str] = set()
    for name in TOKENIZER_FILES:
        if (weights / name).is_file():
            try:
                content = json.loads((weights / name).read_text(encoding="utf-8"))
            except ValueError as error:
                raise EngineError(f"{weights / name}: not JSON ({error}); fetch the weights again") from None
            found |= words_in(content)
    return sorted(found - {""}, key=lambda word: (-len(word), word))


def words_in(content: dict[str, Any]) -> set[str]:
    """The special tokens in one of ``TOKENIZER_FILES``: those of a list with their kind, and those with a role."""
    listed = [*content.get("added_tokens", ()), *content.get("added_tokens_decoder", {}).values()]
    roles = [value for key, value in content.items() if key.endswith(("_token", "_special_tokens"))]
    return texts_in([[token for token in listed if token.get("special")], roles])


def texts_in(value: Any) -> set[str]:
    """Tokens written as text, as ``{"content": text}``, or in lists or maps of these; anything else is none."""
    if isinstance(value, dict):
        value = value["content"] if "content" in value else list(value.values())
    if isinstance(value, list):
        return set().union(*map(texts_in, value))
    return {value} if isinstance(value, str) else set()


def refusing(marks: Sequence[str], ask: Answerer) -> Answerer:
    """``ask``, without the questions that hold one of ``marks``: each gets its error and is not put to the server."""
    if not marks:
        return ask

    def answers(requests: Iterable[Request]) -> Iterator[Answered]:
        refused: deque[Answered] = deque()  # filled in the thread that draws questions

        def fit() -> Iterator[Request]:
            for request in requests:
                try:
                    refuse_special(request, marks)
                except EngineError as error:
                    refused.append((request, Reply("error:engine", detail=str(error))))
                else:
                    yield request

        with contextlib.closing(ask(fit())) as asked:  # type: ignore[type-var] - ends the calls on their way
            for answered in asked:
                while refused:
                    yield refused.popleft()
                yield answered
        while refused:
            yield refused.popleft()

    return answers


def watched(server: Server, ask: Answerer, place: str) -> Answerer:
    """``ask``, with what runs the server in its replies, and an end when the server has ended."""

    def answers(requests: Iterable[Request]) -> Iterator[Answered]:
        asked = ask(requests)
        try:
            for request, reply in asked:
                if reply.status.startswith("error:") and server.dead:
                    break
                yield request, replace(reply, engine=place)
            else:
                return
        except EngineError:
            if not server.dead:
                raise
        finally:
            asked.close()  # type: ignore[attr-defined] - ends the calls on their way
        raise server.failure(f"ended with code {server.process.wait()} while it was asked")

    return answers
