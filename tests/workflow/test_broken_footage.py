"""A folder with everything that can be wrong: each fault is one clear line, and the rest of the run goes on."""

import json

import pytest

from scripts.lib import jsonl
from scripts.lib.records import Prediction, Question, Video
from tests.conftest import snakemake
from tests.dag.test_plan import jobs
from tests.unit import clips
from tests.workflow.conftest import smoke_checkout

pytestmark = pytest.mark.slow

BROKEN = ["--profile", "laptop", "--cores", "2", "--config", 'tables=["smoke/broken"]', "bootstrap_draws=200"]


def question(video, number, t_question=None, text="Was steht auf dem Schild?"):
    return Question(
        key=f"smoke_broken/{video}/{number}",
        video=video,
        question_id=str(number),
        question=text,
        answers=["Café Zürich – 50 % & mehr_#1"],
        t_question=t_question,
        category="schön",
    )


def write_footage(folder):
    folder.mkdir()
    clips.write(folder / "gut_größe.mp4", options=clips.H264_B, frames=45)
    clips.write(folder / "one_frame.mp4", frames=1)
    (folder / "empty.mp4").write_bytes(b"")
    (folder / "letter.mp4").write_text("Dear reader, this is not a video.\n")
    whole = clips.write(folder / "whole.mp4", options=clips.H264_B, frames=90, container={"movflags": "faststart"})
    clips.cut_short(whole, folder / "truncated.mp4", 0.6)
    whole.unlink()
    questions = [
        question("gut_größe", "1", 1.0),
        question("gut_größe", "before", -3.0),
        question("gut_größe", "after", 99.0),
        question("one_frame", 1),
        question("empty", 1),
        question("letter", 1),
        question("truncated", 1),
        question("no_such_video", 1),
    ]
    jsonl.write(folder / "questions.jsonl", questions)
    return questions


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    folder = smoke_checkout(tmp_path_factory.mktemp("broken") / "repo")
    questions = write_footage(folder / "footage")
    return folder, questions, snakemake(folder, *BROKEN)


def test_the_run_goes_on_to_a_table(broken):
    folder, _, run = broken
    assert run.returncode == 0, run.stdout
    assert "Traceback" not in run.stdout
    markdown = (folder / "results" / "tables" / "smoke" / "broken.md").read_text(encoding="utf-8")
    assert "error:video_undecodable" in markdown
    assert (folder / "results" / "report.html").is_file()


def test_every_fault_is_named_once_with_its_reason(broken):
    folder, _, run = broken
    videos = jsonl.read_unique(folder / "resources" / "datasets" / "smoke_broken" / "videos.jsonl", Video, "id")
    assert {name: video.status for name, video in videos.items()} == {
        "gut_größe": "ok",
        "one_frame": "ok",
        "empty": "undecodable",
        "letter": "undecodable",
        "truncated": "truncated",
        "no_such_video": "missing:other",
    }
    for name in ("empty", "letter", "truncated", "no_such_video"):
        assert videos[name].detail, name
        assert "\n" not in videos[name].detail
        assert name in run.stdout, "the run says which files are broken"


def test_failures_are_statuses_and_only_answers_are_scored(broken):
    folder, questions, _ = broken
    cell = folder / "results" / "predictions" / "smoke_broken" / "ocr_reader" / "uniform_2" / "native" / "v_q"
    found = {p.key.removeprefix("smoke_broken/"): p for p in jsonl.read(cell / "predictions.jsonl", Prediction)}
    assert len(found) == len(questions)
    assert {key: p.status for key, p in found.items()} == {
        "gut_größe/1": "unanswerable",
        "gut_größe/before": "unanswerable",
        "gut_größe/after": "unanswerable",
        "one_frame/1": "unanswerable",
        "empty/1": "error:video_undecodable",
        "letter/1": "error:video_undecodable",
        "truncated/1": "unanswerable",
        "no_such_video/1": "error:video_missing:other",
    }
    assert found["gut_größe/before"].times == [0.0]
    assert max(found["gut_größe/after"].times) == pytest.approx(44 / 30)
    assert len(found["one_frame/1"].times) == 1
    scores = json.loads(
        (folder / "results/scores" / cell.relative_to(folder / "results/predictions") / "scores.json").read_text()
    )
    assert scores["n"] == 8
    assert scores["metrics"]["rouge_l"]["all"]["n_scored"] == 5


def test_a_second_run_of_a_broken_folder_does_nothing(broken):
    folder, _, _ = broken
    assert "Nothing to be done" in snakemake(folder, *BROKEN).stdout


def test_an_edit_of_the_users_own_files_is_seen(broken):
    folder, _, _ = broken
    run = snakemake(folder, *BROKEN)
    assert "Nothing to be done" in run.stdout
    questions = folder / "footage" / "questions.jsonl"
    before = questions.read_text(encoding="utf-8")
    questions.write_text(before.replace("Café", "Kaffee"), encoding="utf-8")
    planned = jobs(snakemake(folder, "-n", *BROKEN, "--quiet", "host").stdout)
    assert planned["fetch_dataset"] == planned["make_table"] == 1
    clips.write(folder / "footage" / "empty.mp4", frames=20)
    run = snakemake(folder, *BROKEN)
    assert run.returncode == 0, run.stdout
    videos = jsonl.read_unique(folder / "resources" / "datasets" / "smoke_broken" / "videos.jsonl", Video, "id")
    assert videos["empty"].status == "ok"
