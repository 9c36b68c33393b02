"""Judging in a whole run: a server that is away, and comes back; a judge that is changed; people."""

import csv
import json
import re
import shutil

import pytest
import yaml

from tests.conftest import snakemake
from tests.dag.test_plan import edit, jobs
from tests.unit.fault_server import FaultServer
from tests.workflow.conftest import RUN

pytestmark = pytest.mark.slow

ROWS = [
    {"label": "One", "sampler": "ts_frame", "resolution": "native", "prompt": "v_q"},
    {"label": "Two", "sampler": "qa_frames", "resolution": "native", "prompt": "v_q"},
]
COLUMNS = [
    {"label": "far", "metric": "judge_accuracy", "pair": "judge_score", "judge": "far"},
    {"label": "words", "metric": "judge_accuracy", "judge": "lexical", "group": "macro"},
]
TABLE = "results/tables/smoke/judged.json"


@pytest.fixture
def server():
    with FaultServer() as made:
        made.reply = lambda _: "{'pred': 'yes', 'score': 4}"
        yield made


@pytest.fixture
def copy(finished, tmp_path, server):
    """The finished run, with a table of its own that a judge behind ``server`` is in."""
    folder = shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    judge = yaml.safe_load((folder / "config/judges/egotextvqa.yaml").read_text(encoding="utf-8"))
    judge["remote"] |= {"url": server.url, "key_env": ""}
    (folder / "config/judges/far.yaml").write_text(yaml.safe_dump(judge), encoding="utf-8")
    edit(folder / "config/remote.yaml", retries=1, first_wait_s=0.001, longest_wait_s=0.01)
    defaults = {"dataset": "smoke_signs", "model": "ocr_reader"}
    compared = [{"rows": ["One", "Two"], "column": "far"}]
    table = {"title": "t", "caption": "c", "defaults": defaults, "columns": COLUMNS, "rows": ROWS, "compare": compared}
    (folder / "config/tables/smoke/judged.yaml").write_text(yaml.safe_dump(table), encoding="utf-8")
    return folder


def planned(folder):
    run = snakemake(folder, "-n", *RUN, "--quiet", "host", "--", TABLE)
    assert run.returncode == 0, run.stdout
    return {rule: count for rule, count in jobs(run.stdout).items() if rule != "total"}


def test_a_judge_that_is_away_stops_its_cells_and_judges_the_rest_later(copy, server):
    assert planned(copy) == {"judge_cell": 4, "score_judgements": 4, "make_table": 1}
    server.steps = lambda text: ["500"] if "first" in text else []
    run = snakemake(copy, TABLE, *RUN)
    assert run.returncode == 1
    log = (copy / "logs/judge_cell/far/smoke_signs/ocr_reader/ts_frame/native/v_q.log").read_text(encoding="utf-8")
    assert re.search(r"error: judge far: \d+ replies for \d+ answers are still missing", log)
    assert not (copy / TABLE).exists()
    before, server.steps = set(server.answered), lambda _: []
    server.asked.clear()
    run = snakemake(copy, TABLE, *RUN)
    assert run.returncode == 0, run.stdout
    assert before, "some were judged before the outage"
    assert not before & set(server.asked), "what was judged is not asked again"
    made = json.loads((copy / TABLE).read_text(encoding="utf-8"))
    values = [row["cells"][0]["value"] for row in made["rows"]] if "cells" in made["rows"][0] else made
    assert values
    assert "Nothing to be done" in snakemake(copy, TABLE, *RUN).stdout


def test_another_prompt_judges_again_another_bootstrap_does_not(copy):
    assert snakemake(copy, TABLE, *RUN).returncode == 0
    assert planned(copy) == {}
    edit(copy / "config/smoke.yaml", bootstrap_draws=300)
    assert planned(copy)["score_judgements"] == 4
    assert "judge_cell" not in planned(copy)
    edit(copy / "config/judges/far.yaml", again_share=0.5)
    assert planned(copy)["judge_cell"] == 2


def test_people_rate_what_was_drawn_and_are_compared(copy):
    cells = [{**row, "dataset": "smoke_signs", "model": "ocr_reader"} for row in ROWS]
    agreement = {"title": "People", "judge": "far", "cells": cells, "n": 5, "seed": 1, "sheets": []}
    file = copy / "config/agreement/people.yaml"
    file.write_text(yaml.safe_dump(agreement), encoding="utf-8")
    folder = copy / "results/agreement/people"
    sheet = "results/agreement/people/sheet.csv"
    assert snakemake(copy, sheet, *RUN).returncode == 0
    refused = snakemake(copy, "results/agreement/people/agreement.md", *RUN)
    assert "config/agreement/people.yaml lists no sheets" in refused.stdout
    rows = list(csv.reader((copy / sheet).read_text(encoding="utf-8-sig").splitlines()))
    for rater in ("A", "B (1)"):  # as browsers call a second download
        filled = [rows[0], *([*row[:4], "yes", "4", "", rater] for row in rows[1:])]
        with (copy / f"{rater}.csv").open("w", encoding="utf-8", newline="") as opened:
            csv.writer(opened).writerows(filled)
    edit(file, sheets=["A.csv", "B (1).csv"])
    run = snakemake(copy, "results/agreement/people/agreement.md", *RUN)
    assert run.returncode == 0, run.stdout
    assert jobs(run.stdout) == {"judge_cell": 2, "compare_raters": 1, "total": 3}, "nothing is drawn anew"
    found = json.loads((folder / "agreement.json").read_text(encoding="utf-8"))
    assert (found["raters"], found["answers_by_number_of_raters"]) == (2, {"2": len(rows) - 1})
    assert {"accuracy"} & {row["what"] for row in found["rows"]}
