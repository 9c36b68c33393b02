"""Models behind a server of OpenAI's protocol: OpenAI's own, Gemini's and others' compatible ones, one on the node.

Frames go as images in the message, each with its time before it where the model's file says so, then the prompt. What a
server does to them (Gemini and GPT scale and tile) it does not tell, so sizes on the record are those sent. Temperature
and the like are sent only where the model's file has them: some servers refuse them. Whether a question holds a special
token of the model, such as the end of a message, is not checked: somebody else's tokenizer is not known here.
"""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from scripts.models.answers import answer_text, is_unanswerable
from scripts.models.protocol import Answered, Answerer, Reply, Request
from scripts.remote.chat import Chat, Endpoint, Messages, Outcome, key_from
from scripts.remote.pool import Settings, ask_all

VERSION = "2"
PACKAGES = ("openai",)

SAMPLING = ("temperature", "top_p", "top_k", "repetition_penalty")
JPEG_QUALITY = 95
IMAGE_TOKENS = 1600
PIXELS_PER_TOKEN = 400
"""Upper estimate of an image's tokens: so many, or one for so many pixels if that is more. It holds for GPT-4o (at most
1445 at high detail), GPT-5, Gemini (1548 for a wide frame in six tiles), Claude (a token for 750 pixels) and Qwen-VL
(784 or 1024), not for GPT-4o mini, whose images count 33 times as much as GPT-4o's."""
OVERHEAD_TOKENS = 64
"""Of a whole chat's template."""


def conditions(model: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - nothing here computes
    """Nothing: what the server is, its model's id says."""
    return {}


def load(model: dict[str, Any], weights: Path | None, seed: int) -> Answerer:  # noqa: ARG001 - the server has both
    """An answerer that asks the server of ``model["remote"]``.

    Raises:
        EngineError: no API key in the environment variable that the model's file names.
    """
    remote = model["remote"]
    return answerer(remote["url"], key_from(remote["key_env"]), remote["id"], model)


def answerer(base_url: str, api_key: str, model_id: str, model: dict[str, Any]) -> Answerer:
    """An answerer that asks any server.

    Args:
        base_url: ends before ``/chat/completions``.
        api_key: empty for a server that asks for none.
        model_id: what the server calls the model.
        model: content of the model's YAML, with ``limits`` (config/remote.yaml). Where ``remote.key_env`` names a key,
            calls are billed: by ``prices`` (config/prices.yaml), added up in the file ``ledger``.
    """
    client, generation = model["client"], model["generation"]
    body = {name: generation[name] for name in SAMPLING if name in generation} | client.get("body", {})
    field = client["max_tokens_field"]
    endpoint = Endpoint(base_url, api_key, model_id, client["timeout_s"], field, body)
    billed = bool(model.get("remote", {}).get("key_env"))
    settings = Settings(
        endpoint,
        client["concurrency"],
        model["limits"],
        client.get("requests_per_min"),
        client.get("tokens_per_min"),
        prices=model["prices"] if billed else None,
        ledger=Path(model["ledger"]) if billed else None,
        own_server="server" in model,
    )

    def answers(requests: Iterable[Request]) -> Iterator[Answered]:
        chats = (as_chat(request, model) for request in requests)
        for chat, outcome in ask_all(settings, chats, stopping=model.get("stopping")):
            yield chat.payload.request, as_reply(chat.payload, outcome, model, endpoint)

    return answers


class Sending:
    """A request on its way. Its frames are encoded when its turn comes, and let go then: they are large."""

    def __init__(self, request: Request, client: dict[str, Any]) -> None:
        self.request, self.client = request, client
        self.frames = len(request.frames)
        self.size = request.frames[0].shape[:2] if request.frames else (0, 0)
        self.encoded: Messages | None = None

    def messages(self) -> Messages:
        """See ``messages``; encoded once."""
        if self.encoded is None:
            self.encoded = messages(self.request, self.client)
            self.request = replace(self.request, frames=[])
        return self.encoded


def as_chat(request: Request, model: dict[str, Any]) -> Chat:
    """A request as the pool takes it."""
    most, sending = model["generation"]["max_new_tokens"], Sending(request, model["client"])
    return Chat(request.key, sending.messages, most, most_tokens(request), payload=sending)


def messages(request: Request, client: dict[str, Any]) -> Messages:
    """The system message if there is one, then the frames with their times and the prompt.

    Args:
        client: of the model's YAML.
    """
    content: Messages = []
    for frame, seconds in zip(request.frames, request.times, strict=True) if request.frames else ():
        if client["image_times"]:
            content.append({"type": "text", "text": f"<{seconds:.1f} seconds>"})
        image = {"url": data_uri(frame, client["image_format"])}
        if "image_detail" in client:
            image["detail"] = client["image_detail"]
        content.append({"type": "image_url", "image_url": image})
    content.append({"type": "text", "text": request.prompt})
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, {"role": "user", "content": content}]


def data_uri(frame: NDArray[np.uint8], image_format: str) -> str:
    """A frame (RGB, height x width x 3) as a data URI: ``png`` with the same pixels, ``jpeg`` of quality 95."""
    bgr = cv2.cvtColor(np.asarray(frame), cv2.COLOR_RGB2BGR)
    if image_format == "png":
        _, encoded = cv2.imencode(".png", bgr)
    else:
        _, encoded = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    return f"data:image/{image_format};base64,{base64.b64encode(encoded.tobytes()).decode()}"


def most_tokens(request: Request) -> int:
    """Upper estimate of a request's tokens. Of text, its bytes: no token is shorter."""
    text = len((request.system + request.prompt).encode())
    times = 16 * len(request.frames)
    sizes: list[int] = [frame.shape[0] * frame.shape[1] for frame in request.frames]
    return OVERHEAD_TOKENS + text + times + sum(max(IMAGE_TOKENS, size // PIXELS_PER_TOKEN) for size in sizes)


def as_reply(sent: Sending, outcome: Outcome, model: dict[str, Any], endpoint: Endpoint) -> Reply:
    """An outcome, read like any model's reply."""
    answer = answer_text(outcome.text, model["generation"]["thinking"])
    status = "unanswerable" if outcome.status == "ok" and is_unanswerable(answer) else outcome.status
    return Reply(
        status,
        raw=outcome.text,
        answer="" if status == "refused" else answer,
        detail=outcome.detail,
        times=sent.request.times if sent.frames else (),
        times_told=("each" if model["client"]["image_times"] else "none") if sent.frames else "",
        height=sent.size[0],
        width=sent.size[1],
        seconds=outcome.seconds,
        attempts=outcome.attempts,
        tokens_in=outcome.tokens_in,
        tokens_out=outcome.tokens_out,
        dollars=outcome.dollars,
        engine=", ".join(filter(None, [endpoint.client, outcome.model, outcome.system_fingerprint])),
    )
