"""What the calls of a run can come to and do come to, held against the budget.

A call is begun only where its upper estimate fits what is left. So the budget can be passed only where a server counts
more than was estimated: its limit of tokens leaves thoughts out, or its images cost more. From the first such call on,
all estimates of the run are raised by as much; what is passed then is the surplus of the calls that were on their way.
"""

import math
import sys
import threading
from pathlib import Path
from typing import Any

from scripts.remote import prices as price_file
from scripts.remote.budget import Amount, Budget, Ledger
from scripts.remote.chat import Chat, Reply


class NoMoneyError(Exception):
    """A call does not fit what is left of the budget."""


class Account:
    """Of one model. Thread-safe.

    Args:
        model: the id that its server knows it by.
        budget: ``budget`` of config/remote.yaml.
        prices: content of config/prices.yaml; None for a server that bills nobody.
        ledger: where spending is added up; None for a server that bills nobody.
        batch: whether it is asked through the Batch API, at that price.

    Raises:
        ConfigError: no price for a model whose dollars are limited.
        DataError: the ledger can't be read or written; so do the methods.
    """

    def __init__(
        self,
        model: str,
        budget: dict[str, Any],
        prices: dict[str, Any] | None,
        ledger: Path | None,
        batch: bool = False,
    ) -> None:
        self.model, self.prices, self.batch = model, prices, batch
        self.ledger: Ledger | None = None
        if ledger is not None:
            if budget["dollars"] is not None:
                price_file.require(prices or {"models": {}}, model)
            self.ledger = Ledger(ledger, Budget(**budget), model)
        self._surplus = 1.0
        """The most that a call has come to, as a multiple of its estimate; 1 = none to more."""
        self._lock = threading.Lock()

    def most(self, chat: Chat) -> Amount:
        """What a call can come to, as far as is known by now."""
        estimate, surplus = self._estimate(chat), self._surplus
        return Amount(math.ceil(estimate.tokens * surplus), estimate.dollars * surplus)

    def fits(self, amount: Amount) -> bool:
        """Whether it could be reserved now."""
        return self.ledger is None or self.ledger.fits(amount)

    def reserve(self, amount: Amount, name: str = "") -> str | None:
        """Name of a reservation, for ``settle``; None where nothing is added up.

        Args:
            name: that no other has; empty = a new one.

        Raises:
            NoMoneyError: the budget could be passed by it.
        """
        if self.ledger is None:
            return None
        reserved = self.ledger.reserve(amount, name)
        if reserved is None:
            raise NoMoneyError
        return reserved

    def settle(self, name: str | None, amount: Amount) -> None:
        """Replace a reservation by what its call came to."""
        if self.ledger and name:
            self.ledger.settle(name, amount)

    def dollars(self, tokens_in: int, tokens_out: int, cached: int = 0) -> float | None:
        """Of one call; None without a price."""
        if self.prices is None:
            return None
        return price_file.cost(self.prices, self.model, tokens_in, tokens_out, cached, self.batch)

    def amount(self, reply: Reply) -> Amount | None:
        """What a call came to, as the server counted; None where it did not."""
        if reply.tokens_in is None:
            return None
        tokens_out = reply.tokens_out or 0
        return Amount(reply.tokens_in + tokens_out, self.dollars(reply.tokens_in, tokens_out, reply.cached) or 0.0)

    def counted(self, chat: Chat, reply: Reply) -> Amount | None:
        """``amount``, of a known call. More than was estimated, and further calls are expected to take as much more."""
        amount, estimate = self.amount(reply), self._estimate(chat)
        if amount is None:
            return None
        pairs = ((amount.tokens, estimate.tokens), (amount.dollars, estimate.dollars))
        times = max((real / expected for real, expected in pairs if expected), default=1.0)
        with self._lock:
            first = self._surplus == 1.0 < times
            self._surplus = max(self._surplus, times)
        if first and self.ledger:
            print(
                f"{self.model}: a call came to {amount.tokens} tokens where at most {estimate.tokens} were expected; "
                "calls on their way may pass the budget by as much, further ones are expected to take as much",
                file=sys.stderr,
                flush=True,
            )
        return amount

    def close(self) -> None:
        if self.ledger:
            self.ledger.close()

    def _estimate(self, chat: Chat) -> Amount:
        return Amount(chat.tokens_in + chat.max_tokens, self.dollars(chat.tokens_in, chat.max_tokens) or 0.0)
