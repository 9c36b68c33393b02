"""One Snakemake per Slurm job, where the executor plugin would start one more for every step in it.

The plugin's Slurm job runs a Snakemake that starts each of its steps through `srun` in a further Snakemake, one step
after the other. For steps of seconds that is most of the cost, and a batch of thirty saves little (benchmarks/README.md
has the numbers). All steps here stay on one node and need no `srun`: so the Snakemake in the job runs them itself, side
by side within the CPUs, memory and GPUs that the job asked for. Slurm then also reports a step that ran out of memory
as OUT_OF_MEMORY.

Two methods of the plugin's class are replaced, both of Snakemake's executor interface, and only for a run that goes to
Slurm. A plugin of our own would be cleaner, a class derived from this one; but Snakemake finds plugins only among
installed packages, and its options would no longer be `--slurm-...`: each clone, and each site's profile, would depend
on one more installation. What was replaced is looked for first, and missed in one line.
"""

from typing import Any

from scripts.cluster import job_status
from scripts.lib.errors import ConfigError

EXECUTOR = "slurm"
SHARED = ("mem_mb", "gpu")
"""What steps that run at once share, besides the CPUs: their sum must stay within what the job asked for."""


def prepare(workflow: Any) -> bool:
    """Get a run ready for Slurm; False, and nothing is done, where it goes elsewhere.

    To be called when a run starts (`onstart`): while rules are read, Snakemake does not tell where it goes.

    Raises:
        ConfigError: an option of the plugin that does not work here, or a plugin of another make.
    """
    plugin = workflow.executor_plugin
    if plugin is None or plugin.name != EXECUTOR:
        return False
    if workflow.executor_settings.array_jobs:
        raise ConfigError(
            "slurm-array-jobs: each task would run the first one's step; leave it out, groups do its work"
        )
    run_steps_directly(plugin.executor)
    job_status.put_on_path()
    return True


def limits(job: Any) -> str:
    """What a Slurm job's steps may use together, as arguments: what was asked of Slurm for them."""
    known = {name: job.resources.get(name) for name in SHARED}
    # A size that is not known yet (a string) is no limit.
    numbers = [f"{name}={value}" for name, value in known.items() if isinstance(value, int)]
    return " ".join([f"--cores {job.threads}", *(["--resources", *numbers] if numbers else [])])


def run_steps_directly(executor: Any) -> None:
    """Change what the plugin's class adds to the command of its jobs.

    Raises:
        ConfigError: the class no longer has what is replaced.
    """
    of_interface = getattr(executor, "get_job_args", None)
    if "additional_general_args" not in vars(executor) or of_interface is None:
        raise ConfigError(
            "the installed snakemake-executor-plugin-slurm is not the one this was written for; "
            "`make setup` installs the one in envs/launcher.lock"
        )

    def get_job_args(self: Any, job: Any) -> str:
        # Said here and not read from Slurm's variables in the job: SLURM_MEM_PER_NODE is not set where memory is asked
        # per CPU, and a shell on the way could expand them too early. The last of two --cores holds.
        return f"{of_interface(self, job)} {limits(job)}"

    executor.get_job_args = get_job_args
    executor.additional_general_args = lambda _: "--executor local"
