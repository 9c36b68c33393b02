"""The conventions that let a newcomer find things: one name per rule, small files, profiles that hide no key."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.lib import config, images

ROOT = Path(__file__).parents[2]
RULE_FILES = sorted((ROOT / "rules").glob("*.smk"))
VERBS = {"fetch", "probe", "filter", "extract", "build", "run", "merge", "render", "train", "judge", "score", "make"}
VERBS |= {"compare"}


def rules():
    """(name, body) of every rule that has a file of its own; the targets in the Snakefile are nouns."""
    for file in RULE_FILES:
        for match in re.finditer(r"^rule (\w+):\n((?:^(?: .*)?\n)*)", file.read_text(encoding="utf-8"), re.MULTILINE):
            yield match.group(1), match.group(2)


RULES = dict(rules())


def test_the_rules_are_found():
    assert {"render_videos", "run_cell", "make_table"} <= set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_rule_module_log_and_benchmark_share_a_name(name):
    body = RULES[name]
    module = re.search(r"python -m (scripts(?:\.\w+)+)", body).group(1)
    assert module.rsplit(".", 1)[1] == name
    assert re.search(rf"log:\s+f?\"logs/{name}[/.]", body)
    assert re.search(rf"benchmark:\s+f?\"logs/benchmarks/{name}[/.]", body)
    assert name.split("_")[0] in VERBS
    assert re.search(r"container:\s+(lambda wildcards: )?images\.path\(", body)
    assert "mem_mb=" in body
    assert "runtime=" in body


@pytest.mark.parametrize("name", RULES)
def test_every_flag_of_a_rule_is_known_to_its_module(name):
    module = importlib.import_module(re.search(r"python -m (scripts(?:\.\w+)+)", RULES[name]).group(1))
    known = {flag for action in module.build_parser()._actions for flag in action.option_strings}
    used = set(re.findall(r"(--[a-z-]+)", RULES[name].split("shell:")[1]))
    used |= {f"--{flag}" for flag in re.findall(r"option\(\"([a-z-]+)\"", RULES[name])}
    assert used <= known
    assert len(module.__doc__.strip()) > 40, "the docstring is the step's --help: it should teach"


def python_files():
    return [file for folder in ("scripts", "tests", "benchmarks") for file in sorted((ROOT / folder).rglob("*.py"))]


def test_files_stay_small():
    long = [str(file) for file in python_files() if len(file.read_text(encoding="utf-8").splitlines()) >= 400]
    long += [str(file) for file in RULE_FILES if len(file.read_text(encoding="utf-8").splitlines()) >= 200]
    assert long == []
    assert len((ROOT / "Snakefile").read_text(encoding="utf-8").splitlines()) <= 80


def test_lib_imports_neither_snakemake_nor_torch():
    names = [f"scripts.lib.{file.stem}" for file in (ROOT / "scripts" / "lib").glob("*.py")]
    code = f"import sys, importlib\nfor n in {names!r}: importlib.import_module(n)\n"
    code += "print([m for m in ('snakemake', 'torch', 'transformers', 'paddleocr') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def profile(name):
    return yaml.safe_load((ROOT / "profiles" / name / "profile.v9+.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["laptop", "slurm", "review"])
def test_default_profile_hides_no_key_of_another(name):
    assert set(profile("default")) & set(profile(name)) == set()
    assert (ROOT / name).resolve() == ROOT / "profiles" / name, "`snakemake --profile NAME` works from a clone"


@pytest.mark.parametrize("name", ["default", "laptop", "slurm", "review"])
def test_every_profile_key_has_its_reason(name):
    lines = (ROOT / "profiles" / name / "profile.v9+.yaml").read_text(encoding="utf-8").splitlines()
    explained = False
    for line in lines:
        if line.startswith("#"):
            explained = True
        elif re.match(r"^[a-z-]+:", line):
            assert explained or line.startswith(("jobs:", "printshellcmds:", "keep-going:", "rerun-incomplete:")), line
            explained = False


@pytest.mark.parametrize("kind", config.FOLDERS)
def test_every_yaml_fits_its_schema(kind, monkeypatch):
    monkeypatch.chdir(ROOT)
    names = config.names(kind)
    assert names
    for name in names:
        config.load(kind, name)


def test_defaults_and_schema_of_the_settings_agree(monkeypatch):
    monkeypatch.chdir(ROOT)
    settings = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
    config.check_settings(settings)
    schema = yaml.safe_load((ROOT / "config" / "schemas" / "config.schema.yaml").read_text(encoding="utf-8"))
    assert set(schema["properties"]) == set(settings)


def test_every_setting_is_explained():
    readme = (ROOT / "config" / "README.md").read_text(encoding="utf-8")
    settings = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
    assert [key for key in settings if f"`{key}`" not in readme] == []


def test_every_dependency_has_its_reason_and_its_pin():
    readme = (ROOT / "envs" / "README.md").read_text(encoding="utf-8")
    for name in ("launcher", "laptop"):
        wanted = re.findall(r"^([A-Za-z0-9_-]+)", (ROOT / "envs" / f"{name}.in").read_text(), re.MULTILINE)
        lock = (ROOT / "envs" / f"{name}.lock").read_text()
        for package in wanted:
            assert f"`{package}`" in readme or package.startswith(("font-", "fontpkg-")), (
                f"envs/README.md: why {package}?"
            )
            assert re.search(rf"^{package.lower().replace('_', '-')}==", lock, re.MULTILINE), package
        assert "--hash=sha256:" in lock
        assert "http" not in re.sub(r"\bhttp(x|core|tools)\S*|aiohttp\S*", "", lock), "a lock names no host"


def test_images_have_a_place_for_every_rule():
    assert set(re.findall(r"images\.path\(\"(\w+)\"\)", "".join(RULES.values()))) <= set(images.catalogue()["images"])
