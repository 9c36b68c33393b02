# Three papers on text in video, from raw footage to LaTeX tables. README.md is the way in; config/README.md the knobs.
from snakemake.utils import min_version

min_version("9.20")


configfile: "config/config.yaml"


include: "rules/common.smk"


# What is asked for: the tables of config["tables"], each in five forms, and one report over all of them.
rule all:
    input:
        table_files(),
        REPORT,
    localrule: True


rule tables:
    input:
        table_files(),
    localrule: True


rule predictions:
    input:
        [prediction_file(cell) for cell in all_cells()],
    localrule: True


# Text followed over time, wherever a cell reads text.
rule tracks:
    input:
        track_files(),
    localrule: True


# In the order of the work: footage and questions, frames, text on frames, models, answers, scores, tables.
include: "rules/datasets.smk"
include: "rules/frames.smk"
include: "rules/ocr.smk"
include: "rules/models.smk"
include: "rules/inference.smk"
include: "rules/scores.smk"
include: "rules/tables.smk"
