"""The files of the samplers and resolutions: names say what is in them, and no two are the same thing."""

import re
from pathlib import Path

import pytest

from scripts.lib import config

ROOT = Path(__file__).parents[2] / "config"
SAMPLERS = {name: config.load("sampler", name, ROOT) for name in sorted(config.names("sampler", ROOT))}
RESOLUTIONS = {name: config.load("resolution", name, ROOT) for name in sorted(config.names("resolution", ROOT))}
SWEEPS = {
    r"uniform_(?P<n>\d+)": "uniform",
    r"uniform_fps1_(?P<n>\d+)": "uniform_fps1",
    r"backward_1fps_(?P<n>\d+)": "backward_1fps",
    r"fixed_(?P<seconds>\d+)s_(?P<n>\d+)": "fixed",
    r"moment_aware_(?P<n>\d+)": "moment_aware",
    r"keyframes_(?P<n>\d+)": "keyframes",
}


def meaning(content: dict) -> str:
    return repr(sorted((key, value) for key, value in content.items() if key not in ("name", "title")))


@pytest.mark.parametrize("files", [SAMPLERS, RESOLUTIONS], ids=["samplers", "resolutions"])
def test_no_two_files_say_the_same(files):
    by_meaning: dict[str, list[str]] = {}
    for name, content in files.items():
        by_meaning.setdefault(meaning(content), []).append(name)
    assert [names for names in by_meaning.values() if len(names) > 1] == []
    titles = [content["title"] for content in files.values()]
    assert sorted(titles) == sorted(set(titles)), "tables couldn't tell them apart"


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_samplers_name_holds_its_numbers(name):
    content = SAMPLERS[name]
    found = [(kind, match) for kind in SWEEPS if (match := re.fullmatch(kind, name))]
    if "n" not in content:
        assert found == []
        assert name == content["sampler"]
        return
    [(kind, match)] = found
    assert content["sampler"] == SWEEPS[kind]
    assert {key: content[key] for key in match.groupdict()} == {
        key: int(text) for key, text in match.groupdict().items()
    }


@pytest.mark.parametrize("name", RESOLUTIONS)
def test_a_resolutions_name_holds_its_pixels(name):
    content = RESOLUTIONS[name]
    if match := re.fullmatch(r"(square|long)_(\d+)", name):
        assert (content["kind"].removesuffix("_side"), content["pixels"]) == (match[1], int(match[2]))
    elif match := re.fullmatch(r"(\w+)_(sr|difftsr)_(\d+)", name):
        assert content["scene_text"]["method"] == {"sr": "lanczos"}.get(match[2], match[2])
        assert content["scene_text"]["scale"] == int(match[3]) / 100
        base = RESOLUTIONS[match[1]]
        assert (content["kind"], content["pixels"]) == (base["kind"], base["pixels"]), "the frame around the text"
    else:
        assert name in ("native", "low", "high", "elsewhere")


@pytest.mark.parametrize("base", ["low", "long_960", "long_640", "square_448", "square_768"])
def test_the_scales_of_table_6_are_there_for_each_size_of_frames(base):
    made = {f"{base}_{method}_{scale}" for method in ("sr", "difftsr") for scale in (100, 125, 150)}
    assert {name for name in RESOLUTIONS if re.fullmatch(rf"{base}_(sr|difftsr)_\d+", name)} == made
    for name in made:
        size = RESOLUTIONS[name]["scene_text"]
        assert (size["height"], size["width"]) == (128, 512 if "difftsr" in name else 380)


def test_the_papers_numbers_of_frames_are_there():
    egotextvqa = {"uniform_16", "uniform_32", "uniform_48", "uniform_60", "uniform_120", "uniform_128"}
    egotextvqa |= {f"fixed_4s_{n}" for n in (4, 8, 12, 16)} | {f"fixed_32s_{n}" for n in (12, 24, 36, 48)}
    vitexqa = {"uniform_16", "uniform_64", "uniform_128", "uniform_768"}
    myego = {"uniform_fps1_32", "moment_aware_16"} | {f"backward_1fps_{n}" for n in (1, 2, 4, 8, 16, 32, 48)}
    myego |= {f"uniform_fps1_{n}" for n in (8, 16, 32, 64)}
    assert (egotextvqa | vitexqa | myego | {"elsewhere"}) - set(SAMPLERS) == set()
    sides = {"square_336", "square_384", "square_448", "square_512", "square_768", "long_960", "long_640", "high"}
    assert (sides | {"elsewhere"}) - set(RESOLUTIONS) == set()
