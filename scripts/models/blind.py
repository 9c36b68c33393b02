"""A yardstick that looks at nothing, not even at the words of the question.

Asked to choose, it draws one of the options: chance level, on the very questions that the others answer. Asked openly,
it says that the question can't be answered, in the word that the prompts ask for. That is not worth nothing: EgoTextVQA
has questions whose true answer is "there are no … here", and its authors trace the rank of MiniCPM-V 2.6 on the
real-time questions to replies like "I did not find it" (beside their Figure 5). A model that does no better than these
two rows has not shown that it reads.
"""

from pathlib import Path
from typing import Any

from scripts.lib.cache import fingerprint
from scripts.models.protocol import Answerer, Reply, Request, one_by_one

VERSION = "1"
PACKAGES = ()

UNANSWERABLE = "Unanswerable"
"""What it says to an open question."""


def conditions(model: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - the same for every model
    """Nothing: an answer follows from the seed and the question."""
    return {}


def load(model: dict[str, Any], weights: Path | None, seed: int) -> Answerer:  # noqa: ARG001 - no settings, no weights
    """An answerer that needs neither frames nor text."""

    def answer(request: Request) -> Reply:
        if request.options is None:
            return Reply("unanswerable", raw=UNANSWERABLE, answer=UNANSWERABLE)
        letter = draw(seed, request)
        return Reply("ok", raw=letter, answer=letter)

    return one_by_one(answer)


def draw(seed: int, request: Request) -> str:
    """The letter of one of the request's options, each as likely as the others over many questions.

    It depends on nothing but the seed, the question and its options, so it is the same in any order and in any shard.
    Two questions of the same words, say at two moments of a video, get the same letter.
    """
    options = list(request.options or ())
    return chr(ord("A") + int(fingerprint(seed, request.question, options), 16) % len(options))
