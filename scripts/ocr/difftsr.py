"""DiffTSR, diffusion-based super-resolution of text lines, as its authors released it: a text in, a sharper one out.

Needs a GPU and its weights to verify: no step of this module but ``unfit`` has ever run. What the released code is like
(github.com/YuzheZhang-1999/DiffTSR, see containers/images.yaml for the commit):

* It names "cuda" in many places, so nothing runs on a CPU.
* The whole network is built by its YAML file. Its text recognition reads two files named relative to the working
  folder; both names are parameters, so they are given here.
* A text is squeezed or stretched to 512 x 128 pixels, one line, at most 24 characters, 1 to 8 times as wide as high.
* ``DiffTSR_sample`` draws noise and prints a progress bar. By default the text that guides it is the one recognised at
  the start (``general=True``, added after the first release, in which a second diffusion kept correcting it).
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scripts.infer.text_crops import Image
from scripts.lib.errors import EngineError

VERSION = 1
HEIGHT, WIDTH = 128, 512
MOST_CHARACTERS = 24
STEPS = 200
"""Diffusion steps of the release; its authors call 20 still good."""
FILES = ("DiffTSR.ckpt", "transocr.pth")
"""What the folder of weights must hold, under the names that the release uses."""


def unfit(text: str, height: float, width: float) -> str:
    """Why the model does not take this text, in two or three words; empty where it does.

    Args:
        text: as the OCR read it.
        height: across it, in pixels of the frame, and ``width`` along it.
    """
    if len(text) > MOST_CHARACTERS:
        return f"over {MOST_CHARACTERS} characters"
    if not 1 <= width / height <= 8:
        return "too narrow or too wide"
    if height > HEIGHT or width > WIDTH:
        return "larger than the model's input"
    return ""


def load(weights: Path, steps: int, seed: int) -> Callable[[Image], Image]:
    """A function that takes a text that fits (height x width x 3, RGB) and returns 128 x 512 x 3.

    Args:
        weights: folder with ``FILES``, put there by hand (docs/super_resolution.md).
        steps: of the diffusion.
        seed: of its noise, the same for every text, so that a result does not depend on what was done before.

    Raises:
        EngineError: a file is missing, no GPU, or the released code does not run.
    """
    missing = [name for name in FILES if not (Path(weights) / name).is_file()]
    if missing:
        raise EngineError(f"{weights}: no {' and no '.join(missing)}; see docs/super_resolution.md")
    try:
        import torch

        pipeline = _pipeline(Path(weights).resolve(), steps)
    except Exception as error:  # noqa: BLE001 - whatever the released code raises, it means that it does not run here
        said = " ".join(f"{type(error).__name__} {error}".split())
        raise EngineError(f"DiffTSR does not start ({said}); run it on a GPU in the image difftsr") from None

    def enlarge(patch: Image) -> Image:
        from PIL import Image as Pil

        torch.manual_seed(seed)  # of all GPUs too
        try:
            return np.asarray(pipeline.DiffTSR_sample(Pil.fromarray(patch).resize((WIDTH, HEIGHT))), np.uint8)
        except RuntimeError as error:  # of CUDA
            raise EngineError(f"DiffTSR failed: {' '.join(str(error).split())}; run again") from None

    return enlarge


def _pipeline(weights: Path, steps: int) -> Any:
    """The released pipeline with its weights, set to so many steps."""
    from omegaconf import OmegaConf

    released = importlib.import_module("model.DiffTSR")  # the image has its folder on the path
    code = Path(released.__file__).parent
    settings = OmegaConf.load(code / "DiffTSR_config.yaml").model.params
    settings.Text_Prediction_config.params = {
        "alphabet_path": str(code / "TDM" / "utils" / "benchmark.txt"),
        "ckpt_path": str(weights / "transocr.pth"),
    }
    pipeline = released.DiffTSR_pipline(**settings)
    pipeline.load_model(str(weights / "DiffTSR.ckpt"))
    pipeline.IDM_ddim_schedule_init(ddim_num_steps=steps, ddim_discretize="uniform", ddim_eta=0.2, verbose=False)
    released.tqdm = lambda items, **_: items  # a bar for each text would fill the log
    return pipeline
