"""One model answers all questions of a data set on the frames that one sampler chose: one cell, one file.

Every question gets exactly one line, in the order of the questions. Statuses:

  ok, unanswerable            an answer, right or wrong ("unanswerable" is one)
  truncated                   the reply was cut at the model's max_new_tokens
  error:video_<why>           no frame can be shown (from the frame plan)
  error:ocr                   the model reads text, and a frame's is missing from --ocr ("detail" says which)
  error:no_options            a letter is asked for and the question has no options
  error:too_many_frames       more frames than the model's max_frames: refused, never thinned
  error:decode, error:engine  decoding or the model failed, with the reason in "detail"

A question that ends in an error does not stop the others: the file is whole, so Snakemake takes the cell as done and
won't run it again by itself; the last lines of the log say how to try errors again. Answers are kept as they come in
--cache, errors are not: such a run asks only what failed, and a run killed at any moment goes on at the question it was
at. The frames of the next questions are decoded in child processes while the model works.
"""

import argparse
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.infer import prompting
from scripts.lib import cli, config, jsonl
from scripts.lib.cache import Cache, fingerprint
from scripts.lib.errors import ConfigError, DataError, EngineError
from scripts.lib.progress import track
from scripts.lib.questions import read_questions
from scripts.lib.records import FramePlan, FrameTimes, OcrFrame, Prediction, Question, Video
from scripts.lib.workers import Outcome, run_all
from scripts.models import find, weights
from scripts.models.protocol import Answerer, Reply, Request

NOT_ANSWERS = ("title", "name", "licence", "resources", "image")
"""Keys of a model's YAML that can't change an answer."""


@dataclass(frozen=True)
class Cell:
    """What is the same for all questions of a run."""

    model: dict[str, Any]
    prompt: dict[str, Any]
    resolution: dict[str, Any]
    weights: Path | None
    seed: int

    @property
    def shows_frames(self) -> bool:
        return "frames" in self.model["needs"] and self.prompt["frames"] == "sampled"

    @property
    def system(self) -> str:
        return str(self.prompt.get("system", ""))


@dataclass(frozen=True)
class Task:
    """One question that the model has to answer."""

    key: str
    """Names the answer in the cache: everything of this question that can change it."""
    question: Question
    plan: FramePlan
    video: Video
    frame_times: FrameTimes
    text: str
    ocr: list[OcrFrame] | None


@dataclass(frozen=True)
class Inputs:
    """The records that a run reads."""

    questions: list[Question]
    videos: dict[str, Video]
    frame_times: dict[str, FrameTimes]
    plans: dict[str, FramePlan]
    ocr: dict[tuple[str, int], OcrFrame] | None = None
    ocr_file: Path = Path()


def again(file: Path) -> str:
    """What to run so that Snakemake makes one file anew, and then what follows from it."""
    return f"end your snakemake command with --forcerun {shlex.quote(str(file))}"


def unread(inputs: Inputs, plan: FramePlan) -> list[int]:
    """The frames of a question whose text a model that reads text lacks."""
    return [frame for frame in plan.frames if inputs.ocr is not None and (plan.video, frame) not in inputs.ocr]


def refusal(cell: Cell, inputs: Inputs, question: Question, plan: FramePlan) -> Prediction | None:
    """The prediction of a question that can't be put to the model, else None."""
    if plan.status != "ok":
        return Prediction(key=question.key, status=plan.status, detail=plan.note)
    if cell.prompt["answers"] == "option" and question.options is None:
        return Prediction(key=question.key, status="error:no_options", detail="the prompt asks for a letter")
    limit = cell.model.get("max_frames")
    if cell.shows_frames and limit and len(plan.frames) > limit:
        detail = f"{len(plan.frames)} frames, the model takes {limit}"
        return Prediction(key=question.key, status="error:too_many_frames", detail=detail)
    if lacking := unread(inputs, plan):
        named = f"{', '.join(map(str, lacking[:8]))}{', …' if len(lacking) > 8 else ''}"
        detail = f"no text of frames {named} of {plan.video}; rerun extract_ocr: {again(inputs.ocr_file)}"
        return Prediction(key=question.key, status="error:ocr", detail=detail)
    return None


def task_of(cell: Cell, inputs: Inputs, question: Question, plan: FramePlan) -> Task:
    """Everything that the model needs for one question.

    Raises:
        DataError: a video or its frame times are missing from the files.
    """
    options = question.options if cell.prompt["answers"] == "option" else None
    text = prompting.render(cell.prompt["template"], question.question, options)
    video = _find(inputs.videos, question.video, "--videos", "probe_videos")
    times = _find(inputs.frame_times, question.video, "--frame-times", "probe_videos")
    ocr = None if inputs.ocr is None else [inputs.ocr[plan.video, frame] for frame in plan.frames]
    sees_frames = cell.prompt["frames"] == "sampled"
    key = fingerprint(
        question.key,
        question.question,
        options,
        prompting.prompt_hash(cell.system, text),
        [video.sha256, plan.frames, plan.times] if sees_frames else None,
        [frame.model_dump(mode="json") for frame in ocr] if ocr is not None else None,
    )
    return Task(key, question, plan, video, times, text, ocr)


def _find(known: dict[str, Any], name: str, option: str, rule: str) -> Any:
    if name not in known:
        raise DataError(
            f"{option}: nothing for {name}; rerun {rule}, its file is older than the questions or the frames"
        )
    return known[name]


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
        image_digest=image_digest(),
        engine=reply.engine,
        seconds=round(seconds, 3),
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
    )


def image_digest() -> str:
    """Of the container that this runs in, as its rule set it; empty outside one."""
    return os.environ.get("SIF_DIGEST", "")


def answer_all(
    cell: Cell, tasks: Sequence[Task], cache: Cache, workers: int, timeout_s: float
) -> dict[str, Prediction]:
    """Predictions of the tasks by cache key; answers go into the cache, errors do not.

    Raises:
        EngineError: the model can't be loaded, or fails on every question for one and the same reason.
    """
    todo = [task for task in tasks if task.key not in cache]
    made = {task.key: _cached(cache, task.key) for task in tasks if task.key in cache}
    if made:
        print(f"run_cell: {len(made)} of {len(tasks)} answers are in {cache.path.parent}", file=sys.stderr)
    if not todo:
        return made
    adapter = find(cell.model["adapter"])
    answerer = adapter.load(cell.model, cell.weights, cell.seed)
    revision = weights.revision(cell.model, cell.weights)
    label = f"run_cell {cell.model['name']} {cell.prompt['name']}"
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


def run(cell: Cell, inputs: Inputs, cache: Cache, workers: int, timeout_s: float) -> list[Prediction]:
    """One prediction per question, in the order of the questions.

    Raises:
        DataError: files that don't belong together, or no text at all on the frames for a model that reads it.
    """
    plans = {one.key: _find(inputs.plans, one.key, "--frames", "build_frames") for one in inputs.questions}
    shown = [plan for plan in plans.values() if plan.frames]
    if shown and all(len(unread(inputs, plan)) == len(plan.frames) for plan in shown):
        raise DataError(
            f"{inputs.ocr_file}: no text of any frame of these questions; rerun extract_ocr: {again(inputs.ocr_file)}"
        )
    refused: dict[str, Prediction] = {}
    tasks: dict[str, Task] = {}
    for question in inputs.questions:
        plan = plans[question.key]
        stopped = refusal(cell, inputs, question, plan)
        if stopped:
            refused[question.key] = stopped
        else:
            tasks[question.key] = task_of(cell, inputs, question, plan)
    made = answer_all(cell, list(tasks.values()), cache, workers, timeout_s)
    return [refused.get(one.key) or made[tasks[one.key].key] for one in inputs.questions]


def summary(predictions: Iterable[Prediction]) -> str:
    """``12 questions: 10 ok, 1 unanswerable, 1 error:decode; frames used at 704x1280``."""
    predictions = list(predictions)
    counts = Counter(one.status for one in predictions)
    sizes = Counter(f"{one.height}x{one.width}" for one in predictions if one.height)
    text = ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "none"
    used = f"; frames used at {', '.join(size for size, _ in sizes.most_common(3))}" if sizes else ""
    return f"{len(predictions)} questions: {text}{used}"


def remedies(predictions: Iterable[Prediction], file: Path, ocr_file: Path) -> list[str]:
    """One line for each kind of error that another run can mend."""
    counts = Counter(one.status for one in predictions)
    failed = counts["error:decode"] + counts["error:engine"]
    lines = [f"try the {failed} errors of decoding or the model again: {again(file)}"] if failed else []
    if counts["error:ocr"]:
        lines.append(f"read the text that {counts['error:ocr']} questions lack: {again(ocr_file)}")
    return lines


def read_cell(args: argparse.Namespace) -> Cell:
    """The checked settings of a run.

    Raises:
        ConfigError: settings that don't fit together.
    """
    model = config.read_file("model", args.model)
    prompt = prompting.read(args.prompt)
    if "ocr" in model["needs"]:
        if args.ocr is None:
            raise ConfigError(f"{args.model}: this model reads OCR text; pass --ocr, made by extract_ocr")
        if prompt["frames"] == "none":
            raise ConfigError(f"{args.prompt}: shows no frames, and {args.model} reads the text on frames")
        schema = args.ocr_settings.parent / "schemas" / "ocr.schema.yaml"
        model["ocr_settings"] = config.read(args.ocr_settings, schema)["tracks"]
    weights.check(model, args.weights)
    return Cell(model, prompt, config.read_file("resolution", args.resolution), args.weights, args.seed)


def read_inputs(args: argparse.Namespace, cell: Cell) -> Inputs:
    """The records that the command line names.

    Raises:
        DataError: a file is missing, malformed, or names something twice; no question.
    """
    ocr = None
    if "ocr" in cell.model["needs"]:
        ocr = {(frame.video, frame.frame): frame for frame in jsonl.read(args.ocr, OcrFrame)}
    return Inputs(
        questions=list(read_questions(args.questions).values()),
        videos=jsonl.read_unique(args.videos, Video, "id"),
        frame_times=jsonl.read_unique(args.frame_times, FrameTimes, "id"),
        plans=jsonl.read_unique(args.frames, FramePlan, "key"),
        ocr=ocr,
        ocr_file=args.ocr or Path(),
    )


def open_cache(folder: Path, cell: Cell, predictions: Path) -> Cache:
    """The answers that this setting has given so far, whatever the data set or sampler.

    One file per writer, because cells of one setting may run at the same time; the files of the others are read.
    """
    model = {key: value for key, value in cell.model.items() if key not in NOT_ANSWERS}
    prompt = {key: cell.prompt[key] for key in ("answers", "frames", "template")}
    resolution = {key: value for key, value in cell.resolution.items() if key not in ("title", "name")}
    adapter = find(cell.model["adapter"])
    place = [adapter.engine, adapter.conditions(cell.model), image_digest()]
    name = fingerprint(model, prompt, cell.system, resolution, weights.identity(cell.weights), place, cell.seed)
    own = folder / name / f"{fingerprint(str(predictions.absolute()))}.jsonl"
    return Cache(own, [path for path in sorted(own.parent.glob("*.jsonl")) if path != own])


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="config/models/<name>.yaml")
    parser.add_argument("--prompt", type=Path, required=True, help="config/prompts/<name>.yaml")
    parser.add_argument("--resolution", type=Path, required=True, help="config/resolutions/<name>.yaml")
    parser.add_argument("--questions", type=Path, required=True, help="questions.jsonl of the data set")
    parser.add_argument("--videos", type=Path, required=True, help="videos.jsonl, made by probe_videos")
    parser.add_argument("--frame-times", type=Path, required=True, help="frame_times.jsonl, made by probe_videos")
    parser.add_argument("--frames", type=Path, required=True, help="which frames each question sees, by build_frames")
    parser.add_argument("--ocr", type=Path, help="text on those frames, by extract_ocr; for models that need it")
    parser.add_argument("--ocr-settings", type=Path, default=Path("config/ocr.yaml"), help="how that text is fused")
    parser.add_argument("--weights", type=Path, help="folder of the model's weights, where it has any")
    parser.add_argument("--seed", type=int, default=0, help="for models that sample their reply")
    parser.add_argument("--workers", type=int, default=1, help="processes that decode frames")
    parser.add_argument(
        "--timeout-s", type=float, default=600, help="a question's frames not decoded by then are given up"
    )
    parser.add_argument("--cache", type=Path, required=True, help="folder where answers are kept as they come")
    parser.add_argument("--predictions", type=Path, required=True, help="predictions.jsonl to write")
    return parser


def step(args: argparse.Namespace) -> None:
    cell = read_cell(args)
    inputs = read_inputs(args, cell)
    with open_cache(args.cache, cell, args.predictions) as cache:
        predictions = run(cell, inputs, cache, args.workers, args.timeout_s)
    jsonl.write(args.predictions, predictions)
    print(f"{args.predictions}: {summary(predictions)}", file=sys.stderr)
    for line in remedies(predictions, args.predictions, inputs.ocr_file):
        print(line, file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
