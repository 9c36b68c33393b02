"""Frames into an H.264 file of constant frame rate."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.lib.errors import EngineError

if TYPE_CHECKING:
    import av

ENCODER = "libx264"


def require_encoder() -> None:
    """Raise EngineError when the installed PyAV cannot write H.264."""
    import av

    if ENCODER not in av.codecs_available:
        raise EngineError(
            f"PyAV {av.__version__} has no {ENCODER} encoder; install the wheel of the package av from PyPI"
        )


def encode(
    path: Path, frames: Iterable["av.VideoFrame"], width: int, height: int, fps: int, options: dict[str, Any]
) -> int:
    """Write frames (yuv420p, pts counted in frames) to an mp4; return how many.

    Args:
        options: ``preset`` and ``crf`` of x264.
    Raises:
        EngineError: the encoder or the container refused, e.g. for want of disk space.
    """
    import av

    count = 0
    try:
        with av.open(str(path), "w") as container:
            # one thread: the processes are the parallelism, and the bytes do not depend on the number of cores
            settings = {"preset": options["preset"], "crf": str(options["crf"]), "threads": "1"}
            stream: Any = container.add_stream(ENCODER, rate=fps, options=settings)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            stream.codec_context.thread_count = 1
            for frame in frames:
                container.mux(stream.encode(frame))
                count += 1
            container.mux(stream.encode())
    except av.error.FFmpegError as error:
        raise EngineError(
            f"{path}: not written ({error.strerror}); check the free space and the encoder settings"
        ) from None
    return count
