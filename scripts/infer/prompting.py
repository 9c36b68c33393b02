"""Prompts as finished text: one YAML per prompt, in whose template a few names in braces are filled in.

A name in braces is letters, digits, underscores and spaces. It is either one of the task's placeholders or one of the
words that the papers print in braces for the model to read (``Answer: {answer}``); any other, say a mistyped one, is
refused. Braces around anything else, as in ``{'pred': 'yes'}``, are left alone.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.lib import config
from scripts.lib.errors import ConfigError
from scripts.lib.text import did_you_mean

VERSION = 1
"""Raise it when the words that a model reads change."""
NAME = re.compile(r"\{(\w[\w ]*)\}")
PLACEHOLDERS = {
    "answer": ("question", "options", "scene_text"),
    "generate_questions": ("image1", "image2", "image3"),
    "generate_answers": ("question",),
    "filter_blind": ("question",),
    "classify": ("question",),
    "judge": ("question", "GT answer", "predicted answer"),
}
"""What each task fills in."""
FOR_THE_MODEL = {"answer": ("answer",), "generate_questions": ("question",), "generate_answers": ("answer",)}
"""What stays in braces: EgoTextVQA, Tables 13 and 15, shows the model so what its reply should look like."""


def read(path: Path, task: str = "answer") -> dict[str, Any]:
    """The content of ``config/prompts/<name>.yaml``, with its ``name``.

    Raises:
        ConfigError: what ``scripts.lib.config.read_file`` refuses; a prompt for another task; what ``check`` refuses.
    """
    prompt = config.read_file("prompt", path)
    given = prompt.get("task", "answer")
    if given != task:
        raise ConfigError(f"{path}: task: this prompt is for '{given}'; take one for '{task}'")
    check(prompt, str(path))
    return prompt


def check(prompt: dict[str, Any], where: str) -> None:
    """Refuse a prompt that can't be filled in.

    Raises:
        ConfigError: a name in braces that the task doesn't know; a placeholder of the task that is missing, in the
            template or a variant. ``{options}`` and ``{scene_text}`` belong to the prompts, and to all of them, that
            ask for an option or name a reading.
    """
    task = prompt.get("task", "answer")
    wanted = set(PLACEHOLDERS[task])
    if task == "answer":
        wanted -= set() if prompt["answers"] == "option" else {"options"}
        wanted -= set() if "scene_text" in prompt else {"scene_text"}
    wordings = {"template": prompt["template"]}
    wordings |= {f"variants.{name}": words for name, words in prompt.get("variants", {}).items()}
    for place, words in wordings.items():
        _check_names(set(NAME.findall(words)), task, wanted, f"{where}: {place}")


def _check_names(used: set[str], task: str, wanted: set[str], where: str) -> None:
    known = set(PLACEHOLDERS[task])
    for name in sorted(used - known - set(FOR_THE_MODEL.get(task, ()))):
        raise ConfigError(f"{where}: unknown placeholder '{{{name}}}'{did_you_mean(name, known)}")
    if "question" in wanted - used:
        raise ConfigError(f"{where}: no {{question}} in it")
    for name, owner in (("options", "'answers: option'"), ("scene_text", "'scene_text: …'")):
        if (name in used & known) != (name in wanted):
            raise ConfigError(f"{where}: {{{name}}} belongs to prompts with {owner}, and to all of them")
    for name in sorted(wanted - used):
        raise ConfigError(f"{where}: no {{{name}}} in it")


def wording(prompt: dict[str, Any], model: dict[str, Any]) -> str:
    """The template for a model: the prompt's variant that the model's ``prompt_variant`` names, where it has one."""
    variants: dict[str, str] = prompt.get("variants", {})
    template: str = prompt["template"]
    return variants.get(model.get("prompt_variant", ""), template)


def render(template: str, question: str, options: Sequence[str] | None = None, scene_text: str | None = None) -> str:
    """The user message of a prompt that a model answers, in one pass: braces inside what is filled in stay as they are.

    Args:
        options: texts without letters.
        scene_text: what ``scripts.infer.scene_text.text`` gives.
    """
    return fill(template, {"question": question, "options": lettered(options or []), "scene_text": scene_text or ""})


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with every ``{name}`` that ``values`` has replaced by its value, in one pass."""
    return NAME.sub(lambda match: values.get(match.group(1), match.group()), template)


def lettered(options: Sequence[str]) -> str:
    """``A. first`` and so on, one a line."""
    return "\n".join(f"{chr(ord('A') + index)}. {option}" for index, option in enumerate(options))


def prompt_hash(system: str, text: str) -> str:
    """sha256 of the system message and the finished user message."""
    return hashlib.sha256(f"{system}\n{text}".encode()).hexdigest()
