"""Makes PyPI's torchvision importable beside a CPU-only torch.

PyPI's Linux wheel of torchvision is a CUDA build whose C extension can't load without CUDA's libraries. Qwen-VL's
processors only need its transforms, which are plain torch, but ``import torchvision`` fails on two missing operators.
Declaring them is enough: nothing here calls them.
"""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

_declared: list[Any] = []
"""Keeps the library alive: its operators vanish with it."""


def install() -> None:
    """Declare torchvision's two operators where its own extension can't be loaded. Call before importing transformers'
    processors; calling it again does nothing, nor does it where torchvision is missing or works by itself."""
    spec = importlib.util.find_spec("torchvision")
    if _declared or spec is None or spec.origin is None:
        return
    torch: Any = importlib.import_module("torch")
    try:
        for extension in Path(spec.origin).parent.glob("_C*.so"):
            torch.ops.load_library(str(extension))
    except OSError:  # the CUDA build on a machine without CUDA
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)
