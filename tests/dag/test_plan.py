"""What Snakemake plans, with no data present."""

import re
import shutil

import pytest
import yaml

from tests.conftest import snakemake


def jobs(output: str) -> dict[str, int]:
    """Rule to number of jobs, from the summary of a dry run."""
    return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", output, re.MULTILINE)}


def edit(path, **changes):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump({**content, **changes}, allow_unicode=True), encoding="utf-8")


SLURM = ["--profile", "slurm"] if shutil.which("apptainer") else ["--profile", "slurm", "--sdm", "env-modules"]
"""Snakemake looks for Apptainer even to plan with it: where it is missing, containers are left out."""


@pytest.mark.parametrize("arguments", [[], ["demo"], [*SLURM, "demo"], [*SLURM, "synthetic"]])
def test_a_plan_needs_no_data(checkout, arguments):
    run = snakemake(checkout, *arguments, "-n")
    assert run.returncode == 0, run.stdout
    planned = jobs(run.stdout)
    assert planned["run_cell"] == planned["score_cell"] > 5
    assert planned["make_table"] == 2
    assert planned["make_report"] == 1


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"tabels": ["demo/rolling"]}, "unknown key 'tabels' (did you mean 'tables'?)"),
        ({"tables": ["demo/roling"]}, "no table 'demo/roling' (did you mean 'demo/rolling'?)"),
        ({"bootstrap_draws": "many"}, "bootstrap_draws: 'many' is not of type 'integer'"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(checkout, settings, complaint):
    edit(checkout / "config" / "config.yaml", **settings)
    run = snakemake(checkout, "-n")
    assert run.returncode == 1
    assert complaint in run.stdout
    assert "Traceback" not in run.stdout


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model": "ocr_raeder"}, "table 'demo/signs': no model 'ocr_raeder' (did you mean 'ocr_reader'?)"),
        ({"sampler": "unifrom_8"}, "table 'demo/signs': no sampler 'unifrom_8' (did you mean 'uniform_8'?)"),
        ({"resolution": "nativ"}, "table 'demo/signs': no resolution 'nativ' (did you mean 'native'?)"),
        ({"labl": "x"}, "unknown key 'labl' (did you mean 'label'?)"),
    ],
)
def test_an_unknown_name_in_a_table_gets_a_suggestion(checkout, change, complaint):
    """Also where another table is asked for."""
    path = checkout / "config" / "tables" / "demo" / "signs.yaml"
    table = yaml.safe_load(path.read_text(encoding="utf-8"))
    table["rows"][0] |= change
    path.write_text(yaml.safe_dump(table, allow_unicode=True), encoding="utf-8")
    run = snakemake(checkout, "-n", "synthetic_rolling")
    assert run.returncode == 1
    assert complaint in run.stdout
    assert "Traceback" not in run.stdout


@pytest.mark.parametrize("folder", ["samplers", "models", "datasets"])
def test_an_unknown_key_in_a_yaml_gets_a_suggestion(checkout, folder):
    name = {"samplers": "uniform_8", "models": "ocr_reader", "datasets": "demo_signs"}[folder]
    edit(checkout / "config" / folder / f"{name}.yaml", titel="x")
    run = snakemake(checkout, "-n", "synthetic_rolling")
    assert run.returncode == 1
    assert "unknown key 'titel' (did you mean 'title'?)" in run.stdout
    assert f"{name}.yaml" in run.stdout


def test_every_table_is_a_target_of_its_own(checkout):
    """Also one that config.yaml doesn't ask for."""
    for target in ("demo_signs", "results/tables/demo/signs.tex"):
        run = snakemake(checkout, "-n", target)
        assert run.returncode == 0, run.stdout
        planned = jobs(run.stdout)
        assert planned["make_table"] == 1
        assert planned["render_videos"] == 1
        assert "make_report" not in planned


def test_a_folder_of_tables_is_a_target_with_a_report_of_its_own(checkout):
    (checkout / "config" / "tables" / "mine").mkdir()
    table = (checkout / "config" / "tables" / "demo" / "rolling.yaml").read_text(encoding="utf-8")
    (checkout / "config" / "tables" / "mine" / "größe.yaml").write_text(table, encoding="utf-8")
    run = snakemake(checkout, "-n", "mine", "mine_größe")
    assert run.returncode == 0, run.stdout
    assert "output: results/reports/mine.html" in run.stdout
    assert "results/tables/mine/größe.csv" in run.stdout
    assert (jobs(run.stdout)["make_table"], jobs(run.stdout)["make_report"]) == (1, 1)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (
            "run/cell",
            "config/tables/run/cell.yaml: its target 'run_cell' would also mean rule run_cell; rename the table",
        ),
        ("predictions/x", "config/tables/predictions/: rule predictions has this name; rename the folder"),
    ],
)
def test_a_target_means_one_thing(checkout, name, complaint):
    path = checkout / "config" / "tables" / f"{name}.yaml"
    path.parent.mkdir()
    shutil.copy(checkout / "config" / "tables" / "demo" / "rolling.yaml", path)
    run = snakemake(checkout, "-n")
    assert run.returncode == 1
    assert complaint in run.stdout
    assert "Traceback" not in run.stdout


def test_a_model_in_shards_is_planned_in_shards(checkout):
    whole = jobs(snakemake(checkout, "-n", "demo_signs").stdout)
    others = 4  # two cells of the tiny model, two of the blind one
    path = checkout / "config" / "models" / "ocr_reader.yaml"
    resources = yaml.safe_load(path.read_text(encoding="utf-8"))["resources"]
    edit(path, resources={**resources, "shards": 3})
    run = snakemake(checkout, "-n", "demo_signs")
    planned = jobs(run.stdout)
    assert planned["run_cell"] == others, "other models' cells stay whole"
    assert planned["merge_shards"] == whole["run_cell"] - others
    assert planned["run_shard"] == 3 * planned["merge_shards"]
    assert planned["score_cell"] == whole["score_cell"]
    cell = "results/predictions/demo_signs/ocr_reader/uniform_4/native/v_q"
    assert f"output: {cell}/shards/2of3.jsonl" in run.stdout
    assert f"output: {cell}/predictions.jsonl" in run.stdout
    edit(path, resources={**resources, "shards": 0})
    assert "ocr_reader.yaml: resources.shards: 0 is less than the minimum of 1" in snakemake(checkout, "-n").stdout


def test_a_model_without_a_pinned_version_is_planned_and_refused(checkout):
    """Planning shows what would run; running ends before anything starts, unless the settings name the model."""
    models = checkout / "config" / "models"
    weights = yaml.safe_load((models / "qwen2_vl_7b.yaml").read_text(encoding="utf-8"))["weights"]
    edit(models / "qwen2_vl_7b.yaml", weights={**weights, "revision": ""})
    path = checkout / "config" / "tables" / "demo" / "signs.yaml"
    row = {"label": "unpinned", "model": "qwen2_vl_7b", "sampler": "uniform_4"}
    edit(path, rows=[row], compare=[])
    assert snakemake(checkout, "-n", "demo_signs").returncode == 0
    run = snakemake(checkout, "demo_signs", "--cores", "1")
    assert run.returncode == 1
    assert "qwen2_vl_7b" in run.stdout and "allow_unpinned" in run.stdout and "Traceback" not in run.stdout
    assert not (checkout / "resources").exists()
    edit(checkout / "config" / "config.yaml", allow_unpinned=["qwen2_vl_7b"])
    assert "--allow-unpinned" in snakemake(checkout, "-n", "-p", "demo_signs").stdout
    edit(checkout / "config" / "config.yaml", allow_unpinned=["qwen2_vl"])
    assert "allow_unpinned: no model 'qwen2_vl' (did you mean 'qwen2_vl_7b'?)" in snakemake(checkout, "-n").stdout
