"""The plan of frames: one line for every question, whatever is wrong with its video or its annotation."""

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scripts.infer import build_frames
from scripts.lib import jsonl, video
from scripts.lib.records import FramePlan, Keyframes, OcrBox, OcrFrame, Question, Video

FPS10 = np.arange(100)  # ten seconds at 10 frames a second


def video_line(name: str, status: str = "ok", n_frames: int = 100) -> Video:
    return Video(
        id=name, dataset="d", path=f"{name}.mp4", sha256="0", duration_s=n_frames / 10, fps_avg=10.0, n_frames=n_frames,
        width=64, height=64, rotation=0, vfr=False, codec="h264", status=status, source="s", licence="l",
        detail="" if status == "ok" else f"why {status}",
    )  # fmt: skip


def question(number: int, name: str, **more: object) -> Question:
    key = f"d/{name}/{number}"
    asked = {"question": "Was steht da? é", "answers": ["Café"], "category": "c", **more}
    return Question(key=key, video=name, question_id=str(number), **asked)


@pytest.fixture
def project(tmp_path):
    """Writes the inputs; returns a function from a sampler's settings and further arguments to (exit status, plans)."""
    (tmp_path / "config" / "samplers").mkdir(parents=True)
    root = build_frames.__file__.rsplit("/scripts/", 1)[0]
    (tmp_path / "config" / "schemas").symlink_to(f"{root}/config/schemas")
    statuses = {
        "gut ü": "ok",
        "cut": "truncated",
        "bad": "undecodable",
        "none": "zero_frames",
        "priv": "missing:private",
    }
    lines = [video_line(name, status, {"ok": 100, "truncated": 40}.get(status, 0)) for name, status in statuses.items()]
    jsonl.write(tmp_path / "videos.jsonl", lines)
    times = [video.encode_times("gut ü", FPS10, (1, 10)), video.encode_times("cut", FPS10[:40], (1, 10))]
    jsonl.write(tmp_path / "times.jsonl", times)
    names = ["gut ü", "bad", "cut", "none", "gut ü", "priv", "unknown", "gut ü", "gut ü"]
    asked = [5.0, 5.0, 5.0, 5.0, None, 5.0, 5.0, -1.0, 3.0]
    lines = [question(n, name, t_question=t) for n, (name, t) in enumerate(zip(names, asked, strict=True))]
    lines[8] = question(8, "gut ü", t_question=3.0, t_answer=1.0, qa_times=[1.0], evidence=[(1.0, 1.2)])
    jsonl.write(tmp_path / "questions.jsonl", lines)

    def run(settings: dict[str, object], *more: str, name: str = "frames.jsonl") -> tuple[int, list[FramePlan]]:
        sampler = tmp_path / "config" / "samplers" / "tést.yaml"
        sampler.write_text(yaml.safe_dump({"title": "T", **settings}), encoding="utf-8")
        files = {"questions": "questions.jsonl", "videos": "videos.jsonl", "frame-times": "times.jsonl", "frames": name}
        paths = [part for key, file in files.items() for part in (f"--{key}", str(tmp_path / file))]
        status = build_frames.main(["--sampler", str(sampler), *paths, *more])
        return status, list(jsonl.read(tmp_path / name, FramePlan)) if status == 0 else []

    run.folder = tmp_path
    return run


def test_every_question_gets_a_line_in_order(project):
    status, plans = project({"sampler": "uniform", "n": 3})
    assert status == 0
    assert [(plan.key, plan.status) for plan in plans] == [
        ("d/gut ü/0", "ok"),
        ("d/bad/1", "error:video_undecodable"),
        ("d/cut/2", "ok"),
        ("d/none/3", "error:video_zero_frames"),
        ("d/gut ü/4", "ok"),
        ("d/priv/5", "error:video_missing:private"),
        ("d/unknown/6", "error:video_missing"),
        ("d/gut ü/7", "ok"),
        ("d/gut ü/8", "ok"),
    ]
    assert plans[0].frames == [0, 25, 50] and plans[0].times == [0.0, 2.5, 5.0] and plans[0].note == ""
    assert plans[2].frames == [0, 19, 39] and plans[2].note == "t_question 5.000 s is past the end 4.000 s"
    assert plans[4].frames == [0, 49, 99] and plans[4].note == ""
    assert plans[7].frames == [0] and plans[7].note == "t_question -1.000 s is before the first frame 0.000 s"
    assert plans[1].frames == [] and plans[1].note == "why undecodable"


@pytest.mark.parametrize(
    ("settings", "status", "frames"),
    [
        ({"sampler": "qa_frames"}, "error:no_qa_times", [10]),
        ({"sampler": "moment_aware", "n": 2}, "error:no_answer_time", [0, 30]),
        ({"sampler": "single_answer_random"}, "error:no_evidence", None),
        ({"sampler": "keyframes", "n": 2}, "error:no_keyframes", None),
    ],
)
def test_a_question_that_lacks_something_is_counted_as_that(project, settings, status, frames):
    _, plans = project(settings)
    usable = [plan for plan in plans if not plan.status.startswith("error:video_")]
    assert {plan.status for plan in usable[:-1]} == {status}
    assert all(not plan.frames for plan in usable[:-1])
    if frames is not None:
        assert usable[-1].frames == frames and usable[-1].status == "ok"


def test_keyframes_and_ocr_are_read_where_the_sampler_needs_them(project, capsys):
    folder = project.folder
    jsonl.write(folder / "keys.jsonl", [Keyframes(id="gut ü", frames=[0, 9, 20, 60], times=[0.0, 0.9, 2.0, 6.0])])
    _, plans = project(
        {"sampler": "keyframes", "n": 2, "needs": ["keyframes"]}, "--keyframes", str(folder / "keys.jsonl")
    )
    assert [plan.frames for plan in plans if plan.status == "ok"] == [[0, 20], [0, 60], [0], [0, 20]]
    assert plans[2].status == "error:no_keyframes"
    boxes = [OcrBox(text="Größe", confidence=0.9, polygon=[(0, 0), (9, 0), (9, 9), (0, 9)])]
    read = [
        OcrFrame(video="gut ü", frame=frame, t=frame / 10, width=64, height=64, boxes=boxes * count)
        for frame, count in ((9, 9), (10, 1), (12, 2))
    ]
    jsonl.write(folder / "ocr.jsonl", read)
    jsonl.write(folder / "keys.jsonl", [Keyframes(id="gut ü", frames=[0, 10, 12], times=[0.0, 1.0, 1.2])])
    oracle = {"sampler": "single_oracle", "needs": ["keyframes", "ocr"]}
    _, plans = project(oracle, "--keyframes", str(folder / "keys.jsonl"), "--ocr", str(folder / "ocr.jsonl"))
    assert plans[8].frames == [12] and plans[0].status == "error:no_evidence"
    assert project(oracle, "--keyframes", str(folder / "keys.jsonl"))[0] == 1
    assert "tést.yaml: needs --ocr, the output of extract_ocr" in capsys.readouterr().err


def test_draws_depend_on_the_seed_and_the_question_alone(project):
    folder = project.folder
    lines = [question(number, "gut ü") for number in range(40)]
    jsonl.write(folder / "questions.jsonl", lines)
    _, first = project({"sampler": "single_random"})
    jsonl.write(folder / "questions.jsonl", lines[::-3])
    _, fewer = project({"sampler": "single_random"})
    by_key = {plan.key: plan.frames for plan in first}
    assert all(plan.frames == by_key[plan.key] for plan in fewer) and len({tuple(plan.frames) for plan in first}) > 15
    _, other = project({"sampler": "single_random"}, "--seed", "1")
    assert any(plan.frames != by_key[plan.key] for plan in other)


@given(st.integers(0, 2**31), st.text(min_size=1), st.text(min_size=1))
def test_seeds_differ_by_key(seed, one, two):
    assert 0 <= build_frames.question_seed(seed, one) < 2**64
    assert (build_frames.question_seed(seed, one) == build_frames.question_seed(seed, two)) == (one == two)


def test_times_that_do_not_fit_the_videos_are_refused(project, capsys):
    jsonl.write(project.folder / "times.jsonl", [video.encode_times("gut ü", FPS10, (1, 10))])
    assert project({"sampler": "ts_frame"})[0] == 1
    assert "times.jsonl: does not fit video 'cut'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sampler": "unifrom"}, "did you mean 'uniform'"),
        ({"sampler": "uniform", "n": 0}, "n: 0 is less than the minimum of 1"),
        ({"sampler": "uniform", "m": 2}, "unknown key 'm'"),
        ({"sampler": "uniform"}, "takes n, got nothing"),
    ],
)
def test_a_wrong_sampler_file_is_named(project, capsys, settings, words):
    assert project(settings)[0] == 1
    error = capsys.readouterr().err
    assert "tést.yaml" in error and words in error and error.count("\n") == 1


def test_no_questions_at_all_are_refused(project, capsys):
    (project.folder / "questions.jsonl").write_text("", encoding="utf-8")
    assert project({"sampler": "ts_frame"})[0] == 1
    assert "questions.jsonl: no question in it" in capsys.readouterr().err
