"""Scene text on real frames: cut, enlarged and put back, and the file that holds it in between."""

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from scripts.infer import text_crops
from scripts.infer.text_crops import Crop, Cut, open_crops, paste
from scripts.lib import jsonl
from scripts.lib.errors import DataError, EngineError
from scripts.lib.records import OcrBox, OcrFrame
from scripts.ocr import build_text_crops, difftsr
from tests.unit import clips, ocr_sample

ROOT = Path(__file__).parents[2]
INK, PAPER = (250, 240, 60), (20, 60, 140)


def read(boxes: list[list[tuple[float, float]]], width: int, height: int, text: str = "sign") -> OcrFrame:
    found = [OcrBox(text=text, confidence=0.9, polygon=box) for box in boxes]
    return OcrFrame(video="v", frame=0, t=0.0, width=width, height=height, boxes=found)


def upright(left: float, top: float, right: float, bottom: float) -> list[tuple[float, float]]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def slanted(angle: float, size: tuple[int, int] = (400, 300)) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """A frame with one word, its line falling by ``angle`` degrees, and the corners around it."""
    word, middle = Image.new("RGB", size, PAPER), np.array(size) / 2
    font = ImageFont.truetype(ocr_sample.FONT, 30)
    ImageDraw.Draw(word).text(tuple(middle), "HEIGHT", font=font, fill=INK, anchor="mm")
    left, top, right, bottom = ImageDraw.Draw(word).textbbox(tuple(middle), "HEIGHT", font=font, anchor="mm")
    turn = np.deg2rad(angle)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    corners = (np.array(upright(left - 4, top - 4, right + 4, bottom + 4)) - middle) @ matrix.T + middle
    return np.array(word.rotate(-angle, Image.Resampling.BICUBIC, fillcolor=PAPER)), [tuple(c) for c in corners]


def ink_height(frame: np.ndarray, angle: float) -> float:
    """Extent of the ink across its line, in pixels."""
    y, x = np.nonzero(np.abs(frame.astype(int) - PAPER).sum(axis=2) > np.abs(np.subtract(INK, PAPER)).sum() / 2)
    turn = np.deg2rad(angle)
    return float(np.ptp(y * np.cos(turn) - x * np.sin(turn))) + 1


def enlarged(frame: np.ndarray, seen: OcrFrame) -> list[Crop]:
    pieces, _ = text_crops.cut(frame, seen)
    return [Crop(one.quad, text_crops.enlarge_lanczos(one.image, 128, 512), frame.shape[:2]) for one in pieces]


@pytest.mark.parametrize("angle", [0, 0.2, 17, -30, 90, -78, 180])
@pytest.mark.parametrize("scale", [1.0, 1.25, 1.5])
def test_text_put_back_is_as_tall_as_the_scale_says(angle: float, scale: float) -> None:
    frame, box = slanted(angle)
    shown = paste(frame, enlarged(frame, read([box], 400, 300)), scale)
    assert shown.shape == frame.shape and shown.dtype == np.uint8
    assert ink_height(shown, angle) == pytest.approx(scale * ink_height(frame, angle), abs=1.3)
    before, after = (np.argwhere(one[..., 0] > 135).mean(axis=0)[::-1] for one in (frame, shown))
    middle = np.mean(box, axis=0)
    assert np.hypot(*(middle + scale * (before - middle) - after)) < 1.5  # upright ones go to whole pixels, twice


@pytest.mark.parametrize(("angle", "loss"), [(0, 38), (90, 38), (17, 30)])
def test_the_detour_over_the_enlarged_text_costs_little(angle: float, loss: float) -> None:
    frame, box = slanted(angle)
    (crop,) = enlarged(frame, read([box], 400, 300))
    assert crop.image.shape[:2] == (128, 512)
    assert cv2.PSNR(frame, paste(frame, [crop], 1.0)) > loss


corners = st.lists(st.tuples(st.floats(-20, 420), st.floats(-20, 320)), min_size=3, max_size=6)
noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3)).astype(np.uint8)


@settings(max_examples=60)
@given(polygon=corners)
def test_a_rectangle_holds_its_polygon_and_is_not_mirrored(polygon: list[tuple[float, float]]) -> None:
    quad = text_crops.rectangle(np.array(polygon))
    along, down = quad[1] - quad[0], quad[3] - quad[0]
    assert np.allclose(quad[2], quad[1] + down, atol=0.05) and abs(along @ down) < 0.05 * (1 + np.hypot(*along))
    assert along[0] * down[1] - along[1] * down[0] >= -0.1
    across, height = text_crops.sides(quad)
    assert height < text_crops.ON_END * across + 0.1 or not across
    outline = quad.astype(np.float32)
    assert all(cv2.pointPolygonTest(outline, point, measureDist=True) > -0.05 for point in polygon)


@settings(max_examples=60)
@given(polygons=st.lists(corners, max_size=4), scale=st.floats(0.5, 4))
def test_pixels_outside_the_scaled_texts_are_untouched(polygons: list, scale: float) -> None:
    before = noise.copy()
    crops = enlarged(noise, read(polygons, 400, 300))
    shown = paste(noise, crops, scale)
    assert shown.shape == noise.shape and shown.dtype == noise.dtype and (noise == before).all()
    near = np.zeros(noise.shape[:2], np.uint8)
    for crop in crops:
        centre = crop.quad.mean(axis=0)
        cv2.fillConvexPoly(near, np.round(centre + scale * (crop.quad - centre) - 0.5).astype(int), 1)
    far = cv2.dilate(near, np.ones((5, 5), np.uint8)) == 0
    assert (shown[far] == noise[far]).all()


@settings(max_examples=40)
@given(left=st.integers(0, 350), top=st.integers(0, 250), width=st.integers(4, 200), height=st.integers(4, 200))
def test_upright_text_not_enlarged_comes_back_byte_for_byte(left: int, top: int, width: int, height: int) -> None:
    seen = read([upright(left, top, left + width, top + height)], 400, 300)
    pieces, _ = text_crops.cut(noise, seen)
    assert (paste(noise, [Crop(one.quad, one.image, (300, 400)) for one in pieces], 1.0) == noise).all()


def test_a_box_of_the_source_is_cut_from_the_shrunken_frame_whatever_its_aspect() -> None:
    pieces, left_out = text_crops.cut(noise, read([upright(100, 300, 500, 420)], 1000, 1500))
    assert left_out == 0 and (pieces[0].image == noise[60:84, 40:200]).all() and pieces[0].text == "sign"


def test_a_line_that_stands_on_end_is_laid_down_from_above() -> None:
    (piece,), _ = text_crops.cut(noise, read([upright(40, 50, 60, 150)], 400, 300))
    assert (piece.image == np.rot90(noise[50:150, 40:60])).all()


def test_texts_too_small_or_outside_are_left_out_and_counted() -> None:
    boxes = [upright(0, 0, 300, 3), upright(-50, 10, -10, 40), upright(10, 290, 60, 330), upright(5, 5, 60, 25)]
    pieces, left_out = text_crops.cut(noise, read(boxes, 400, 300))
    assert left_out == 3 and (pieces[0].image == noise[5:25, 5:60]).all()


def test_a_small_text_stays_visible_over_a_large_one() -> None:
    flat = {shade: np.full((20, 40, 3), shade, np.uint8) for shade in (10, 200)}
    large = Crop(np.array(upright(100, 100, 200, 150)), flat[10], (300, 400))
    small = Crop(np.array(upright(140, 120, 180, 140)), flat[200], (300, 400))
    for order in ([large, small], [small, large]):
        assert paste(noise, order, 1.5)[130, 160].tolist() == [200] * 3


def test_text_of_another_resolution_is_refused() -> None:
    crops = enlarged(noise, read([upright(5, 5, 60, 25)], 400, 300))
    with pytest.raises(DataError, match="300x400 pixels on one of 150x200; rerun build_text_crops"):
        paste(noise[:150, :200], crops, 1.0)


def test_enlarging_never_shrinks_a_side() -> None:
    assert text_crops.enlarge_lanczos(noise[:20, :], 128, 300).shape == (128, 400, 3)


def crops_file(path: Path, names: list[str]) -> text_crops.Crops:
    """Frames 3 and 4 of each video: one with two texts, one without any."""
    pieces, _ = text_crops.cut(noise, read([upright(5, 5, 60, 25), [(9, 50), (90, 70), (85, 90), (4, 70)]], 400, 300))
    packed = [text_crops.pack(one.quad, one.image, one.text) for one in pieces]
    frames = [(Cut(name, 3, (300, 400), packed), Cut(name, 4, (0, 0), [])) for name in names]
    text_crops.write(path, [cut for pair in frames for cut in pair])
    return open_crops(path)


def test_a_crops_file_gives_back_what_went_in(tmp_path: Path) -> None:
    known = crops_file(tmp_path / "a.zip", ["v/1", "ü"])
    pieces, _ = text_crops.cut(noise, read([upright(5, 5, 60, 25), [(9, 50), (90, 70), (85, 90), (4, 70)]], 400, 300))
    for made, piece in zip(pickle.loads(pickle.dumps(known)).of("ü", 3), pieces, strict=True):
        assert (made.image == piece.image).all() and (made.quad == piece.quad).all()
        assert made.frame_size == (300, 400)
    assert known.of("v/1", 4) == []
    with pytest.raises(DataError, match=r"no frame 5 of v/1: .*rerun build_text_crops"):
        known.of("v/1", 5)
    assert open_crops(tmp_path / "a.zip") is known


def test_the_same_crops_are_the_same_bytes_and_kept_once(tmp_path: Path) -> None:
    crops_file(tmp_path / "a.zip", ["v", "w"])
    crops_file(tmp_path / "b.zip", ["v", "w"])
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        assert {entry.date_time for entry in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert len(file.namelist()) == 3  # two pictures and the index


def test_identity_tells_what_is_put_on_the_frames(tmp_path: Path) -> None:
    known = crops_file(tmp_path / "a.zip", ["v"])
    shown = [known.identity("v", frames) for frames in ([3], [4], [5], [3, 4], [])]
    assert len(set(shown)) == len(shown)
    assert crops_file(tmp_path / "b.zip", ["v", "w"]).identity("v", [3]) == shown[0]


@pytest.mark.parametrize("content", [None, b"", b"<html>", b"zip"])
def test_a_missing_or_broken_crops_file_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.zip"
    if content == b"zip":
        zipfile.ZipFile(path, "w").close()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"a.zip: .*; rerun build_text_crops"):
        open_crops(path)


def command(folder: Path, plans: dict[str, list[list[int]]], files: dict[str, Path], **scene_text: object) -> list[str]:
    """The command line on these clips: text in the upper half of each planned frame but those that end in 9."""
    made = ocr_sample.inputs(folder, files, plans)
    seen = []
    for video in jsonl.read(folder / "videos.jsonl", ocr_sample.Video):
        turned = video.rotation % 180 != 0
        width, height = (video.height, video.width) if turned else (video.width, video.height)
        for frame in sorted({number for question in plans[video.id] for number in question}):
            box = OcrBox(text="cells", confidence=0.9, polygon=upright(0, 0, width, height / 2))
            boxes = [] if frame % 10 == 9 else [box]
            seen.append(OcrFrame(video=video.id, frame=frame, t=0.0, width=width, height=height, boxes=boxes))
    jsonl.write(folder / "ocr.jsonl", seen)
    shutil.copytree(ROOT / "config" / "schemas", folder / "schemas", dirs_exist_ok=True)
    asked = {"method": "lanczos", "height": 64, "width": 256, "scale": 1.5} | scene_text
    small = {"title": "small", "kind": "long_side", "pixels": 80, "scene_text": asked}
    (folder / "resolutions").mkdir(exist_ok=True)
    (folder / "resolutions" / "small.yaml").write_text(yaml.safe_dump(small))
    rest = {"ocr": "ocr.jsonl", "resolution": "resolutions/small.yaml", "crops": "crops.zip"}
    return made + [part for option, name in rest.items() for part in (f"--{option}", str(folder / name))]


def two_clips(folder: Path) -> dict[str, Path]:
    return {
        "a": clips.write(folder / "a.mp4", options=clips.H264_B, frames=40),
        "turned": clips.write(folder / "turned.mp4", options=clips.H264_B, frames=40, rotation=90),
    }


def test_the_text_of_each_planned_frame_is_enlarged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = command(tmp_path, {"a": [[0, 7, 9], [7, 33]], "turned": [[12]]}, two_clips(tmp_path))
    assert build_text_crops.main(made) == 0
    assert "4 texts enlarged; frames: 4 with text, 1 without" in capsys.readouterr().err
    known = open_crops(tmp_path / "crops.zip")
    for frame in (0, 7, 33):
        (crop,) = known.of("a", frame)
        assert crop.image.shape == (64, 256, 3) and crop.frame_size == (48, 80)
        assert clips.code(np.vstack([crop.image, crop.image])) == frame
        assert crop.quad.tolist() == [[0, 0], [80, 0], [80, 24], [0, 24]]
    assert known.of("a", 9) == []
    (crop,) = known.of("turned", 12)
    assert crop.frame_size == (80, 48)  # upright


def test_bytes_do_not_depend_on_workers_or_earlier_runs(tmp_path: Path) -> None:
    plans = {"a": [[*range(40)]], "turned": [[*range(0, 40, 3)]]}
    made = command(tmp_path, plans, two_clips(tmp_path))
    results = []
    for count in ("1", "2"):
        assert build_text_crops.main([*made, "--workers", count]) == 0
        results.append((tmp_path / "crops.zip").read_bytes())
    assert results[0] == results[1]


def test_what_cannot_be_decoded_or_was_not_read_costs_only_its_frames(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = command(tmp_path, {"a": [[0, 7]], "turned": [[12]]}, two_clips(tmp_path))
    (tmp_path / "turned.mp4").write_text("<html>")
    lines = (tmp_path / "ocr.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "ocr.jsonl").write_text("".join(lines[1:]))
    assert build_text_crops.main(made) == 0
    said = capsys.readouterr().err
    assert "turned: 1 frames missing:" in said and "1 missing, 1 not read, 1 with text" in said
    known = open_crops(tmp_path / "crops.zip")
    assert len(known.of("a", 7)) == 1
    for video, frame in (("a", 0), ("turned", 12)):
        with pytest.raises(DataError, match="rerun build_text_crops"):
            known.of(video, frame)


def test_text_of_other_frames_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = command(tmp_path, {"a": [[0, 7]], "turned": [[12]]}, two_clips(tmp_path))
    (tmp_path / "ocr.jsonl").write_text("")
    assert build_text_crops.main(made) == 1 and "rerun extract_ocr" in capsys.readouterr().err
    assert not (tmp_path / "crops.zip").exists()


def half_written(folder: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
        return any(file.stat().st_size for file in folder.glob(".crops.*.zip"))
    return False


def test_kill_minus_9_leaves_no_half_file_and_a_rerun_is_whole(tmp_path: Path) -> None:
    made = command(tmp_path, {"a": [[*range(40)]], "turned": [[*range(40)]]}, two_clips(tmp_path))
    program = [sys.executable, "-m", "scripts.ocr.build_text_crops", *made]
    assert build_text_crops.main(made) == 0
    whole = (tmp_path / "crops.zip").read_bytes()
    (tmp_path / "crops.zip").unlink()
    running = subprocess.Popen(program, cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not half_written(tmp_path):
        assert running.poll() is None and time.monotonic() < deadline, "the run ended before it could be killed"
        time.sleep(0.001)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert not (tmp_path / "crops.zip").exists()
    assert build_text_crops.main(made) == 0
    assert (tmp_path / "crops.zip").read_bytes() == whole


@pytest.mark.parametrize(
    ("text", "height", "width", "why"),
    [
        ("a" * 24, 20, 160, ""),
        ("a" * 25, 20, 100, "over 24 characters"),
        ("a", 20, 161, "too narrow or too wide"),
        ("a", 20, 19, "too narrow or too wide"),
        ("a", 128, 512, ""),
        ("a", 100, 513, "larger than the model's input"),
    ],
)
def test_what_difftsr_takes(text: str, height: float, width: float, why: str) -> None:
    assert difftsr.unfit(text, height, width) == why


def test_difftsr_without_its_files_or_its_code_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = command(tmp_path, {"a": [[0, 7]], "turned": [[12]]}, two_clips(tmp_path), method="difftsr")
    assert build_text_crops.main(made) == 1 and "pass --weights and --cache" in capsys.readouterr().err
    made += ["--weights", str(tmp_path / "weights"), "--cache", str(tmp_path / "cache")]
    assert build_text_crops.main(made) == 1
    assert "no DiffTSR.ckpt and no transocr.pth; see docs/super_resolution.md" in capsys.readouterr().err
    (tmp_path / "weights").mkdir()
    for name in difftsr.FILES:
        (tmp_path / "weights" / name).write_bytes(b"none")
    assert build_text_crops.main(made) == 1
    assert "in the image difftsr" in capsys.readouterr().err and not (tmp_path / "crops.zip").exists()


def test_texts_through_a_model_are_kept_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in enlarges in the place of DiffTSR, and fails at the third text."""
    frames = [0, 7, 20, 33]
    made = command(
        tmp_path, {"a": [frames], "turned": [[9]]}, two_clips(tmp_path), method="difftsr", height=32, width=96
    )
    made += ["--weights", str(tmp_path / "weights"), "--cache", str(tmp_path / "cache")]
    seen: list[int] = []

    def load(weights: Path, steps: int, seed: int) -> object:
        def enlarge(patch: np.ndarray) -> np.ndarray:
            if len(seen) == 2 and not (tmp_path / "again").exists():
                raise EngineError("out of memory")
            seen.append(clips.code(np.vstack([patch, patch])))
            return text_crops.enlarge_lanczos(patch, difftsr.HEIGHT, difftsr.WIDTH)

        return enlarge

    monkeypatch.setattr(difftsr, "load", load)
    assert build_text_crops.main(made) == 1 and seen == frames[:2] and not (tmp_path / "crops.zip").exists()
    (tmp_path / "again").touch()
    assert build_text_crops.main(made) == 0 and seen == frames
    (crop,) = open_crops(tmp_path / "crops.zip").of("a", 33)
    assert crop.image.shape == (32, 96, 3) and clips.code(np.vstack([crop.image, crop.image])) == 33
