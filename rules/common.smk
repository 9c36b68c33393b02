# Names, paths and look-ups that the rule files share. No rule is defined here.
import re
import shutil
import sys

sys.path.insert(0, workflow.basedir)

# Names imported here land among Snakemake's own (it runs the Snakefile in its module): WorkflowError stays theirs.
from snakemake.exceptions import WorkflowError

from scripts.lib import cells, config as files, errors, images


def or_stop(function, *args):
    """Call ``function``; turn a user's mistake into Snakemake's one-line error."""
    try:
        return function(*args)
    except errors.WorkflowError as error:
        raise WorkflowError(str(error)) from None


or_stop(files.check_settings, config)

KNOWN = {kind: files.names(kind) for kind in files.FOLDERS}
DATASETS = {name: or_stop(files.load, "dataset", name) for name in KNOWN["dataset"]}
MODELS = {name: or_stop(files.load, "model", name) for name in KNOWN["model"]}
SAMPLERS = {name: or_stop(files.load, "sampler", name) for name in KNOWN["sampler"]}
TABLES = {name: or_stop(files.load, "table", name) for name in config["tables"]}

REPORT = "results/report.html"
PDF = shutil.which("pdflatex") or shutil.which("lualatex") or shutil.which("tectonic") or images.has("tables")
TABLE_SUFFIXES = ["tex", "csv", "json", "md"] + (["pdf"] if PDF else [])
# The frames whose text tells single_oracle where most of it is.
ORACLE_FRAMES = "keyframes_32/native"

for table in TABLES.values():
    for cell in or_stop(cells.table_cells, table):
        or_stop(cells.check_names, cell, KNOWN, f"table '{table['name']}'")


def among(names):
    """A wildcard constraint that admits exactly these names."""
    return "|".join(map(re.escape, sorted(names))) or "(?!)"


def datasets_of(*kinds):
    return [name for name, dataset in DATASETS.items() if dataset["source"]["kind"] in kinds]


def models_of(weights):
    return [name for name, model in MODELS.items() if model["weights"]["kind"] == weights]


def all_cells():
    return sorted({cell for table in TABLES.values() for cell in cells.table_cells(table)})


def prediction_file(cell):
    return f"results/predictions/{cell}/predictions.jsonl"


def table_files():
    return [f"results/tables/{name}.{suffix}" for name in TABLES for suffix in TABLE_SUFFIXES]


def score_files(name):
    """The scores that one table reads."""
    return [f"results/scores/{cell}/scores.json" for cell in cells.table_cells(TABLES[name])]


def needs_ocr(model):
    return "ocr" in MODELS[model]["needs"]


def cell_ocr(wildcards):
    """Text on the frames of a cell, for models that read it; nothing for the others."""
    return (
        f"resources/ocr/{wildcards.dataset}/{wildcards.sampler}/{wildcards.resolution}.jsonl"
        if needs_ocr(wildcards.model)
        else []
    )


def cell_weights(wildcards):
    return [] if MODELS[wildcards.model]["weights"]["kind"] == "none" else f"resources/models/{wildcards.model}"


def sampler_input(need, path):
    """An input function: ``path`` for the samplers whose YAML says that they need it, nothing for the others."""
    return lambda wildcards: (
        path.format(dataset=wildcards.dataset) if need in SAMPLERS[wildcards.sampler].get("needs", []) else []
    )


def option(flag, files):
    """``--flag file`` for a command line, or nothing where there is no file."""
    return f"--{flag} {files}" if files else ""


def model_resource(key, grows=False):
    """A resource function read off the model's YAML; memory and time grow with each attempt."""
    return lambda wildcards, attempt: MODELS[wildcards.model]["resources"][key] * (attempt if grows else 1)


wildcard_constraints:
    dataset=among(KNOWN["dataset"]),
    model=among(KNOWN["model"]),
    sampler=among(KNOWN["sampler"]),
    resolution=among(KNOWN["resolution"]),
    prompt=among(KNOWN["prompt"]),
