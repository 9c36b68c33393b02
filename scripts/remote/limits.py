"""How many calls may be on their way, and how fast new ones may begin.

The number adapts: halved when the server says that it is too much, one more after as many successes as are allowed. The
rates hold in any 60 seconds. That is stricter than a bucket that is full at the start and filled meanwhile, which lets
through twice the rate in its first minute.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MINUTE = 60.0
LOOK_AGAIN_S = 1.0
"""A call that waits looks again after so long at most."""


class ClosedError(Exception):
    """No call may begin any more."""


@dataclass
class Spent:
    """An amount that counts for a minute."""

    when: float
    amount: int
    over: bool = False
    """Whether the minute is."""


class Minute:
    """What was spent within the last 60 seconds. Not thread-safe.

    Args:
        limit: of what may be; None = none. An amount above it goes alone.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = math.inf if limit is None else limit
        self.spent: deque[Spent] = deque()
        self.total = 0

    def wait(self, amount: int, now: float) -> float:
        """Seconds until ``amount`` may be spent, as far as is known now; 0 = at once."""
        while self.spent and self.spent[0].when <= now - MINUTE:
            oldest = self.spent.popleft()
            oldest.over = True
            self.total -= oldest.amount
        if not self.spent or self.total + amount <= self.limit:
            return 0.0
        left = self.total
        for spent in self.spent:
            left -= spent.amount
            if left + amount <= self.limit:
                break
        return spent.when + MINUTE - now

    def spend(self, amount: int, now: float) -> Spent:
        """Count it, whether it may be or not."""
        self.total += amount
        self.spent.append(Spent(now, amount))
        return self.spent[-1]

    def settle(self, spent: Spent, amount: int) -> None:
        """Count something else for what was counted."""
        if not spent.over:
            self.total += amount - spent.amount
            spent.amount = amount


@dataclass(frozen=True)
class Ticket:
    """A call on its way."""

    number: int
    tokens: Spent


class Limits:
    """Whether a call may begin now. Thread-safe.

    Args:
        most: calls on their way at once, when the server takes that many.
        requests_per_min, tokens_per_min: None = no limit.
        clock: seconds.
    """

    def __init__(
        self,
        most: int,
        requests_per_min: float | None = None,
        tokens_per_min: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most, self.clock = most, clock
        self.allowed = most
        """Calls on their way at once, as the server has been taking them."""
        self.under_way = 0
        self._requests, self._tokens = Minute(requests_per_min), Minute(tokens_per_min)
        self._not_before = -math.inf
        self._successes = 0
        self._begun = 0
        self._halved_at = 0
        self._closed = False
        self._changed = threading.Condition()

    def begin(self, tokens: int) -> Ticket:
        """Wait until a call of at most so many tokens may begin.

        Raises:
            ClosedError: no call may begin any more.
        """
        with self._changed:
            while not self._closed:
                wait = self._wait(tokens)
                if not wait:
                    return self._begin(tokens)
                self._changed.wait(min(wait, LOOK_AGAIN_S))
        raise ClosedError

    def try_begin(self, tokens: int) -> Ticket | None:
        """``begin``, without waiting."""
        with self._changed:
            return None if self._closed or self._wait(tokens) else self._begin(tokens)

    def _wait(self, tokens: int) -> float:
        if self.under_way >= self.allowed:
            return math.inf
        now = self.clock()
        return max(self._not_before - now, self._requests.wait(1, now), self._tokens.wait(tokens, now), 0.0)

    def _begin(self, tokens: int) -> Ticket:
        now = self.clock()
        self._begun += 1
        self.under_way += 1
        self._requests.spend(1, now)
        return Ticket(self._begun, self._tokens.spend(tokens, now))

    def end(self, ticket: Ticket, tokens: int | None = None, well: bool = True, overloaded: bool = False) -> None:
        """A call came to its end.

        Args:
            tokens: that the server counted; None = it did not say, so the estimate stays.
            well: it was answered.
            overloaded: the server refused it as too much. Calls that were on their way together are refused together,
                and that counts once.
        """
        with self._changed:
            self.under_way -= 1
            if tokens is not None:
                self._tokens.settle(ticket.tokens, tokens)
            if overloaded and ticket.number > self._halved_at:
                self.allowed = max(1, self.allowed // 2)
                self._halved_at, self._successes = self._begun, 0
            elif well:
                self._successes += 1
                if self._successes >= self.allowed:
                    self.allowed, self._successes = min(self.most, self.allowed + 1), 0
            self._changed.notify_all()

    def hold(self, seconds: float) -> None:
        """Begin no call for so long: the server's own wish, and it means all of us."""
        with self._changed:
            self._not_before = max(self._not_before, self.clock() + seconds)

    def close(self) -> None:
        """Let no further call begin; those that wait for it get ``ClosedError``."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
