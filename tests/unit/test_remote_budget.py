"""What may be spent, by all jobs that share a file; and what calls cost."""

import json
import multiprocessing
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.lib import config
from scripts.lib.errors import ConfigError, DataError
from scripts.remote import prices
from scripts.remote.budget import Amount, Budget, Ledger

ROOT = Path(__file__).resolve().parents[2]
PRICES = config.read(ROOT / "config" / "prices.yaml", ROOT / "config" / "schemas" / "prices.schema.yaml")


def test_a_call_that_could_pass_the_budget_is_not_reserved(tmp_path):
    ledger = Ledger(tmp_path / "spent.jsonl", Budget(dollars=1.0))
    first = ledger.reserve(Amount(10, 0.6))
    assert first and ledger.reserve(Amount(10, 0.6)) is None
    ledger.settle(first, Amount(8, 0.3))
    assert ledger.spent() == (Amount(8, 0.3), Amount())
    assert ledger.reserve(Amount(10, 0.6))


def test_tokens_are_limited_too_and_none_is_no_limit(tmp_path):
    ledger = Ledger(tmp_path / "a.jsonl", Budget(tokens=100))
    assert ledger.reserve(Amount(100, 1e9)) and ledger.reserve(Amount(1)) is None
    assert Ledger(tmp_path / "b.jsonl", Budget()).reserve(Amount(10**12, 1e12))


def test_a_later_run_goes_on_from_what_was_spent_and_a_call_without_end_counts(tmp_path):
    file = tmp_path / "new" / "spent.jsonl"
    earlier = Ledger(file, Budget(dollars=1.0), "gpt")
    earlier.settle(earlier.reserve(Amount(10, 0.5)), Amount(9, 0.4))
    earlier.reserve(Amount(10, 0.5))  # and then it is killed
    earlier.close()
    later = Ledger(file, Budget(dollars=1.0))
    assert later.spent() == (Amount(9, 0.4), Amount(10, 0.5))
    assert later.reserve(Amount(1, 0.05)) and later.reserve(Amount(1, 0.06)) is None
    line = str(later.exhausted(Amount(1, 0.06)))
    assert line.startswith(f"{file}: $0.40 of $1.00 are spent and $0.55 for calls whose end is not known")
    assert "raise budget.dollars in config/remote.yaml" in line and "\n" not in line
    assert {json.loads(text)["model"] for text in file.read_text().splitlines()} == {"gpt", ""}


def test_a_line_cut_by_a_kill_is_dropped_and_the_file_goes_on_whole(tmp_path):
    file = tmp_path / "spent.jsonl"
    ledger = Ledger(file, Budget(tokens=100))
    ledger.settle(ledger.reserve(Amount(40)), Amount(40))
    with file.open("a") as cut:
        cut.write('{"id": "x", "tok')
    assert ledger.reserve(Amount(50)) and ledger.reserve(Amount(20)) is None
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 3


@pytest.mark.parametrize("line", ["nonsense", '{"id": "a"}', "[]", '{"id":"a","tokens":1,"dollars":1,"state":"odd"}'])
def test_a_line_of_another_kind_is_named(tmp_path, line):
    file = tmp_path / "spent.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(DataError, match=r"spent\.jsonl: not a line of this file"):
        Ledger(file, Budget()).spent()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        Ledger(tmp_path / "file" / "spent.jsonl", Budget())


def _spend(file: Path, ready, go) -> None:
    ledger = Ledger(file, Budget(tokens=1000))
    ready.release()
    go.wait()
    while (name := ledger.reserve(Amount(7))) is not None:
        ledger.settle(name, Amount(6))


def test_jobs_side_by_side_never_pass_the_budget_together(tmp_path):
    file, context = tmp_path / "spent.jsonl", multiprocessing.get_context("fork")
    ready, go = context.Semaphore(0), context.Event()
    jobs = [context.Process(target=_spend, args=(file, ready, go)) for _ in range(4)]
    for job in jobs:
        job.start()
    for _ in jobs:
        ready.acquire()
    go.set()
    for job in jobs:
        job.join()
    assert [job.exitcode for job in jobs] == [0] * 4
    open_, spent, most = {}, 0, 0
    for line in map(json.loads, file.read_text().splitlines()):
        if line["state"] == "reserved":
            open_[line["id"]] = line["tokens"]
        else:
            del open_[line["id"]]
            spent += line["tokens"]
        most = max(most, spent + sum(open_.values()))
    assert not open_ and 980 <= spent <= most <= 1000


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), max_size=60))
def test_what_is_spent_and_reserved_adds_up_and_stays_within(tmp_path_factory, steps):
    file = tmp_path_factory.mktemp("shared") / "spent.jsonl"
    ledgers = [Ledger(file, Budget(tokens=200)) for _ in range(2)]
    mine: dict[str, int] = {}
    spent = 0
    for who, tokens in steps:
        ledger = ledgers[who % 2]
        if who == 2 and mine:
            name, most = mine.popitem()
            ledger.settle(name, Amount(min(tokens, most)))
            spent += min(tokens, most)
        else:
            name = ledger.reserve(Amount(tokens))
            assert (name is not None) == (spent + sum(mine.values()) + tokens <= 200)
            if name:
                mine[name] = tokens
        assert ledgers[0].spent() == ledgers[1].spent() == (Amount(spent), Amount(sum(mine.values())))
    for ledger in ledgers:
        ledger.close()


# Prices.


def test_the_price_file_says_what_a_call_costs():
    assert prices.cost(PRICES, "gpt-4o-2024-08-06", 1_000_000, 0) == pytest.approx(2.5)
    assert prices.cost(PRICES, "gpt-4o-2024-08-06", 46_000, 40, cached=6_000) == pytest.approx(0.1079)
    assert prices.cost(PRICES, "gpt-9", 1, 1) is None


def test_a_longer_prompt_has_the_longer_price_as_a_whole():
    assert prices.cost(PRICES, "gemini-2.5-pro", 200_000, 1000) == pytest.approx(0.26)
    assert prices.cost(PRICES, "gemini-2.5-pro", 200_001, 1000) == pytest.approx(0.5150025)


@pytest.mark.parametrize("tokens", [32_000, 32_001, 128_001])
def test_the_longest_that_a_prompt_is_longer_than_counts_in_whatever_order_they_stand(tokens):
    price = PRICES["models"]["doubao-seed-1-6-250615"]
    backwards = {"models": {"m": price | {"over": price["over"][::-1]}}}
    steps = {32_000: (0.12, 1.34), 32_001: (0.18, 2.40), 128_001: (0.36, 3.60)}
    expected = (tokens * steps[tokens][0] + 1000 * steps[tokens][1]) / 1e6
    assert prices.cost(backwards, "m", tokens, 1000) == pytest.approx(expected)
    assert prices.cost(PRICES, "doubao-seed-1-6-250615", tokens, 1000) == pytest.approx(expected)


def test_without_a_price_of_the_cache_it_costs_as_any_prompt():
    models = {"models": {"m": {"in": 2.0, "out": 1.0}}}
    assert prices.cost(models, "m", 10, 0, cached=4) == pytest.approx(2e-5)


def test_a_batch_has_its_factor_and_nothing_off_for_the_cache():
    for model, alone in (("gpt-4o-mini-2024-07-18", 0.21), ("gpt-5-mini-2025-08-07", 0.45)):
        assert prices.cost(PRICES, model, 1_000_000, 100_000) == pytest.approx(alone)
        assert prices.cost(PRICES, model, 1_000_000, 100_000, batch=True) == pytest.approx(alone / 2)
        assert prices.cost(PRICES, model, 1_000_000, 100_000, 900_000, batch=True) == pytest.approx(alone / 2)


def test_a_batch_of_a_longer_prompt_has_the_factor_of_the_longer_price():
    models = {"models": {"m": {"in": 2.0, "out": 1.0, "batch": 0.25, "over": [{"tokens": 10, "in": 4.0, "out": 8.0}]}}}
    assert prices.cost(models, "m", 10, 1, batch=True) == pytest.approx(0.25 * 21e-6)
    assert prices.cost(models, "m", 11, 1, batch=True) == pytest.approx(0.25 * 52e-6)


def test_without_a_price_of_batches_the_full_one_counts():
    assert prices.cost(PRICES, "gemini-2.5-pro", 1000, 10, batch=True) == prices.cost(
        PRICES, "gemini-2.5-pro", 1000, 10
    )
    assert prices.cost(PRICES, "gpt-9", 1, 1, batch=True) is None


@pytest.mark.parametrize(("factor", "right"), [(0.5, True), (1, True), (0, False), (1.5, False), (-0.5, False)])
def test_the_factor_of_batches_is_a_discount(tmp_path, factor, right):
    price = {"in": 1.0, "out": 1.0, "batch": factor, "as_of": "2026-01-01", "source": "published"}
    file = tmp_path / "prices.yaml"
    file.write_text(yaml.safe_dump({"models": {"m": price}}), encoding="utf-8")
    schema = ROOT / "config" / "schemas" / "prices.schema.yaml"
    if right:
        assert config.read(file, schema)["models"]["m"]["batch"] == factor
    else:
        with pytest.raises(ConfigError, match="batch"):
            config.read(file, schema)


def test_an_unknown_model_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"no price of 'gpt-4o-2024-08-60'.*'gpt-4o-2024-08-06'.*budget\.dollars"):
        prices.require(PRICES, "gpt-4o-2024-08-60")
    prices.require(PRICES, "gpt-4o-2024-08-06")


@pytest.mark.parametrize("model", sorted(PRICES["models"]))
@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**5))
def test_more_tokens_never_cost_less(model, few, more, out, cached):
    few, more = sorted((few, more))
    low = prices.cost(PRICES, model, few, out, cached)
    assert 0 <= low <= prices.cost(PRICES, model, few, out) + 1e-9
    assert prices.cost(PRICES, model, few, out) <= prices.cost(PRICES, model, more, out + 1) + 1e-9


def test_the_limits_of_the_repository_are_valid_and_say_no_key():
    read = config.read(ROOT / "config" / "remote.yaml", ROOT / "config" / "schemas" / "remote.schema.yaml")
    assert Budget(**read["budget"]).dollars > 0
    text = yaml.safe_dump(read)
    assert "key" not in text
