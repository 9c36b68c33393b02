"""Which frames stand for a video."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib import jsonl
from scripts.lib.records import Keyframes
from scripts.ocr import extract_keyframes, hashing
from tests.unit import clips, ocr_sample

RULES = yaml.safe_load((ocr_sample.CONFIG / "keyframes.yaml").read_text(encoding="utf-8"))


def bits(changed: list[int]) -> np.ndarray:
    """n hashes, each with so many of its 64 bits set."""
    return np.array([[place < count for place in range(64)] for count in changed], dtype=bool).reshape(-1, 64)


def at(count: int, rate: float = 10) -> np.ndarray:
    return np.arange(count) / rate


def test_capped_measures_from_the_last_keyframe() -> None:
    slow = bits([0, 2, 4, 6, 8, 10, 12])
    assert extract_keyframes.capped(slow, at(7), tau=4, max_gap_s=100, min_gap_s=0) == [0, 3, 6]
    assert extract_keyframes.paper_literal(slow, threshold=4) == [0]


def test_capped_keeps_its_least_and_greatest_gap() -> None:
    still, wild = bits([0] * 30), bits([0, 64] * 15)
    assert extract_keyframes.capped(still, at(30), 4, max_gap_s=1.0, min_gap_s=0.5) == [0, 10, 20]
    assert extract_keyframes.capped(wild, at(30), 4, max_gap_s=9.0, min_gap_s=0.5) == [0, 5, 10, 15, 20, 25]


def test_capped_goes_by_time_not_by_number() -> None:
    times = np.array([0.0, 0.1, 5.0, 5.1, 6.2])
    assert extract_keyframes.capped(bits([0] * 5), times, 4, max_gap_s=1.0, min_gap_s=0.0) == [0, 2, 4]


def test_paper_literal_gives_one_frame_for_each_run() -> None:
    #                     two runs: frames 2-4 and 7-8, with a step below the threshold at 5
    hashes = bits([0, 0, 9, 18, 27, 28, 28, 40, 60, 60])
    assert extract_keyframes.paper_literal(hashes, threshold=2) == [0, 4, 8]
    assert extract_keyframes.paper_literal(bits([0, 9]), threshold=2) == [0, 1]
    assert extract_keyframes.paper_literal(bits([0]), threshold=2) == [0]


@given(st.lists(st.integers(0, 64), max_size=60), st.sampled_from(["capped", "paper_literal"]))
def test_keyframes_begin_with_the_first_frame_and_rise(changed: list[int], rule: str) -> None:
    found = extract_keyframes.keyframes(bits(changed), at(len(changed)), {**RULES, "rule": rule})
    assert found[:1] == ([0] if changed else [])
    assert found == sorted(set(found)) and all(index < len(changed) for index in found)
    if rule == "capped" and changed:
        gaps = np.diff([*at(len(changed))[found], at(len(changed))[-1]])
        assert gaps.max(initial=0) <= RULES["capped"]["max_gap_s"] + 0.1


def test_the_hash_sees_another_picture_and_not_noise() -> None:
    rng = np.random.default_rng(0)
    one, other = (np.kron(rng.integers(0, 255, (9, 16)), np.ones((20, 20))).astype(np.uint8) for _ in range(2))
    noisy = np.clip(one + rng.normal(0, 4, one.shape), 0, 255).astype(np.uint8)
    assert hashing.hamming(hashing.perceptual_hash(one), hashing.perceptual_hash(noisy)) <= 2
    assert hashing.hamming(hashing.perceptual_hash(one), hashing.perceptual_hash(other)) > 10
    assert hashing.perceptual_hash(np.zeros((6, 10), np.uint8)).shape == (64,)


def command(folder: Path, made: list[str]) -> list[str]:
    out = {
        "--settings": ocr_sample.CONFIG / "keyframes.yaml",
        "--keyframes": folder / "k.jsonl",
        "--cache": folder / "c",
    }
    return made[:4] + [str(part) for option in out.items() for part in option]


def test_the_step_names_bad_videos_goes_on_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = clips.write(tmp_path / "ü.mp4", frames=45), clips.write(tmp_path / "b.mp4", frames=44)
    made = ocr_sample.inputs(tmp_path, {"b": bad, "ü": good}, {})
    bad.write_bytes(b"not a video")
    assert extract_keyframes.main(command(tmp_path, made)) == 0
    (found,) = jsonl.read(tmp_path / "k.jsonl", Keyframes)
    assert found.id == "ü" and found.frames[0] == 0 and len(found.frames) >= 2
    assert found.times == pytest.approx([frame / clips.RATE for frame in found.frames])
    assert "b left out" in capsys.readouterr().err
    good.unlink()
    (tmp_path / "k.jsonl").unlink()
    assert extract_keyframes.main(command(tmp_path, made)) == 0
    assert list(jsonl.read(tmp_path / "k.jsonl", Keyframes)) == [found]


def test_two_data_sets_do_not_wait_for_each_other_and_share(tmp_path: Path) -> None:
    with extract_keyframes.open_cache(tmp_path, RULES, Path("a/é.jsonl")) as one:
        one.put("sha", [0, 5])
        assert one.path.parent.parent == tmp_path
        with extract_keyframes.open_cache(tmp_path, RULES, Path("a/b.jsonl")) as other:
            assert other.path != one.path
            assert other["sha"] == [0, 5]
            assert extract_keyframes.open_cache(
                tmp_path, {**RULES, "rule": "paper_literal"}, Path("x")
            ).path.parent != (one.path.parent)


def test_another_version_chooses_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with extract_keyframes.open_cache(tmp_path, RULES, Path("a")) as one:
        one.put("sha", [0])
    monkeypatch.setattr(extract_keyframes, "VERSION", extract_keyframes.VERSION + 1)
    with extract_keyframes.open_cache(tmp_path, RULES, Path("a")) as later:
        assert "sha" not in later


def die(task: extract_keyframes.Task) -> list[int]:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not reached")


def test_a_video_whose_process_dies_is_named_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ocr_sample.inputs(tmp_path, {"ü": clips.write(tmp_path / "ü.mp4", frames=20)}, {})
    with monkeypatch.context() as patch:
        patch.setattr(extract_keyframes, "of_video", die)
        assert extract_keyframes.main(command(tmp_path, made)) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    assert lines == ["extract_keyframes  ü left out: the process died (exit code -9)"]
    assert list(jsonl.read(tmp_path / "k.jsonl", Keyframes)) == []
    assert extract_keyframes.main(command(tmp_path, made)) == 0
    assert [found.id for found in jsonl.read(tmp_path / "k.jsonl", Keyframes)] == ["ü"]
