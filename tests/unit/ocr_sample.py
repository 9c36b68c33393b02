"""Small clips with text, and the files and command line that extract_ocr takes for them."""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import matplotlib
import numpy as np
import yaml
from PIL import Image, ImageDraw, ImageFont

from scripts.lib import jsonl, probe, video
from scripts.lib.files import sha256
from scripts.lib.records import FramePlan, Video
from scripts.ocr import extract_ocr

CONFIG = Path(__file__).parents[2] / "config"
SIZE = (640, 360)
FONT = str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"))
"""One with accents that is there wherever the workflow is."""


def picture(lines: Sequence[str], size: tuple[int, int] = SIZE, height: int = 36) -> np.ndarray:
    """White lines of text on a plain ground, RGB."""
    image = Image.new("RGB", size, (30, 60, 90))
    font = ImageFont.truetype(FONT, height)
    for row, line in enumerate(lines):
        ImageDraw.Draw(image).text((40, 40 + 2 * height * row), line, font=font, fill=(255, 250, 220))
    return np.array(image)


def encode(path: Path, pictures: Sequence[np.ndarray], crf: int = 23) -> Path:
    """A 10-frames-a-second H.264 file of the pictures."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=10)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.codec_context.thread_count = 1
        stream.codec_context.options = {"crf": str(crf), "preset": "veryfast", "g": "12"}
        for shown in pictures:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(shown, format="rgb24")))
        out.mux(stream.encode())
    return path


def settings(folder: Path, **work: Any) -> Path:
    """config/ocr.yaml with other ``work`` settings, beside a copy of the schemas."""
    content = yaml.safe_load((CONFIG / "ocr.yaml").read_text(encoding="utf-8"))
    content["work"] |= work
    shutil.copytree(CONFIG / "schemas", folder / "schemas", dirs_exist_ok=True)
    path = folder / "ocr.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def inputs(folder: Path, clips: dict[str, Path], plans: dict[str, list[list[int]]]) -> list[str]:
    """Write videos, frame times and frame plans; return their part of the command line.

    Args:
        clips: video id to file.
        plans: video id to the frame numbers of each of its questions.
    """
    videos, times = [], []
    for name, path in clips.items():
        found = probe.probe(path)
        facts = found.model_dump(include=set(Video.model_fields) & set(type(found).model_fields))
        identity = {"id": name, "dataset": "d", "path": str(path), "sha256": sha256(path), "source": "", "licence": ""}
        videos.append(Video(**{**facts, **identity}))
        with video.open_video(path) as container:
            stamps = np.array([frame.pts for frame in video.sequential(container, [])])
            base = video.picture_stream(container).time_base
        times.append(video.encode_times(name, stamps, (base.numerator, base.denominator)))
    shown = [
        FramePlan(key=f"d/{name}/{number}", video=name, status="ok", frames=frames, times=[0.0] * len(frames))
        for name, questions in plans.items()
        for number, frames in enumerate(questions)
    ]
    files = {"--videos": videos, "--frame-times": times, "--frames": shown}
    for option, records in files.items():
        jsonl.write(folder / f"{option[2:]}.jsonl", records)
    return [part for option in files for part in (option, str(folder / f"{option[2:]}.jsonl"))]


def arguments(folder: Path, made: list[str], models: Path, ocr: Path, yaml_file: Path) -> list[str]:
    """The whole command line of extract_ocr at native resolution, with the cache in ``folder``."""
    options = {
        "--resolution": CONFIG / "resolutions" / "native.yaml",
        "--settings": yaml_file,
        "--models": models,
        "--cache": folder / "cache",
        "--ocr": ocr,
    }
    return made + [part for option, path in options.items() for part in (option, str(path))]


def parsed(command: list[str]) -> argparse.Namespace:
    return extract_ocr.build_parser().parse_args(command)


def cache_lines(folder: Path) -> dict[str, bytes]:
    """The bytes of every cache file of readings."""
    return {str(path): path.read_bytes() for path in (folder / "cache").rglob("*.jsonl")}
