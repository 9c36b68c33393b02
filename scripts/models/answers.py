"""From a model's raw reply to its answer. The same reading for every model, so that rows of a table stay comparable.

Which option an answer chose is read where it is scored, by scripts/judge/options.py.
"""

import re

ANSWER_BLOCK = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
END_OF_THINKING = "</think>"
UNANSWERABLE = re.compile(r"^\W*unanswerable\b", re.IGNORECASE)


def answer_text(raw: str, thinking: bool = False) -> str:
    """The answer inside a reply: what follows ``</think>`` (``thinking``), the last ``<answer>`` block if there is one.

    A reply without these marks is the answer itself.
    """
    text = raw.rpartition(END_OF_THINKING)[2] if thinking else raw
    blocks = ANSWER_BLOCK.findall(text)
    return (blocks[-1] if blocks else text).strip()


def is_unanswerable(answer: str) -> bool:
    """Whether the model says, in the word the prompts ask for, that the question can't be answered."""
    return UNANSWERABLE.match(answer) is not None
