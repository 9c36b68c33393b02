"""The whole of three papers can be planned on a laptop."""

import pytest

from tests.conftest import copy_repository
from tests.dag import full_size
from tests.dag.test_plan import SLURM

PEAK_MB = 2000


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """The plan of a configuration of full size, on a cluster."""
    folder = copy_repository(tmp_path_factory.mktemp("full_size") / "repo")
    full_size.write(folder)
    return full_size.plan(folder, *SLURM)


def test_every_cell_and_shard_is_planned_once(planned):
    assert planned.status == 0, planned.output[-3000:]
    found = planned.jobs
    total = found.pop("total")
    assert total == sum(found.values())
    assert found.pop("make_pdf", full_size.TABLES) == full_size.TABLES
    assert found == full_size.expected_jobs()
    assert found["score_cell"] == full_size.CELLS == 300
    assert found["run_cell"] + found["merge_shards"] == 300


def test_planning_takes_little_memory(planned):
    assert 0 < planned.peak_mb < PEAK_MB


def test_short_jobs_share_submissions(planned):
    """Each job of a model on a GPU is submitted alone; cells of the one without, scores and the like in batches."""
    handed = planned.submissions
    expected = full_size.expected_jobs()
    of_one_model = expected["merge_shards"] // full_size.SHARDED
    assert handed["run_cell"] == expected["run_cell"] - of_one_model
    assert handed["run_shard"] == expected["run_shard"]
    assert "all" not in handed
    others = sum(handed.values()) - handed["run_cell"] - handed["run_shard"]
    assert 0 < others < sum(planned.jobs.values()) / 4
