"""Numbers with where they come from. What an estimate used is kept, so that it can say what it guessed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, order=True)
class Figure:
    """One number of a YAML file."""

    file: str
    key: str
    value: float
    source: str
    """guess, measured or published"""
    note: str = ""


@dataclass
class Book:
    """The figures that an estimate has used so far."""

    used: set[Figure] = field(default_factory=set)

    def take(self, file: str, content: Mapping[str, Any], *keys: str) -> float:
        """The number at ``keys`` of a file's content, noted as used."""
        entry: Any = content
        for key in keys:
            entry = entry[key]
        self.used.add(Figure(file, ".".join(keys), entry["value"], entry["source"], entry.get("note", "")))
        return float(entry["value"])

    def guesses(self) -> list[Figure]:
        """By file and key."""
        return sorted(figure for figure in self.used if figure.source == "guess")
