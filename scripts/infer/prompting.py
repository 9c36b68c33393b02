"""Prompts as finished text: one YAML per prompt, with ``{question}`` and ``{options}`` and nothing else to fill in."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.lib import config
from scripts.lib.errors import ConfigError

PLACEHOLDER = re.compile(r"\{(\w*)\}")
KNOWN = ("question", "options")


def read(path: Path) -> dict[str, Any]:
    """The content of ``config/prompts/<name>.yaml``, with its ``name``.

    Raises:
        ConfigError: what ``scripts.lib.config.read_file`` refuses; an unknown placeholder; ``{question}`` missing;
            ``{options}`` in a prompt for open answers or missing in one for a letter.
    """
    prompt = config.read_file("prompt", path)
    check(prompt, str(path))
    return prompt


def check(prompt: dict[str, Any], where: str) -> None:
    """Refuse a template whose placeholders don't fit (see ``read``)."""
    used = set(PLACEHOLDER.findall(prompt["template"]))
    for name in sorted(used - set(KNOWN)):
        raise ConfigError(f"{where}: template: unknown placeholder '{{{name}}}'; there is {{question}} and {{options}}")
    if "question" not in used:
        raise ConfigError(f"{where}: template: no {{question}} in it")
    if ("options" in used) != (prompt["answers"] == "option"):
        raise ConfigError(
            f"{where}: template: {{options}} belongs to prompts with 'answers: option', and to all of them"
        )


def render(template: str, question: str, options: Sequence[str] | None = None) -> str:
    """The user message: the template with the question and the lettered options, in one pass.

    Braces inside a question or option stay as they are.
    """
    values = {"question": question, "options": lettered(options or [])}
    return PLACEHOLDER.sub(lambda match: values[match.group(1)], template)


def lettered(options: Sequence[str]) -> str:
    """``A. first`` and so on, one a line."""
    return "\n".join(f"{chr(ord('A') + index)}. {option}" for index, option in enumerate(options))


def prompt_hash(system: str, text: str) -> str:
    """sha256 of the system message and the finished user message."""
    return hashlib.sha256(f"{system}\n{text}".encode()).hexdigest()
