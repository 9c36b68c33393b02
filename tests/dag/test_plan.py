"""What Snakemake plans, with no data present."""

import re

import pytest
import yaml

from tests.conftest import snakemake


def jobs(output: str) -> dict[str, int]:
    """Rule to number of jobs, from the summary of a dry run."""
    return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", output, re.MULTILINE)}


def edit(path, **changes):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump({**content, **changes}, allow_unicode=True), encoding="utf-8")


@pytest.mark.parametrize(
    "arguments", [[], ["--configfile", "config/demo.yaml"], ["--profile", "slurm", "--sdm", "env-modules"]]
)
def test_a_plan_needs_no_data(checkout, arguments):
    """The cluster's containers are left out here: Snakemake looks for Apptainer even to plan with them."""
    run = snakemake(checkout, "-n", *arguments)
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
    edit(checkout / "config" / "demo.yaml", **settings)
    run = snakemake(checkout, "-n", "--configfile", "config/demo.yaml")
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
    path = checkout / "config" / "tables" / "demo" / "signs.yaml"
    table = yaml.safe_load(path.read_text(encoding="utf-8"))
    table["rows"][0] |= change
    path.write_text(yaml.safe_dump(table, allow_unicode=True), encoding="utf-8")
    run = snakemake(checkout, "-n", "--configfile", "config/demo.yaml")
    assert run.returncode == 1
    assert complaint in run.stdout
    assert "Traceback" not in run.stdout


@pytest.mark.parametrize("folder", ["samplers", "models", "datasets"])
def test_an_unknown_key_in_a_yaml_gets_a_suggestion(checkout, folder):
    name = {"samplers": "uniform_8", "models": "ocr_reader", "datasets": "demo_signs"}[folder]
    edit(checkout / "config" / folder / f"{name}.yaml", titel="x")
    run = snakemake(checkout, "-n", "--configfile", "config/demo.yaml")
    assert run.returncode == 1
    assert "unknown key 'titel' (did you mean 'title'?)" in run.stdout
    assert f"{name}.yaml" in run.stdout
