"""What is changed in the executor plugin: only for runs that go to Slurm, and only where it is there to be changed."""

import subprocess
from types import SimpleNamespace

import pytest

from scripts.cluster import inside_job, job_status
from scripts.lib.errors import ConfigError
from tests.conftest import LAUNCHER, ROOT


def executor():
    """A class with what is replaced in the plugin's."""

    class Executor:
        def get_job_args(self, job):
            return f"--target-jobs {job.name} --cores 16"

        def additional_general_args(self):
            return "--executor slurm-jobstep --jobs 1"

    return Executor


def workflow(name, made, array_jobs=None):
    plugin = SimpleNamespace(name=name, executor=made)
    return SimpleNamespace(executor_plugin=plugin, executor_settings=SimpleNamespace(array_jobs=array_jobs))


@pytest.fixture
def path(monkeypatch):
    monkeypatch.setenv("PATH", "/somewhere")
    monkeypatch.setenv(job_status.PYTHON, "")
    return lambda: job_status.os.environ["PATH"]


@pytest.mark.parametrize("name", ["local", "dryrun", "touch", "cluster-generic"])
def test_a_run_that_goes_elsewhere_is_left_alone(path, name):
    made = executor()
    before = dict(vars(made))
    assert not inside_job.prepare(workflow(name, made))
    assert not inside_job.prepare(SimpleNamespace(executor_plugin=None))
    assert dict(vars(made)) == before
    assert path() == "/somewhere"


def test_a_job_runs_its_steps_itself_within_what_it_asked_for(path):
    made = executor()
    assert inside_job.prepare(workflow("slurm", made))
    job = SimpleNamespace(name="batch", threads=2, resources={"mem_mb": 2300, "gpu": 1, "runtime": 30})
    assert made().get_job_args(job) == "--target-jobs batch --cores 16 --cores 2 --resources mem_mb=2300 gpu=1"
    assert made().additional_general_args() == "--executor local"
    assert path() == f"{ROOT / job_status.OURS}:/somewhere"


def test_a_resource_that_is_not_known_is_no_limit():
    made = executor()
    inside_job.run_steps_directly(made)
    job = SimpleNamespace(name="one", threads=1, resources={"mem_mb": "<TBD>"})
    assert made().get_job_args(job) == "--target-jobs one --cores 16 --cores 1"


@pytest.mark.parametrize("gone", ["get_job_args", "additional_general_args"])
def test_a_plugin_of_another_make_is_one_line(path, gone):
    made = executor()
    delattr(made, gone)
    with pytest.raises(ConfigError, match="make setup") as caught:
        inside_job.prepare(workflow("slurm", made))
    assert "\n" not in str(caught.value)
    assert path() == "/somewhere"


def test_arrays_are_refused(path):
    with pytest.raises(ConfigError, match="slurm-array-jobs"):
        inside_job.prepare(workflow("slurm", executor(), array_jobs="all"))


def test_the_plugin_still_has_what_is_changed_in_it():
    if not (LAUNCHER / "python").exists():
        pytest.skip("no launcher: run `make setup`")
    code = (
        "import inspect, snakemake_executor_plugin_slurm as p; from scripts.cluster import inside_job;"
        "said = '--executor slurm-jobstep' in inspect.getsource(p.Executor.additional_general_args);"
        "parameters = [*inspect.signature(p.Executor.get_job_args).parameters];"
        "inside_job.run_steps_directly(p.Executor); print(said, parameters)"
    )
    told = subprocess.run(
        [LAUNCHER / "python", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    assert told == "True ['self', 'job']\n"
