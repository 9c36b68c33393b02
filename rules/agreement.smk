# What people say of the same answers as a judge: sheets to fill in, and how far they agree.


rule build_rating_sheet:
    input:
        questions=lambda wildcards: [
            f"resources/datasets/{cell.dataset}/questions.jsonl" for cell in rated_cells(wildcards)
        ],
        predictions=lambda wildcards: [prediction_file(cell) for cell in rated_cells(wildcards)],
    output:
        sheet="results/agreement/{agreement}/sheet.csv",
        form="results/agreement/{agreement}/sheet.html",
        key="results/agreement/{agreement}/key.json",
    log:
        "logs/build_rating_sheet/{agreement}.log",
    benchmark:
        "logs/benchmarks/build_rating_sheet/{agreement}.tsv"
    container:
        images.path("tables")
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        # Not an input: to list the sheets that come back draws nothing anew.
        agreement="config/agreement/{agreement}.yaml",
        draw=lambda wildcards: plan.what_is_drawn(AGREEMENTS[wildcards.agreement]),
        version=versions("scripts/agree/build_rating_sheet.py"),
    shell:
        "python -m scripts.agree.build_rating_sheet --agreement {params.agreement} --predictions results/predictions"
        " --datasets resources/datasets --sheet {output.sheet} --form {output.form} --key {output.key} --log {log}"


rule compare_raters:
    input:
        agreement="config/agreement/{agreement}.yaml",
        key="results/agreement/{agreement}/key.json",
        sheets=rating_sheets,
        judgements=lambda wildcards: [
            f"results/judgements/{AGREEMENTS[wildcards.agreement]['judge']}/{cell}/judgements.jsonl"
            for cell in rated_cells(wildcards)
        ],
    output:
        json="results/agreement/{agreement}/agreement.json",
        csv="results/agreement/{agreement}/agreement.csv",
        markdown="results/agreement/{agreement}/agreement.md",
        tex="results/agreement/{agreement}/agreement.tex",
    log:
        "logs/compare_raters/{agreement}.log",
    benchmark:
        "logs/benchmarks/compare_raters/{agreement}.tsv"
    container:
        images.path("tables")
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        draws=config["bootstrap_draws"],
        seed=config["seed"],
        version=versions("scripts/agree/compare_raters.py"),
    shell:
        "python -m scripts.agree.compare_raters --agreement {input.agreement} --key {input.key}"
        " --sheets {input.sheets:q} --judgements results/judgements --draws {params.draws} --seed {params.seed}"
        " --json {output.json} --csv {output.csv} --markdown {output.markdown} --tex {output.tex} --log {log}"
