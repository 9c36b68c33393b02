"""From a model's raw reply to its answer. The same reading for every model, so that rows of a table stay comparable.

Which option an answer chose is read where it is scored, by scripts.judges.option_letter.py.
"""

import re

VERSION = 1
"""Raise it when a reply is read differently."""
ANSWER_BLOCK = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
END_OF_THINKING = "</think>"
LABEL = re.compile(r"^\W*answer\W*:\s*", re.IGNORECASE)
"""EgoTextVQA asks some models to write "Answer: {answer}" (Table 15); bold or quoted labels are met as well."""
UNANSWERABLE = re.compile(r"^\W*unanswerable\b", re.IGNORECASE)


def answer_text(raw: str, thinking: bool = False) -> str:
    """The answer inside a reply: what follows ``</think>`` (``thinking``), the last ``<answer>`` block if there is one,
    without a leading ``Answer:``.

    A reply without these marks is the answer itself.
    """
    text = raw.rpartition(END_OF_THINKING)[2] if thinking else raw
    blocks = ANSWER_BLOCK.findall(text)
    return LABEL.sub("", (blocks[-1] if blocks else text).strip(), count=1)


def is_unanswerable(answer: str) -> bool:
    """Whether the model says, in the word the prompts ask for, that the question can't be answered."""
    return UNANSWERABLE.match(answer) is not None
