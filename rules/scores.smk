# Answers against the truth: one score file per cell, with intervals, and every question's values for paired tests.


rule score_cell:
    input:
        prompt="config/prompts/{prompt}.yaml",
        questions="resources/datasets/{dataset}/questions.jsonl",
        predictions=f"results/predictions/{cells.PATTERN}/predictions.jsonl",
    output:
        scores=f"results/scores/{cells.PATTERN}/scores.json",
        cases=f"results/scores/{cells.PATTERN}/cases.jsonl",
    log:
        f"logs/score_cell/{cells.PATTERN}.log",
    benchmark:
        f"logs/benchmarks/score_cell/{cells.PATTERN}.tsv"
    container:
        images.path("tables")
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        draws=config["bootstrap_draws"],
        seed=config["seed"],
        version=versions("scripts/judge/score_cell.py", "scripts/judges/option_letter.py"),
    shell:
        "python -m scripts.judge.score_cell --predictions {input.predictions} --questions {input.questions}"
        " --prompt {input.prompt} --draws {params.draws} --seed {params.seed}"
        " --scores {output.scores} --cases {output.cases} --log {log}"


rule score_judgements:
    input:
        judge="config/judges/{judge}.yaml",
        questions="resources/datasets/{dataset}/questions.jsonl",
        predictions=f"results/predictions/{cells.PATTERN}/predictions.jsonl",
        judgements=f"results/judgements/{{judge}}/{cells.PATTERN}/judgements.jsonl",
    output:
        scores=f"results/judged/{{judge}}/{cells.PATTERN}/scores.json",
        cases=f"results/judged/{{judge}}/{cells.PATTERN}/cases.jsonl",
    log:
        f"logs/score_judgements/{{judge}}/{cells.PATTERN}.log",
    benchmark:
        f"logs/benchmarks/score_judgements/{{judge}}/{cells.PATTERN}.tsv"
    container:
        images.path("tables")
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        draws=config["bootstrap_draws"],
        seed=config["seed"],
        version=versions("scripts/judge/score_judgements.py"),
    shell:
        "python -m scripts.judge.score_judgements --judge {input.judge} --judgements {input.judgements}"
        " --predictions {input.predictions} --questions {input.questions} --draws {params.draws} --seed {params.seed}"
        " --scores {output.scores} --cases {output.cases} --log {log}"
