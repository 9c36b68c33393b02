"""What every judge is given, and what it gives: answers of one cell in, one judgement of each out."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.lib.records import Judgement, Prediction, Question


@dataclass(frozen=True)
class Item:
    """One answer to judge. Blank answers and predictions that are no answer never come to a judge."""

    question: Question
    prediction: Prediction

    @property
    def key(self) -> str:
        return self.question.key


@dataclass(frozen=True)
class Run:
    """The answers of one cell, and what a judge needs to know beside them."""

    judge: dict[str, Any]
    """Content of a file in config/judges, with its ``name``."""
    items: list[Item]
    cell: str | None = None
    """``dataset/model/sampler/resolution/prompt``; None where the predictions are kept elsewhere."""
    files: tuple[Path, ...] = ()
    """Rating sheets, or the file of judgements made elsewhere."""
    llm: dict[str, Any] = field(default_factory=dict)
    """For a language model alone: ``prompt``, ``limits`` (config/remote.yaml), ``prices``, ``ledger``, ``cache`` (a
    folder), ``judgements`` (the file that will be written) and ``seed``."""


Judge = Callable[[Run], Iterable[Judgement]]
"""One judgement per item, in any order. Raises ConfigError, DataError or EngineError, as its module says."""
