"""Questions put to one model: frames decoded ahead, answers kept as they come, one record each."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from scripts.infer import prompting
from scripts.infer.cell import Cell, Inputs, Task, open_cache, refusal, task_of
from scripts.infer.frames import Frames
from scripts.infer.summary import OF_THE_SERVER, changed_frames, remedies, summary
from scripts.lib import images, jsonl
from scripts.lib.cache import Cache
from scripts.lib.errors import EngineError
from scripts.lib.progress import clock, track
from scripts.lib.records import Prediction
from scripts.lib.stopping import Stopping
from scripts.lib.video import Image
from scripts.lib.workers import Outcome
from scripts.models import find, weights
from scripts.models.protocol import Reply, Request

FEW = 3
"""Questions that may all fail through faults of their own."""


class Source:
    """The requests of a run, drawn by the model as it gets to them, and what became of those that never got so far.

    Args:
        stopping: when it turns true, no further request is given out.
    """

    def __init__(self, cell: Cell, tasks: Sequence[Task], workers: int, timeout_s: float, stopping: Stopping) -> None:
        self.cell, self.tasks, self.stopping = cell, {task.key: task for task in tasks}, stopping
        self.frames = Frames(cell, tasks, workers, timeout_s, lambda: bool(stopping))
        self.outcomes = iter(self.frames)
        self.first: Future[Outcome[Task, list[Image]] | None] | None = _soon(next, self.outcomes, None)
        """Decoding begins now: the model is loaded meanwhile, which takes longer."""
        self.undecoded: dict[str, str] = {}
        """Keys of questions whose frames could not be decoded, with the reason."""
        self.waited_s = 0.0
        """How long the model has waited for frames."""

    def __iter__(self) -> Iterator[Request]:
        while not self.stopping:
            outcome = self._next()
            if outcome is None or self.stopping:
                return
            if outcome.value is None:
                self.undecoded[outcome.item.key] = outcome.error or ""
            else:
                yield request_of(self.cell, outcome.item, outcome.value)

    def _next(self) -> Outcome[Task, list[Image]] | None:
        start = time.monotonic()
        try:
            if self.first is None:
                return next(self.outcomes, None)
            first, self.first = self.first, None
            return first.result()
        finally:
            self.waited_s += time.monotonic() - start

    def close(self) -> None:
        """End whatever is being decoded, from any thread."""
        self.frames.close()


def _soon(function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
    """The result of a call in a thread of its own."""
    threads = ThreadPoolExecutor(1)
    try:
        return threads.submit(function, *arguments)
    finally:
        threads.shutdown(wait=False)


def request_of(cell: Cell, task: Task, frames: Sequence[object]) -> Request:
    """What the model gets of one task."""
    shown = cell.prompt["frames"] == "sampled"
    return Request(
        key=task.key,
        frames=frames,  # type: ignore[arg-type]
        times=task.plan.times if shown else [],
        system=cell.system,
        prompt=task.text,
        question=task.question.question,
        options=task.question.options if cell.prompt["answers"] == "option" else None,
        ocr=task.ocr,
    )


def prediction(cell: Cell, task: Task, reply: Reply, engine: str, revision: str) -> Prediction:
    """The record of one reply.

    Args:
        engine: of the adapter, for replies that name none.
    """
    return Prediction(
        key=task.question.key,
        status=reply.status,
        raw=reply.raw,
        answer=reply.answer,
        detail=reply.detail,
        times=list(reply.times),
        times_told=reply.times_told,  # type: ignore[arg-type] - the record refuses any other word
        height=reply.height,
        width=reply.width,
        visual_tokens=reply.visual_tokens,
        frames_note=reply.frames_note,
        prompt_hash=prompting.prompt_hash(cell.system, task.text),
        model_revision=revision,
        image_digest=images.running(),
        engine=reply.engine or engine,
        batch=reply.batch,
        seconds=round(reply.seconds, 3),
        attempts=reply.attempts,
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        dollars=reply.dollars,
    )


def answer_all(
    cell: Cell, tasks: Sequence[Task], cache: Cache, workers: int, timeout_s: float, step: str
) -> dict[str, Prediction]:
    """Predictions of the tasks by cache key; answers go into the cache, errors do not.

    Args:
        step: what the messages begin with, e.g. ``run_cell``.

    Raises:
        EngineError: the model can't be loaded or can't go on, fails on every question for one and the same reason, or
            the process was told to stop.
    """
    todo = [task for task in tasks if task.key not in cache]
    made = {task.key: _cached(cache, task.key) for task in tasks if task.key in cache}
    if made:
        print(f"{step}: {len(made)} of {len(tasks)} answers are in {cache.path.parent}", file=sys.stderr)
    if not todo:
        return made
    stopping = Stopping()
    source = Source(cell, todo, workers, timeout_s, stopping)
    try:
        made |= _ask(cell, source, cache, f"{step} {cell.model['name']} {cell.prompt['name']}")
    finally:
        source.close()
    for key, why in source.undecoded.items():
        made[key] = Prediction(key=source.tasks[key].question.key, status="error:decode", detail=why)
    check_any(cell.model["name"], [made[task.key] for task in tasks])
    return made


def _ask(cell: Cell, source: Source, cache: Cache, label: str) -> dict[str, Prediction]:
    """Load the model and put every request of the source to it."""
    adapter, stopping = find(cell.model["adapter"]), source.stopping
    # A signal ends the process at once while the model is being loaded: nothing is lost.
    answerer = adapter.load(cell.model | cell.run | {"stopping": lambda: bool(stopping)}, cell.weights, cell.seed)
    revision = weights.revision(cell.model, cell.weights)
    made: dict[str, Prediction] = {}
    start = time.monotonic()
    with stopping:
        for request, reply in track(answerer(source), label, len(source.tasks), "questions"):
            task = source.tasks[request.key]
            made[task.key] = prediction(cell, task, reply, adapter.engine, revision)
            if not reply.status.startswith("error:"):
                cache.put(task.key, made[task.key].model_dump(mode="json"))
    if stopping:
        kept = f"{len(cache)} answers are kept in {cache.path.parent}"
        raise EngineError(f"stopped by {stopping.signal_name}; {kept}, run again to go on")
    if cell.shows_frames and "client" not in cell.model:  # behind a server others are being answered meanwhile
        spent = time.monotonic() - start
        print(f"{label}: waited for frames {source.waited_s / spent:.0%} of {clock(spent)}", file=sys.stderr)
    return made


def check_any(name: str, made: Sequence[Prediction]) -> None:
    """Refuse to call a cell done in which every question failed alike: something else is wrong than the questions.

    Of a few questions, as a shard may have, each may be at fault itself; only a server that is away never is one's own.

    Raises:
        EngineError: with the reason of one of them.
    """
    statuses, reasons = {one.status for one in made}, {one.detail for one in made}
    wrong = {f"error:{kind}" for kind in OF_THE_SERVER}
    if len(made) >= FEW:
        wrong |= {"error:request"} | ({"error:engine"} if len(reasons) == 1 else set())
    if statuses and statuses <= wrong:
        raise EngineError(f"{name}: every question failed: {made[0].status}: {made[0].detail}")


def _cached(cache: Cache, key: str) -> Prediction:
    return jsonl.parse(Prediction, jsonl.dumps(cache[key]), f"{cache.path.parent}: delete this folder; key {key}")


def run(cell: Cell, inputs: Inputs, cache: Cache, workers: int, timeout_s: float, step: str) -> list[Prediction]:
    """One prediction per question, in the order of the questions."""
    refused: dict[str, Prediction] = {}
    tasks: dict[str, Task] = {}
    for question in inputs.questions:
        plan = inputs.plans[question.key]
        stopped = refusal(cell, inputs, question, plan)
        if stopped:
            refused[question.key] = stopped
        else:
            tasks[question.key] = task_of(cell, inputs, question, plan)
    made = answer_all(cell, list(tasks.values()), cache, workers, timeout_s, step)
    return [refused.get(one.key) or made[tasks[one.key].key] for one in inputs.questions]


def answer_questions(args: argparse.Namespace, cell: Cell, inputs: Inputs, step: str) -> None:
    """Answer, and write ``args.predictions``."""
    with open_cache(args.cache, cell, args.predictions) as cache:
        predictions = run(cell, inputs, cache, args.workers, args.timeout_s, step)
    jsonl.write(args.predictions, predictions)
    print(f"{args.predictions}: {summary(predictions)}", file=sys.stderr)
    readings = [file for file in (args.ocr, args.scene_text) if file]
    lines = [changed_frames(predictions), *remedies(predictions, args.predictions, readings)]
    for line in filter(None, lines):
        print(line, file=sys.stderr)
