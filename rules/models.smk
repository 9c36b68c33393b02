# Weights: from a hub at a pinned revision, or made here from a seed.


# By id and revision, not by the time of the YAML: another time limit must not download 16 GB again.
rule fetch_model:
    output:
        weights=directory("resources/models/{model}"),
    log:
        "logs/fetch_model/{model}.log",
    benchmark:
        "logs/benchmarks/fetch_model/{model}.tsv"
    wildcard_constraints:
        model=among(models_of("hub")),
    container:
        images.path("base")
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        model="config/models/{model}.yaml",
        weights=lambda wildcards: MODELS[wildcards.model]["weights"],
        unpinned=unpinned,
    shell:
        "python -m scripts.acquire.fetch_model --model {params.model} {params.unpinned} --out {output.weights}"
        " --log {log}"


rule build_tiny_model:
    output:
        weights=directory("resources/models/tiny_qwen3_vl"),
    log:
        "logs/build_tiny_model.log",
    benchmark:
        "logs/benchmarks/build_tiny_model.tsv"
    container:
        images.path("infer_cpu")
    resources:
        mem_mb=growing(4000),
        runtime=growing(10),
    params:
        seed=config["seed"],
        version=versions("scripts/train/build_tiny_model.py"),
    shell:
        "python -m scripts.train.build_tiny_model --seed {params.seed} --out {output.weights} --log {log}"
