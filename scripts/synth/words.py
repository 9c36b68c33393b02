"""Words to show. The paper samples from COCA, which is licensed and cannot be shipped; wordfreq's lists stand in for it
(word frequencies of many corpora, data under CC BY-SA 4.0), so a text is a sequence of sampled words, as there."""

from functools import lru_cache
from random import Random
from typing import Any

from scripts.lib.errors import ConfigError
from scripts.lib.text import nfc

LISTED = 6000
LONGEST = 12
"""Letters: a longer word could be wider than what a fast scroll shows between two samples."""
SCREENED = {
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nb": "norwegian",
    "nl": "dutch",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
"""Languages with a list of offensive words of their own; English ones are left out of every language."""


@lru_cache(maxsize=16)
def words(language: str) -> tuple[str, ...]:
    """The most frequent words of a language: alphabetic, NFC, 2 to 12 letters, most frequent first.

    Raises:
        ConfigError: wordfreq is not installed or has no list for the language.
    """
    try:
        from wordfreq import top_n_list
    except ImportError:
        raise ConfigError("the package wordfreq is not installed; pip install wordfreq") from None
    try:
        listed = top_n_list(language, LISTED)
    except LookupError:
        raise ConfigError(
            f"wordfreq has no word list for the language '{language}'; use a code such as en, de, fr"
        ) from None
    return tuple(dict.fromkeys(word for word in map(nfc, listed) if word.isalpha() and 2 <= len(word) <= LONGEST))


def alphabet(language: str) -> frozenset[str]:
    """Every character that a text of the language may need, the space and capitals among them."""
    letters = frozenset("".join(words(language)))
    return letters | frozenset(nfc("".join(letters).upper())) | {" "}


@lru_cache(maxsize=4096)
def offensive(word: str, language: str) -> bool:
    """Whether a word is on a list of offensive ones: these videos are shown to colleagues and raters."""
    return bool(_screen(language).is_profane(word))


@lru_cache(maxsize=16)
def _screen(language: str) -> Any:
    from glin_profanity import Filter

    return Filter({"languages": sorted({"english", SCREENED.get(language, "english")})})


def draw(rng: Random, language: str, count: int) -> list[str]:
    """``count`` words, none offensive and none the same as the one before it."""
    listed = words(language)
    drawn: list[str] = []
    while len(drawn) < count:
        word = rng.choice(listed)
        if word not in drawn[-1:] and not offensive(word, language):
            drawn.append(word)
    return drawn
