# Which frames each question sees: one plan per data set and sampler, before any model runs.


rule extract_keyframes:
    input:
        videos="resources/datasets/{dataset}/videos.jsonl",
        frame_times="resources/datasets/{dataset}/frame_times.jsonl",
        settings="config/keyframes.yaml",
    output:
        keyframes="resources/keyframes/{dataset}.jsonl",
    log:
        "logs/extract_keyframes/{dataset}.log",
    benchmark:
        "logs/benchmarks/extract_keyframes/{dataset}.tsv"
    container:
        images.path("media")
    threads: 16
    resources:
        mem_mb=growing(8000),
        runtime=growing(120),
    params:
        timeout_s=config["video_timeout_s"],
        version=versions("scripts/ocr/extract_keyframes.py"),
    shell:
        "python -m scripts.ocr.extract_keyframes --videos {input.videos} --frame-times {input.frame_times}"
        " --settings {input.settings} --keyframes {output.keyframes} --cache resources/cache/keyframes"
        " --workers {threads} --timeout-s {params.timeout_s} --log {log}"


rule build_frames:
    input:
        sampler="config/samplers/{sampler}.yaml",
        questions="resources/datasets/{dataset}/questions.jsonl",
        videos="resources/datasets/{dataset}/videos.jsonl",
        frame_times="resources/datasets/{dataset}/frame_times.jsonl",
        keyframes=sampler_input("keyframes", "resources/keyframes/{dataset}.jsonl"),
        ocr=sampler_input("ocr", f"resources/ocr/{{dataset}}/{ORACLE_FRAMES}.jsonl"),
    output:
        frames="resources/frames/{dataset}/{sampler}.jsonl",
    log:
        "logs/build_frames/{dataset}/{sampler}.log",
    benchmark:
        "logs/benchmarks/build_frames/{dataset}/{sampler}.tsv"
    container:
        images.path("media")
    resources:
        mem_mb=growing(2000),
        runtime=growing(15),
    params:
        keyframes=lambda wildcards, input: option("keyframes", input.keyframes),
        ocr=lambda wildcards, input: option("ocr", input.ocr),
        seed=config["seed"],
        version=versions("scripts/samplers/common.py"),
    shell:
        "python -m scripts.infer.build_frames --sampler {input.sampler} --questions {input.questions}"
        " --videos {input.videos} --frame-times {input.frame_times} {params.keyframes} {params.ocr}"
        " --seed {params.seed} --frames {output.frames} --log {log}"
