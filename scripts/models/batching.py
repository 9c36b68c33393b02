"""Questions answered together on one device: how many is learnt by running out of memory, once.

The model's YAML names the most (``engine.batch``). When memory runs out, the number is halved for good for questions
of that kind, and the questions of the failed batch are asked again in smaller ones. What was learnt is kept in a small
file for later jobs of the same model on the same kind of GPU; delete it, or change ``engine.batch``, to start over.
"""

import gc
import json
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from scripts.lib.cache import fingerprint
from scripts.lib.errors import DataError, EngineError
from scripts.lib.files import write_text
from scripts.lib.images import cache_here
from scripts.models.protocol import Answered, Answerer, Reply, Request

AnswerBatch: TypeAlias = Callable[[list[Request]], list[Reply]]
"""One reply per request, in their order. Raises torch.OutOfMemoryError, or EngineError when the whole batch failed."""

Kind: TypeAlias = Callable[[Request], str]
"""Names what a request is like: only requests of one kind share a batch, and each kind has a limit of its own."""

OUT_OF_MEMORY = "out of GPU memory with this question alone; lower the frames, the resolution or max_pixels"


class Limits:
    """How many questions of each kind fit together, as far as is known.

    Args:
        most: where every kind begins.
        file: what was learnt before, and where it is kept; None keeps nothing. A file that can't be read counts as
            empty, one that can't be written is only said so: neither stops a run.
    """

    def __init__(self, most: int, file: Path | None = None) -> None:
        self.most, self.file = most, file
        self._learnt = self._read()

    def of(self, kind: str) -> int:
        return max(1, min(self.most, self._learnt.get(kind, self.most)))

    def halve(self, kind: str, failed: int) -> int:
        """``failed`` questions of a kind did not fit: half as many from now on."""
        self._learnt[kind] = max(1, failed // 2)
        for other, limit in self._read().items():  # a sibling job may have learnt something meanwhile
            self._learnt[other] = min(limit, self._learnt.get(other, limit))
        where = ""
        if self.file is not None:
            try:
                write_text(self.file, json.dumps({"most_together": self._learnt}, indent=1, sort_keys=True) + "\n")
                where = f" (kept in {self.file})"
            except (OSError, DataError) as error:
                where = f" (not kept for later jobs: {error})"
        limit = self.of(kind)
        print(f"out of memory with {failed} questions at once ({kind}): {limit} from now on{where}", file=sys.stderr)
        return limit

    def _read(self) -> dict[str, int]:
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            if self.file is not None:
                known = json.loads(self.file.read_text(encoding="utf-8"))["most_together"]
                return {str(kind): limit for kind, limit in known.items() if type(limit) is int and limit > 0}
        return {}


def remembered(model: dict[str, Any], gpu: str) -> Path:
    """The file of what was learnt of a model on a kind of GPU. Prices, titles and the like don't change its name."""
    matters = {key: model.get(key) for key in ("name", "weights", "engine", "input", "generation")}
    return cache_here() / "batch_sizes" / f"{model.get('name', 'model')}-{fingerprint(matters, gpu)}.json"


def batched(answer_batch: AnswerBatch, limits: Limits, kind: Kind) -> Answerer:
    """An answerer that draws as many requests of one kind as fit together and puts them to ``answer_batch``.

    A batch that fails as a whole for another reason than memory is asked again one by one, so that only the question
    at fault ends as ``error:engine``. Replies record the size of the batch and their share of its time.
    """

    def answers(requests: Iterable[Request]) -> Iterator[Answered]:
        source, waiting, asked = iter(requests), deque[Request](), Counter[str]()
        while batch := _draw(source, waiting, limits, kind):
            replies = _ask(answer_batch, batch, asked)
            if replies is None:
                _free()
                limits.halve(kind(batch[0]), len(batch))
                waiting.extendleft(reversed(batch))
                continue
            for request, reply in zip(batch, replies, strict=True):
                yield request, replace(reply, attempts=asked.pop(request.key, 1))

    return answers


def _draw(source: Iterator[Request], waiting: deque[Request], limits: Limits, kind: Kind) -> list[Request]:
    """The next batch; a request of another kind that ended it stays in ``waiting``."""
    batch: list[Request] = []
    while not batch or len(batch) < limits.of(kind(batch[0])):
        if not waiting:
            waiting.extend(request for request in [next(source, None)] if request is not None)
        if not waiting or (batch and kind(waiting[0]) != kind(batch[0])):
            break
        batch.append(waiting.popleft())
    return batch


def _ask(answer_batch: AnswerBatch, batch: list[Request], asked: Counter[str]) -> list[Reply] | None:
    """Replies to a batch; None when it was larger than one and memory ran out."""
    import torch

    asked.update(request.key for request in batch)
    start = time.monotonic()
    why = OUT_OF_MEMORY
    try:
        replies = answer_batch(batch)
        share = (time.monotonic() - start) / len(batch)
        return [replace(reply, batch=len(batch), seconds=share) for reply in replies]
    except torch.OutOfMemoryError:
        if len(batch) > 1:
            return None
    except EngineError as error:
        why = str(error)
    # Out here nothing is left of the exception, which held the tensors of the failed call.
    _free()
    if len(batch) == 1:
        return [Reply("error:engine", detail=why, seconds=time.monotonic() - start)]
    return [reply for request in batch for reply in _ask(answer_batch, [request], asked) or []]


def _free() -> None:
    """Give the memory of a failed call back to the device."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
