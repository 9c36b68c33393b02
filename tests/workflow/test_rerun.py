"""What runs again, and what does not."""

import shutil

import pytest

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
    assert planned["run_cell"] == planned["score_cell"] == planned["make_table"] == 1
    assert "extract_ocr" not in planned


def test_a_single_table_is_a_target(copy):
    shutil.rmtree(copy / "results" / "tables")
    run = snakemake(copy, "results/tables/smoke/signs.tex", *RUN)
    assert run.returncode == 0, run.stdout
    assert [file.name for file in (copy / "results" / "tables").rglob("rolling.*")] == []
