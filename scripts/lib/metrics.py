"""How near an answer is to its references, as a value in 0–1 (design section 6, Metrics).

Every function takes the references of one question and the answer to it and gives the best value over the references.
Text is composed (NFC) first and otherwise left alone, unless the function says what it does to it. Two empty texts are
alike (1.0); one empty text has nothing in common with anything (0.0).
"""

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from rapidfuzz.distance import LCSseq, Levenshtein

from scripts.lib.text import nfc

Metric = Callable[[Sequence[str], str], float]

ANLS_THRESHOLD = 0.5


def rouge_l(references: Sequence[str], answer: str) -> float:
    """LCS(reference, answer) / len(reference) over *characters*, case, spaces and punctuation counted.

    ViTexQA calls it ROUGE-L and writes of words; only characters reproduce its own Table 8.
    """
    return _best(references, answer, _recall)


def lcs_precision(references: Sequence[str], answer: str) -> float:
    """LCS(reference, answer) / len(answer) over characters: falls, unlike ``rouge_l``, where too much is said."""
    return _best(references, answer, lambda reference, text: _recall(text, reference))


def anls_paper(references: Sequence[str], answer: str) -> float:
    """1 − Levenshtein / longer length, case counted, no threshold: the ANLS column of ViTexQA's Table 8."""
    return _best(references, answer, Levenshtein.normalized_similarity)


def anls(references: Sequence[str], answer: str) -> float:
    """Standard ANLS: lower case, white space collapsed, 0 where the distance is half of the longer length or more."""
    best = _best([_plain(one) for one in references], _plain(answer), Levenshtein.normalized_similarity)
    return best if 1 - best < ANLS_THRESHOLD else 0.0


def rouge_l_word_recall(references: Sequence[str], answer: str) -> float:
    """LCS / number of reference words, over the case-folded words of ``words``."""
    return _best([words(one) for one in references], words(answer), _recall)


def rouge_l_word_f1(references: Sequence[str], answer: str) -> float:
    """Harmonic mean of word-level LCS recall and precision, over the case-folded words of ``words``."""
    return _best([words(one) for one in references], words(answer), _f1)


def exact_match(references: Sequence[str], answer: str) -> float:
    """1 where the answer is a reference, upper and lower case alike and any white space as one blank, else 0."""
    return float(_plain(answer) in [_plain(one) for one in references])


OPEN: dict[str, Metric] = {
    "rouge_l": rouge_l,
    "lcs_precision": lcs_precision,
    "anls_paper": anls_paper,
    "anls": anls,
    "rouge_l_word_recall": rouge_l_word_recall,
    "rouge_l_word_f1": rouge_l_word_f1,
    "exact_match": exact_match,
}
"""What an open-ended answer is measured by."""

CHOICE = "accuracy"
"""What a multiple-choice answer is measured by: 1 for the right letter, else 0."""

NAMES = (*OPEN, CHOICE)


def scale(metric: str) -> int:
    """What a value is multiplied by for print: 100 (per cent), 1 for a judge's score, which goes from 0 to 5."""
    return 1 if metric == "judge_score" else 100


def shown(metric: str, value: float) -> str:
    """A value, or a difference, as tables print it."""
    return f"{scale(metric) * value:.1f}"


def words(text: str) -> list[str]:
    """Case-folded words of any script.

    A word is a run of letters, combining marks, digits and ``_``; each Han, Hiragana or Katakana letter stands alone.
    Scripts without blanks between words (Thai, Lao, Khmer) give one word per run. Combining marks belong to the word,
    or Hindi would fall apart at every vowel sign.
    """
    found: list[str] = []
    run = ""
    for character in nfc(text).casefold():
        alone = _stands_alone(character)
        inside = not alone and (character == "_" or unicodedata.category(character)[0] in "LMN")
        if inside:
            run += character
            continue
        if run:
            found.append(run)
            run = ""
        if alone:
            found.append(character)
    return [*found, run] if run else found


def _stands_alone(character: str) -> bool:
    code = ord(character)
    kana = 0x3041 <= code <= 0x30FF and character.isalpha()
    return kana or 0x3400 <= code <= 0x9FFF or 0x20000 <= code <= 0x3FFFF


def _plain(text: str) -> str:
    return " ".join(nfc(text).lower().split())


def _best(references: Sequence[Any], answer: Any, measure: Callable[[Any, Any], float]) -> float:
    """The largest value over the references (strings are composed first), or 0 without references."""
    return max((measure(_composed(one), _composed(answer)) for one in references), default=0.0)


def _composed(sequence: Any) -> Any:
    return nfc(sequence) if isinstance(sequence, str) else sequence


def _recall(reference: Sequence[str], answer: Sequence[str]) -> float:
    if not reference:
        return float(not answer)
    return LCSseq.similarity(reference, answer) / len(reference)


def _f1(reference: Sequence[str], answer: Sequence[str]) -> float:
    if not reference or not answer:
        return float(len(reference) == len(answer))
    return 2 * LCSseq.similarity(reference, answer) / (len(reference) + len(answer))
