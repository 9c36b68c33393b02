"""Which frames a question sees: one small pure function per sampler, listed here."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from scripts.lib.errors import ConfigError
from scripts.lib.text import did_you_mean

# How to add a sampler: write scripts/samplers/<name>.py with
#     def sample(times, moments, *, <settings>) -> indices     (all explained in scripts/samplers/common.py)
# add a line here, and a file config/samplers/<name>_<settings>.yaml that names it. A setting other than n and seconds
# also needs a line in config/schemas/sampler.schema.yaml. tests/unit/test_samplers.py checks every file and every line.
SAMPLERS = {
    "uniform": "scripts.samplers.uniform:sample",
    "uniform_fps1": "scripts.samplers.uniform:sample_fps1",
    "ts_frame": "scripts.samplers.moments:sample_ts_frame",
    "qa_frames": "scripts.samplers.moments:sample_qa_frames",
    "moment_aware": "scripts.samplers.moments:sample_moment_aware",
    "fixed": "scripts.samplers.window:sample_fixed",
    "backward_1fps": "scripts.samplers.window:sample_backward_1fps",
    "single_random": "scripts.samplers.single:sample_random",
    "single_answer_random": "scripts.samplers.single:sample_answer_random",
    "answer_keyframes": "scripts.samplers.single:sample_answer_keyframes",
    "single_oracle": "scripts.samplers.single:sample_oracle",
    "keyframes": "scripts.samplers.keyframes:sample",
}


def load(config: dict[str, Any], where: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function and the settings that a file of config/samplers names.

    Raises:
        ConfigError: no such sampler, or settings that it does not take or lacks; ``where`` is the file.
    """
    name = config["sampler"]
    if name not in SAMPLERS:
        raise ConfigError(f"{where}: no sampler '{name}'{did_you_mean(name, SAMPLERS)}")
    module, attribute = SAMPLERS[name].split(":")
    function: Callable[..., Any] = getattr(import_module(module), attribute)
    settings = {key: value for key, value in config.items() if key not in ("name", "title", "needs", "sampler")}
    known = [key for key, value in inspect.signature(function).parameters.items() if value.kind is value.KEYWORD_ONLY]
    if set(settings) != set(known):
        takes = ", ".join(known) or "nothing"
        raise ConfigError(f"{where}: sampler '{name}' takes {takes}, got {', '.join(settings) or 'nothing'}")
    return function, settings
