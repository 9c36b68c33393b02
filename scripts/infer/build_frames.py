"""Choose the frames that each question sees, by one sampler: one line per question, all questions, in their order.

A question whose video cannot be shown gets ``error:video_<status>``, and one that lacks what the sampler needs, say the
answer's moment, ``error:no_<what>``; neither is ever sampled in another way. Frames are numbered as decoded, with
their exact times. What is random depends on the seed and the question's key alone.
"""

import argparse
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scripts import samplers
from scripts.lib import cli, config, jsonl
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.questions import read_questions
from scripts.lib.records import FramePlan, FrameTimes, Keyframes, OcrFrame, Question, Video
from scripts.lib.video import frame_times
from scripts.samplers.common import TOLERANCE_S, Indices, LacksMomentError, Moments, Seconds, end

Sampler = Callable[[Seconds, Moments], Indices]


@dataclass(frozen=True)
class Footage:
    """What is known about all videos of a data set, by video id."""

    videos: dict[str, Video]
    times: dict[str, Seconds]
    keyframes: dict[str, Indices]
    text_amounts: dict[str, dict[int, int]]


def question_seed(seed: int, key: str) -> int:
    """A seed of the question's own, so that adding or leaving out questions changes no other."""
    return int.from_bytes(hashlib.sha256(f"{seed} {key}".encode()).digest()[:8])


def plan(question: Question, footage: Footage, sampler: Sampler, seed: int) -> FramePlan:
    """The frames of one question."""
    video = footage.videos.get(question.video)
    if video is None or not video.usable:
        status = f"error:video_{video.status if video else 'missing'}"
        return FramePlan(key=question.key, video=question.video, status=status, note=video.detail if video else "")
    times = footage.times[question.video]
    moments = Moments(
        t_question=question.t_question,
        t_answer=question.t_answer,
        qa_times=tuple(question.qa_times),
        evidence=tuple(question.evidence),
        keyframes=footage.keyframes.get(question.video),
        text_amount=footage.text_amounts.get(question.video),
        seed=question_seed(seed, question.key),
    )
    try:
        chosen = sampler(times, moments)
    except LacksMomentError as lack:
        return FramePlan(key=question.key, video=question.video, status=f"error:no_{lack.what}")
    return FramePlan(
        key=question.key,
        video=question.video,
        status="ok",
        frames=chosen.tolist(),
        times=times[chosen].tolist(),
        note=note(question.t_question, times),
    )


def note(t_question: float | None, times: Seconds) -> str:
    """What is odd about the question's time, or nothing."""
    if t_question is None:
        return ""
    if t_question < times[0] - TOLERANCE_S:
        return f"t_question {t_question:.3f} s is before the first frame {times[0]:.3f} s"
    if t_question > end(times) + TOLERANCE_S:
        return f"t_question {t_question:.3f} s is past the end {end(times):.3f} s"
    return ""


def read_footage(args: argparse.Namespace) -> Footage:
    """Everything about the videos that the command line names.

    Raises:
        DataError: a file is malformed, or a usable video has no frame times.
    """
    videos = jsonl.read_unique(args.videos, Video, "id")
    times = {key: frame_times(record) for key, record in jsonl.read_unique(args.frame_times, FrameTimes, "id").items()}
    for video in videos.values():
        if video.usable and (video.id not in times or len(times[video.id]) != video.n_frames):
            raise DataError(
                f"{args.frame_times}: does not fit video '{video.id}' of {args.videos}; run probe_videos anew"
            )
    keyframes: dict[str, Indices] = {}
    if args.keyframes:
        found = jsonl.read_unique(args.keyframes, Keyframes, "id")
        keyframes = {key: np.array(record.frames, dtype=np.int64) for key, record in found.items()}
    amounts: dict[str, dict[int, int]] = {}
    for frame in jsonl.read(args.ocr, OcrFrame) if args.ocr else ():
        amounts.setdefault(frame.video, {})[frame.frame] = sum(len(box.text) for box in frame.boxes)
    return Footage(videos, times, keyframes, amounts)


def load_sampler(args: argparse.Namespace) -> Sampler:
    """The sampler with its settings.

    Raises:
        ConfigError: a wrong YAML file, or an input that the sampler needs and the command line lacks.
    """
    settings: dict[str, Any] = config.read_file("sampler", args.sampler)
    function, options = samplers.load(settings, str(args.sampler))
    for need in settings.get("needs", []):
        if getattr(args, need) is None:
            raise ConfigError(f"{args.sampler}: needs --{need}, the output of extract_{need}")
    return partial(function, **options)


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--sampler", type=Path, required=True, help="YAML under config/samplers/")
    parser.add_argument("--questions", type=Path, required=True, help="questions.jsonl")
    parser.add_argument("--videos", type=Path, required=True, help="videos.jsonl of probe_videos")
    parser.add_argument("--frame-times", type=Path, required=True, help="frame_times.jsonl of probe_videos")
    parser.add_argument("--keyframes", type=Path, help="for samplers that need keyframes: output of extract_keyframes")
    parser.add_argument("--ocr", type=Path, help="for samplers that need ocr: output of extract_ocr on other frames")
    parser.add_argument("--seed", type=int, default=0, help="for samplers that draw (default 0)")
    parser.add_argument("--frames", type=Path, required=True, help="plan to write (FramePlan records)")
    return parser


def step(args: argparse.Namespace) -> None:
    sampler = load_sampler(args)
    footage = read_footage(args)
    questions = read_questions(args.questions).values()
    jsonl.write(args.frames, (plan(question, footage, sampler, args.seed) for question in questions))


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
