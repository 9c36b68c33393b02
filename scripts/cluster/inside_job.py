"""One Snakemake per Slurm job, where the executor plugin would start one more for every step in it.

The plugin's Slurm job runs a Snakemake that starts each of its steps through `srun` in a further Snakemake, one step
after the other. For steps of seconds that is most of the cost, and a batch of thirty saves little (benchmarks/README.md
has the numbers). All steps here stay on one node and need no `srun`: so the Snakemake in the job runs them itself, side
by side on the CPUs that the job was given. Slurm then also reports a step that ran out of memory as OUT_OF_MEMORY.
"""

import sys

ARGUMENTS = "--executor local --cores ${SLURM_CPUS_PER_TASK:-1}"
"""Expanded by the shell in the job: the profile sends the command as a script (slurm-pass-command-as-script)."""
PLUGIN = "snakemake_executor_plugin_slurm"


def run_steps_directly() -> bool:
    """Change what the plugin adds to the command of its jobs; False where the plugin is not loaded.

    Snakemake loads its plugins before it reads a Snakefile. The method is one of Snakemake's executor interface.
    """
    plugin = sys.modules.get(PLUGIN)
    if plugin is None:
        return False
    plugin.Executor.additional_general_args = lambda _: ARGUMENTS
    return True
