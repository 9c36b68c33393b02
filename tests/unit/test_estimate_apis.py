"""Tokens and dollars of models that somebody else runs, against numbers worked out by hand."""

import json
import re
import shutil

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scripts.estimate import prices, show, total
from scripts.estimate.figures import Book
from scripts.estimate.kept import written
from scripts.estimate.planned import Job, Plan
from scripts.estimate.tokens import Tokens
from scripts.infer import cell
from scripts.lib import config
from scripts.lib.cache import Cache, fingerprint
from scripts.lib.errors import ConfigError
from scripts.remote.budget import Amount, Budget, Ledger
from tests.conftest import ROOT
from tests.unit.estimate_sample import API, AXES, CELL, LIMITS, PRICE, asked, edit, job, make_repo, write


@pytest.fixture
def repo(tmp_path):
    return make_repo(tmp_path)


def estimate(repo, *jobs):
    return total.estimate(Plan(jobs), repo)


def set_price(repo, **changes):
    write(repo / "config" / "prices.yaml", {"models": {"big-2026-11-30": {**PRICE, **changes}}})


def set_budget(repo, **budget):
    edit(repo / "config" / "remote.yaml", "budget", {**LIMITS["budget"], **budget})


def set_api(repo, **changes):
    write(repo / "config" / "models" / "api.yaml", {**API, **changes})


def test_a_cell_by_hand(repo):
    """10 questions: 4 frames of 300 tokens and 100 of text in, 40 out, 500 at most; 2 + 1.2 s each, 5 s to start."""
    found = estimate(repo, asked())
    one = found.models["api"]
    assert one.tokens == Tokens(frames=12_000, text=1000, new=400, most_new=5000)
    assert one.api_dollars == pytest.approx(13_000 * 2e-6 + 400 * 10e-6)
    assert one.api_limit_dollars == pytest.approx(13_000 * 2e-6 + 5000 * 10e-6)
    assert one.cpu_h == pytest.approx(37 / 3600)
    assert (one.cells, one.questions, one.gpu_h) == (1, 10, {"slow": 0, "fast": 0})
    assert found.total == one == found.answering
    assert found.total.dollars == {"slow": 0, "fast": 0}, "no GPU"


def test_a_prompt_without_frames_shows_none_and_told_text_counts(repo):
    """20 tokens of text for each of 4 frames, for an API; no size of any frame is asked for."""
    blind, told = estimate(repo, asked(prompt="unseen")), estimate(repo, asked(prompt="told"))
    assert blind.total.tokens == Tokens(frames=0, text=1000, new=400, most_new=5000)
    assert blind.total.cpu_h == pytest.approx(25 / 3600)
    assert told.total.tokens == Tokens(frames=0, text=10 * (100 + 4 * 20), new=400, most_new=5000)
    keys = {guess.key for guess in told.guesses}
    assert "prompts.scene_text_tokens" in keys - {guess.key for guess in blind.guesses}
    assert not {key for key in keys if key.startswith("footage.")}
    assert estimate(repo, job(prompt="told")).total.tokens == Tokens(), "nobody bills what is local"


def test_tokens_by_the_pixels_of_the_cells_resolution(repo):
    """100 x 50 pixels, and half of both sides; 10 pixels a token: 500 and 125 of each of 4 frames."""
    cost = {key: value for key, value in API["cost"].items() if key != "tokens_per_frame"}
    set_api(repo, cost={**cost, "pixels_per_token": {"value": 10, "source": "published"}})
    native, half = estimate(repo, asked()), estimate(repo, asked(resolution="half"))
    assert (native.total.tokens.frames, half.total.tokens.frames) == (10 * 4 * 500, 10 * 4 * 125)


def test_frames_that_share_nothing_count_by_their_mean(repo):
    write(repo / "resources" / "frames" / "d" / "four.jsonl", '{"frames": [1, 2]}\n{"frames": [1, 2, 3]}\n')
    assert estimate(repo, asked()).total.tokens.frames == 10 * 2.5 * 300


def test_a_long_prompt_has_its_own_price(repo):
    set_price(repo, over=[{"tokens": 1299, "in": 4, "out": 20}])
    assert estimate(repo, asked()).total.api_dollars == pytest.approx(13_000 * 4e-6 + 400 * 20e-6)
    assert estimate(repo, asked(prompt="unseen")).total.api_dollars == pytest.approx(1000 * 2e-6 + 400 * 10e-6)


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ({"requests_per_min": 10}, 60),  # 10 questions of 6 s
        ({"requests_per_min": 600}, 37),
        ({"tokens_per_min": 6700}, 120),  # 10 questions of 1300 + 40 tokens
        ({"requests_per_min": 10, "tokens_per_min": 6700}, 120),
    ],
)
def test_no_cell_is_faster_than_its_limits(repo, limits, seconds):
    set_api(repo, client={**API["client"], **limits})
    found = estimate(repo, asked())
    assert found.total.cpu_h == pytest.approx(seconds / 3600)
    assert found.too_long == []
    limited = Job("run_cell", {**AXES, "model": "api"}, 1, {"runtime": 1})
    assert bool(estimate(repo, limited).too_long) == (seconds > 60)


def test_a_server_on_the_jobs_own_gpus_costs_gpu_hours_and_keeps_to_its_limits(repo):
    server = {"program": "vllm", "arguments": [], "start_s": 60}
    model = {key: value for key, value in API.items() if key not in ("remote", "adapter", "weights")}
    own = {**model, "adapter": "vllm", "server": server, "weights": {"kind": "hub", "id": "a/b", "revision": "0" * 40}}
    write(repo / "config" / "models" / "m.yaml", own)
    found = estimate(repo, CELL)
    assert found.total.gpu_h == pytest.approx({"slow": 2 * 37 / 3600, "fast": 2 * (5 + 32 / 4) / 3600})
    assert (found.total.tokens, found.total.api_dollars, found.prices, found.budget) == (Tokens(), 0, {}, None)
    write(repo / "config" / "models" / "m.yaml", {**own, "client": {**API["client"], "requests_per_min": 20}})
    found = estimate(repo, CELL)
    assert found.total.gpu_h == pytest.approx({"slow": 2 * 37 / 3600, "fast": 2 * 30 / 3600}), "3 s a question"


def test_imported_answers_and_the_blind_yardstick_cost_nothing(repo):
    """The repository's own: answers of people say nothing of their cost."""
    for name in ("human", "blind"):
        shutil.copy(ROOT / "config" / "models" / f"{name}.yaml", repo / "config" / "models")
    assert "cost" not in config.load("model", "human", repo / "config")
    elsewhere = {"model": "human", "sampler": "elsewhere", "resolution": "elsewhere"}
    imported = Job("fetch_predictions", {**AXES, **elsewhere}, 1, {"runtime": 10})
    yardstick = Job("run_cell", {**AXES, "model": "blind"}, 1, {"runtime": 10})
    found = estimate(repo, imported, yardstick)
    assert (found.total.tokens, found.total.api_dollars, found.total.gpu_limit_h) == (Tokens(), 0, 0)
    assert found.budget is None
    assert "API" not in show.text(found, "demo")
    assert set(found.models) == {"blind"}


def test_enlarged_text_takes_a_gpu_only_with_a_model(repo):
    """10 questions of 4 frames: 40 frames of 2 s on the slow card, or of 0.1 s on a core."""
    hardware = yaml.safe_load((repo / "config" / "hardware.yaml").read_text(encoding="utf-8"))
    figure = {"source": "guess", "note": "made up"}
    crops = {"per": "shown_frame", "cpu_s": {"value": 0.1, **figure}, "gpu_s": {"value": 2, **figure}}
    crops |= {"mb": {"value": 1, **figure}, "folder": "crops"}
    edit(repo / "config" / "hardware.yaml", "rules", {**hardware["rules"], "build_text_crops": crops})
    wildcards = {"dataset": "d", "sampler": "four", "resolution": "half"}
    by_model = Job("build_text_crops", wildcards, 16, {"gpu": 1, "runtime": 60})
    by_rule = Job("build_text_crops", wildcards, 16, {"gpu": 0, "runtime": 60})
    one, other = estimate(repo, by_model), estimate(repo, by_rule)
    assert (one.total.gpu_h, one.total.cpu_h) == (pytest.approx({"slow": 80 / 3600, "fast": 20 / 3600}), 0)
    assert (other.total.gpu_h, other.total.cpu_h) == ({"slow": 0, "fast": 0}, pytest.approx(4 / 3600))


def test_a_price_has_its_day_and_may_be_a_guess(repo):
    printed = show.text(estimate(repo, asked()), "demo")
    assert re.search(r"^api +10 +0\.01 +0\.00 +0\.00 +0\.03 +0\.08 +2026-11-30$", printed, re.MULTILINE)
    assert "prices.yaml" not in printed, "published"
    set_price(repo, source="guess", note="list in yuan")
    found = estimate(repo, asked())
    printed = show.text(found, "demo")
    assert found.prices == {"api": "2026-11-30 guess"}
    assert "config/prices.yaml\n    models.big-2026-11-30.in = 2: list in yuan\n" in printed
    assert "models.big-2026-11-30.out = 10: list in yuan" in printed


def test_a_model_without_a_price_is_named(repo):
    write(repo / "config" / "prices.yaml", {"models": {}})
    found = estimate(repo, asked())
    assert (found.total.api_dollars, found.total.tokens.new, found.prices) == (0, 400, {"api": prices.NONE})
    assert "config/prices.yaml has no price of api: not in the dollars above" in show.text(found, "demo")


def test_a_server_that_asks_for_no_key_bills_nobody(repo):
    set_api(repo, remote={**API["remote"], "key_env": ""})
    write(repo / "config" / "prices.yaml", {"models": {}})
    found = estimate(repo, asked())
    assert (found.total.api_dollars, found.total.tokens.new, found.prices) == (0, 400, {"api": prices.FREE})
    assert "no price" not in show.text(found, "demo")


@pytest.mark.parametrize(
    ("dollars", "verdict"),
    [
        (0.08, "$0.08, $0.08 left of it: enough for this."),
        (0.04, "$0.04, $0.04 left of it: enough for this, but not for the longest replies."),
        (0.01, "$0.01, $0.01 left of it: this would pass it by $0.02; the runs stop before they do."),
    ],
)
def test_the_budget_in_dollars(repo, dollars, verdict):
    """0.030 dollars, at most 0.076."""
    set_budget(repo, dollars=dollars)
    assert f"Budget of config/remote.yaml: {verdict}" in show.text(estimate(repo, asked()), "demo")


def test_the_budget_in_tokens_and_none(repo):
    """13,400 tokens, at most 18,000."""
    set_budget(repo, dollars=None, tokens=10_000)
    said = show.text(estimate(repo, asked()), "demo")
    assert "10,000 tokens, 10,000 left of it: this would pass it by 3,400; the runs stop" in said
    set_budget(repo, dollars=None, tokens=18_000)
    assert "18,000 tokens, 18,000 left of it: enough for this." in show.text(estimate(repo, asked()), "demo")
    set_budget(repo, dollars=None)
    assert "Budget" not in show.text(estimate(repo, asked()), "demo")


def test_what_was_spent_is_no_longer_there(repo):
    """As the runs write it down: one call done, one whose end nobody saw, and a line cut short by a kill."""
    path = repo / prices.SPENT
    ledger = Ledger(path, Budget(), "big")
    ledger.settle(ledger.reserve(Amount(500, 40.0)), Amount(100, 20.0))
    ledger.reserve(Amount(7, 0.5))
    ledger.close()
    with path.open("a", encoding="utf-8") as file:
        file.write('{"id": "x", "doll')
    before = path.read_bytes()
    found = estimate(repo, asked())
    assert found.budget == prices.Budget(50, None, 20.5, 107)
    assert "$50.00, $29.50 left of it: enough for this." in show.text(found, "demo")
    assert path.read_bytes() == before, "an estimate writes nothing"
    assert json.loads(json.dumps(total.as_json(found)))["budget"]["dollars_spent"] == 20.5


def test_answers_in_the_cache_are_told(repo):
    """Of the setting that ran last, cut lines not counted; of other cells none."""
    done, shard = asked(), Job("run_shard", {**AXES, "model": "api", "shard": "1of2"}, 1)
    assert (written(done).name, written(shard).name) == ("predictions.jsonl", "1of2.jsonl")
    for folder, count in (("old", 9), ("new", 3)):
        name = fingerprint(str((repo / written(done)).absolute()))
        with Cache(repo / "resources/cache/predictions" / folder / f"{name}.jsonl") as cache:
            for number in range(count):
                cache.put(str(number), {})
    with (cache.path).open("ab") as file:
        file.write(b'["cut')
    found = estimate(repo, done, asked(prompt="unseen"), shard)
    assert (found.total.kept, found.models["api"].questions) == (3, 25)
    assert "3 of these answers are in the cache, of cells that were begun" in show.text(found, "demo")
    assert "in the cache" not in show.text(estimate(repo, shard), "demo")


def test_a_cache_is_looked_for_where_cells_have_it(repo):
    """The name of the file in the cache, as scripts/infer/cell.py makes it."""
    model = yaml.safe_load((ROOT / "config" / "models" / "blind.yaml").read_text(encoding="utf-8"))
    made = cell.Cell({**model, "name": "blind"}, {"answers": "open", "frames": "none"}, {"kind": "native"}, None, 0)
    done = asked(model="blind")
    write(repo / "config" / "models" / "blind.yaml", model)
    with cell.open_cache(repo / "resources" / "cache" / "predictions", made, repo / written(done)) as cache:
        cache.put("a", {})
    assert estimate(repo, done).total.kept == 1


@pytest.mark.parametrize("key", ["text_tokens", "new_tokens"])
def test_an_api_must_say_its_tokens(repo, key):
    set_api(repo, cost={name: value for name, value in API["cost"].items() if name != key})
    with pytest.raises(ConfigError, match=rf"config/models/api\.yaml: cost says no {key}, .*gpt_4o\.yaml"):
        estimate(repo, asked())


def test_prices_are_read_only_where_something_is_asked(repo):
    for name in ("prices", "remote"):
        (repo / "config" / f"{name}.yaml").unlink()
    assert estimate(repo, CELL).budget is None
    with pytest.raises(ConfigError, match=r"prices\.yaml: no such file"):
        estimate(repo, asked())


@given(read=st.integers(0, 10**6), written=st.integers(0, 10**5), more=st.integers(0, 10**5))
def test_more_tokens_never_cost_less(read, written, more):
    known = prices.Prices(Book(), ROOT)
    model = {"name": "m", "remote": {"id": "gemini-2.5-pro", "key_env": "KEY"}}
    least = known.dollars("m", model, read, written)
    assert (
        0
        <= least
        <= min(known.dollars("m", model, read + more, written), known.dollars("m", model, read, written + more))
    )


def test_every_api_of_the_repository_has_a_price(monkeypatch):
    monkeypatch.chdir(ROOT)
    known = prices.Prices(Book())
    models = [config.load("model", name) for name in sorted(config.names("model"))]
    for model in filter(lambda one: "remote" in one, models):
        known.dollars(model["name"], model, 1000, 100)
    assert len(known.dates) > 5
    assert prices.NONE not in known.dates.values(), known.dates
