"""Frames of a video by exact presentation time: the only code that decodes.

Frame i is the i-th frame that a full sequential decode shows. Its time is what the container says, never i/fps: header
counts, average rates and the seeking of most readers are wrong for variable rates, B-frames and trimmed files.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scripts.lib.errors import ConfigError, DataError
from scripts.lib.records import FrameTimes

Image = npt.NDArray[np.uint8]
Seconds = npt.NDArray[np.float64]
Ticks = npt.NDArray[np.int64]

LEAD_IN_S = 0.15
"""Before a wanted frame everything is decoded for so long, so that the decoder's reordering has settled by then."""
SKIPPABLE = ("h264",)
"""Codecs whose unreferenced frames are never needed by any other frame. In HEVC "unreferenced" holds only within one
temporal layer, and the VP9 and AV1 decoders ignore the request."""
GUESSED_STAMPS = ("avi",)
"""Containers without presentation times, one tick a frame. Those that the demuxer makes up are wrong with B-frames; in
a sequential decode the decoding times do instead (they come in order, and end before the decoder's last frames)."""
LUMA_8_BIT = ("yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p", "nv12", "gray")


def encode_times(video: str, ticks: Ticks, time_base: tuple[int, int]) -> FrameTimes:
    """Run-length code strictly rising presentation time stamps (at least one) of the video with this id."""
    steps = [(step, len(list(run))) for step, run in groupby(np.diff(ticks).tolist())]
    return FrameTimes(id=video, time_base=time_base, start=int(ticks[0]), steps=steps)


def frame_ticks(record: FrameTimes) -> Ticks:
    """Presentation time stamps of all frames in ticks of ``record.time_base``, shape (n_frames,)."""
    steps = np.array([step for step, _ in record.steps], dtype=np.int64)
    repeats = np.array([count for _, count in record.steps], dtype=np.int64)
    return np.concatenate([[record.start], record.start + np.cumsum(np.repeat(steps, repeats))]).astype(np.int64)


def frame_times(record: FrameTimes) -> Seconds:
    """Presentation times of all frames in seconds, shape (n_frames,), strictly rising."""
    numerator, denominator = record.time_base
    return frame_ticks(record) * numerator / denominator


def read_frames(path: Path, record: FrameTimes, indices: Sequence[int]) -> Iterator[Image]:
    """Yield the upright RGB frames (height, width, 3) at these indices, equal to those of a full sequential decode.

    Seeks to the key frame before each wanted frame, skips what no other frame needs, and checks every frame by its
    time stamp; a file whose seeking is not exact is decoded from its start instead.

    Args:
        indices: strictly rising frame numbers, each below the number of frames of ``record``.

    Raises:
        DataError: the file cannot be opened, or does not hold a frame that ``record`` promises.
    """
    ticks = frame_ticks(record)
    wanted = list(indices)
    if any(later <= sooner for sooner, later in pairwise(wanted)):
        raise ValueError(f"frame indices must rise strictly, got {wanted}")
    if wanted and (wanted[0] < 0 or wanted[-1] >= len(ticks)):
        raise DataError(f"{path}: asked for frames {wanted[0]} to {wanted[-1]} of {len(ticks)}; plan the frames anew")
    targets = [int(ticks[index]) for index in wanted]
    done = 0
    for frame in _seek_frames(Path(path), targets):
        yield upright(frame)
        done += 1
    for frame in _linear_frames(Path(path), targets[done:]):
        yield upright(frame)


def read_batch(task: tuple[Path, FrameTimes, Sequence[int], dict[str, Any]]) -> list[Image]:
    """``read_frames`` resized, all at once: the function for ``lib.workers.run_all``.

    Args:
        task: (path, record, indices, resolution as in config/resolutions).
    """
    path, record, indices, resolution = task
    return [resize(frame, resolution) for frame in read_frames(path, record, indices)]


def read_luma(path: Path) -> Iterator[tuple[int, Image]]:
    """Yield (time stamp in ticks, brightness plane (height, width)) of every frame, in order, as fast as decoding goes.

    The plane is as stored, before rotation, and shares memory with the decoder's frame: copy what must outlast it.
    These are the frames that ``lib.probe`` counts, so the n-th one has index n.

    Raises:
        DataError: the file cannot be opened or has no picture track.
    """
    with open_video(path) as container:
        for frame in sequential(container, []):
            yield frame.pts, _luma(frame)


def resize(frame: Image, resolution: dict[str, Any]) -> Image:
    """Shrink a frame (height, width, 3) as a file in config/resolutions says; never beyond the source's longer side.

    * ``native``: unchanged.
    * ``long_side``: the longer side becomes ``pixels``, the aspect stays; a smaller frame is unchanged.
    * ``square``: both sides become ``pixels`` and the aspect is lost (MyEgo feeds 384 x 384), or the source's longer
      side where that is less: the shorter side may be stretched to a square, no frame grows in both directions.

    New sides are even, at least 2. Shrinking averages areas.

    Raises:
        ConfigError: an unknown kind.
    """
    kind = resolution["kind"]
    height, width = frame.shape[:2]
    if kind == "native":
        return frame
    pixels = int(resolution["pixels"])
    if kind == "long_side":
        scale = pixels / max(height, width)
        if scale >= 1:
            return frame
        return _scaled(frame, _even(height * scale), _even(width * scale))
    if kind == "square":
        side = min(pixels, max(height, width)) // 2 * 2
        return _scaled(frame, max(2, side), max(2, side))
    raise ConfigError(f"resolution kind '{kind}' is not known (there is: native, long_side, square)")


def _even(length: float) -> int:
    return max(2, 2 * round(length / 2))


def _scaled(frame: Image, height: int, width: int) -> Image:
    import cv2

    # In two steps, because OpenCV averages areas only when both sides shrink
    shrunk = (min(width, frame.shape[1]), min(height, frame.shape[0]))
    if shrunk != (frame.shape[1], frame.shape[0]):
        frame = np.asarray(cv2.resize(frame, shrunk, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    if shrunk != (width, height):
        frame = np.asarray(cv2.resize(frame, (width, height), interpolation=cv2.INTER_LINEAR), dtype=np.uint8)
    return frame


def open_video(path: Path) -> Any:
    """An open PyAV container (a context manager) with at least one picture track, single-threaded.

    Raises:
        DataError: says whether the file is missing, empty, no video at all, or cut before its index.
    """
    container, why = try_open(Path(path))
    if container is None:
        raise DataError(f"{path}: {why}; fetch or render it again")
    return container


def try_open(path: Path) -> tuple[Any, str]:
    """(the container of ``open_video``, "") or (None, one line saying why there is none)."""
    import av

    if not path.is_file():
        return None, "no such file"
    if path.stat().st_size == 0:
        return None, "the file is empty (0 bytes)"
    try:
        container = av.open(str(path), metadata_errors="replace")
    except (av.error.FFmpegError, ValueError) as error:
        return None, _unreadable(path, error)
    if not any(_is_picture(stream) for stream in container.streams.video):
        container.close()
        return None, "no picture track that can be decoded (sound only?)"
    picture_stream(container).codec_context.thread_count = 1
    return container, ""


def _unreadable(path: Path, error: Exception) -> str:
    with path.open("rb") as file:
        head = file.read(12)
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"):
        return "the MP4 index (moov) is missing or broken, as in a download or recording that was cut short"
    if head[:4] in (b"\x1aE\xdf\xa3", b"RIFF"):
        return f"the container is broken ({reason(error)})"
    return "not a video (a text or HTML page saved under this name?)"


def reason(error: Exception) -> str:
    """What the decoder says, without the path and number that PyAV adds."""
    return getattr(error, "strerror", None) or " ".join(str(error).split())


def picture_stream(container: Any) -> Any:
    """The track that all functions here decode: the first that is not a cover picture."""
    return next(stream for stream in container.streams.video if _is_picture(stream))


def _is_picture(stream: Any) -> bool:
    import av

    return stream.codec_context is not None and not stream.disposition & av.stream.Disposition.attached_pic


def sequential(container: Any, trouble: list[str]) -> Iterator[Any]:
    """Yield the good PyAV frames from the start: those before the first error whose time stamps rise.

    Errors before the first good frame are passed over: a stream cut from a longer one may begin between key frames.

    Args:
        trouble: receives one line when decoding stops before the end, or never begins.
    """
    import av

    stream = picture_stream(container)
    last: int | None = None
    early = ""
    for packet in _packets(container, stream, trouble):
        try:
            frames = stream.codec_context.decode(packet)
        except (av.error.FFmpegError, ValueError) as error:
            if last is not None:
                trouble.append(reason(error))
                return
            early = early or reason(error)
            continue
        for frame in frames:
            if frame.is_corrupt and last is not None:
                trouble.append("a frame is damaged")
                return
            if frame.is_corrupt:
                continue
            if container.format.name in GUESSED_STAMPS:
                early_stamp = frame.dts is None or (last is not None and frame.dts <= last)
                frame.pts = (last or 0) + 1 if early_stamp else frame.dts
            if frame.pts is not None and (last is None or frame.pts > last):
                last = frame.pts
                yield frame
    if last is None and early:
        trouble.append(early)


def _packets(container: Any, stream: Any, trouble: list[str]) -> Iterator[Any]:
    """Yield packets up to the first damaged one, and whatever makes the decoder hand out its last frames."""
    import av

    try:
        for packet in container.demux(stream):
            if packet.is_corrupt:
                trouble.append("the file ends in the middle of a frame")
                break
            yield packet
        else:
            return
    except (av.error.FFmpegError, ValueError) as error:
        trouble.append(reason(error))
    yield None


def upright(frame: Any) -> Image:
    """The RGB picture (height, width, 3) of a PyAV frame as a player shows it: the file's rotation is applied."""
    picture = frame.to_ndarray(format="rgb24")
    return np.ascontiguousarray(np.rot90(picture, round(frame.rotation / 90) % 4))


def _luma(frame: Any) -> Image:
    if frame.format.name not in LUMA_8_BIT:
        return np.asarray(frame.to_ndarray(format="gray"), dtype=np.uint8)
    plane = frame.planes[0]
    return np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: frame.height, : frame.width]


def _linear_frames(path: Path, targets: list[int]) -> Iterator[Any]:
    """Yield the frames with these time stamps, decoding from the start.

    Raises:
        DataError: one of them does not come.
    """
    if not targets:
        return
    trouble: list[str] = []
    place = 0
    with open_video(path) as container:
        for frame in sequential(container, trouble):
            if frame.pts == targets[place]:
                yield frame
                place += 1
                if place == len(targets):
                    return
    why = f" ({trouble[0]})" if trouble else ""
    raise DataError(f"{path}: no frame with time stamp {targets[place]}{why}; the file changed, run probe_videos anew")


def _seek_frames(path: Path, targets: list[int]) -> Iterator[Any]:
    """Yield frames with these time stamps as long as seeking finds each; stop silently at the first it does not."""
    import av

    if not targets:
        return
    with open_video(path) as scout, open_video(path) as container:
        if container.format.name in GUESSED_STAMPS:
            return
        starts = [_key_before(scout, target) for target in targets]
        for start, group in groupby(zip(starts, targets, strict=True), key=lambda pair: pair[0]):
            if start is None:
                return
            wanted = [target for _, target in group]
            found = 0
            try:
                for frame in _decode_from(container, start, wanted):
                    yield frame
                    found += 1
            except (av.error.FFmpegError, ValueError):
                return
            if found < len(wanted):
                return


def _key_before(container: Any, target: int) -> int | None:
    """The time stamp of the last key frame shown no later than ``target``; None where the container cannot tell."""
    import av

    stream = picture_stream(container)
    ask = target
    for _ in range(4):  # containers index by decoding time, so the first answer may be shown after the target
        try:
            container.seek(ask, stream=stream)
            packet = next(container.demux(stream))
        except (av.error.FFmpegError, StopIteration):
            return None
        if packet.pts is None or not packet.is_keyframe:
            return None
        if packet.pts <= target:
            return int(packet.pts)
        ask = min(ask, packet.pts if packet.dts is None else packet.dts) - 1
    return None


def _decode_from(container: Any, start: int, targets: list[int]) -> Iterator[Any]:
    """Yield the frames at ``targets``, all of them decodable from the key frame shown at ``start``."""
    stream = picture_stream(container)
    context = stream.codec_context
    lead = int(LEAD_IN_S / stream.time_base) + 1
    container.seek(start, stream=stream)
    place = 0
    for packet in _packets(container, stream, []):
        if context.name in SKIPPABLE:
            near = packet is None or packet.pts is None or packet.pts >= targets[place] - lead
            context.skip_frame = "DEFAULT" if near else "NONREF"
        for frame in context.decode(packet):
            if frame.is_corrupt or frame.pts is None or frame.pts > targets[place]:
                return
            if frame.pts == targets[place]:
                yield frame
                place += 1
                if place == len(targets):
                    return
