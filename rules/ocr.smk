# Text on the sampled frames, and the same text followed over time.


# Not by the time of ocr.yaml: most of that file is about reading, and these are downloads.
rule fetch_ocr_models:
    output:
        models=directory("resources/ocr_models"),
    log:
        "logs/fetch_ocr_models.log",
    benchmark:
        "logs/benchmarks/fetch_ocr_models.tsv"
    container:
        images.path("ocr")
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        settings="config/ocr.yaml",
        models=OCR["models"],
    shell:
        "python -m scripts.ocr.fetch_ocr_models --settings {params.settings} --models {output.models} --log {log}"


rule extract_ocr:
    input:
        settings="config/ocr.yaml",
        models="resources/ocr_models",
        resolution="config/resolutions/{resolution}.yaml",
        videos="resources/datasets/{dataset}/videos.jsonl",
        frame_times="resources/datasets/{dataset}/frame_times.jsonl",
        frames="resources/frames/{dataset}/{sampler}.jsonl",
    output:
        ocr="resources/ocr/{dataset}/{sampler}/{resolution}.jsonl",
    log:
        "logs/extract_ocr/{dataset}/{sampler}/{resolution}.log",
    benchmark:
        "logs/benchmarks/extract_ocr/{dataset}/{sampler}/{resolution}.tsv"
    container:
        images.path("ocr_gpu" if OCR_GPUS else "ocr")
    threads: 16
    resources:
        mem_mb=lambda wildcards, threads, attempt: 1500 * threads * attempt,
        runtime=growing(240),
        gpu=OCR_GPUS,
    params:
        version=versions("scripts/ocr/engine.py"),
    shell:
        "python -m scripts.ocr.extract_ocr --frames {input.frames} --videos {input.videos}"
        " --frame-times {input.frame_times} --resolution {input.resolution} --settings {input.settings}"
        " --models {input.models} --cache resources/cache/ocr --ocr {output.ocr} --workers {threads} --log {log}"


# Somebody else's reading of the same frames, for prompts that tell the text.
rule fetch_scene_text:
    input:
        dataset="config/datasets/{dataset}.yaml",
        videos="resources/datasets/{dataset}/videos.jsonl",
        frames="resources/frames/{dataset}/{sampler}.jsonl",
    output:
        scene_text="resources/scene_text/{dataset}/{sampler}/{reading}.jsonl",
    log:
        "logs/fetch_scene_text/{dataset}/{sampler}/{reading}.log",
    benchmark:
        "logs/benchmarks/fetch_scene_text/{dataset}/{sampler}/{reading}.tsv"
    container:
        images.path("media")
    resources:
        mem_mb=growing(4000),
        runtime=growing(30),
    params:
        files=read_elsewhere,
        version=versions("scripts/ocr/readings.py"),
    shell:
        "python -m scripts.ocr.fetch_scene_text --dataset {input.dataset} --source {wildcards.reading}"
        " --frames {input.frames} --videos {input.videos} --scene-text {output.scene_text} --log {log}"


# Text on the frames enlarged, for resolutions that show it so: what is enlarged was found at that resolution.
rule build_text_crops:
    input:
        resolution="config/resolutions/{resolution}.yaml",
        videos="resources/datasets/{dataset}/videos.jsonl",
        frame_times="resources/datasets/{dataset}/frame_times.jsonl",
        frames="resources/frames/{dataset}/{sampler}.jsonl",
        ocr=read_like,
        weights=crops_weights,
    output:
        crops="resources/text_crops/{dataset}/{sampler}/{resolution}.zip",
    log:
        "logs/build_text_crops/{dataset}/{sampler}/{resolution}.log",
    benchmark:
        "logs/benchmarks/build_text_crops/{dataset}/{sampler}/{resolution}.tsv"
    wildcard_constraints:
        resolution=among(resolutions_with_text()),
    container:
        lambda wildcards: images.path("difftsr" if enlarged_by(wildcards) == "difftsr" else "media")
    threads: 16
    resources:
        mem_mb=growing(16000),
        runtime=growing(240),
        gpu=lambda wildcards: int(enlarged_by(wildcards) == "difftsr"),
    params:
        weights=lambda wildcards, input: option("weights", input.weights),
        timeout_s=config["video_timeout_s"],
        seed=config["seed"],
        version=versions("scripts/infer/text_crops.py", "scripts/ocr/difftsr.py"),
    shell:
        "python -m scripts.ocr.build_text_crops --frames {input.frames} --videos {input.videos}"
        " --frame-times {input.frame_times} --ocr {input.ocr} --resolution {input.resolution} {params.weights}"
        " --cache resources/cache/text_crops --workers {threads} --timeout-s {params.timeout_s} --seed {params.seed}"
        " --crops {output.crops} --log {log}"


rule merge_tracks:
    input:
        settings="config/ocr.yaml",
        ocr="resources/ocr/{dataset}/{sampler}/{resolution}.jsonl",
    output:
        tracks="resources/tracks/{dataset}/{sampler}/{resolution}.jsonl",
    log:
        "logs/merge_tracks/{dataset}/{sampler}/{resolution}.log",
    benchmark:
        "logs/benchmarks/merge_tracks/{dataset}/{sampler}/{resolution}.tsv"
    container:
        images.path("ocr")
    resources:
        mem_mb=growing(2000),
        runtime=growing(15),
    params:
        version=versions("scripts/ocr/tracks.py"),
    shell:
        "python -m scripts.ocr.merge_tracks --ocr {input.ocr} --settings {input.settings} --tracks {output.tracks}"
        " --log {log}"
