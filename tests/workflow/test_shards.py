"""The rules of a cell in shards, really run: the same tables as in one job, from the answers that were paid for."""

import shutil

import pytest
import yaml

from tests.conftest import snakemake
from tests.dag.test_plan import edit
from tests.workflow.conftest import RUN, tables
from tests.workflow.test_kill import lines

pytestmark = pytest.mark.slow
CELL = "results/predictions/smoke_rolling/ocr_reader/uniform_4/native/v_q"


def test_a_model_put_into_shards_makes_the_same_tables_and_asks_nothing_anew(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    assert (folder / CELL / "predictions.jsonl").is_file()
    path = folder / "config" / "models" / "ocr_reader.yaml"
    resources = yaml.safe_load(path.read_text(encoding="utf-8"))["resources"]
    edit(path, resources={**resources, "shards": 2})
    run = snakemake(folder, *RUN)
    assert run.returncode == 0, run.stdout
    parts = [(folder / CELL / "shards" / f"{shard}.jsonl").read_bytes() for shard in ("1of2", "2of2")]
    merged = (folder / CELL / "predictions.jsonl").read_bytes()
    assert all(parts) and sorted(b"".join(parts).splitlines()) == sorted(merged.splitlines())
    assert tables(folder) == tables(finished)
    pattern = "resources/cache/predictions/**/*.jsonl"
    assert lines(folder, pattern) == lines(finished, pattern), "no answer was given again"
