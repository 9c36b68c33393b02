# Three papers on text in video, from raw footage to LaTeX tables. README.md is the way in; config/README.md the knobs.
from snakemake.utils import min_version

min_version("9.20")


configfile: "config/config.yaml"


include: "rules/common.smk"
include: "rules/lookups.smk"
include: "rules/scene_text.smk"


# Images with other bytes than containers/images.yaml names, or none, end a run here; `-n` does without them.
onstart:
    or_stop(inside_job.prepare, workflow)
    if IN_CONTAINERS and not workflow.touch:
        or_stop(images.make_cache)
        or_stop(images.check_files, {job.container_img_url for job in workflow.dag.needrun_jobs()})
    for model in {job.wildcards.get("model") for job in workflow.dag.needrun_jobs()} & set(MODELS):
        or_stop(pins.check, MODELS[model], UNPINNED)
    for judge in {job.wildcards.get("judge") for job in workflow.dag.needrun_jobs()} & set(JUDGES):
        or_stop(pins.check, JUDGES[judge], UNPINNED, "judges")


# What is asked for: the tables of config["tables"], each in five forms, and one report over all of them.
rule all:
    input:
        table_files(config["tables"]),
        "results/report.html",
    localrule: True


rule tables:
    input:
        table_files(config["tables"]),
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


# In the order of the work: footage and questions, frames, text on frames, models, answers, judges, scores, people, tables.
include: "rules/datasets.smk"
include: "rules/frames.smk"
include: "rules/ocr.smk"
include: "rules/models.smk"
include: "rules/inference.smk"
include: "rules/judging.smk"
include: "rules/scores.smk"
include: "rules/agreement.smk"
include: "rules/tables.smk"


# Every table under config/tables/ is a target too, asked for or not, and so is every folder of them with a report:
# `snakemake synthetic_rolling`, `snakemake demo`.
for target, made in targets({rule.name for rule in workflow.rules}).items():

    rule:
        name:
            target
        input:
            made,
        localrule: True
