import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.infer import prompting
from scripts.lib import config
from scripts.lib.errors import ConfigError

ROOT = Path(__file__).parents[2]
PAPER = ROOT.parent / "shared" / "papers" / "egotextvqa.txt"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize("name", sorted(config.names("prompt", ROOT / "config")))
def test_every_prompt_file_is_valid(name):
    prompt = prompting.read(ROOT / "config" / "prompts" / f"{name}.yaml")
    text = prompting.render(prompt["template"], "Wo ist der Ausgang?", ["links", "rechts"])
    assert "Wo ist der Ausgang?" in text
    assert ("A. links\nB. rechts" in text) == (prompt["answers"] == "option")
    assert not re.search(r"\s\s|\s$", text.replace("\n", ""))


@pytest.mark.parametrize(("name", "mark"), [("v_q", "Qwen2-VL\t"), ("q", "w/ Q\t")])
def test_quoted_prompts_are_the_papers_words(name, mark):
    if not PAPER.is_file():
        pytest.skip(f"no {PAPER.name} beside the repository")
    line = next(line for line in PAPER.read_text(encoding="utf-8").splitlines() if line.startswith(mark))
    assert prompting.read(ROOT / "config" / "prompts" / f"{name}.yaml")["template"] == line.removeprefix(mark).strip()


@given(TEXT, st.lists(TEXT, max_size=6))
def test_rendering_puts_in_exactly_what_it_is_given(question, options):
    assert prompting.render("{question}", question) == question
    assert prompting.render("({question})\n{options}!", question, options) == (
        f"({question})\n{prompting.lettered(options)}!"
    )


def test_braces_in_a_question_are_left_alone():
    assert prompting.render("Q: {question} {options}", "why {options}?", ["{question}"]) == (
        "Q: why {options}? A. {question}"
    )


@given(TEXT, TEXT)
def test_the_hash_is_of_the_system_and_the_text(system, text):
    assert prompting.prompt_hash(system, text) == hashlib.sha256(f"{system}\n{text}".encode()).hexdigest()


@pytest.mark.parametrize(
    ("answers", "template", "message"),
    [
        ("open", "{question} {answer}", "unknown placeholder '{answer}'"),
        ("open", "Describe the video.", "no {question}"),
        ("open", "{question} {options}", "belongs to prompts"),
        ("option", "{question}", "belongs to prompts"),
    ],
)
def test_a_template_that_can_not_be_filled_is_refused(answers, template, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        prompting.check({"answers": answers, "template": template}, "p.yaml")
