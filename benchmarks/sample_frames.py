"""What it costs to read 60 frames, evenly spread, out of three minutes of 720p video, and who returns the right ones.

    python -m benchmarks.sample_frames [--workdir DIR]

Renders the clip once (x264 veryfast, B-frames; about a minute), then reads the same frames with lib.video, by a plain
sequential decode, with OpenCV both ways, and with decord and torchcodec where they are installed. Prints CPU time as a
multiple of lib.video's, measured in this one run, and how many of the frames were not the ones asked for: every frame
carries its number in black and white cells.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from scripts.lib import files, probe, progress, video

SECONDS, RATE, WIDTH, HEIGHT, WANTED = 180, 30, 1280, 720, 60
FRAMES = SECONDS * RATE
BITS, CELL = 13, 64


def render(path: Path) -> None:
    """A still, slightly noisy background, a band of stripes moving across it, and the frame's number on top."""
    import av

    rng = np.random.default_rng(0)
    coarse = rng.integers(40, 200, (9, 16)).astype(np.uint8)
    ground = np.kron(coarse, np.ones((HEIGHT // 9, WIDTH // 16), np.uint8)) + rng.integers(
        0, 8, (HEIGHT, WIDTH), np.uint8
    )
    stripes = np.tile((np.arange(2 * WIDTH) // 17 % 3 * 80).astype(np.uint8), (90, 1))
    options = {"preset": "veryfast", "crf": "23", "bf": "3"}
    with files.atomic_path(path) as temporary, av.open(str(temporary), "w") as out:
        stream = out.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.thread_count = 1
        planes = np.full((HEIGHT * 3 // 2, WIDTH), 128, np.uint8)
        for number in progress.track(range(FRAMES), "render", FRAMES, "frames"):
            planes[:HEIGHT] = ground
            planes[500:590] = stripes[:, number * 4 % WIDTH :][:, :WIDTH]
            for bit in range(BITS):
                planes[:CELL, bit * CELL : (bit + 1) * CELL] = 235 if number >> bit & 1 else 16
            out.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        out.mux(stream.encode())


def number(frame: np.ndarray) -> int:
    """The number that ``render`` drew."""
    middle = frame[CELL // 2, CELL // 2 : BITS * CELL : CELL].mean(axis=-1)
    return sum(1 << bit for bit in range(BITS) if middle[bit] > 127)


def ours(path: Path, record: video.FrameTimes, wanted: list[int]) -> Iterator[np.ndarray]:
    return video.read_frames(path, record, wanted)


def linear(path: Path, _record: video.FrameTimes, wanted: list[int]) -> Iterator[np.ndarray]:
    import av

    left = set(wanted)
    with av.open(str(path)) as container:
        container.streams.video[0].codec_context.thread_count = 1
        for index, frame in enumerate(container.decode(video=0)):
            if index in left:
                yield frame.to_ndarray(format="rgb24")
                left.remove(index)
                if not left:
                    return


def opencv_set(path: Path, _record: video.FrameTimes, wanted: list[int]) -> Iterator[np.ndarray]:
    import cv2

    capture = cv2.VideoCapture(str(path))
    for index in wanted:
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        yield capture.read()[1]


def opencv_grab(path: Path, _record: video.FrameTimes, wanted: list[int]) -> Iterator[np.ndarray]:
    import cv2

    capture = cv2.VideoCapture(str(path))
    place = -1
    for index in wanted:
        while place < index and capture.grab():
            place += 1
        yield capture.retrieve()[1]


def decord(path: Path, _record: video.FrameTimes, wanted: list[int]) -> Iterator[np.ndarray]:
    import decord

    yield from decord.VideoReader(str(path), num_threads=1).get_batch(wanted).asnumpy()


def torchcodec(path: Path, _record: video.FrameTimes, wanted: list[int]) -> Iterator[np.ndarray]:
    from torchcodec.decoders import VideoDecoder

    frames = VideoDecoder(str(path), seek_mode="exact", num_ffmpeg_threads=1).get_frames_at(wanted).data
    yield from (frame.permute(1, 2, 0).numpy() for frame in frames)


READERS: dict[str, Callable[[Path, video.FrameTimes, list[int]], Iterator[np.ndarray]]] = {
    "lib.video": ours,
    "PyAV, sequential": linear,
    "OpenCV, set(POS_FRAMES)": opencv_set,
    "OpenCV, grab": opencv_grab,
    "decord": decord,
    "torchcodec": torchcodec,
}


def measure(name: str, path: Path, record: video.FrameTimes, wanted: list[int]) -> tuple[float, float, int]:
    """CPU seconds, wall seconds and frames that were not the ones asked for."""
    cpu, wall = time.process_time(), time.perf_counter()
    got = list(READERS[name](path, record, wanted))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    wrong = sum(number(frame) != index for frame, index in zip(got, wanted, strict=False))
    return cpu, wall, wrong + abs(len(wanted) - len(got))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workdir", type=Path, default=Path(tempfile.gettempdir()) / "sample_frames", help="keeps the clip"
    )
    path = parser.parse_args().workdir / "clip_180s_720p.mp4"
    if not path.is_file():
        render(path)
    record = probe.probe(path).times
    wanted = [round((place + 0.5) * FRAMES / WANTED) for place in range(WANTED)]
    base = 0.0
    print(f"{WANTED} frames of {FRAMES} ({path.stat().st_size / 1e6:.1f} MB): CPU time as a multiple of lib.video's")
    for name in READERS:
        try:
            cpu, wall, wrong = measure(name, path, record, wanted)
        except (ImportError, RuntimeError, OSError) as error:
            print(f"{name:26} not installed or not usable ({type(error).__name__})")
            continue
        base = base or cpu
        print(f"{name:26} {cpu / base:5.2f} x   ({cpu:5.1f} cpu-s, {wall:5.1f} s)   wrong frames: {wrong}")


if __name__ == "__main__":
    main()
