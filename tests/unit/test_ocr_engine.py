"""The real OCR engine: what it reads, that a fresh process reads the same, and that a killed run is resumed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from scripts.lib import jsonl
from scripts.lib.errors import EngineError
from scripts.lib.records import OcrFrame
from scripts.ocr import engine, extract_ocr, fetch_ocr_models, settings
from tests.unit import ocr_sample

pytestmark = pytest.mark.slow
ENGINE = yaml.safe_load((ocr_sample.CONFIG / "ocr.yaml").read_text(encoding="utf-8"))["engine"]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ocr") / "models"
    wanted = settings.read("ocr", ocr_sample.CONFIG / "ocr.yaml")["models"]
    assert fetch_ocr_models.fetch({**wanted, "sources": ["package"]}, folder) == "package rapidocr"
    return folder


@pytest.fixture(scope="session")
def reader(models: Path) -> Any:
    return engine.load(models, ENGINE)


def test_the_models_folder_is_whole_and_can_be_made_again(models: Path) -> None:
    made = engine.manifest(models)
    assert set(made["sha256"]) == {
        f"{made[part]}/inference.{end}" for part in ("detection", "recognition") for end in ("onnx", "yml")
    }
    wanted = settings.read("ocr", ocr_sample.CONFIG / "ocr.yaml")["models"]
    (models / "stray").write_text("", encoding="utf-8")
    fetch_ocr_models.fetch({**wanted, "sources": ["package"]}, models)
    assert engine.manifest(models) == made and not (models / "stray").exists()
    assert [path.name for path in models.parent.iterdir()] == ["models"]


def test_accents_are_read_and_boxes_lie_on_the_source(reader: Any) -> None:
    lines = ["Crème brûlée 42", "naïve façade"]
    picture = ocr_sample.picture(lines)
    found = engine.read(reader, picture, ocr_sample.SIZE, 0.5)
    assert [box.text for box in found] == lines
    assert all(box.confidence > 0.8 and len(box.polygon) == 4 for box in found)
    left, top, _, bottom = found[0].box
    assert left == pytest.approx(40, abs=8) and 35 < top < 60 and 70 < bottom < 95
    twice = engine.read(reader, picture, (2 * ocr_sample.SIZE[0], 2 * ocr_sample.SIZE[1]), 0.5)
    assert twice[0].box == tuple(2 * edge for edge in found[0].box)


@pytest.mark.parametrize("ground", [0, 127, 255])
def test_a_blank_frame_has_no_text(reader: Any, ground: int) -> None:
    assert engine.read(reader, np.full((360, 640, 3), ground, np.uint8), (640, 360), 0.5) == []


def test_broken_models_are_one_line(models: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes((models / "manifest.json").read_bytes())
    with pytest.raises(EngineError, match="fetch_ocr_models") as error:
        engine.load(tmp_path, ENGINE)
    assert "\n" not in str(error.value)


def talking_clip(folder: Path, frames: int) -> Path:
    texts = [["frame number", f"{number * 137 % 1000:03} été"] for number in range(frames)]
    return ocr_sample.encode(folder / "v.mp4", [ocr_sample.picture(lines) for lines in texts])


def test_a_recycled_worker_reads_the_same_and_quietly(
    models: Path, reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made = ocr_sample.inputs(tmp_path, {"v": talking_clip(tmp_path, 4)}, {"v": [[0, 1, 2, 3]]})
    yaml_file = ocr_sample.settings(tmp_path, frames_per_item=2, items_per_process=1)
    command = ocr_sample.arguments(tmp_path, made, models, tmp_path / "ocr.jsonl", yaml_file)
    assert extract_ocr.main(command) == 0
    said = capfd.readouterr()
    assert said.out == "" and all(line.startswith("extract_ocr ") for line in said.err.splitlines()), said.err
    monkeypatch.setattr(extract_ocr, "_reader", lambda *_: reader)
    args = ocr_sample.parsed([*command, "--cache", str(tmp_path / "here")])
    items = extract_ocr.plan_items(args)
    assert [extract_ocr.read_item(item) for item in items] == [None, None]
    found = list(jsonl.read(tmp_path / "ocr.jsonl", OcrFrame))
    assert found == [record for item in items for record in extract_ocr.records(item)]
    assert found[1].boxes[-1].text == "137 été"


def test_after_kill_minus_9_only_what_is_missing_is_read(models: Path, tmp_path: Path) -> None:
    frames = list(range(12))
    made = ocr_sample.inputs(tmp_path, {"v": talking_clip(tmp_path, 12)}, {"v": [frames]})
    yaml_file = ocr_sample.settings(tmp_path)
    command = ocr_sample.arguments(tmp_path, made, models, tmp_path / "ocr.jsonl", yaml_file)
    program = [sys.executable, "-m", "scripts.ocr.extract_ocr", *command]
    running = subprocess.Popen(program, cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while sum(lines.count(b"\n") for lines in ocr_sample.cache_lines(tmp_path).values()) < 3:
        assert running.poll() is None and time.monotonic() < deadline, "the run ended before it could be killed"
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    ((path, kept),) = ocr_sample.cache_lines(tmp_path).items()
    kept = kept[: kept.rfind(b"\n") + 1]
    assert not (tmp_path / "ocr.jsonl").exists() and 3 <= kept.count(b"\n") < len(frames)
    assert subprocess.run(program, cwd=ROOT, check=False, capture_output=True).returncode == 0
    whole = Path(path).read_bytes()
    assert whole.startswith(kept) and whole.count(b"\n") == len(frames)
    found = list(jsonl.read(tmp_path / "ocr.jsonl", OcrFrame))
    assert [record.frame for record in found] == frames
    assert all(record.boxes[-1].text == f"{record.frame * 137 % 1000:03} été" for record in found)
