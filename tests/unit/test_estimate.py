"""What a plan costs, against numbers worked out by hand."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.estimate import costs, show, sizes, total
from scripts.estimate.figures import Book
from scripts.estimate.planned import Job, Plan
from scripts.estimate.prices import Prices
from scripts.estimate.tokens import visual_tokens
from scripts.infer import cell
from scripts.lib import config, images
from scripts.lib.errors import ConfigError
from tests.conftest import ROOT
from tests.unit.estimate_sample import AXES, CELL, HARDWARE, MODEL, edit, job, make_repo, write


@pytest.fixture
def repo(tmp_path):
    return make_repo(tmp_path)


def test_a_cell_by_hand(repo):
    """100 x 50 pixels are 1250 tokens, 4 frames 2 pairs: 2500 tokens, 1.25 s. 10 questions of 3.25 s, 100 s to load."""
    found = total.estimate(Plan((CELL,)), repo)
    assert found.total.gpu_h == pytest.approx({"slow": 2 * 132.5 / 3600, "fast": 2 * (100 + 32.5 / 4) / 3600})
    assert found.total.dollars == pytest.approx({"slow": 2 * 2 * 132.5 / 3600, "fast": 5 * 2 * 108.125 / 3600})
    assert (found.total.gpu_limit_h, found.total.limit_dollars) == (2, {"slow": 4, "fast": 10})
    assert (found.total.cpu_h, found.total.cpu_limit_h) == (0, 0), "a GPU job's cores come with the GPU"
    assert (found.total.cells, found.total.questions) == (1, 10)
    assert found.disk_gb == pytest.approx({"results": 0.01})
    assert found.models["m"] == found.total == found.answering
    assert found.too_long == []


def test_other_rules_by_hand(repo):
    """40 frames shown, of 3 s; 2 videos of 6 minutes, 25 frames a second, of 0.02 s; 5 GB of weights; 18 s else."""
    jobs = (
        Job("extract_ocr", {"dataset": "d", "sampler": "four", "resolution": "native"}, 16, {"runtime": 30}),
        Job("render_videos", {"dataset": "d"}),
        Job("fetch_model", {"model": "m"}),
        Job("make_coffee", {}),
    )
    found = total.estimate(Plan(jobs), repo)
    hours = {rule: one.cpu_h for rule, one in found.rules.items()}
    assert hours == pytest.approx(
        {"extract_ocr": 120 / 3600, "render_videos": 360 / 3600, "fetch_model": 0.01, "make_coffee": 0.005}
    )
    assert found.rules["extract_ocr"].cpu_limit_h == 8
    assert found.disk_gb == pytest.approx({"models": 5, "ocr": 0.08, "results": 0, "videos": 0})


def test_containers_count_where_jobs_run_in_them_and_they_are_not_here(repo, monkeypatch):
    monkeypatch.chdir(ROOT)
    base, other = images.path("base"), images.path("media")
    jobs = [replace(CELL, image=base), replace(job(prompt="unseen"), image=base), Job("make_coffee", {}, image=other)]
    found = total.estimate(Plan(tuple(jobs)), repo)
    assert found.disk_gb["containers"] == 4 + 9
    assert "images_gb.other" in {guess.key for guess in found.guesses}
    assert re.search(r"^containers +13\.00$", show.text(found, "demo"), re.MULTILINE)
    write(repo / other, "")
    found = total.estimate(Plan(tuple(jobs)), repo)
    assert found.disk_gb["containers"] == 4
    assert "images_gb.other" not in {guess.key for guess in found.guesses}
    none = total.estimate(Plan((CELL,)), repo)
    assert "containers" not in none.disk_gb
    assert "ontainers" not in show.text(none, "demo")


def test_a_model_without_gpu_costs_cpu_hours(repo):
    cpu = Job("run_cell", AXES, 4, {"runtime": 60})
    found = total.estimate(Plan((cpu,)), repo)
    assert found.total.cpu_h == pytest.approx(132.5 / 3600)
    assert found.total.gpu_h == {"slow": 0, "fast": 0}
    assert found.total.cpu_limit_h == 4
    assert not any("cards" in guess.key for guess in found.guesses)


def test_a_job_longer_than_its_limit_is_named(repo):
    write(repo / "questions.jsonl", "{}\n" * 2000)
    slow = Job("extract_ocr", {"dataset": "d", "sampler": "four", "resolution": "native"}, 2, {"runtime": 60})
    wide = Job("extract_ocr", {"dataset": "d", "sampler": "four", "resolution": "low"}, 16, {"runtime": 60})
    found = total.estimate(Plan((CELL, job(prompt="unseen"), slow, wide)), repo)
    assert found.too_long == [
        "config/models/m.yaml: 2 of its jobs look longer than their limit of 1.0 h (up to 1.8 h); raise"
        " resources.runtime_min or resources.shards",
        "rule extract_ocr: 1 of its jobs look longer than their limit of 1.0 h (up to 3.3 h); raise its"
        " threads or runtime",
    ]


def test_only_guesses_that_went_in_are_listed(repo):
    keys = {guess.key for guess in total.estimate(Plan((job(prompt="unseen"),)), repo).guesses}
    assert "cost.load_s" in keys
    assert "cost.kilotoken_s" not in keys, "no frame was shown"
    assert not any(key.startswith("footage.") for key in keys)
    assert "cost.question_s" not in keys, "measured"
    shown = {guess.key for guess in total.estimate(Plan((job(sampler="asked"),)), repo).guesses}
    assert {"footage.width", "footage.height", "frames.other", "cost.kilotoken_s"} <= shown
    assert "footage.fps" not in shown


def test_a_model_that_says_nothing_of_its_cost_is_one_clear_line(repo):
    write(repo / "config" / "models" / "m.yaml", {key: value for key, value in MODEL.items() if key != "cost"})
    with pytest.raises(ConfigError, match=r"config/models/m\.yaml: says nothing of its cost.*add `cost:`"):
        total.estimate(Plan((CELL,)), repo)


@pytest.mark.parametrize(
    "wrong",
    [
        {**MODEL["cost"], "load_s": {"value": 1, "source": "guess"}},
        {**MODEL["cost"], "load_s": {"value": 1, "source": "hearsay", "note": "x"}},
        {key: value for key, value in MODEL["cost"].items() if key != "pixels_per_token"},
        {**MODEL["cost"], "tokens_per_frame": {"value": 256, "source": "published"}},
        {**MODEL["cost"], "load_s": 100},
    ],
    ids=["a guess without a note", "no such source", "tokens of no size", "tokens of two sizes", "a bare number"],
)
def test_a_cost_must_say_where_it_comes_from(repo, wrong):
    edit(repo / "config" / "models" / "m.yaml", "cost", wrong)
    with pytest.raises(ConfigError, match="cost"):
        config.load("model", "m", repo / "config")


@given(count=st.integers(1, 40), questions=st.integers(0, 5000), seconds=st.floats(0, 50), load=st.floats(0, 500))
def test_hours_add_up_over_shards(count, questions, seconds, load):
    """N shards take what the whole takes, and n - 1 times the loading more."""
    cost = {"load_s": {"value": load, "source": "measured"}, "question_s": {"value": seconds, "source": "measured"}}
    made = made_up(cost, questions)
    whole = made.of(CELL)
    parts = [Job("run_shard", {**AXES, "shard": f"{n}of{count}"}, 4, CELL.resources) for n in range(1, count + 1)]
    found = total.added([made.of(part) for part in parts], {"slow": 1.0, "fast": 1.0})
    for card in ("slow", "fast"):
        extra = 2 * (count - 1) * load / 3600
        assert found.gpu_h[card] == pytest.approx(whole.gpu_h[card] + extra, rel=1e-9, abs=1e-9)
    assert found.questions == pytest.approx(questions)
    assert (found.cells, found.jobs) == (1, count)


@given(frames=st.integers(0, 200), more=st.integers(0, 50), pixels=st.floats(1, 1e7), questions=st.integers(0, 500))
def test_more_frames_or_questions_never_cost_less(frames, more, pixels, questions):
    few, many = (tokens(number, pixels) for number in (frames, frames + more))
    assert 0 <= few <= many
    assert tokens(frames, pixels) <= tokens(frames, pixels * 1.5)
    less, larger = (made_up(MODEL["cost"], number).of(CELL).gpu_h["slow"] for number in (questions, questions + more))
    assert less <= larger


def tokens(frames, pixels, model=MODEL):
    return visual_tokens(model, lambda key: model["cost"][key]["value"], frames, lambda: pixels)


class Counted:
    """Stands for Sizes: so many questions, four small frames each."""

    def __init__(self, questions):
        self.questions, self.width, self.height = float(questions), 100.0, 50.0

    def dataset(self, _name):
        return self

    def frames(self, _dataset, _sampler):
        return 4.0


def made_up(cost, questions):
    configs = {
        "model": {"m": {**MODEL, "cost": cost}},
        "prompt": {"seen": {"frames": "sampled"}},
        "resolution": {"native": {"kind": "native"}},
    }
    book = Book()
    return costs.Costs(HARDWARE, configs, Counted(questions), Prices(book), book)


def test_tokens_of_a_frame_keep_to_the_models_limits():
    assert tokens(1, 6000) == tokens(2, 6000) == 1500, "a single frame stands twice"
    assert tokens(3, 10**9) == 4000, "shrunk to 8000 pixels"
    assert tokens(2, 10) == 250, "enlarged to 1000 pixels"
    fixed = {**MODEL, "cost": {"kilotoken_s": 1, "tokens_per_frame": {"value": 256, "source": "published"}}}
    assert tokens(3, 10**9, fixed) == 768


def look(repo, *jobs):
    return sizes.Sizes(tuple(jobs), HARDWARE, Book(), repo)


def test_what_is_there_is_counted_unless_it_will_be_made_anew(repo):
    made = repo / "resources"
    write(made / "datasets" / "d" / "questions.jsonl", "{}\n\n{}\n")
    video = {"status": "ok", "duration_s": 1800, "n_frames": 18000, "width": 640, "height": 480}
    bad = {"status": "undecodable", "duration_s": None, "n_frames": 0, "width": 0, "height": 0}
    write(made / "datasets" / "d" / "videos.jsonl", "".join(json.dumps(one) + "\n" for one in (video, bad)))
    write(made / "frames" / "d" / "four.jsonl", '{"frames": [1, 2]}\n{"frames": [1, 2, 3]}\n')
    there = look(repo)
    d = there.dataset("d")
    assert (d.questions, d.hours, d.video_frames, d.width, d.height) == (2, 0.5, 18000, 640, 480)
    assert there.frames("d", "four") == 2.5
    anew = look(
        repo,
        Job("fetch_dataset", {"dataset": "d"}),
        Job("probe_videos", {"dataset": "d"}),
        Job("build_frames", {"dataset": "d", "sampler": "four"}),
    )
    d = anew.dataset("d")
    assert (d.questions, d.hours, d.video_frames, d.width, d.height) == (10, 0.2, 18000, 100, 50)
    assert anew.frames("d", "four") == 4


def test_a_data_set_can_say_what_to_expect(repo):
    expected = {
        "questions": {"value": 70, "source": "published"},
        "hours": {"value": 3, "source": "published"},
        "gb": {"value": 12, "source": "guess", "note": "the paper's videos at 720p"},
        "width": {"value": 1920, "source": "published"},
    }
    edit(repo / "config" / "datasets" / "d.yaml", "expected", expected)
    (repo / "questions.jsonl").unlink()
    there = look(repo)
    d = there.dataset("d")
    assert (d.questions, d.hours, d.gb, d.width, d.height) == (70, 3, 12, 1920, 50)
    assert [guess.key for guess in there.book.guesses()] == ["expected.gb", "footage.height"]


def test_a_rendered_data_set_follows_its_settings():
    source = {"videos": 10, "duration_s": [100, 100], "fps": [20, 30], "width": 64, "height": 32}
    assert sizes.rendered(source) == {"questions": 10, "hours": 1000 / 3600, "fps": 25, "width": 64, "height": 32}
    assert sizes.rendered({**source, "questions": {"now": 2, "first": 1}})["questions"] == 30
    assert sizes.log_uniform_mean(1, 2.718281828459045) == pytest.approx(1.718281828)


def test_a_resolution_only_shrinks():
    assert sizes.shrunk({"kind": "native"}, 200, 100) == 20000
    assert sizes.shrunk({"kind": "long_side", "pixels": 50}, 200, 100) == 1250
    assert sizes.shrunk({"kind": "long_side", "pixels": 500}, 200, 100) == 20000
    assert sizes.shrunk({"kind": "square", "pixels": 150}, 200, 100) == 15000


def test_the_text_names_all_that_matters(repo):
    plan = Plan((CELL,), groups=0, alone=0)
    printed = show.text(total.estimate(plan, repo), "demo")
    assert printed.startswith("estimate for demo: 1 jobs, submitted as 0 ")
    for row in ("run_cell", "total"):
        assert re.search(rf"^{row} +1 +- +- +0\.07 +2\.00$", printed, re.MULTILINE)
    assert re.search(r"^m +1 +1 +10 +0\.00 +0\.07 +0\.06 +0\.15 +0\.30$", printed, re.MULTILINE)
    assert "At most, by the time limits: Slow $4, Fast $10." in printed
    assert re.search(r"^results +0\.01$", printed, re.MULTILINE)
    assert "config/models/m.yaml\n    cost.kilotoken_s = 0.5: arithmetic\n" in printed
    assert printed == show.text(total.estimate(plan, repo), "demo")
    assert "nothing to do" in show.text(total.estimate(Plan(()), repo), "demo")


def test_the_repository_says_what_its_parts_cost(monkeypatch):
    monkeypatch.chdir(ROOT)
    hardware = config.read("config/hardware.yaml", "config/schemas/hardware.schema.yaml")
    models = {name: config.load("model", name) for name in config.names("model")}
    for name, model in models.items():
        assert ("cost" in model) or model["adapter"] == "predictions", name
        needed = {"text_tokens", "new_tokens"} if "remote" in model else set()
        assert needed <= set(model.get("cost", {})), name
    for name in config.names("sampler"):
        sampler = config.load("sampler", name)
        known = ("elsewhere", *hardware["frames"])  # elsewhere: nothing is asked here
        assert "n" in sampler or sampler["sampler"] in known, name
    assert {"a100", "h200"} <= set(hardware["cards"])
    rules = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "rules").glob("*.smk"))
    known = set(re.findall(r"^rule (\w+):", rules, re.MULTILINE))
    assert set(hardware["rules"]) - {"other"} <= known, "no rule of this name"


def test_sizes_of_images_are_those_of_their_files(monkeypatch):
    monkeypatch.chdir(ROOT)
    known = config.read("config/hardware.yaml", "config/schemas/hardware.schema.yaml")["images_gb"]
    catalogue = images.catalogue()["images"]
    assert set(known) - {"other"} <= set(catalogue), "no image of this name"
    built = {name for name, image in catalogue.items() if image["digest"]}
    measured = {name for name, figure in known.items() if figure["source"] == "measured"}
    assert measured <= built, "a size is measured only where there was a file to measure"
    for name in filter(images.has, built):
        size_gb = Path(images.path(name)).stat().st_size / 1e9
        assert known[name]["value"] == pytest.approx(size_gb, rel=0.2, abs=0.01), name


def test_a_corrected_cost_asks_no_question_again():
    assert "cost" in cell.NOT_ANSWERS
