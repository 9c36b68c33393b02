"""What Snakemake said, read."""

import json
import subprocess

import pytest

from scripts.estimate import planned
from scripts.estimate.planned import Plan
from scripts.lib.errors import EngineError


def line(number, rule="run_cell", makes=1):
    about = {"id": number, "rule": rule, "wildcards": {}, "threads": 1, "resources": {"runtime": 5}, "makes": makes}
    return json.dumps({"job": {**about, "image": "containers/a.sif"}}) + "\n"


def test_a_plan_is_read_whole_or_not_at_all():
    text = '{"total": 4}\n' + line(3) + '{"group": [1, 2]}\n' + line(1) + line(2) + line(9, "all", makes=0)
    plan = planned.read(text)
    assert [one.rule for one in plan.jobs] == ["run_cell"] * 3, "a target is a name, not work"
    assert (plan.groups, plan.alone) == (1, 1)
    assert (plan.jobs[0].limit_h, plan.jobs[0].image) == (5 / 60, "containers/a.sif")
    with pytest.raises(EngineError, match="counts 4 jobs and showed 3"):
        planned.read('{"total": 4}\n' + line(1) + line(2) + line(3))
    assert planned.read("") == Plan(())


def test_snakemakes_complaint_becomes_one_line():
    assert planned.complaint("Using profile x\nerror: no table 'a'\n  File b\n") == "no table 'a'"
    said = "Building DAG of jobs...\nMissingInputException in rule x:\n  affected files:\n    q.jsonl\n"
    asked = "Snakemake can't plan this: MissingInputException in rule x: affected files: q.jsonl"
    assert planned.complaint(said) == asked
    assert "try snakemake -n" in planned.complaint("")


def test_a_long_plan_is_announced(capsys):
    class Slow:
        asked = 0

        def wait(self, timeout=None):
            self.asked += 1
            if timeout is not None:
                raise subprocess.TimeoutExpired("snakemake", timeout)
            return 7

        def kill(self):
            pass

    assert planned._wait(Slow()) == 7
    assert "asking Snakemake what would run" in capsys.readouterr().err
