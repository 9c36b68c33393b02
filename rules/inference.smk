# One job is one whole cell: a model answers all questions of a data set. What it needs is said in the model's YAML.


rule run_cell:
    input:
        model="config/models/{model}.yaml",
        prompt="config/prompts/{prompt}.yaml",
        resolution="config/resolutions/{resolution}.yaml",
        ocr_settings="config/ocr.yaml",
        questions="resources/datasets/{dataset}/questions.jsonl",
        videos="resources/datasets/{dataset}/videos.jsonl",
        frame_times="resources/datasets/{dataset}/frame_times.jsonl",
        frames="resources/frames/{dataset}/{sampler}.jsonl",
        ocr=cell_ocr,
        weights=cell_weights,
    output:
        predictions=f"results/predictions/{cells.PATTERN}/predictions.jsonl",
    log:
        f"logs/run_cell/{cells.PATTERN}.log",
    benchmark:
        f"logs/benchmarks/run_cell/{cells.PATTERN}.tsv"
    container:
        lambda wildcards: images.path(MODELS[wildcards.model]["image"])
    threads: lambda wildcards: MODELS[wildcards.model]["resources"]["cpus"]
    resources:
        mem_mb=model_resource("mem_mb", grows=True),
        runtime=model_resource("runtime_min", grows=True),
        gpu=model_resource("gpus"),
    params:
        ocr=lambda wildcards, input: option("ocr", input.ocr),
        weights=lambda wildcards, input: option("weights", input.weights),
        timeout_s=config["video_timeout_s"],
        seed=config["seed"],
        version=adapter_versions,
    shell:
        "python -m scripts.infer.run_cell --model {input.model} --prompt {input.prompt}"
        " --resolution {input.resolution} --questions {input.questions} --videos {input.videos}"
        " --frame-times {input.frame_times} --frames {input.frames} {params.ocr} --ocr-settings {input.ocr_settings}"
        " {params.weights} --workers {threads}"
        " --timeout-s {params.timeout_s} --seed {params.seed} --cache resources/cache/predictions"
        " --predictions {output.predictions} --log {log}"
