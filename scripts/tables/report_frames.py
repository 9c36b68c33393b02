"""The small pictures of the report: which frames there is room for, and decoding each of them once."""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.lib.cache import Cache, fingerprint
from scripts.lib.progress import track
from scripts.lib.records import FrameTimes, Video
from scripts.lib.workers import run_all

WIDTH = 320
"""Pixels; smaller frames keep their size."""
QUALITY = 70
"""Of the JPEG, 0-100."""
FRAMES_PER_JOB = 32
"""What one time limit covers, and the most that a kill loses."""

Frame = tuple[str, str, int]
"""Data set, video and frame index."""


def spread_order(n: int) -> list[int]:
    """``0 … n-1`` in an order of which every beginning is spread over the whole range (bits reversed)."""
    bits = max(1, (n - 1).bit_length())
    return sorted(range(n), key=lambda i: int(f"{i:0{bits}b}"[::-1], 2))


def choose_frames(wanted: list[tuple[str, str, list[int]]], limit: int) -> set[Frame]:
    """At most ``limit`` distinct frames, taken evenly over the cases that want them.

    Args:
        wanted: data set, video and frame indices of each case.

    Every case gets a frame before any gets a second one, as far as the limit goes. The first is its last frame: the
    one nearest to the question.
    """
    chosen = {(dataset, video, frame) for dataset, video, frames in wanted for frame in frames}
    if len(chosen) <= limit:
        return chosen
    chosen = set()
    orders = {n: spread_order(n) for n in {len(frames) for *_, frames in wanted}}
    for turn in range(max(orders)):
        for case in spread_order(len(wanted)):
            dataset, video, frames = wanted[case]
            if len(chosen) >= limit:
                return chosen
            if turn < len(frames):
                chosen.add((dataset, video, frames[::-1][orders[len(frames)][turn]]))
    return chosen


@dataclass(frozen=True)
class Job:
    """Some frames of one video for a child process to decode."""

    dataset: str
    video: Video
    frame_times: FrameTimes
    frames: list[int]

    def key(self, frame: int) -> str:
        """Names the picture wherever the video is moved to."""
        return f"{self.video.sha256}/{frame}"


def decode(job: Job) -> list[str]:
    """The job's frames as base64 of small JPEGs, in its order.

    Raises:
        DataError: the video is gone or a frame can't be decoded.
    """
    from scripts.lib.video import read_frames

    return [encode(picture) for picture in read_frames(Path(job.video.path), job.frame_times, job.frames)]


def encode(picture: Any) -> str:
    """Base64 of a JPEG of an RGB array (height, width, 3), at most ``WIDTH`` wide."""
    import cv2

    height, width = picture.shape[:2]
    if width > WIDTH:
        picture = cv2.resize(picture, (WIDTH, max(1, round(height * WIDTH / width))), interpolation=cv2.INTER_AREA)
    _, jpeg = cv2.imencode(".jpg", picture[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return base64.b64encode(jpeg.tobytes()).decode("ascii")


def decode_all(jobs: list[Job], cache: Path, workers: int, timeout_s: float) -> tuple[dict[Frame, str], dict[str, str]]:
    """Pictures of all the jobs' frames, those of an earlier run taken from the cache.

    Args:
        cache: the folder of pictures already made; those made here are added one video part at a time.
        timeout_s: for one job, after which its frames are given up.

    Returns:
        Base64 JPEG per frame, and one line per video (``dataset/video``) that could not be decoded.
    """
    pictures: dict[Frame, str] = {}
    problems: dict[str, str] = {}
    with Cache(cache / f"{fingerprint('thumbnails', WIDTH, QUALITY)}.jsonl") as done:
        todo = [part for job in jobs for part in split(job, {f for f in job.frames if job.key(f) in done})]
        outcomes = run_all(decode, todo, workers, timeout_s)
        for outcome in track(outcomes, "make_report thumbnails", len(todo), "video parts") if todo else ():
            job = outcome.item
            if outcome.value is None:
                problems[f"{job.dataset}/{job.video.id}"] = outcome.error or ""
            for frame, picture in zip(job.frames, outcome.value or [], strict=False):
                done.put(job.key(frame), picture)
        for job in jobs:
            for frame in job.frames:
                if job.key(frame) in done:
                    pictures[job.dataset, job.video.id, frame] = done[job.key(frame)]
    return pictures, problems


def split(job: Job, finished: set[int]) -> list[Job]:
    """What is left of a job, in parts of ``FRAMES_PER_JOB``."""
    left = [frame for frame in job.frames if frame not in finished]
    return [
        Job(job.dataset, job.video, job.frame_times, left[start : start + FRAMES_PER_JOB])
        for start in range(0, len(left), FRAMES_PER_JOB)
    ]
