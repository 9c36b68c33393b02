# What says whether open answers are right: language models, rules on words, people, somebody else's files.


rule judge_cell:
    input:
        judge="config/judges/{judge}.yaml",
        prompt=judge_prompt,
        questions="resources/datasets/{dataset}/questions.jsonl",
        predictions=f"results/predictions/{cells.PATTERN}/predictions.jsonl",
        files=judge_files,
    output:
        judgements=f"results/judgements/{{judge}}/{cells.PATTERN}/judgements.jsonl",
    log:
        f"logs/judge_cell/{{judge}}/{cells.PATTERN}.log",
    benchmark:
        f"logs/benchmarks/judge_cell/{{judge}}/{cells.PATTERN}.tsv"
    group:
        short_judgements
    container:
        lambda wildcards: images.path("remote" if asks_server(wildcards) else "tables")
    resources:
        mem_mb=judge_resource("mem_mb", 2000),
        runtime=judge_resource("runtime_min", 10),
    params:
        prompt=lambda wildcards, input: option("prompt", input.prompt),
        files=lambda wildcards, input: option("files", input.files),
        unpinned=unpinned_judge,
        # Not inputs: another budget or price changes no judgement.
        remote="config/remote.yaml",
        prices="config/prices.yaml",
        spent="resources/cache/spent.jsonl",
        version=judge_versions,
    shell:
        "python -m scripts.judge.judge_cell --judge {input.judge} {params.prompt} --questions {input.questions}"
        " --predictions {input.predictions} {params.files} {params.unpinned} --remote {params.remote}"
        " --prices {params.prices} --spent {params.spent} --cache resources/cache/judgements"
        " --judgements {output.judgements} --log {log}"
