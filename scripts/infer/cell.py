"""One cell's settings, records and questions: what run_cell and run_shard read before any model is loaded."""

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.infer import prompting
from scripts.lib import config, images, jsonl
from scripts.lib.cache import Cache, fingerprint
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.questions import read_questions
from scripts.lib.records import FramePlan, FrameTimes, OcrFrame, Prediction, Question, Video
from scripts.models import find, weights

NOT_ANSWERS = ("title", "name", "licence", "resources", "image", "cost")
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


def again(*files: Path) -> str:
    """What to run so that Snakemake makes files anew, and then what follows from them."""
    return f"end your snakemake command with --forcerun {shlex.join(map(str, files))}"


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


def add_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The options that every rule with a model has."""
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
        DataError: a file is missing, malformed, or names something twice; no question; files that don't belong
            together; no text at all on the frames for a model that reads it.
    """
    ocr = None
    if "ocr" in cell.model["needs"]:
        ocr = {(frame.video, frame.frame): frame for frame in jsonl.read(args.ocr, OcrFrame)}
    inputs = Inputs(
        questions=list(read_questions(args.questions).values()),
        videos=jsonl.read_unique(args.videos, Video, "id"),
        frame_times=jsonl.read_unique(args.frame_times, FrameTimes, "id"),
        plans=jsonl.read_unique(args.frames, FramePlan, "key"),
        ocr=ocr,
        ocr_file=args.ocr or Path(),
    )
    # Of the whole data set, also where only a share of it is asked: an error must not depend on the number of shards.
    plans = [_find(inputs.plans, one.key, "--frames", "build_frames") for one in inputs.questions]
    shown = [plan for plan in plans if plan.frames]
    if shown and all(len(unread(inputs, plan)) == len(plan.frames) for plan in shown):
        raise DataError(f"{args.ocr}: no text of any frame of these questions; rerun extract_ocr: {again(args.ocr)}")
    return inputs


def open_cache(folder: Path, cell: Cell, predictions: Path) -> Cache:
    """The answers that this setting has given so far, whatever the data set or sampler.

    One file per writer, because cells of one setting, and shards of one cell, may run at the same time on several
    nodes: each locks its own file only, and reads what the others have so far.
    """
    model = {key: value for key, value in cell.model.items() if key not in NOT_ANSWERS}
    prompt = {key: cell.prompt[key] for key in ("answers", "frames", "template")}
    resolution = {key: value for key, value in cell.resolution.items() if key not in ("title", "name")}
    adapter = find(cell.model["adapter"])
    place = [adapter.engine, adapter.conditions(cell.model), images.running()]
    name = fingerprint(model, prompt, cell.system, resolution, weights.identity(cell.weights), place, cell.seed)
    own = folder / name / f"{fingerprint(str(predictions.absolute()))}.jsonl"
    return Cache(own, [path for path in sorted(own.parent.glob("*.jsonl")) if path != own])
