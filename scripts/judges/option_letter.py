"""Which option a free reply chose. Never a guess: a reply that names none, or two, chose none and is a wrong answer."""

import re
from collections.abc import Iterator, Sequence

from scripts.judges.protocol import Run
from scripts.lib.records import Judgement
from scripts.lib.text import nfc

VERSION = 1
"""Raise it when the same reply names another option."""
LETTER = r"([A-Za-z])"
OPENING = r"[(\[{<*_`\"'“‘$]*"
CLOSING = r"[)\]}>.:,;!?*_`\"'”’$]"

ALONE = re.compile(rf"^\W*(?:option\s+|choice\s+)?{OPENING}{LETTER}[\W_]*$", re.IGNORECASE)
CUE = re.compile(
    r"\b(?:(?:answer|option|choice|choose|select|pick)(?:\s+(?:is|was|would\s+be|should\s+be))?|it(?:\s+is|['’]s)|this\s+is)"
    rf"\s*[:=*_]*\s*(?:option\s+|choice\s+|letter\s+)?{OPENING}{LETTER}"
    rf"(?:{CLOSING}|\s*$|\s+(?:because|since|as|and|or|but|is\s+(?:the\s+)?(?:right|correct|best))\b)",
    re.IGNORECASE,
)
CUE_CAPITAL = re.compile(r"\b(?i:answer|option|choice)(?i:\s+is)?\s*[:=*_]*\s*([B-HJ-Z])\b(?![-'’]\w)")
FURTHER = re.compile(r"[)\].*]*\s*(?:or|and|,|/|&)\s*[(\[*]*([A-Z])\b(?!\s+[a-z])")
WRAPPER = re.compile(r"</?answer>|\\(?:boxed|text)\b|\\[()]", re.IGNORECASE)
MARK = re.compile(
    r"(?:\(\s*([A-Z])\s*\)|(?<!\w)([A-Z])\)|^[ \t>*_`-]*([A-Z])(?:[.:][*_]*(?:\s|$)|[*_]*[ \t]*$))", re.MULTILINE
)


def read_option(reply: str, options: Sequence[str]) -> str | None:
    """The letter that ``reply`` chose among ``options``, or None.

    The first of these that finds anything decides, and decides for nothing when it finds two different letters:
    the reply is one letter in any dress (``b``, ``(B)``, ``**B.**``); a statement (``The answer is B``, ``Answer: b``);
    a marked letter (``(B)``, ``B)``, or ``B.`` at the start of a line); the text of an option, alone or as whole words
    (of two where one contains the other, the longer counts).
    Letters beyond the last option are not letters of this question.
    """
    text = WRAPPER.sub(" ", nfc(reply)).strip()
    letters = [chr(65 + index) for index in range(len(options))]
    for found in (_alone(text), _stated(text), _marked(text), _quoted(text, options, letters)):
        named = {letter for letter in found if letter in letters}
        if named:
            return named.pop() if len(named) == 1 else None
    return None


def judge(run: Run) -> Iterator[Judgement]:
    """Yes and 5 for the letter of the truth; no and 0 for another, none or two, which ``detail`` tells apart.

    Only for questions with options: scripts/lib/plan.py lets no table ask for others.
    """
    for item in run.items:
        letter = read_option(item.prediction.answer, item.question.options or [])
        right = letter == item.question.ground_truth
        yield Judgement(
            key=item.key,
            status="ok",
            verdict="yes" if right else "no",
            score=5 if right else 0,
            detail="" if letter else "it names no option, or more than one",
            judge="rules",
        )


def _alone(text: str) -> list[str]:
    match = ALONE.match(text)
    return [match.group(1).upper()] if match else []


def _stated(text: str) -> list[str]:
    found = []
    for match in (match for pattern in (CUE, CUE_CAPITAL) for match in pattern.finditer(text)):
        further = FURTHER.match(text, match.end(1))
        found += [match.group(1).upper(), *([further.group(1)] if further else [])]
    return found


def _marked(text: str) -> list[str]:
    return [next(filter(None, match.groups())) for match in MARK.finditer(text)]


def _quoted(text: str, options: Sequence[str], letters: Sequence[str]) -> list[str]:
    """Letters of the options whose text the reply is, or else contains (not those inside a longer one it contains)."""
    reply = _words(text)
    texts = {letter: _words(option) for letter, option in zip(letters, options, strict=True)}
    same = [letter for letter, option in texts.items() if option and option == reply]
    if same:
        return same
    inside = {letter: option for letter, option in texts.items() if option and f" {option} " in f" {reply} "}
    return [
        letter
        for letter, option in inside.items()
        if not any(other != option and f" {option} " in f" {other} " for other in inside.values())
    ]


def _words(text: str) -> str:
    """Case-folded, with everything but letters, marks, digits and currency as single blanks."""
    return " ".join(re.sub(r"[^\w\u0300-\u036f\u0900-\u0dff\u0e00-\u0eff$£€₹%#&+]+", " ", nfc(text).casefold()).split())
