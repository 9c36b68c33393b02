"""What runs again, and what does not."""

import re
import shutil

import pandas
import pytest
import yaml

from scripts.lib import jsonl, metrics
from scripts.lib.records import Prediction, Question, Track
from tests.conftest import snakemake
from tests.dag.test_plan import edit, jobs
from tests.workflow.conftest import RUN, tables

pytestmark = pytest.mark.slow


@pytest.fixture
def copy(finished, tmp_path):
    """A private copy of the finished run, times kept: Snakemake goes by them."""
    return shutil.copytree(finished, tmp_path / "copy", symlinks=True)


def test_the_smoke_run_makes_every_file(finished):
    assert set(tables(finished)) == {
        f"smoke/{name}.{s}" for name in ("rolling", "signs") for s in ("tex", "csv", "json", "md")
    }
    assert (finished / "results" / "report.html").stat().st_size > 10_000


def test_a_second_run_does_nothing(finished):
    run = snakemake(finished, *RUN)
    assert run.returncode == 0, run.stdout
    assert "Nothing to be done" in run.stdout
    assert not jobs(run.stdout)


def test_one_samplers_yaml_reruns_only_its_cells(copy):
    edit(copy / "config" / "samplers" / "uniform_1.yaml", title="One frame, changed")
    run = snakemake(copy, "-n", *RUN, "--quiet", "host", "--", "all")
    planned = jobs(run.stdout)
    planned.pop("total")
    planned.pop("all")
    assert planned == {
        "build_frames": 1,
        "extract_ocr": 1,
        "run_cell": 1,
        "score_cell": 1,
        "make_table": 1,
        "make_report": 1,
    } | ({"make_pdf": 1} if "make_pdf" in planned else {})


def test_one_models_yaml_reruns_only_its_cells(copy):
    edit(copy / "config" / "models" / "tiny_qwen3_vl.yaml", title="Tiny, changed")
    planned = jobs(snakemake(copy, "-n", *RUN, "--quiet", "host", "--", "all").stdout)
    assert planned["run_cell"] == planned["score_cell"] == planned["make_table"] == 2, "one cell in each table"
    assert not {"extract_ocr", "build_frames", "build_text_crops", "build_tiny_model"} & set(planned)


def test_a_model_added_to_a_table_plans_only_its_new_cells(copy):
    """A new file of its own and a line in a table: frames and text that other cells made are used again."""
    models, tables = copy / "config" / "models", copy / "config" / "tables" / "smoke"
    shutil.copy(models / "ocr_reader.yaml", models / "mine.yaml")
    signs = yaml.safe_load((tables / "signs.yaml").read_text(encoding="utf-8"))
    added = [{"label": name, "model": "mine", "sampler": name} for name in ("ts_frame", "qa_frames")]
    edit(tables / "signs.yaml", rows=[*signs["rows"], *added])
    run = snakemake(copy, "-n", *RUN, "--quiet", "host", "--", "tables")
    planned = jobs(run.stdout)
    made = {"run_cell": 2, "score_cell": 2, "make_table": 1}
    assert {rule: planned.get(rule) for rule in made} == made, run.stdout
    assert set(planned) <= {*made, "make_pdf", "tables", "total"}
    # Snakemake shows jobs in no particular order.
    assert sorted(re.findall(r"output: results/predictions/(\S+)/predictions.jsonl", run.stdout)) == [
        f"smoke_signs/mine/{sampler}/native/v_q" for sampler in ("qa_frames", "ts_frame")
    ]


def test_words_and_enlarged_text_reach_the_model(finished):
    """The prompt that tells the text and the resolution that enlarges it, through their rules."""
    cell = "smoke_signs/tiny_qwen3_vl/qa_frames/low_sr_150/v_q_st"
    made = list(jsonl.read(finished / "results" / "predictions" / cell / "predictions.jsonl", Prediction))
    plain = finished / "results" / "predictions" / "smoke_signs/ocr_reader/qa_frames/native/v_q" / "predictions.jsonl"
    assert {one.status for one in made} <= {"ok", "unanswerable", "truncated"}
    assert all(one.visual_tokens and one.height for one in made)
    assert {one.prompt_hash for one in made}.isdisjoint(one.prompt_hash for one in jsonl.read(plain, Prediction))
    assert (finished / "resources" / "text_crops" / "smoke_signs" / "qa_frames" / "low_sr_100.zip").is_file()


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("remote.yaml", {"budget": {"dollars": 1, "tokens": None}}),
        ("prices.yaml", None),
        ("config.yaml", {"allow_unpinned": ["longvu_7b", "ocr_reader"]}),
    ],
)
def test_what_changes_no_answer_makes_nothing_due(copy, file, changes):
    """Budget, prices, and leave for a model without a pin: also for one that has nothing to pin."""
    path = copy / "config" / file
    if changes:
        edit(path, **changes)
    else:
        path.write_text(path.read_text(encoding="utf-8") + "# a comment\n", encoding="utf-8")
    run = snakemake(copy, "-n", *RUN)
    assert run.returncode == 0 and "Nothing to be done" in run.stdout, run.stdout


def test_a_single_table_is_a_target(copy):
    shutil.rmtree(copy / "results" / "tables")
    run = snakemake(copy, "results/tables/smoke/signs.tex", *RUN)
    assert run.returncode == 0, run.stdout
    assert [file.name for file in (copy / "results" / "tables").rglob("rolling.*")] == []


def test_tracks_hold_the_text_that_was_rendered(copy):
    run = snakemake(copy, "tracks", *RUN)
    assert run.returncode == 0, run.stdout
    questions = jsonl.read(copy / "resources" / "datasets" / "smoke_rolling" / "questions.jsonl", Question)
    truth = {question.video: question.answers for question in questions}
    read: dict[str, str] = {}
    for track in jsonl.read(copy / "resources" / "tracks" / "smoke_rolling" / "uniform_4" / "native.jsonl", Track):
        read[track.video] = f"{read.get(track.video, '')} {track.text}".strip()
    assert max(metrics.rouge_l(texts, read.get(video, "")) for video, texts in truth.items()) > 0.9


def test_the_csv_is_tidy(finished):
    table = pandas.read_csv(finished / "results" / "tables" / "smoke" / "signs.csv")
    assert len(table) == 8
    assert {"cell", "metric", "group", "value", "low", "high", "n", "n_scored"} <= set(table.columns)
    assert table["value"].between(0, 1).all()


@pytest.mark.parametrize(
    ("module", "rule"),
    [
        ("scripts/synth/render_videos.py", "render_videos"),
        ("scripts/models/ocr_reader.py", "run_cell"),
        ("scripts/judge/score_cell.py", "score_cell"),
    ],
)
def test_raising_a_version_in_the_code_reruns_its_rule(copy, module, rule):
    path = copy / module
    code = path.read_text(encoding="utf-8")
    raised = re.sub(r"^((?:[A-Z]+_)?VERSION = \"?)[\w.]+", r"\g<1>99", code, count=1, flags=re.MULTILINE)
    assert raised != code
    path.write_text(raised, encoding="utf-8")
    assert rule in jobs(snakemake(copy, "-n", *RUN, "--quiet", "host").stdout)
