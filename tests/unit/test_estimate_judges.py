"""What judging will cost, against numbers worked out by hand, and what was spent."""

import json
import shutil

import pytest
import yaml

from scripts.estimate import prices, show, spent, total
from scripts.estimate.kept import written
from scripts.estimate.planned import Job, Plan
from scripts.judges import llm
from scripts.judges.protocol import Run
from scripts.remote.budget import Amount, Budget, Ledger
from tests.conftest import ROOT
from tests.unit.estimate_sample import API, AXES, GUESS, PRICE, asked, make_repo, write

JUDGE = {
    "title": "Far",
    "kind": "llm",
    "prompt": "p",
    "remote": {**API["remote"]},
    "client": {"concurrency": 4, "timeout_s": 60, "max_tokens_field": "max_tokens"},
    "generation": {"max_new_tokens": 50},
    "text": {"form": "as_is", "most_answer_chars": 1000},
    "again_share": 0.2,
    "may_fail": 0,
    "resources": {"mem_mb": 1000, "runtime_min": 60},
    "cost": {
        "question_s": {"value": 3, **GUESS},
        "text_tokens": {"value": 200, **GUESS},
        "new_tokens": {"value": 20, **GUESS},
    },
}


@pytest.fixture
def repo(tmp_path):
    root = make_repo(tmp_path)
    write(root / "config/judges/far.yaml", JUDGE)
    write(root / "config/judges/words.yaml", {"title": "Words", "kind": "lexical"})
    return root


def judging(judge="far", **axes):
    return Job("judge_cell", {**AXES, "judge": judge, **axes}, 1, {"runtime": 60})


def estimate(repo, *jobs):
    return total.estimate(Plan(jobs), repo)


def set_judge(repo, **changes):
    write(repo / "config/judges/far.yaml", {**JUDGE, **changes})


def test_a_cell_by_hand(repo):
    """10 questions, 2 of them twice: 12 calls of 200 tokens in and 20 out, 50 at most; 3 s each."""
    found = estimate(repo, judging())
    one = found.judges["judge far"]
    assert (one.questions, one.tokens.text, one.tokens.new, one.tokens.most_new) == (12, 2400, 240, 600)
    assert one.api_dollars == pytest.approx(2400 * 2e-6 + 240 * 10e-6)
    assert one.api_limit_dollars == pytest.approx(2400 * 2e-6 + 600 * 10e-6)
    assert one.cpu_h == pytest.approx(36 / 3600)
    assert found.total.api_dollars == one.api_dollars
    assert (found.models, found.answering.questions) == ({}, 0)
    said = show.text(found, "demo")
    assert "judge far" in said
    assert "one that was judged in another cell, costs nothing" in said


def test_a_batch_has_its_price_and_no_known_time(repo):
    price = {**PRICE, "batch": 0.5}
    write(repo / "config/prices.yaml", {"models": {"big-2026-11-30": price}})
    alone = estimate(repo, judging()).total
    set_judge(repo, batch={"requests": 100, "poll_s": 60, "rounds": 3})
    batched = estimate(repo, judging()).total
    assert batched.api_dollars == pytest.approx(alone.api_dollars / 2)
    assert batched.cpu_h == 0


def test_models_and_judges_of_one_name_stay_apart(repo):
    write(repo / "config/judges/api.yaml", JUDGE)
    found = estimate(repo, asked(), judging("api"))
    assert set(found.prices) == {"api", "judge api"}
    assert found.total.api_dollars == pytest.approx(
        found.models["api"].api_dollars + found.judges["judge api"].api_dollars
    )


def test_rules_on_words_bill_nobody(repo):
    found = estimate(repo, judging("words"))
    assert (found.judges, found.prices, found.budget, found.total.api_dollars) == ({}, {}, None, 0)


def test_a_judge_of_ones_own_bills_nobody_and_one_without_a_price_says_so(repo):
    set_judge(repo, remote={**JUDGE["remote"], "key_env": ""})
    assert estimate(repo, judging()).prices == {"judge far": prices.FREE}
    set_judge(repo, remote={**JUDGE["remote"], "id": "unheard-of"})
    found = estimate(repo, judging())
    assert found.prices == {"judge far": prices.NONE}
    assert "config/prices.yaml has no price of judge far" in show.text(found, "demo")


def test_limits_of_a_client_hold(repo):
    set_judge(repo, client={**JUDGE["client"], "requests_per_min": 2})
    found = estimate(repo, judging())
    assert found.total.cpu_h == pytest.approx(12 * 30 / 3600)
    slow = Job("judge_cell", {**AXES, "judge": "far"}, 1, {"runtime": 1})
    assert estimate(repo, slow).too_long[0].startswith("config/judges/far.yaml: 1 of its jobs look longer")


def test_replies_in_the_cache_are_told_where_the_judge_keeps_them(repo):
    judge = yaml.safe_load((ROOT / "config/judges/egotextvqa.yaml").read_text(encoding="utf-8")) | {"name": "far"}
    told = {"cache": repo / "resources/cache/judgements", "judgements": repo / written(judging())}
    with llm.open_cache(Run(judge, [], llm=told)) as cache:
        for key in ("a", "b", "c"):
            cache.put(key, {})
    found = estimate(repo, judging(), judging(prompt="told"))
    assert [found.total.kept, found.judges["judge far"].kept] == [3, 3]
    assert "3 replies of judges are in the cache" in show.text(found, "demo")
    assert "of these answers are in the cache" not in show.text(found, "demo")


def test_the_repositorys_judges_have_what_an_estimate_needs(repo):
    """And a price, at half of it for a batch."""
    for name in ("egotextvqa", "myego"):
        shutil.copy(ROOT / f"config/judges/{name}.yaml", repo / "config/judges")
    shutil.copy(ROOT / "config/prices.yaml", repo / "config/prices.yaml")
    found = estimate(repo, judging("egotextvqa"), judging("myego"))
    assert all(day[:2] == "20" for day in found.prices.values())
    listed = yaml.safe_load((ROOT / "config/prices.yaml").read_text(encoding="utf-8"))["models"]
    for name in ("egotextvqa", "myego"):
        judge = yaml.safe_load((ROOT / f"config/judges/{name}.yaml").read_text(encoding="utf-8"))
        assert listed[judge["remote"]["id"]]["batch"] == 0.5


# What was spent.


def cost(tokens_in, tokens_out, dollars):
    return {"tokens_in": tokens_in, "tokens_out": tokens_out, "dollars": dollars}


def test_what_was_spent_by_model_table_and_cell(tmp_path, capsys):
    file, results = tmp_path / "spent.jsonl", tmp_path / "results"
    for model, dollars in (("big", 1.25), ("small", 0.5)):
        ledger = Ledger(file, Budget(), model)
        ledger.settle(ledger.reserve(Amount(500, 2.0)), Amount(100, dollars))
        ledger.close()
    ledger = Ledger(file, Budget(), "small")
    ledger.reserve(Amount(40, 0.75))
    ledger.close()
    with file.open("a", encoding="utf-8") as more:
        more.write('{"id": "cut')
    for folder, content in {
        "tables/demo/signs": {"cost": {"total": {"answers": cost(1000, 10, 1.0), "judging": cost(None, None, None)}}},
        "tables/demo/free": {"cost": {"total": {"answers": cost(None, None, None), "judging": cost(None, None, None)}}},
        "judged/far/d/m/s/r/p/scores": {"cost": {"answers": cost(1000, 10, 1.0), "judging": cost(300, 30, 0.25)}},
        "scores/d/m/s/r/p/scores": {"cost": {"answers": cost(None, None, None)}},
    }.items():
        write(results / f"{folder}.json", json.dumps(content))
    assert spent.main(["--ledger", str(file), "--results", str(results), "--cells"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line and not line.startswith("-")]
    assert ["big", "1", "100", "1.25", "0.00"] in rows
    assert ["small", "2", "140", "1.25", "0.75"] in rows
    assert ["total", "3", "240", "2.50", "0.75"] in rows
    assert ["demo/signs", "1,010", "1.0000", "-", "-"] in rows
    assert ["judged/far/d/m/s/r/p", "1,010", "1.0000", "330", "0.2500"] in rows
    assert not any(row[0] in ("demo/free", "scores/d/m/s/r/p") for row in rows)


def test_nothing_spent_is_said_and_a_spoiled_file_named(tmp_path, capsys):
    file = tmp_path / "spent.jsonl"
    arguments = ["--ledger", str(file), "--results", str(tmp_path)]
    assert spent.main(arguments) == 0
    assert "Nothing was spent" in capsys.readouterr().out
    file.write_text('{"id": "a"}\n{"id": "b"}\n', encoding="utf-8")
    assert spent.main(arguments) == 1
    assert capsys.readouterr().err == f"error: {file}: line 1: not a call; remove it\n"
