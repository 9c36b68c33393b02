"""PaddleOCR behind one function: a frame in, its lines of text out.

The engine runs its networks with onnxruntime, so neither paddlepaddle nor a GPU is needed.
"""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from scripts.lib.errors import EngineError
from scripts.lib.records import OcrBox
from scripts.lib.text import nfc

VERSION = 1
"""Part of the cache key: raise it when a code change can change what is read on a frame, here, in ``ocr.hashing``
(which frames are alike) or in ``lib.video`` (their pixels)."""


def manifest(models: Path) -> dict[str, Any]:
    """What fetch_ocr_models wrote about the folder.

    Raises:
        EngineError: the folder is not one that fetch_ocr_models made.
    """
    path = Path(models) / "manifest.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise EngineError(f"{path}: not there or broken; run fetch_ocr_models") from None
    return dict(content)


def version() -> str:
    """Names and versions of the two libraries that read, for records and fingerprints."""
    # The build for CUDA is the same module, under another distribution's name.
    installed = {distribution.metadata["Name"] for distribution in metadata.distributions()}
    runtime = "onnxruntime-gpu" if "onnxruntime-gpu" in installed else "onnxruntime"
    return f"paddleocr {metadata.version('paddleocr')}, {runtime} {metadata.version(runtime)}"


@contextmanager
def _headless_opencv_counts() -> Iterator[None]:
    """PaddleX asks for the distribution opencv-contrib-python by name. The headless build is the same cv2 without the
    window system's libraries, which servers and containers lack, so its version answers for both."""
    real = metadata.version

    def version_of(distribution_name: str) -> str:
        try:
            return real(distribution_name)
        except metadata.PackageNotFoundError:
            if distribution_name != "opencv-contrib-python":
                raise
            return real("opencv-contrib-python-headless")

    metadata.version = version_of
    try:
        yield
    finally:
        metadata.version = real


def load(models: Path, engine: dict[str, Any]) -> Any:
    """A ready engine (about 5 s and 500 MB); keep one per process.

    Args:
        models: folder of fetch_ocr_models.
        engine: the ``engine`` part of config/ocr.yaml.

    Raises:
        EngineError: the models are missing or the engine refuses them.
    """
    made = manifest(models)
    return start(made["detection"], made["recognition"], Path(models), engine)


def start(detection: str, recognition: str, models: Path | None, engine: dict[str, Any]) -> Any:
    """As ``load`` with the names of the networks given; without ``models`` PaddleOCR downloads them."""
    os.environ.setdefault("PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK", "True")
    os.environ.setdefault("OMP_NUM_THREADS", str(engine["threads"]))
    logging.getLogger("paddlex").setLevel(logging.ERROR)
    options = _options(detection, recognition, models, engine)
    try:
        with _headless_opencv_counts():
            import cv2
            from paddleocr import PaddleOCR

            for name in ("paddlex", "paddleocr"):  # importing them has set their levels again
                logging.getLogger(name).setLevel(logging.ERROR)
            cv2.setNumThreads(engine["threads"])
            return PaddleOCR(**options)
    except Exception as error:  # noqa: BLE001 - whatever the engine raises, it means that these models do not run here
        said = " ".join(f"{error} {error.__cause__ or ''}".split())
        raise EngineError(
            f"{models or 'PaddleOCR'}: the OCR engine does not start ({said}); run fetch_ocr_models"
        ) from None


def _options(detection: str, recognition: str, models: Path | None, engine: dict[str, Any]) -> dict[str, Any]:
    return {
        "text_detection_model_name": detection,
        "text_detection_model_dir": str(models / detection) if models else None,
        "text_recognition_model_name": recognition,
        "text_recognition_model_dir": str(models / recognition) if models else None,
        # left at their defaults these three would be downloaded
        "use_doc_orientation_classify": False,
        "use_doc_unwarping": False,
        "use_textline_orientation": False,
        "engine": "onnxruntime",
        "device": engine["device"],
        "engine_config": {"intra_op_num_threads": engine["threads"], "inter_op_num_threads": 1},
        "text_det_limit_side_len": engine["limit_side"],
        "text_det_limit_type": "max",
    }


def read(reader: Any, frame: np.ndarray, source_size: tuple[int, int], min_confidence: float) -> list[OcrBox]:
    """All lines of text on one frame, from top to bottom.

    Args:
        reader: from ``load``.
        frame: height x width x 3, uint8, RGB.
        source_size: width and height of the upright source frame, to whose pixels the boxes are scaled back.
        min_confidence: a line read with less is dropped.
    """
    results = reader.predict(np.ascontiguousarray(frame[:, :, ::-1]))
    height, width = frame.shape[:2]
    return boxes(results[0] if results else None, (source_size[0] / width, source_size[1] / height), min_confidence)


def boxes(result: Any, scale: tuple[float, float], min_confidence: float) -> list[OcrBox]:
    """The engine's result for one frame as records: nothing found, of whatever shape, is an empty list.

    Args:
        result: mapping with ``rec_texts``, ``rec_scores`` and ``rec_polys`` (n x 4 x 2), or None.
        scale: factors that take the engine's x and y to source pixels.
    """
    texts = (result or {}).get("rec_texts") or []
    found = []
    for text, score, polygon in zip(
        texts, result["rec_scores"] if texts else [], result["rec_polys"] if texts else [], strict=True
    ):
        clean = nfc(text).strip()
        if not clean or score < min_confidence:
            continue
        corners = [(round(float(x) * scale[0], 1), round(float(y) * scale[1], 1)) for x, y in polygon]
        found.append(OcrBox(text=clean, confidence=round(float(score), 4), polygon=corners))
    return found
