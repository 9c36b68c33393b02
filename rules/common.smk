# Configuration, read and checked once, and what a wildcard may be. No rule is defined here.
import re
import shlex
import shutil
import sys
from pathlib import Path

sys.path.insert(0, workflow.basedir)

# Snakemake runs the Snakefile inside its own module: a name imported here must not hide one of its own.
from scripts.cluster import inside_job
from scripts.lib import cells, config as files, errors, images, plan, triggers
from scripts.models import ADAPTERS, pins


def or_stop(function, *args):
    """Call ``function``; a user's mistake ends the run with its one line."""
    try:
        return function(*args)
    except errors.WorkflowError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def load_all(kind):
    """Every YAML of a kind, checked now: a mistake found after the first GPU hour is found too late."""
    return {name: or_stop(files.load, kind, name) for name in files.names(kind)}


IN_CONTAINERS = any(method.name == "APPTAINER" for method in workflow.deployment_settings.deployment_method)
# On a node too, whose disk may be another; where a run starts, `onstart` makes it, so that a dry run makes nothing.
if IN_CONTAINERS and not workflow.is_main_process:
    or_stop(images.make_cache)

or_stop(images.catalogue)
or_stop(files.check_settings, config)

DATASETS = load_all("dataset")
MODELS = load_all("model")
or_stop(images.check_models, MODELS.values())
SAMPLERS = load_all("sampler")
RESOLUTIONS = load_all("resolution")
# The others are for making data sets and for judging.
PROMPTS = {name: prompt for name, prompt in load_all("prompt").items() if prompt.get("task", "answer") == "answer"}
JUDGES = load_all("judge")
AGREEMENTS = load_all("agreement")
UNPINNED = config.get("allow_unpinned", [])
or_stop(plan.check_models, UNPINNED, MODELS | JUDGES)
OCR = or_stop(files.read, "config/ocr.yaml", "config/schemas/ocr.schema.yaml")
OCR_GPUS = int(OCR["engine"]["device"] == "gpu")
or_stop(files.read, "config/keyframes.yaml", "config/schemas/keyframes.schema.yaml")
TABLES = load_all("table")
or_stop(plan.check_asked, config["tables"], TABLES)
KNOWN = {
    "dataset": set(DATASETS),
    "model": set(MODELS),
    "sampler": set(SAMPLERS),
    "resolution": set(RESOLUTIONS),
    "prompt": set(PROMPTS),
}

# Pages under results/ and the tables that each shows: what is asked for, and every folder of tables.
REPORTS = {"report": config["tables"]} | {f"reports/{paper}": made for paper, made in plan.papers(TABLES).items()}
# In containers it is the image that has TeX, else this machine or not.
PDF = IN_CONTAINERS or any(map(shutil.which, ["pdflatex", "lualatex", "tectonic"]))
TABLE_SUFFIXES = ["tex", "csv", "json", "md"] + (["pdf"] if PDF else [])
# The frames whose text tells single_oracle where most of it is.
ORACLE_FRAMES = "answer_keyframes/native"

CONFIGS = plan.Configs(MODELS, PROMPTS, DATASETS, RESOLUTIONS, JUDGES)
for table in TABLES.values():
    for cell in or_stop(cells.table_cells, table):
        or_stop(cells.check_names, cell, KNOWN, f"table '{table['name']}'")
    or_stop(plan.check_table, table, CONFIGS)
for agreement in AGREEMENTS.values():
    for cell in or_stop(cells.rated_cells, agreement).values():
        or_stop(cells.check_names, cell, KNOWN, f"agreement '{agreement['name']}'")
    or_stop(plan.check_agreement, agreement, CONFIGS)


def among(names):
    """A wildcard constraint that admits exactly these names."""
    return "|".join(map(re.escape, sorted(names))) or "(?!)"


wildcard_constraints:
    dataset=among(DATASETS),
    model=among(MODELS),
    sampler=among(SAMPLERS),
    resolution=among(RESOLUTIONS),
    prompt=among(PROMPTS),
    judge=among(JUDGES),
    agreement=among(AGREEMENTS),
