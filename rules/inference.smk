# A model answers all questions of a data set: one cell, in one job, or in as many as its YAML has shards. What a job
# needs is said there too.
CELL_INPUT = dict(
    model="config/models/{model}.yaml",
    prompt="config/prompts/{prompt}.yaml",
    resolution="config/resolutions/{resolution}.yaml",
    ocr_settings="config/ocr.yaml",
    questions="resources/datasets/{dataset}/questions.jsonl",
    videos="resources/datasets/{dataset}/videos.jsonl",
    frame_times="resources/datasets/{dataset}/frame_times.jsonl",
    frames="resources/frames/{dataset}/{sampler}.jsonl",
    ocr=cell_ocr,
    scene_text=cell_scene_text,
    crops=cell_crops,
    weights=cell_weights,
)
CELL_PARAMS = dict(
    ocr=lambda wildcards, input: option("ocr", input.ocr),
    scene_text=lambda wildcards, input: option("scene-text", input.scene_text),
    crops=lambda wildcards, input: option("crops", input.crops),
    weights=lambda wildcards, input: option("weights", input.weights),
    unpinned=unpinned,
    # Not inputs: another budget or price changes no answer.
    remote="config/remote.yaml",
    prices="config/prices.yaml",
    spent="resources/cache/spent.jsonl",
    timeout_s=config["video_timeout_s"],
    seed=config["seed"],
    version=adapter_versions,
)


rule run_cell:
    input:
        **CELL_INPUT,
    output:
        predictions=f"results/predictions/{cells.PATTERN}/predictions.jsonl",
    log:
        f"logs/run_cell/{cells.PATTERN}.log",
    benchmark:
        f"logs/benchmarks/run_cell/{cells.PATTERN}.tsv"
    wildcard_constraints:
        model=among(models_of_shards(several=False)),
    group:
        short_cells
    container:
        lambda wildcards: images.path(MODELS[wildcards.model]["image"])
    threads: lambda wildcards: MODELS[wildcards.model]["resources"]["cpus"]
    resources:
        mem_mb=model_resource("mem_mb", grows=True),
        runtime=model_resource("runtime_min", grows=True),
        gpu=model_resource("gpus"),
    params:
        **CELL_PARAMS,
    shell:
        "python -m scripts.infer.run_cell --model {input.model} --prompt {input.prompt}"
        " --resolution {input.resolution} --questions {input.questions} --videos {input.videos}"
        " --frame-times {input.frame_times} --frames {input.frames} {params.ocr} --ocr-settings {input.ocr_settings}"
        " {params.scene_text} {params.crops} {params.weights} {params.unpinned} --remote {params.remote}"
        " --prices {params.prices} --spent {params.spent} --workers {threads}"
        " --timeout-s {params.timeout_s} --seed {params.seed} --cache resources/cache/predictions"
        " --predictions {output.predictions} --log {log}"


rule run_shard:
    input:
        **CELL_INPUT,
    output:
        predictions=f"results/predictions/{cells.PATTERN}/shards/{{shard}}.jsonl",
    log:
        f"logs/run_shard/{cells.PATTERN}/{{shard}}.log",
    benchmark:
        f"logs/benchmarks/run_shard/{cells.PATTERN}/{{shard}}.tsv"
    wildcard_constraints:
        model=among(models_of_shards(several=True)),
        shard=cells.SHARD,
    container:
        lambda wildcards: images.path(MODELS[wildcards.model]["image"])
    threads: lambda wildcards: MODELS[wildcards.model]["resources"]["cpus"]
    resources:
        mem_mb=model_resource("mem_mb", grows=True),
        runtime=model_resource("runtime_min", grows=True),
        gpu=model_resource("gpus"),
    params:
        **CELL_PARAMS,
    shell:
        "python -m scripts.infer.run_shard --shard {wildcards.shard} --model {input.model} --prompt {input.prompt}"
        " --resolution {input.resolution} --questions {input.questions} --videos {input.videos}"
        " --frame-times {input.frame_times} --frames {input.frames} {params.ocr} --ocr-settings {input.ocr_settings}"
        " {params.scene_text} {params.crops} {params.weights} {params.unpinned} --remote {params.remote}"
        " --prices {params.prices} --spent {params.spent} --workers {threads}"
        " --timeout-s {params.timeout_s} --seed {params.seed} --cache resources/cache/predictions"
        " --predictions {output.predictions} --log {log}"


rule merge_shards:
    input:
        questions="resources/datasets/{dataset}/questions.jsonl",
        shards=shard_files,
    output:
        predictions=f"results/predictions/{cells.PATTERN}/predictions.jsonl",
    log:
        f"logs/merge_shards/{cells.PATTERN}.log",
    benchmark:
        f"logs/benchmarks/merge_shards/{cells.PATTERN}.tsv"
    wildcard_constraints:
        model=among(models_of_shards(several=True)),
    container:
        images.path("base")
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    shell:
        "python -m scripts.infer.merge_shards --questions {input.questions} --shards {input.shards}"
        " --predictions {output.predictions} --log {log}"


# Answers made elsewhere, from a file of the user's.
rule fetch_predictions:
    input:
        model="config/models/{model}.yaml",
        prompt="config/prompts/{prompt}.yaml",
        questions="resources/datasets/{dataset}/questions.jsonl",
        answers=lambda wildcards: MODELS[wildcards.model]["predictions"]["file"],
    output:
        predictions=f"results/predictions/{cells.PATTERN}/predictions.jsonl",
    log:
        f"logs/fetch_predictions/{cells.PATTERN}.log",
    benchmark:
        f"logs/benchmarks/fetch_predictions/{cells.PATTERN}.tsv"
    wildcard_constraints:
        model=among(models_elsewhere()),
    container:
        images.path("base")
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        version=versions("scripts/infer/fetch_predictions.py"),
    shell:
        "python -m scripts.infer.fetch_predictions --model {input.model} --prompt {input.prompt}"
        " --questions {input.questions} --predictions {output.predictions} --log {log}"
