"""From a model's raw reply to its answer. The same reading for every model, so that rows of a table stay comparable."""

import re
from collections.abc import Sequence

ANSWER_BLOCK = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
END_OF_THINKING = "</think>"
LETTER = r"\(?\**([A-Z])\**\)?"
LETTER_FIRST = re.compile(rf"^{LETTER}(?:[.):,]|$)")
LETTER_NAMED = re.compile(
    rf"\b[Oo]ption\s+{LETTER}(?![\w'])"
    rf"|\b(?:[Aa]nswer|[Oo]ption|[Cc]hoice)\b(?:\s+is)?\s*:?\s*(?!A\s+[a-z]){LETTER}(?![\w'])"
)
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


def option_letter(answer: str, options: Sequence[str]) -> str | None:
    """The letter of the option that an answer names, or None where it names none.

    In this order: the answer is or begins with a letter (``B``, ``(B)``, ``B. text``); it names one (``the answer is
    B``; the last such place counts); it is an option's text, whatever the case. An article ("A green sign") is none.
    """
    letters = [chr(ord("A") + index) for index in range(len(options))]
    begins = LETTER_FIRST.match(answer.upper() if len(answer) <= 3 else answer)
    named = [first or second for first, second in LETTER_NAMED.findall(answer)]
    for letter in [begins.group(1)] if begins else named[-1:]:
        if letter in letters:
            return letter
    folded = answer.casefold().rstrip(".").strip()
    for letter, option in zip(letters, options, strict=True):
        if folded == option.casefold().rstrip(".").strip():
            return letter
    return None
