"""One cell's settings, records and questions: what run_cell and run_shard read before any model is loaded."""

import argparse
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scripts.infer import person, prompting, scene_text, text_crops
from scripts.infer.summary import again
from scripts.lib import config, images, jsonl
from scripts.lib.cache import Cache, fingerprint
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.questions import read_questions
from scripts.lib.records import FramePlan, FrameTimes, OcrFrame, Prediction, Question, Video
from scripts.models import answers, find, pins, weights

NOT_ANSWERS = (
    *("title", "name", "licence", "resources", "image", "cost", "max_frames"),
    *("prompt_variant", "system", "suffix"),
)
"""Keys of a model's YAML that can't change an answer, or do so through the words of its prompt, which count anyway."""
NOT_ANSWERS_WITHIN = {
    "engine": ("batch",),
    "remote": ("url", "key_env", "dated"),
    "client": ("concurrency", "requests_per_min", "tokens_per_min", "timeout_s"),
    "server": ("start_s",),
}
"""The same for keys inside its blocks. A batch can change last digits; it is on record, and not worth asking anew."""


@dataclass(frozen=True)
class Cell:
    """What is the same for all questions of a run."""

    model: dict[str, Any]
    prompt: dict[str, Any]
    resolution: dict[str, Any]
    weights: Path | None
    seed: int
    crops: Path | None = None
    """Enlarged text for the frames, where the resolution has such."""
    run: dict[str, Any] = field(default_factory=dict)
    """What an adapter needs to know beside the model's YAML and what can't change an answer: prices, limits, paths."""

    @property
    def shows_frames(self) -> bool:
        return "frames" in self.model["needs"] and self.prompt["frames"] == "sampled"

    @property
    def system(self) -> str:
        """What the model's file says first, then the prompt's."""
        return "\n\n".join(filter(None, [self.model.get("system", ""), self.prompt.get("system", "")]))


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
    """For a model that reads text."""
    ocr_file: Path = Path()
    scene_text: dict[tuple[str, int], OcrFrame] | None = None
    """For a prompt that tells the text."""
    scene_text_file: Path = Path()
    crops: text_crops.Crops | None = None
    """For a resolution that enlarges the text."""


Reading = dict[tuple[str, int], OcrFrame] | None


def unread(reading: Reading, plan: FramePlan) -> list[int]:
    """The frames of a question whose text is needed and not there."""
    return [frame for frame in plan.frames if reading is not None and (plan.video, frame) not in reading]


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
    for reading, file in ((inputs.ocr, inputs.ocr_file), (inputs.scene_text, inputs.scene_text_file)):
        if lacking := unread(reading, plan):
            named = f"{', '.join(map(str, lacking[:8]))}{', …' if len(lacking) > 8 else ''}"
            detail = f"no text of frames {named} of {plan.video}; read it anew: {again(file)}"
            return Prediction(key=question.key, status="error:ocr", detail=detail)
    return None


def task_of(cell: Cell, inputs: Inputs, question: Question, plan: FramePlan) -> Task:
    """Everything that the model needs for one question.

    Raises:
        DataError: a video or its frame times are missing from the files.
    """
    options = question.options if cell.prompt["answers"] == "option" else None
    told = texts_of(inputs.scene_text, plan)
    words = prompting.wording(cell.prompt, cell.model) + cell.model.get("suffix", "")
    asked_as, choices = rephrased(question.question, options, cell.prompt.get("person", "as_asked"))
    text = prompting.render(
        words,
        asked_as,
        choices,
        None if told is None else scene_text.text(told, numbered=cell.prompt["frames"] == "sampled"),
    )
    video = _find(inputs.videos, question.video, "--videos", "probe_videos")
    times = _find(inputs.frame_times, question.video, "--frame-times", "probe_videos")
    ocr = texts_of(inputs.ocr, plan)
    sees_frames = cell.prompt["frames"] == "sampled"
    key = fingerprint(
        question.key,
        question.question,
        options,
        prompting.prompt_hash(cell.system, text),
        [video.sha256, plan.frames, plan.times] if sees_frames else None,
        [frame.model_dump(mode="json") for frame in ocr] if ocr is not None else None,
        *([inputs.crops.identity(plan.video, plan.frames)] if inputs.crops else []),
    )
    return Task(key, question, plan, video, times, text, ocr)


def rephrased(question: str, options: list[str] | None, how: str) -> tuple[str, list[str] | None]:
    """Question and options in another person; options that would become alike stay as they are."""
    changed = [person.rephrase(option, how) for option in options or []]
    if options is None or len(set(changed)) < len(set(options)):
        return person.rephrase(question, how), options
    return person.rephrase(question, how), changed


def texts_of(reading: Reading, plan: FramePlan) -> list[OcrFrame] | None:
    """The text on a question's frames, or None where nobody asks for it."""
    return None if reading is None else [reading[plan.video, frame] for frame in plan.frames]


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
    parser.add_argument("--scene-text", type=Path, help="the same, for prompts that tell the text (any reading of it)")
    parser.add_argument("--crops", type=Path, help="enlarged text, by build_text_crops; for resolutions that have it")
    parser.add_argument("--ocr-settings", type=Path, default=Path("config/ocr.yaml"), help="how that text is fused")
    parser.add_argument("--weights", type=Path, help="folder of the model's weights, where it has any")
    parser.add_argument("--allow-unpinned", action="store_true", help="run a model of which no version is known")
    parser.add_argument("--remote", type=Path, default=Path("config/remote.yaml"), help="budget and retries of APIs")
    parser.add_argument("--prices", type=Path, default=Path("config/prices.yaml"), help="what APIs bill")
    parser.add_argument(
        "--spent", type=Path, default=Path("resources/cache/spent.jsonl"), help="where spending is added up"
    )
    parser.add_argument("--seed", type=int, default=0, help="for models that sample their reply")
    parser.add_argument("--workers", type=int, default=1, help="processes that decode frames")
    parser.add_argument(
        "--timeout-s",
        type=float,
        default=600,
        help="frames not decoded by then are given up, those of other questions decoded with them too",
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
    pins.check(model, [model["name"]] if args.allow_unpinned else [])
    prompt = prompting.read(args.prompt)
    resolution = config.read_file("resolution", args.resolution)
    if "ocr" in model["needs"]:
        if args.ocr is None:
            raise ConfigError(f"{args.model}: this model reads OCR text; pass --ocr, made by extract_ocr")
        if prompt["frames"] == "none":
            raise ConfigError(f"{args.prompt}: shows no frames, and {args.model} reads the text on frames")
        schema = args.ocr_settings.parent / "schemas" / "ocr.schema.yaml"
        model["ocr_settings"] = config.read(args.ocr_settings, schema)["tracks"]
    if "scene_text" in prompt and args.scene_text is None:
        raise ConfigError(f"{args.prompt}: tells the text on the frames; pass --scene-text")
    weights.check(model, args.weights)
    cell = Cell(model, prompt, resolution, args.weights, args.seed, run=run_settings(args, model))
    if "scene_text" not in resolution or not cell.shows_frames:
        return cell
    if args.crops is None:
        raise ConfigError(f"{args.resolution}: enlarges text on the frames; pass --crops, made by build_text_crops")
    return replace(cell, crops=args.crops)


def run_settings(args: argparse.Namespace, model: dict[str, Any]) -> dict[str, Any]:
    """What adapters of remote models are told beside the YAML: limits, prices, and where spending is written down."""
    if "client" not in model:
        return {}
    read = {
        key: config.read(file, file.parent / "schemas" / f"{name}.schema.yaml")
        for key, name, file in (("limits", "remote", args.remote), ("prices", "prices", args.prices))
    }
    return {**read, "ledger": str(args.spent)}


def read_inputs(args: argparse.Namespace, cell: Cell) -> Inputs:
    """The records that the command line names.

    Raises:
        DataError: a file is missing, malformed, or names something twice; no question; files that don't belong
            together; no text at all on the frames for a model that reads it.
    """
    inputs = Inputs(
        questions=list(read_questions(args.questions).values()),
        videos=jsonl.read_unique(args.videos, Video, "id"),
        frame_times=jsonl.read_unique(args.frame_times, FrameTimes, "id"),
        plans=jsonl.read_unique(args.frames, FramePlan, "key"),
        ocr=_reading(args.ocr) if "ocr" in cell.model["needs"] else None,
        ocr_file=args.ocr or Path(),
        scene_text=_reading(args.scene_text) if "scene_text" in cell.prompt else None,
        scene_text_file=args.scene_text or Path(),
        crops=text_crops.open_crops(cell.crops) if cell.crops else None,
    )
    # Of the whole data set, also where only a share of it is asked: an error must not depend on the number of shards.
    plans = [_find(inputs.plans, one.key, "--frames", "build_frames") for one in inputs.questions]
    shown = [plan for plan in plans if plan.frames]
    for reading, file in ((inputs.ocr, args.ocr), (inputs.scene_text, args.scene_text)):
        if shown and all(len(unread(reading, plan)) == len(plan.frames) for plan in shown):
            raise DataError(f"{file}: no text of any frame of these questions; read it anew: {again(file)}")
    return inputs


def _reading(file: Path) -> Reading:
    return {(frame.video, frame.frame): frame for frame in jsonl.read(file, OcrFrame)}


def open_cache(folder: Path, cell: Cell, predictions: Path) -> Cache:
    """The answers that this setting has given so far, whatever the data set or sampler.

    One file per writer, because cells of one setting, and shards of one cell, may run at the same time on several
    nodes: each locks its own file only, and reads what the others have so far.
    """
    prompt = {key: cell.prompt[key] for key in ("answers", "frames")}  # its words are in each answer's own key
    resolution = {key: value for key, value in cell.resolution.items() if key not in ("title", "name")}
    adapter = find(cell.model["adapter"])
    place = [adapter.engine, adapter.conditions(cell.model), images.running(), answers.VERSION]
    if "remote" in cell.model:  # somebody else's machine: nothing of ours but the words is worth paying for twice
        place = [adapter.engine.partition(",")[0], answers.VERSION]
    model = what_answers(cell.model)
    name = fingerprint(model, prompt, cell.system, resolution, weights.identity(cell.weights), place, cell.seed)
    own = folder / name / f"{fingerprint(str(predictions.absolute()))}.jsonl"
    return Cache(own, [path for path in sorted(own.parent.glob("*.jsonl")) if path != own])


def what_answers(model: dict[str, Any]) -> dict[str, Any]:
    """The part of a model's YAML that can change an answer."""
    kept = {}
    for key, value in model.items():
        if key in NOT_ANSWERS_WITHIN:
            kept[key] = {name: value[name] for name in value if name not in NOT_ANSWERS_WITHIN[key]}
        elif key not in NOT_ANSWERS:
            kept[key] = value
    return kept
