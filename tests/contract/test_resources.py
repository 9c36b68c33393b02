"""A job that ran out of memory or time asks for more the next time."""

import re

import pytest

from tests.contract.test_conventions import RULES

GROWS = re.compile(
    r"growing\(\d+\)|model_resource\(\"\w+\", grows=True\)|judge_resource\(\"\w+\", \d+\)"
    r"|lambda [\w, ]*attempt: .*\battempt\b.*"
)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("resource", ["mem_mb", "runtime"])
def test_memory_and_time_grow_with_each_attempt(name, resource):
    asked = re.findall(rf"^ +{resource}=(.*),$", RULES[name], re.MULTILINE)
    assert len(asked) == 1
    assert GROWS.fullmatch(asked[0])


@pytest.mark.parametrize("asked", ["2000", "lambda wildcards, attempt: 2000", 'model_resource("mem_mb")'])
def test_what_does_not_grow_is_seen(asked):
    assert not GROWS.fullmatch(asked)
