"""Small real clips for tests, written with PyAV. Frame n shows n as a 10-bit code: pixels give a wrong frame away."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

WIDTH, HEIGHT, BITS = 160, 96, 10
CELL = WIDTH // BITS
RATE = 30
H264_B = {"preset": "veryfast", "bf": "3", "g": "24", "b-adapt": "0", "keyint_min": "24", "sc_threshold": "0"}
X265 = "bframes=3:pools=none:log-level=none"
CODECS = {
    "h264": ("libx264", ".mp4", H264_B),
    "h264_open_gop": ("libx264", ".mp4", {**H264_B, "x264-params": "open-gop=1:b-pyramid=normal"}),
    "h264_mkv": ("libx264", ".mkv", H264_B),
    "h264_avi": ("libx264", ".avi", {"preset": "veryfast", "bf": "0", "g": "24"}),
    "h264_avi_b": ("libx264", ".avi", H264_B),
    "h264_all_intra": ("libx264", ".mp4", {"preset": "ultrafast", "g": "1"}),
    "h264_long_gop": ("libx264", ".mov", {"preset": "veryfast", "bf": "8", "g": "500", "b-pyramid": "strict"}),
    "hevc": ("libx265", ".mp4", {"preset": "ultrafast", "x265-params": f"keyint=24:{X265}"}),
    "hevc_layers": (
        "libx265",
        ".mp4",
        {"preset": "fast", "x265-params": f"b-pyramid=1:temporal-layers=3:keyint=48:{X265}"},
    ),
    "vp9": ("libvpx-vp9", ".webm", {"deadline": "realtime", "cpu-used": "8", "g": "24", "auto-alt-ref": "1"}),
    "av1": ("libsvtav1", ".mp4", {"preset": "12", "g": "24", "svtav1-params": "lp=1"}),
    "mpeg4": ("mpeg4", ".avi", {"g": "12", "bf": "2"}),
}


def picture(number: int, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    """Frame ``number`` as RGB: ten black or white cells above; red at left, blue at right, a moving bar below."""
    frame = np.full((height, width, 3), 90, np.uint8)
    cell = width // BITS
    for bit in range(BITS):
        frame[: height // 2, bit * cell : (bit + 1) * cell] = 235 if number >> bit & 1 else 20
    frame[height * 3 // 4 :, (number * 3) % width :][:, :8] = 200
    frame[height // 2 : height * 3 // 4, : width // 4] = (220, 30, 30)
    frame[height // 2 : height * 3 // 4, width * 3 // 4 :] = (30, 30, 220)
    return frame


def code(frame: np.ndarray) -> int:
    """The number read off a frame of ``picture``, at any size."""
    height, width = frame.shape[:2]
    cell = width / BITS
    luma = frame if frame.ndim == 2 else frame.mean(axis=2)
    return sum(1 << bit for bit in range(BITS) if luma[height // 4, int((bit + 0.5) * cell)] > 127)


def write(
    path: Path,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    frames: int = 75,
    ticks: list[int] | None = None,
    time_base: Fraction = Fraction(1, RATE),
    rotation: float = 0,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    container: dict[str, str] | None = None,
) -> Path:
    """Write ``frames`` pictures, shown at ``ticks`` (default 0, 1, 2 …) of ``time_base``."""
    with av.open(str(path), "w", options=container or {}) as out:
        stream = out.add_stream(codec, rate=RATE)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = time_base
        stream.codec_context.thread_count = 1
        stream.codec_context.options = options or {}
        if rotation:
            stream.set_display_rotation(rotation)
        for number, tick in enumerate(ticks if ticks is not None else range(frames)):
            frame = av.VideoFrame.from_ndarray(picture(number, *size), format="rgb24")
            frame.pts, frame.time_base = tick, time_base
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path


def write_kind(folder: Path, kind: str, frames: int = 75) -> Path:
    """One clip of a row of ``CODECS``."""
    codec, suffix, options = CODECS[kind]
    return write(folder / f"{kind}{suffix}", codec, options, frames)


def variable_ticks(frames: int, seed: int = 0) -> list[int]:
    """Uneven milliseconds: 20 to 60 between frames, with one pause of 2 s."""
    steps = np.random.default_rng(seed).integers(20, 60, frames)
    steps[frames // 2] = 2000
    return np.cumsum(steps).tolist()


def trimmed(source: Path, path: Path, start_s: float) -> Path:
    """Cut without encoding, from the key frame before ``start_s``, with an edit list that hides what is before it."""
    with av.open(str(source)) as read, av.open(str(path), "w") as out:
        track = read.streams.video[0]
        copy = out.add_stream_from_template(track)
        cut = int(start_s / track.time_base)
        read.seek(cut, stream=track)
        for packet in read.demux(track):
            if packet.dts is not None:
                packet.pts -= cut
                packet.dts -= cut
                packet.stream = copy
                out.mux(packet)
    return path


def shifted(path: Path, start_s: float = 5.0, frames: int = 75) -> Path:
    """First frame at ``start_s``, not at 0."""
    first = round(start_s * RATE)
    return write(path, options=H264_B, ticks=list(range(first, first + frames)))


def cut_short(source: Path, path: Path, share: float) -> Path:
    """The first part of a file's bytes, as an interrupted download leaves it."""
    data = source.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


def sound_only(path: Path) -> Path:
    """Half a second of silence and no picture."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("aac", rate=44100)
        for start in range(0, 22050, 1024):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            frame.rate, frame.pts = 44100, start
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path
