"""Estimates of what Snakemake really plans."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.lib import cells
from tests.conftest import LAUNCHER, environment, snakemake


@pytest.fixture(autouse=True)
def apptainer(tmp_path, monkeypatch):
    """Snakemake asks Apptainer for its version even to plan with it: something that answers, on machines without."""
    if not shutil.which("apptainer"):
        file = tmp_path / "bin" / "apptainer"
        file.parent.mkdir()
        file.write_text("#!/bin/sh\necho apptainer version 1.4.0\n", encoding="utf-8")
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{file.parent}{os.pathsep}{os.environ['PATH']}")


def estimate(folder, *arguments):
    """The process, and the JSON where it wrote some."""
    found = folder / "estimate.json"
    found.unlink(missing_ok=True)
    own = environment()
    if not shutil.which("snakemake", path=f"{LAUNCHER}{os.pathsep}{own['PATH']}"):
        pytest.skip("no snakemake: run `make setup`")
    run = subprocess.run(
        [sys.executable, "-m", "scripts.estimate", "--json", str(found), *arguments],
        cwd=folder,
        env={**own, "PATH": f"{own['PATH']}{os.pathsep}{LAUNCHER}"},
        text=True,
        capture_output=True,
        check=False,
    )
    return run, json.loads(found.read_text(encoding="utf-8")) if found.is_file() else None


def planned(folder, *arguments):
    """Rule to number of jobs, as Snakemake counts them, without targets."""
    said = snakemake(folder, "-n", *arguments).stdout
    counts = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", said, re.MULTILINE)}
    return {rule: count for rule, count in counts.items() if rule not in ("total", "all", *arguments)}


def load(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def synthetic_cells(folder):
    files = sorted((folder / "config" / "tables" / "synthetic").glob("*.yaml"))
    return {cell for file in files for cell in cells.table_cells({"name": file.stem, **load(file)})}


def test_the_synthetic_tables_from_nothing(checkout):
    run, found = estimate(checkout)
    assert run.returncode == 0, run.stderr
    assert {rule: one["jobs"] for rule, one in found["rules"].items()} == planned(checkout)
    wanted = synthetic_cells(checkout)
    assert {name: one["cells"] for name, one in found["models"].items()} == {
        model: sum(cell.model == model for cell in wanted) for model in {cell.model for cell in wanted}
    }
    models = {name: load(checkout / "config" / "models" / f"{name}.yaml") for name in found["models"]}
    limits = [models[cell.model]["resources"] for cell in wanted]
    assert found["total"]["gpu_limit_h"] == pytest.approx(sum(r["gpus"] * r["runtime_min"] for r in limits) / 60)
    for name, one in found["models"].items():
        on_gpu = models[name]["resources"]["gpus"] > 0
        assert (one["gpu_h"]["a100"] > one["gpu_h"]["h200"] > 0) == on_gpu, name
        assert 0 < one["gpu_h"]["a100"] < one["gpu_limit_h"] if on_gpu else one["cpu_h"] > 0, name
    weights = sum(model["cost"].get("weights_gb", {"value": 0})["value"] for model in models.values())
    assert found["disk_gb"]["resources/models"] == pytest.approx(weights, abs=0.1)
    for guess in found["guesses"]:
        assert f"{guess['key']} = {guess['value']:g}: {guess['note']}" in run.stdout
    assert {"config/hardware.yaml", "config/models/qwen3_vl_8b.yaml"} <= {guess["file"] for guess in found["guesses"]}
    assert estimate(checkout)[0].stdout == run.stdout


CONTENT = {
    "questions.jsonl": '{"key": "x"}\n' * 5,
    "videos.jsonl": '{"status": "ok", "duration_s": 10, "n_frames": 250, "width": 640, "height": 360}\n',
    "frames": '{"frames": [1, 2]}\n',
}


def finish(folder, files):
    """Make what a plan wanted, as if it had run: one file or folder after the other."""
    config = max(path.stat().st_mtime for path in (folder / "config").rglob("*"))
    for age, name in enumerate(files, start=1):
        path = folder / name
        if not path.suffix:
            path.mkdir(parents=True, exist_ok=True)
            path = path / ".snakemake_timestamp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CONTENT.get("frames" if "frames" in path.parts else path.name, ""), encoding="utf-8")
        for one in (path, path.parent) if path.name == ".snakemake_timestamp" else (path,):
            os.utime(one, (config + age, config + age))


def outputs(folder, target):
    """Rule and files of every job of a plan, in the order of the work."""
    said = snakemake(folder, "-n", target).stdout
    for rule, files in re.findall(r"^rule (\w+):\n(?: +.*\n)*? +output: (.*)\n", said, re.MULTILINE):
        yield from ((rule, name.split(" ")[0]) for name in files.split(", "))


def test_a_half_done_target_costs_what_is_left(checkout):
    _, whole = estimate(checkout, "demo_rolling")
    made = list(outputs(checkout, "demo_rolling"))
    answers = [name for rule, name in made if rule == "run_cell"]
    before = [name for rule, name in made if rule not in ("run_cell", "score_cell", "make_table", "make_pdf")]
    half = [name for name in answers if "/ocr_reader/uniform_" in name]
    assert 0 < len(half) < len(answers)
    finish(checkout, [*before, *half])
    run, left = estimate(checkout, "demo_rolling")
    assert run.returncode == 0, run.stderr
    assert set(left["rules"]) <= {"run_cell", "score_cell", "make_table", "make_pdf"}
    assert left["total"]["cells"] == whole["total"]["cells"] - len(half)
    asked = 5 * left["total"]["cells"]
    assert left["total"]["questions"] == asked, "counted in questions.jsonl, not taken from the settings"
    assert "resources/videos" not in left["disk_gb"]
    cost = load(checkout / "config" / "models" / "tiny_qwen3_vl.yaml")["cost"]
    by_hand = (cost["load_s"]["value"] + 5 * cost["question_s"]["value"]) / 3600
    assert left["models"]["tiny_qwen3_vl"]["cpu_h"] == pytest.approx(by_hand)
    finish(checkout, [name for _, name in made])
    run, nothing = estimate(checkout, "demo_rolling")
    assert "nothing to do" in run.stdout
    assert (nothing["jobs"], nothing["total"]["cpu_h"]) == (0, 0)


def test_a_cluster_gets_fewer_submissions_than_jobs(checkout):
    run, found = estimate(checkout, "demo", "--profile", "slurm")
    assert run.returncode == 0, run.stderr
    assert 1 < found["submissions"] < found["jobs"]
    assert f"{found['jobs']} jobs, submitted as {found['submissions']}" in run.stdout


def test_containers_are_those_of_the_profile_and_the_settings(checkout):
    """All images are to be got: a fresh copy has none."""
    sizes = {name: one["value"] for name, one in load(checkout / "config" / "hardware.yaml")["images_gb"].items()}
    _, here = estimate(checkout, "demo")
    assert "containers" not in here["disk_gb"]
    _, cluster = estimate(checkout, "demo", "--profile", "slurm")
    used = sum(sizes[name] for name in ("base", "media", "ocr", "infer_cpu", "tables"))
    assert cluster["disk_gb"]["containers"] == pytest.approx(used)
    path = checkout / "config" / "ocr.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("device: cpu", "device: gpu"), encoding="utf-8")
    _, with_gpu = estimate(checkout, "demo", "--profile", "slurm")
    assert with_gpu["rules"]["extract_ocr"]["gpu_limit_h"] > 0
    assert with_gpu["disk_gb"]["containers"] == pytest.approx(used + sizes["ocr_gpu"]), "ocr is still used by others"


def test_shards_share_the_questions(checkout):
    path = checkout / "config" / "models" / "qwen3_vl_8b.yaml"
    _, whole = estimate(checkout, "synthetic_signs")
    model = load(path)
    sharded = {**model, "resources": {**model["resources"], "shards": 4}}
    path.write_text(yaml.safe_dump(sharded), encoding="utf-8")
    _, parts = estimate(checkout, "synthetic_signs")
    one, four = whole["models"]["qwen3_vl_8b"], parts["models"]["qwen3_vl_8b"]
    assert (four["cells"], four["jobs"], four["questions"]) == (one["cells"], 4 * one["jobs"], one["questions"])
    loads = 3 * one["jobs"] * model["cost"]["load_s"]["value"] / 3600
    assert four["gpu_h"]["a100"] == pytest.approx(one["gpu_h"]["a100"] + loads)


def write_apis(folder, samplers, budget):
    """A table of GPT-4o on the demo's signs, and so many dollars to spend."""
    row = {"model": "gpt_4o", "dataset": "demo_signs", "resolution": "native", "metric": "exact_match"}
    table = {
        "title": "APIs",
        "caption": "Made up.",
        "label": "apis",
        "defaults": row,
        "columns": [{"label": prompt, "heading": prompt, "prompt": prompt} for prompt in ("v_q", "q")],
        "rows": [{"label": sampler, "sampler": sampler} for sampler in samplers],
    }
    path = folder / "config" / "tables" / "apis" / "signs.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(table), encoding="utf-8")
    limits = load(folder / "config" / "remote.yaml")
    limits["budget"] = {"dollars": budget, "tokens": None}
    (folder / "config" / "remote.yaml").write_text(yaml.safe_dump(limits), encoding="utf-8")


def test_tokens_and_dollars_of_an_api(checkout):
    """4 and 8 frames, and a prompt without any; by the model's own figures and its price."""
    write_apis(checkout, ["uniform_4", "uniform_8"], 0.01)
    run, found = estimate(checkout, "apis")
    assert run.returncode == 0, run.stderr
    one = found["models"]["gpt_4o"]
    cost = {key: figure["value"] for key, figure in load(checkout / "config/models/gpt_4o.yaml")["cost"].items()}
    price = load(checkout / "config" / "prices.yaml")["models"]["gpt-4o-2024-08-06"]
    questions = one["questions"] / 4
    read = questions * (4 * cost["text_tokens"] + (4 + 8) * cost["tokens_per_frame"])
    written = one["questions"] * cost["new_tokens"]
    assert (one["cells"], found["total"]["gpu_limit_h"]) == (4, 0)
    assert one["tokens"]["frames"] + one["tokens"]["text"] == pytest.approx(read)
    assert one["api_dollars"] == pytest.approx((read * price["in"] + written * price["out"]) / 1e6)
    assert "$0.01, $0.01 left of it: this would pass it" in run.stdout
    assert f"{price['as_of']}\n" in run.stdout
    # More samplers make more cells due; those of the blind prompt show no frame and cost the same.
    write_apis(checkout, ["uniform_4", "uniform_8", "uniform_16"], 1000)
    run, found = estimate(checkout, "apis")
    more = found["models"]["gpt_4o"]["tokens"]["frames"] - one["tokens"]["frames"]
    assert more == pytest.approx(questions * 16 * cost["tokens_per_frame"])
    assert "$1,000.00, $1,000.00 left of it: enough for this." in run.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["demmo"], "No rule to produce demmo"),
        (["--config", 'tables=["demo/roling"]'], "no table 'demo/roling' (did you mean 'demo/rolling'?)"),
    ],
)
def test_what_cannot_be_planned_is_one_clear_line(checkout, arguments, complaint):
    run, found = estimate(checkout, *arguments)
    assert (run.returncode, run.stdout, found) == (1, "", None)
    said = [line for line in run.stderr.splitlines() if not line.startswith("estimate: asking")]
    assert len(said) == 1, run.stderr
    assert said[0].startswith("error: ")
    assert complaint in said[0]


def test_it_runs_with_snakemakes_own_python(checkout):
    """A login node needs no more than that."""
    python = Path(LAUNCHER, "python")
    if not python.is_file():
        pytest.skip("no environment of Snakemake's own: run `make setup`")
    run = subprocess.run(
        [python, "-m", "scripts.estimate", "demo_signs"], cwd=checkout, text=True, capture_output=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("estimate for demo_signs: ")
