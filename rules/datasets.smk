# Footage and questions: rendered from a seed, or the user's own; then every video decoded once to know what it is.


rule build_scenarios:
    input:
        dataset="config/datasets/{dataset}.yaml",
    output:
        scenarios="resources/datasets/{dataset}/scenarios.jsonl",
        questions="resources/datasets/{dataset}/questions.jsonl",
    log:
        "logs/build_scenarios/{dataset}.log",
    benchmark:
        "logs/benchmarks/build_scenarios/{dataset}.tsv"
    wildcard_constraints:
        dataset=among(datasets_of("synthetic_rolling", "synthetic_signs")),
    container:
        images.path("media")
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        version=versions("scripts/synth/build_scenarios.py"),
    shell:
        "python -m scripts.synth.build_scenarios --dataset {input.dataset} --scenarios {output.scenarios}"
        " --questions {output.questions} --log {log}"


rule render_videos:
    input:
        dataset="config/datasets/{dataset}.yaml",
        scenarios="resources/datasets/{dataset}/scenarios.jsonl",
    output:
        manifest="resources/datasets/{dataset}/manifest.jsonl",
    log:
        "logs/render_videos/{dataset}.log",
    benchmark:
        "logs/benchmarks/render_videos/{dataset}.tsv"
    wildcard_constraints:
        dataset=among(datasets_of("synthetic_rolling", "synthetic_signs")),
    container:
        images.path("media")
    threads: 16
    resources:
        mem_mb=growing(8000),
        runtime=growing(120),
    params:
        videos="resources/videos/{dataset}",
        version=versions("scripts/synth/render_videos.py"),
    shell:
        "python -m scripts.synth.render_videos --dataset {input.dataset} --scenarios {input.scenarios}"
        " --videos {params.videos} --manifest {output.manifest} --workers {threads} --log {log}"


rule fetch_dataset:
    input:
        dataset="config/datasets/{dataset}.yaml",
        own_questions=lambda wildcards: DATASETS[wildcards.dataset]["source"]["questions"],
    output:
        manifest="resources/datasets/{dataset}/manifest.jsonl",
        questions="resources/datasets/{dataset}/questions.jsonl",
    log:
        "logs/fetch_dataset/{dataset}.log",
    benchmark:
        "logs/benchmarks/fetch_dataset/{dataset}.tsv"
    wildcard_constraints:
        dataset=among(datasets_of("local")),
    container:
        images.path("media")
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        footage=footage,
    shell:
        "python -m scripts.acquire.fetch_dataset --dataset {input.dataset} --manifest {output.manifest}"
        " --questions {output.questions} --log {log}"


rule probe_videos:
    input:
        dataset="config/datasets/{dataset}.yaml",
        manifest="resources/datasets/{dataset}/manifest.jsonl",
    output:
        videos="resources/datasets/{dataset}/videos.jsonl",
        frame_times="resources/datasets/{dataset}/frame_times.jsonl",
    log:
        "logs/probe_videos/{dataset}.log",
    benchmark:
        "logs/benchmarks/probe_videos/{dataset}.tsv"
    container:
        images.path("media")
    threads: 16
    resources:
        mem_mb=growing(8000),
        runtime=growing(120),
    params:
        timeout_s=config["video_timeout_s"],
        version=versions("scripts/lib/probe.py"),
    shell:
        "python -m scripts.acquire.probe_videos --dataset {input.dataset} --manifest {input.manifest}"
        " --videos {output.videos} --frame-times {output.frame_times} --cache resources/cache/probe"
        " --workers {threads} --timeout-s {params.timeout_s} --log {log}"
