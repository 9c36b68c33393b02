"""What a video file really holds, found by decoding all of it: headers lie about counts, rates and ends."""

from pathlib import Path
from typing import Any

import numpy as np

from scripts.lib.records import FrameTimes, Record, Seconds, VideoStatus
from scripts.lib.video import Ticks, encode_times, picture_stream, sequential, try_open

VERSION = 1
"""Part of the cache key: raise it when a finding below can come out differently."""
SLACK_S = 0.5
"""A header may promise so much more than decodes, for the rounding of containers, before the file counts as cut."""


class Probe(Record):
    """Findings about one file; for a status other than ``ok`` and ``truncated`` only ``status`` and ``detail`` count.

    Sizes are those of the stored frame, before rotation.
    """

    status: VideoStatus
    detail: str = ""
    duration_s: Seconds = 0.0
    """From the first frame's time to the moment the last frame's showing ends."""
    fps_avg: Seconds = 0.0
    n_frames: int = 0
    width: int = 0
    height: int = 0
    rotation: int = 0
    """Degrees counter-clockwise that make the stored frame upright, one of 0, 90, 180, 270."""
    vfr: bool = False
    codec: str = ""
    times: FrameTimes | None = None
    """Of the good part; its id is a placeholder, to be set with ``model_copy``."""


def probe(path: Path) -> Probe:
    """Decode every frame of a file and say what is in it. Never raises for a bad file.

    ``truncated``: decoding fails, or the file ends more than half a second before its header says, after some good
    frames, which are kept. ``undecodable``: no frame and an error. ``zero_frames``: a sound file with an empty track.
    """
    container, why = try_open(Path(path))
    if container is None:
        return Probe(status="undecodable", detail=why)
    trouble: list[str] = []
    ticks: list[int] = []
    first: Any = None
    last: Any = None
    with container:
        stream = picture_stream(container)
        for last in sequential(container, trouble):
            first = first or last
            ticks.append(last.pts)
        codec = stream.codec_context.codec.canonical_name
        time_base = stream.time_base
        promised_s = _promised_end(container, stream)
    if first is None:
        if trouble:
            return Probe(status="undecodable", detail=f"no frame decodes ({trouble[0]})", codec=codec)
        return Probe(status="zero_frames", detail="the picture track holds no frames", codec=codec)
    stamps = np.array(ticks, dtype=np.int64)
    shown = last.duration or (int(np.median(np.diff(stamps))) if len(stamps) > 1 else 0)
    end_s = float((ticks[-1] + shown) * time_base)
    if not trouble and promised_s is not None and end_s < promised_s - SLACK_S - float(2 * shown * time_base):
        trouble.append("the file ends there")
    promise = f" of {promised_s:.1f} s" if promised_s else ""
    duration_s = end_s - float(ticks[0] * time_base)
    return Probe(
        status="truncated" if trouble else "ok",
        detail=f"good until {end_s:.1f} s{promise}: {trouble[0]}" if trouble else "",
        duration_s=duration_s,
        fps_avg=len(ticks) / duration_s if duration_s > 0 else 0.0,
        n_frames=len(ticks),
        width=first.width,
        height=first.height,
        rotation=round(first.rotation / 90) % 4 * 90,
        vfr=is_variable(stamps),
        codec=codec,
        times=encode_times("probe", stamps, (time_base.numerator, time_base.denominator)),
    )


def is_variable(ticks: Ticks) -> bool:
    """Whether the steps differ by more than one tick, which is what rounding a constant rate to ticks can do."""
    steps = np.diff(ticks)
    return bool(len(steps)) and int(steps.max() - steps.min()) > 1


def _promised_end(container: Any, stream: Any) -> float | None:
    """Where the header says the picture track ends, in seconds; None where it says nothing about this track alone."""
    start = float((stream.start_time or 0) * stream.time_base)
    if stream.duration:
        return start + float(stream.duration * stream.time_base)
    tag = stream.metadata.get("DURATION", "")
    if tag.count(":") == 2:
        hours, minutes, seconds = tag.split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    if container.duration and len(container.streams) == 1:
        return float((container.start_time or 0) + container.duration) / 1e6
    return None
