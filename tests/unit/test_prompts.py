import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.infer import prompting, scene_text
from scripts.lib import config
from scripts.lib.errors import ConfigError
from scripts.lib.records import OcrBox, OcrFrame

ROOT = Path(__file__).parents[2]
PROMPTS = ROOT / "config" / "prompts"
PAPER = ROOT.parent / "shared" / "papers" / "egotextvqa.txt"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
ALL = {name: config.load("prompt", name, ROOT / "config") for name in sorted(config.names("prompt", ROOT / "config"))}
ANSWERED = [name for name, prompt in ALL.items() if prompt.get("task", "answer") == "answer"]
TABLE_15 = {
    "gpt_4o": ["GPT-4o"],
    "gemini": ["Gemini 1.5 Flash", "Gemini 1.5 Pro"],
    "llava_next_video": ["LLaVA-Next-Video"],
    "cogvlm2_video": ["CogVLM2-Video"],
    "internvl2": ["InternVL2"],
    "qwen2_vl": ["Qwen2-VL"],
    "vila": ["VILA1.5"],
    "sharegpt4video": ["ShareGPT4Video"],
    "minicpm_v": ["MiniCPM-V 2.6"],
}


def wordings(prompt):
    return [prompt["template"], *prompt.get("variants", {}).values()]


def paper():
    """The paper's lines from its appendix on prompts."""
    if not PAPER.is_file():
        pytest.skip(f"no {PAPER.name} beside the repository")
    text = PAPER.read_text(encoding="utf-8")
    return text[text.index("D Model Prompts") :].splitlines()


def row(mark):
    return next(line for line in paper() if line.startswith(f"{mark}\t")).split("\t", 1)[1].strip()


def passage(start, stop):
    """What stands between two lines, white space as one space."""
    lines = paper()
    first = next(number for number, line in enumerate(lines) if line.startswith(start))
    last = next((n for n, line in enumerate(lines) if n > first and line.startswith(stop)), None)
    return plain("\n".join(lines[first + 1 : last]))


def plain(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", ANSWERED)
def test_every_prompt_for_models_can_be_filled(name):
    prompt = prompting.read(PROMPTS / f"{name}.yaml")
    for template in wordings(prompt):
        text = prompting.render(template, "Wo ist der Ausgang?", ["links", "rechts"], '[t=1.0s] "AUSGANG"')
        assert "Wo ist der Ausgang?" in text
        assert ("A. links\nB. rechts" in text) == (prompt["answers"] == "option")
        assert ('[t=1.0s] "AUSGANG"' in text) == ("scene_text" in prompt)
        assert set(re.findall(r"\{.*?\}", text)) <= {"{answer}"}
        assert not re.search(r"\s\s|\s$", text.replace("\n", ""))
    assert not re.search(r"\s\s|\s$", prompt.get("system", "").replace("\n", ""))


@pytest.mark.parametrize("name", sorted(set(ALL) - set(ANSWERED)))
def test_a_prompt_for_another_task_makes_no_cell(name):
    with pytest.raises(ConfigError, match=rf"{name}.yaml: task: .* '{ALL[name]['task']}'; take one for 'answer'"):
        prompting.read(PROMPTS / f"{name}.yaml")
    assert prompting.read(PROMPTS / f"{name}.yaml", ALL[name]["task"])["template"] == ALL[name]["template"]


@pytest.mark.parametrize("name", TABLE_15)
def test_table_15(name):
    quoted = prompting.wording(ALL["v_q"], {"prompt_variant": name})
    assert set(ALL["v_q"]["variants"]) == set(TABLE_15)
    assert [row(mark) for mark in TABLE_15[name]] == [quoted] * len(TABLE_15[name])


def test_models_outside_table_15_are_asked_as_qwen2_vl():
    v_q = ALL["v_q"]
    assert v_q["template"] == v_q["variants"]["qwen2_vl"]
    assert prompting.wording(v_q, {}) == prompting.wording(v_q, {"prompt_variant": "keye"}) == v_q["template"]
    assert prompting.wording(ALL["q"], {"prompt_variant": "gpt_4o"}) == ALL["q"]["template"]


def test_a_models_wording_is_one_of_table_15():
    models = [config.load("model", name, ROOT / "config") for name in config.names("model", ROOT / "config")]
    assert {model["prompt_variant"] for model in models if "prompt_variant" in model} == set(TABLE_15)


def test_table_17():
    assert ALL["q"]["template"] == row("w/ Q")
    assert ALL["q_st"]["template"] == row("w/ Q & ST").replace("{OCR results}", "{scene_text}")


def test_table_17_tells_the_text_of_each_frame():
    boxes = [OcrBox(text="EXIT", confidence=1, polygon=[(0, 0), (9, 0), (9, 9)])]
    frames = [OcrFrame(video="v", frame=i, t=i, width=10, height=10, boxes=boxes) for i in range(4)]
    text = prompting.render(ALL["v_q_st"]["template"], "{question}", None, scene_text.text(frames, numbered=True))
    assert text == row("w/ V & Q & ST").replace("{OCR results}", '"EXIT"').replace("{frame id}", "3")


@pytest.mark.parametrize("name", ["q_st", "v_q_st"])
def test_who_read_the_text_changes_no_word(name):
    for reader in ("azure", "roadtextvqa"):
        assert ALL[f"{name}_{reader}"]["template"] == ALL[name]["template"]
        assert ALL[f"{name}_{reader}"]["scene_text"] == reader


@pytest.mark.parametrize(
    ("name", "start", "stop"),
    [
        ("questions", "## Question Prompt:", "## Answer Prompt:"),
        ("answers", "## Answer Prompt:", "Automatic Filtering Prompt"),
        ("filter", "Automatic Filtering Prompt", "Table 14:"),
        ("categories", "Question Classification Prompts", "Table 15:"),
        ("judge", "Evaluation Prompts", "Table 17:"),
    ],
)
def test_tables_13_14_and_16(name, start, stop):
    prompt = ALL[f"egotextvqa_{name}"]
    printed = passage(start, stop).replace("format: ¨ ", "format: ").replace("eval_{code}", "eval_code")
    assert plain(f"{prompt.get('system', '')} {prompt['template']}") == printed


def test_the_judge_is_told_as_the_released_code_does():
    judge = ALL["egotextvqa_judge"]
    assert judge["system"].endswith("- Evaluate the correctness of the prediction compared to the answer.”")
    given = {"question": "Q?", "GT answer": "left", "predicted answer": "{question}"}
    assert "\n\nQuestion: Q?\nCorrect Answer: left\nPredicted Answer: {question}\n\nProvide" in prompting.fill(
        judge["template"], given
    )


@pytest.mark.parametrize("kind", ["open", "choice"])
def test_myegos_three_prompts_differ_in_the_question_only(kind):
    asked = {how: ALL[f"myego_{kind}{suffix}"] for how, suffix in
             [("as_asked", ""), ("camera_wearer", "_enhanced"), ("removed", "_removed")]}  # fmt: skip
    for how, prompt in asked.items():
        assert prompt.get("person", "as_asked") == how
        kept = {key: value for key, value in prompt.items() if key not in ("name", "title", "person")}
        base = {key: value for key, value in asked["as_asked"].items() if key not in ("name", "title")}
        assert kept == base
        assert not re.search(r"\b(I|my|wearer)\b", prompt["system"] + prompt["template"])


@given(TEXT, st.lists(TEXT, max_size=6), TEXT)
def test_rendering_puts_in_exactly_what_it_is_given(question, options, told):
    assert prompting.render("{question}", question) == question
    assert prompting.render("({question})\n{options}!{scene_text}", question, options, told) == (
        f"({question})\n{prompting.lettered(options)}!{told}"
    )


def test_braces_that_are_not_ours_are_left_alone():
    assert prompting.render("Q: {question} {options}", "why {options}?", ["{question}"]) == (
        "Q: why {options}? A. {question}"
    )
    literal = "{answer} {’pred’: ’yes’} {} {{x}} { question } {question"
    assert prompting.render(literal, "Q") == literal
    prompting.check({"answers": "open", "template": "{question} {answer} {’pred’: ’yes’, ’score’: 5} {} }{"}, "p.yaml")


@given(TEXT, TEXT)
def test_the_hash_is_of_the_system_and_the_text(system, text):
    assert prompting.prompt_hash(system, text) == hashlib.sha256(f"{system}\n{text}".encode()).hexdigest()


OPEN = {"answers": "open"}
JUDGE = {"task": "judge"}


@pytest.mark.parametrize(
    ("prompt", "template", "message"),
    [
        (OPEN, "{question} {Question}", "template: unknown placeholder '{Question}' (did you mean 'question'?)"),
        (OPEN, "{quesiton}", "unknown placeholder '{quesiton}' (did you mean 'question'?)"),
        (OPEN, "{question} {OCR results}", "unknown placeholder '{OCR results}'"),
        (OPEN, "{question} {scene text}", "unknown placeholder '{scene text}' (did you mean 'scene_text'?)"),
        (OPEN, "{question} {Answer}", "unknown placeholder '{Answer}'"),
        (OPEN, "Describe the video.", "no {question}"),
        (OPEN, "{question} {options}", "{options} belongs to prompts with 'answers: option'"),
        ({"answers": "option"}, "{question}", "{options} belongs to prompts"),
        (OPEN, "{question} {scene_text}", "{scene_text} belongs to prompts with 'scene_text: …'"),
        (OPEN | {"scene_text": "ocr"}, "{question}", "{scene_text} belongs to prompts"),
        (OPEN | {"variants": {"vila": "{qestion}"}}, "{question}", "p.yaml: variants.vila: unknown placeholder"),
        (JUDGE, "{question} {GT answer}", "no {predicted answer}"),
        (JUDGE, "{question} {GT answer} {predicted answer} {answer}", "unknown placeholder '{answer}'"),
        ({"task": "generate_questions"}, "{image1} {image2}", "no {image3}"),
    ],
)
def test_a_template_that_can_not_be_filled_is_refused(prompt, template, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        prompting.check({**prompt, "template": template}, "p.yaml")
