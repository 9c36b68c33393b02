"""Questions put to one model: frames decoded ahead, answers kept as they come, one record each."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.infer import prompting
from scripts.infer.cell import Cell, Inputs, Task, again, open_cache, refusal, task_of
from scripts.lib import images, jsonl
from scripts.lib.cache import Cache
from scripts.lib.errors import EngineError
from scripts.lib.progress import track
from scripts.lib.records import Prediction
from scripts.lib.workers import Outcome, run_all
from scripts.models import find, weights
from scripts.models.protocol import Answerer, Reply, Request


def with_frames(
    cell: Cell, tasks: Sequence[Task], workers: int, timeout_s: float
) -> Iterator[Outcome[Task, list[Any]]]:
    """Tasks with their frames, in order; a few are decoded ahead, no more, because frames are large."""
    if not cell.shows_frames:
        yield from (Outcome(task, []) for task in tasks)
        return
    from scripts.lib.video import read_batch

    items = [(Path(task.video.path), task.frame_times, task.plan.frames, cell.resolution) for task in tasks]
    outcomes = run_all(read_batch, items, workers, timeout_s, ahead=workers + 2)
    for task, outcome in zip(tasks, outcomes, strict=True):
        yield Outcome(task, outcome.value, outcome.error)


def ask(cell: Cell, answerer: Answerer, task: Task, frames: list[Any]) -> tuple[Reply, float]:
    """The model's reply and the seconds it took; an engine's failure is a reply with status ``error:engine``."""
    shown = cell.prompt["frames"] == "sampled"
    request = Request(
        frames=frames,
        times=task.plan.times if shown else [],
        system=cell.system,
        prompt=task.text,
        question=task.question.question,
        options=task.question.options if cell.prompt["answers"] == "option" else None,
        ocr=task.ocr,
    )
    start = time.monotonic()
    try:
        reply = answerer(request)
    except EngineError as error:
        reply = Reply("error:engine", detail=str(error))
    return reply, time.monotonic() - start


def prediction(cell: Cell, task: Task, reply: Reply, seconds: float, revision: str) -> Prediction:
    """The record of one reply."""
    return Prediction(
        key=task.question.key,
        status=reply.status,
        raw=reply.raw,
        answer=reply.answer,
        detail=reply.detail,
        times=list(reply.times),
        height=reply.height,
        width=reply.width,
        visual_tokens=reply.visual_tokens,
        prompt_hash=prompting.prompt_hash(cell.system, task.text),
        model_revision=revision,
        image_digest=images.running(),
        engine=reply.engine,
        seconds=round(seconds, 3),
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
    )


def answer_all(
    cell: Cell, tasks: Sequence[Task], cache: Cache, workers: int, timeout_s: float, step: str
) -> dict[str, Prediction]:
    """Predictions of the tasks by cache key; answers go into the cache, errors do not.

    Args:
        step: what the messages begin with, e.g. ``run_cell``.

    Raises:
        EngineError: the model can't be loaded, or fails on every question for one and the same reason.
    """
    todo = [task for task in tasks if task.key not in cache]
    made = {task.key: _cached(cache, task.key) for task in tasks if task.key in cache}
    if made:
        print(f"{step}: {len(made)} of {len(tasks)} answers are in {cache.path.parent}", file=sys.stderr)
    if not todo:
        return made
    adapter = find(cell.model["adapter"])
    answerer = adapter.load(cell.model, cell.weights, cell.seed)
    revision = weights.revision(cell.model, cell.weights)
    label = f"{step} {cell.model['name']} {cell.prompt['name']}"
    for outcome in track(with_frames(cell, todo, workers, timeout_s), label, len(todo), "questions"):
        task = outcome.item
        if outcome.value is None:
            made[task.key] = Prediction(key=task.question.key, status="error:decode", detail=outcome.error or "")
            continue
        reply, seconds = ask(cell, answerer, task, outcome.value)
        found = prediction(cell, task, reply, seconds, revision)
        made[task.key] = found.model_copy(update={"engine": found.engine or adapter.engine})
        if not found.status.startswith("error:"):
            cache.put(task.key, made[task.key].model_dump(mode="json"))
    failures = {made[task.key].detail for task in todo if made[task.key].status == "error:engine"}
    if len(failures) == 1 and all(made[task.key].status == "error:engine" for task in tasks):
        raise EngineError(f"{cell.model['name']}: every question failed: {failures.pop()}")
    return made


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


def summary(predictions: Iterable[Prediction]) -> str:
    """``12 questions: 10 ok, 1 unanswerable, 1 error:decode; frames used at 704x1280``."""
    predictions = list(predictions)
    counts = Counter(one.status for one in predictions)
    sizes = Counter(f"{one.height}x{one.width}" for one in predictions if one.height)
    text = ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "none"
    used = f"; frames used at {', '.join(size for size, _ in sizes.most_common(3))}" if sizes else ""
    return f"{len(predictions)} questions: {text}{used}"


def remedies(predictions: Iterable[Prediction], file: Path, ocr_file: Path | None) -> list[str]:
    """One line for each kind of error that another run can mend.

    Args:
        file: what holds the predictions.
        ocr_file: where the text on the frames is, for models that read it.
    """
    counts = Counter(one.status for one in predictions)
    failed = counts["error:decode"] + counts["error:engine"]
    lines = [f"try the {failed} errors of decoding or the model again: {again(file)}"] if failed else []
    if ocr_file and counts["error:ocr"]:
        lines.append(f"read the text that {counts['error:ocr']} questions lack: {again(ocr_file)}")
    return lines


def answer_questions(args: argparse.Namespace, cell: Cell, inputs: Inputs, step: str) -> None:
    """Answer, and write ``args.predictions``."""
    with open_cache(args.cache, cell, args.predictions) as cache:
        predictions = run(cell, inputs, cache, args.workers, args.timeout_s, step)
    jsonl.write(args.predictions, predictions)
    print(f"{args.predictions}: {summary(predictions)}", file=sys.stderr)
    for line in remedies(predictions, args.predictions, args.ocr):
        print(line, file=sys.stderr)
