"""Inputs of run_cell written to a folder, for its tests: questions about signs, and the text that OCR read."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.lib import jsonl
from scripts.lib.records import FramePlan, FrameTimes, OcrBox, OcrFrame, Question, Video

ROOT = Path(__file__).parents[2]
RATE = 30
SIGNS = ("GİRİŞ", "41 KM", "ΕΞΟΔΟΣ")
ASKED = ("What did the first sign say?", "What did the sign before this one say?", "What does the sign say now?")


def make_inputs(folder: Path, videos: int = 2, options: bool = False, frames: int = 12) -> Path:
    """``videos`` videos of three signs and three questions each; every frame number below ``frames`` is sampled."""
    shutil.copytree(ROOT / "config", folder / "config")
    ids = [f"vidéo {number}" for number in range(videos)]
    step = max(1, frames // len(SIGNS))
    choices = {"options": [*SIGNS, "άλλο"], "ground_truth": "A"} if options else {}
    questions = [
        Question(
            key=f"d/{video}/{index}",
            video=video,
            question_id=str(index),
            question=asked,
            answers=[SIGNS[index]],
            category="now",
            **choices,
        )
        for video in ids
        for index, asked in enumerate(ASKED)
    ]
    jsonl.write(folder / "questions.jsonl", questions)
    jsonl.write(folder / "videos.jsonl", [video_of(name) for name in ids])
    jsonl.write(
        folder / "frame_times.jsonl",
        [FrameTimes(id=video, time_base=(1, RATE), start=0, steps=[(1, frames - 1)]) for video in ids],
    )
    times = [index / RATE for index in range(frames)]
    plans = [
        FramePlan(key=one.key, video=one.video, status="ok", frames=list(range(frames)), times=times)
        for one in questions
    ]
    jsonl.write(folder / "frames.jsonl", plans)
    jsonl.write(
        folder / "ocr.jsonl",
        [_read(video, index, SIGNS[min(index // step, len(SIGNS) - 1)]) for video in ids for index in range(frames)],
    )
    return folder


def video_of(name: str) -> Video:
    return Video(
        id=name,
        dataset="d",
        path=f"{name}.mp4",
        sha256="0" * 64,
        duration_s=1.0,
        fps_avg=float(RATE),
        n_frames=12,
        width=160,
        height=96,
        rotation=0,
        vfr=False,
        codec="h264",
        status="ok",
        source="test",
        licence="test",
    )


def _read(video: str, index: int, text: str) -> OcrFrame:
    corners = [(40.0, 40.0), (120.0, 40.0), (120.0, 60.0), (40.0, 60.0)]
    box = OcrBox(text=text, confidence=0.9, polygon=corners)
    return OcrFrame(video=video, frame=index, t=index / RATE, width=160, height=96, boxes=[box])


def arguments(folder: Path, model: str = "ocr_reader", prompt: str = "v_q", *more: str) -> list[str]:
    config = folder / "config"
    given = ["--ocr", f"{folder}/ocr.jsonl"] if model == "ocr_reader" else []
    return [
        *("--model", f"{config}/models/{model}.yaml", "--prompt", f"{config}/prompts/{prompt}.yaml"),
        *("--resolution", f"{config}/resolutions/native.yaml", "--questions", f"{folder}/questions.jsonl"),
        *("--videos", f"{folder}/videos.jsonl", "--frame-times", f"{folder}/frame_times.jsonl"),
        *("--frames", f"{folder}/frames.jsonl", *given, "--ocr-settings", f"{config}/ocr.yaml"),
        *("--cache", f"{folder}/cache", "--predictions", f"{folder}/out/predictions.jsonl", *more),
    ]


def start(args: list[str], module: str = "run_cell", **environment: str) -> subprocess.Popen:
    """run_cell, or another module of inference, as its own process."""
    return subprocess.Popen(
        [sys.executable, "-m", f"scripts.infer.{module}", *args],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1", **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def written(folder: Path) -> list[dict]:
    """The predictions without what differs from run to run."""
    text = (folder / "out" / "predictions.jsonl").read_text(encoding="utf-8")
    return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in text.splitlines()]


def change(path: Path, number: int, /, **fields: object) -> None:
    """Overwrite fields of one line of a JSON Lines file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[number] = json.dumps({**json.loads(lines[number]), **fields}, ensure_ascii=False)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
