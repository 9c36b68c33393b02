# Numbers as people read them: LaTeX, CSV, JSON, Markdown, PDF, and one page that shows the cases behind them.


rule make_table:
    input:
        table="config/tables/{table}.yaml",
        scores=lambda wildcards: score_files(wildcards.table),
    output:
        tex="results/tables/{table}.tex",
        csv="results/tables/{table}.csv",
        json="results/tables/{table}.json",
        markdown="results/tables/{table}.md",
    log:
        "logs/make_table/{table}.log",
    benchmark:
        "logs/benchmarks/make_table/{table}.tsv"
    wildcard_constraints:
        table=among(TABLES),
    container:
        images.path("tables")
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        version=versions("scripts/tables/make_table.py"),
    shell:
        "python -m scripts.tables.make_table --table {input.table} --results results --tex {output.tex}"
        " --csv {output.csv} --json {output.json} --markdown {output.markdown} --log {log}"


rule make_pdf:
    input:
        tex="results/tables/{table}.tex",
    output:
        pdf="results/tables/{table}.pdf",
    log:
        "logs/make_pdf/{table}.log",
    benchmark:
        "logs/benchmarks/make_pdf/{table}.tsv"
    wildcard_constraints:
        table=among(TABLES),
    container:
        images.path("tables")
    resources:
        mem_mb=growing(1000),
        runtime=growing(10),
    shell:
        "python -m scripts.tables.make_pdf --tex {input.tex} --pdf {output.pdf} --log {log}"


rule make_report:
    input:
        specifications=lambda wildcards: [f"config/tables/{name}.yaml" for name in REPORTS[wildcards.report]],
        tables=lambda wildcards: [f"results/tables/{name}.json" for name in REPORTS[wildcards.report]],
    output:
        report="results/{report}.html",
    log:
        "logs/make_report/{report}.log",
    benchmark:
        "logs/benchmarks/make_report/{report}.tsv"
    wildcard_constraints:
        report=among(REPORTS),
    container:
        images.path("media")
    threads: 16
    resources:
        mem_mb=growing(8000),
        runtime=growing(60),
    params:
        timeout_s=config["video_timeout_s"],
        version=versions("scripts/tables/make_report.py"),
    shell:
        "python -m scripts.tables.make_report --tables {input.specifications} --table-dir results/tables"
        " --results results --predictions results/predictions --resources resources"
        " --cache resources/cache/thumbnails --workers {threads} --timeout-s {params.timeout_s}"
        " --report {output.report} --log {log}"
