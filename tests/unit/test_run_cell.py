import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.infer import run_cell
from scripts.infer.cell import Cell, Inputs, refusal
from scripts.infer.summary import again
from scripts.lib import images, jsonl, workers
from scripts.lib.errors import EngineError
from scripts.lib.records import FramePlan, Question
from scripts.models import ocr_reader
from scripts.models.protocol import Reply, one_by_one
from scripts.ocr import tracks
from tests.unit.cell_sample import ROOT, SIGNS, arguments, change, make_inputs, start, written


def run(folder, *args, **options):
    return run_cell.main([*arguments(folder, *args), *(f"--{key}={value}" for key, value in options.items())])


def cached_lines(folder):
    return [line for file in sorted(folder.glob("cache/*/*.jsonl")) for line in file.read_bytes().splitlines()]


def test_every_question_gets_one_line_in_order_with_what_was_used(tmp_path, capsys, monkeypatch):
    folder = make_inputs(tmp_path)
    monkeypatch.setattr(images, "running", lambda: "sha256:abc")
    assert run(folder) == 0
    found = written(folder)
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [one["key"] for one in found] == [one["key"] for one in questions]
    assert [one["answer"] for one in found] == [SIGNS[0], SIGNS[1], SIGNS[2]] * 2
    assert {one["image_digest"] for one in found} == {"sha256:abc"}
    assert found[0]["engine"].startswith("ocr_reader 1, rapidfuzz ")
    assert len(found[0]["times"]) == 12 and len(found[0]["prompt_hash"]) == 64
    assert "6 questions: 6 ok" in capsys.readouterr().err


def test_a_second_run_asks_nothing_and_writes_the_same(tmp_path, monkeypatch):
    folder = make_inputs(tmp_path)
    assert run(folder) == 0
    first = (folder / "out" / "predictions.jsonl").read_bytes()
    monkeypatch.setattr(ocr_reader, "load", None)  # calling it would fail
    assert run(folder) == 0
    assert (folder / "out" / "predictions.jsonl").read_bytes() == first


def test_a_setting_that_can_change_answers_starts_anew_and_a_title_does_not(tmp_path):
    folder = make_inputs(tmp_path)
    model, settings = folder / "config" / "models" / "ocr_reader.yaml", folder / "config" / "ocr.yaml"
    run(folder)
    model.write_text(model.read_text(encoding="utf-8").replace("OCR reader", "Reader"), encoding="utf-8")
    run(folder)
    assert len(cached_lines(folder)) == 6
    settings.write_text(settings.read_text(encoding="utf-8").replace("edge: 0.005", "edge: 0.006"), encoding="utf-8")
    run(folder)
    assert len(cached_lines(folder)) == 12


def test_text_read_anew_is_answered_anew(tmp_path):
    folder = make_inputs(tmp_path)
    run(folder)
    for number in range(4):
        line = (folder / "ocr.jsonl").read_text(encoding="utf-8").splitlines()[number]
        change(folder / "ocr.jsonl", number, boxes=[{**json.loads(line)["boxes"][0], "text": "ŽENY"}])
    run(folder)
    assert [one["answer"] for one in written(folder)][:3] == ["ŽENY", SIGNS[1], SIGNS[2]]
    assert len(cached_lines(folder)) == 9  # the three questions of that video


def test_cells_of_one_setting_share_answers_and_never_a_file(tmp_path):
    folder = make_inputs(tmp_path)
    run(folder)
    assert run_cell.main([*arguments(folder)[:-1], f"{folder}/other/predictions.jsonl"]) == 0
    files = sorted(folder.glob("cache/*/*.jsonl"))
    assert len(files) == 2 and len({file.parent for file in files}) == 1
    assert len(cached_lines(folder)) == 6


def test_a_bad_video_and_a_missing_option_are_errors_of_their_question_only(tmp_path, capsys):
    folder = make_inputs(tmp_path, options=True)
    change(folder / "frames.jsonl", 1, status="error:video_undecodable", frames=[], times=[], note="kein Bild")
    change(folder / "questions.jsonl", 2, options=None, ground_truth=None)
    assert run(folder, "ocr_reader", "v_q_options") == 0
    found = written(folder)
    assert [one["status"] for one in found] == ["ok", "error:video_undecodable", "error:no_options", "ok", "ok", "ok"]
    assert [one["answer"] for one in found] == ["A", "", "", "A", "B", "C"]
    assert found[1]["detail"] == "kein Bild"
    assert "4 ok, 1 error:video_undecodable, 1 error:no_options" in capsys.readouterr().err


def failing_at(numbers, message="out of paper"):
    """A loader of an engine that fails at the calls of these numbers."""

    def load(model, weights, seed):
        calls = iter(range(1000))

        def answer(request):
            number = next(calls)
            if number in numbers:
                raise EngineError(message)
            return Reply("ok", raw="gut", answer="gut", times=request.times)

        return one_by_one(answer)

    return load


def test_an_engine_failure_is_counted_and_its_cell_run_again_asks_only_that(tmp_path, monkeypatch, capsys):
    folder = make_inputs(tmp_path)
    monkeypatch.setattr(ocr_reader, "load", failing_at({1, 4}))
    assert run(folder) == 0
    found = written(folder)
    assert [one["status"] for one in found] == ["ok", "error:engine", "ok", "ok", "error:engine", "ok"]
    assert (found[1]["detail"], found[1]["answer"]) == ("out of paper", "")
    assert len(cached_lines(folder)) == 4
    said = capsys.readouterr().err
    assert f"try the 2 errors of decoding or the model again: {again(folder / 'out/predictions.jsonl')}" in said
    monkeypatch.setattr(ocr_reader, "load", failing_at(set()))
    assert run(folder) == 0
    assert {one["status"] for one in written(folder)} == {"ok"}
    assert len(cached_lines(folder)) == 6
    said = capsys.readouterr().err
    assert "4 of 6 answers are in" in said and "again" not in said


def test_an_engine_that_always_fails_alike_stops_the_cell(tmp_path, monkeypatch, capsys):
    folder = make_inputs(tmp_path)
    monkeypatch.setattr(ocr_reader, "load", failing_at(set(range(6))))
    assert run(folder) == 1
    assert "every question failed: error:engine: out of paper" in capsys.readouterr().err
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("videos", "--videos: nothing for vidéo 1; rerun probe_videos"),
        ("frames", "--frames: nothing for d/vidéo 1/2; rerun build_frames"),
    ],
)
def test_files_that_do_not_belong_together_are_named(tmp_path, capsys, broken, message):
    folder = make_inputs(tmp_path)
    file = folder / f"{broken}.jsonl"
    file.write_text("\n".join(file.read_text(encoding="utf-8").splitlines()[:-1]) + "\n", encoding="utf-8")
    assert run(folder) == 1
    assert message in capsys.readouterr().err


def keep_lines(file, keep):
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("".join(f"{line}\n" for line in lines if keep(json.loads(line))), encoding="utf-8")


def test_a_frame_without_its_text_is_an_error_of_its_questions_only(tmp_path, capsys):
    folder = make_inputs(tmp_path / "mein Ordner")
    keep_lines(
        folder / "ocr.jsonl", lambda frame: (frame["video"], frame["frame"]) not in [("vidéo 1", 4), ("vidéo 1", 7)]
    )
    change(folder / "frames.jsonl", 5, frames=[11], times=[11 / 30])
    assert run(folder) == 0
    found = written(folder)
    assert [one["status"] for one in found] == ["ok"] * 3 + ["error:ocr"] * 2 + ["ok"]
    remedy = f"--forcerun '{folder}/ocr.jsonl'"  # quoted, as a shell needs it for the blank
    assert found[3]["detail"].startswith("no text of frames 4, 7 of vidéo 1; read it anew: ")
    assert found[3]["detail"].endswith(remedy)
    said = capsys.readouterr().err
    assert (
        "4 ok, 2 error:ocr" in said
        and f"read the text that 2 questions lack: end your snakemake command with {remedy}" in said
    )


@pytest.mark.parametrize("kept", ["nothing", "other videos"])
def test_text_of_no_frame_at_all_stops_the_cell(tmp_path, capsys, kept):
    folder = make_inputs(tmp_path)
    change(folder / "frames.jsonl", 0, status="error:video_undecodable", frames=[], times=[])
    if kept == "nothing":
        (folder / "ocr.jsonl").write_text("", encoding="utf-8")
    else:
        for number in range(24):
            change(folder / "ocr.jsonl", number, video="un autre")
    assert run(folder) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {folder}/ocr.jsonl: no text of any frame of these questions; read it anew: ")
    assert not (folder / "out").exists()


def test_no_questions_at_all_are_refused(tmp_path, capsys):
    folder = make_inputs(tmp_path)
    (folder / "questions.jsonl").write_text("\n", encoding="utf-8")
    assert run(folder) == 1
    assert capsys.readouterr().err.startswith(f"error: {folder}/questions.jsonl: no question in it")


def test_another_container_or_fusion_answers_anew(tmp_path, monkeypatch):
    folder = make_inputs(tmp_path)
    run(folder)
    monkeypatch.setattr(images, "running", lambda: "sha256:neu")
    run(folder)
    assert len(cached_lines(folder)) == 12
    assert {one["image_digest"] for one in written(folder)} == {"sha256:neu"}
    monkeypatch.setattr(tracks, "VERSION", tracks.VERSION + 1)
    run(folder)
    assert len(cached_lines(folder)) == 18
    run(folder)
    assert len(cached_lines(folder)) == 18


def test_a_cell_without_a_network_needs_no_package_of_models_or_frames(tmp_path):
    """It runs in the image base, say."""
    folder = make_inputs(tmp_path)
    code = "import sys; from scripts.infer import run_cell; status = run_cell.main(sys.argv[1:]);"
    code += " sys.exit(status or any(name in sys.modules for name in ('torch', 'av', 'cv2', 'openai')))"
    done = subprocess.run([sys.executable, "-c", code, *arguments(folder)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_settings_that_do_not_fit_are_one_line(tmp_path, capsys):
    folder = make_inputs(tmp_path)
    assert run(folder, "ocr_reader", "q") == 1
    assert "shows no frames" in capsys.readouterr().err
    assert run(folder, "tiny_qwen3_vl") == 1
    assert "needs --weights" in capsys.readouterr().err
    assert run(folder, "ocr_raeder") == 1
    assert "did you mean 'ocr_reader'?" in capsys.readouterr().err


def test_more_frames_than_the_model_takes_are_refused_not_thinned(tmp_path):
    cell = Cell({"needs": ["frames"], "max_frames": 4}, {"frames": "sampled", "answers": "open"}, {}, None, 0)
    folder = make_inputs(tmp_path)
    question = next(iter(jsonl.read(folder / "questions.jsonl", Question)))
    plan = next(iter(jsonl.read(folder / "frames.jsonl", FramePlan)))
    inputs = Inputs([question], {}, {}, {question.key: plan})
    refused = refusal(cell, inputs, question, plan)
    assert (refused.status, refused.detail) == ("error:too_many_frames", "12 frames, the model takes 4")
    fits = plan.model_copy(update={"frames": plan.frames[:4], "times": plan.times[:4]})
    assert refusal(cell, inputs, question, fits) is None


def test_killed_at_any_moment_it_goes_on_where_it_was(tmp_path):
    folder = make_inputs(tmp_path / "killed", videos=100, frames=40)
    process = start(arguments(folder))
    deadline = time.monotonic() + 60
    while len(cached_lines(folder)) < 5:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    whole = [line for line in cached_lines(folder) if line.endswith(b"}]")]
    assert 5 <= len(whole) < 300 and not (folder / "out").exists()

    again = start(arguments(folder))
    _, messages = again.communicate()
    assert again.returncode == 0, messages
    assert cached_lines(folder)[: len(whole)] == whole and len(cached_lines(folder)) == 300
    assert f"{len(whole)} of 300 answers are in" in messages

    calm = make_inputs(tmp_path / "calm", videos=100, frames=40)
    assert run(calm) == 0
    assert written(calm) == written(folder)


def test_no_more_is_decoded_ahead_than_asked_for(tmp_path):
    files = [tmp_path / str(number) for number in range(6)]
    outcomes = workers.run_all(Path.touch, files, workers=1, timeout_s=60, ahead=2)
    first = next(outcomes)
    assert first.item == files[0] and first.error is None
    assert not any(file.exists() for file in files[2:])
    assert [outcome.item for outcome in outcomes] == files[1:]
    assert all(file.exists() for file in files)
