"""What APIs bill, and what may still be spent on them: read only where a plan asks one."""

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scripts.estimate.figures import Book, Figure
from scripts.estimate.sizes import Yaml, lines
from scripts.lib import config
from scripts.remote.prices import cost

PRICES = "config/prices.yaml"
LIMITS = "config/remote.yaml"
SPENT = "resources/cache/spent.jsonl"
"""Where runs add up what they spend."""
FREE, NONE = "bills nobody", "no price"
"""Instead of the date of a price: of a server that asks for no key, and of a model that prices.yaml hasn't got."""


class Prices:
    """The prices of the models and judges asked about so far."""

    def __init__(self, book: Book, root: Path = Path()) -> None:
        self.book, self.root = book, root
        self.dates: dict[str, str] = {}
        """By name: the day of its price, with a remark where it is a guess; else FREE or NONE."""

    @cached_property
    def content(self) -> Yaml:
        return config.read(self.root / PRICES, self.root / "config" / "schemas" / "prices.schema.yaml")

    def dollars(self, who: str, model: Yaml, read: float, written: float, batch: bool = False) -> float:
        """Of one question; 0 where nobody is billed, or nobody knows what (then ``dates`` says so).

        Args:
            who: name of the model, or of the judge, in ``dates``.
            model: its file.
            read: tokens in, on average: all at the price of a prompt of that length, none from the server's cache.
            written: tokens out.
            batch: through the vendor's Batch API.
        """
        if not model["remote"]["key_env"]:
            self.dates[who] = FREE
            return 0.0
        name = model["remote"]["id"]
        dollars = cost(dict(self.content), name, round(read), round(written), batch=batch)
        if dollars is None:
            self.dates[who] = NONE
            return 0.0
        price = self.content["models"][name]
        for key in ("in", "out"):
            note = price.get("note", "")
            self.book.used.add(Figure(PRICES, f"models.{name}.{key}", price[key], price["source"], note))
        self.dates[who] = price["as_of"] + (" guess" if price["source"] == "guess" else "")
        return dollars


@dataclass(frozen=True)
class Budget:
    """What all runs together may spend, and have spent; None = no limit."""

    dollars: float | None
    tokens: float | None
    dollars_spent: float
    tokens_spent: float


def read_budget(root: Path = Path()) -> Budget:
    """The limits of config/remote.yaml, and what the runs so far have added up (scripts/remote/budget.py).

    The last line of a call counts: what it came to, or, where nobody saw its end, what was reserved for it.
    """
    limits = config.read(root / LIMITS, root / "config" / "schemas" / "remote.schema.yaml")["budget"]
    spent: dict[str, tuple[float, float]] = {}
    if (root / SPENT).is_file():
        for line in lines(root / SPENT):
            with suppress(ValueError):  # cut short: the run that was killed there mends the file
                call = json.loads(line)
                spent[call["id"]] = call["dollars"], call["tokens"]
    dollars, tokens = (sum(each) for each in zip((0.0, 0.0), *spent.values(), strict=True))
    return Budget(limits["dollars"], limits["tokens"], dollars, tokens)
