"""A question that is being asked, and what it has come to so far: the same for a call and for a line of a batch."""

from dataclasses import dataclass, field

from scripts.remote.account import Account
from scripts.remote.budget import Amount
from scripts.remote.chat import Chat, Messages, Outcome, Reply
from scripts.remote.failures import CallError

REFUSAL = "refusal"
FILTERED = ("content_filter", "safety", "prohibited_content", "recitation", "blocklist")
"""Reasons to finish that say that somebody did not want an answer. The model itself (``REFUSAL``, Anthropic's), or a
filter: OpenAI's first, then Google's."""


@dataclass
class Question:
    """A question that is being asked."""

    chat: Chat
    most: Amount = field(default_factory=Amount)
    """That its call can come to."""
    reservation: str | None = None
    """In the ledger, of the call that is on its way. A question that waits has none: killed then, it costs nothing."""
    tokens_in: int | None = None
    tokens_out: int | None = None
    dollars: float | None = None
    attempts: int = 0
    seconds: float = 0.0
    messages: Messages = field(default_factory=list)

    def outcome(
        self, status: str, text: str = "", detail: str = "", reply: Reply | None = None, by_filter: bool = False
    ) -> Outcome:
        model, system_fingerprint = (reply.model, reply.system_fingerprint) if reply else ("", "")
        sums = (self.tokens_in, self.tokens_out, self.dollars, self.seconds, self.attempts)
        return Outcome(status, text, detail, *sums, model, system_fingerprint, by_filter)

    def failed(self, failure: CallError, why: str = "") -> Outcome:
        """Its outcome where it is not asked again."""
        if failure.kind == "refused":
            return self.outcome("refused", detail=failure.detail, by_filter=True)
        return self.outcome(f"error:{failure.kind}", detail=failure.detail + why)

    def read(self, reply: Reply, own_server: bool) -> Outcome:
        """Its outcome where there is a reply.

        Args:
            own_server: an empty reply is what the model says.

        Raises:
            CallError: the reply is empty, and that is somebody's failure.
        """
        finish = reply.finish.lower()
        by_filter = finish in FILTERED
        if reply.refusal or by_filter or finish == REFUSAL:
            why = f"finish_reason {reply.finish}"
            return self.outcome("refused", reply.refusal or reply.text, why, reply, by_filter)
        if finish in ("length", "max_tokens"):
            return self.outcome("truncated", reply.text, reply=reply)
        if not reply.text.strip() and not own_server:
            raise CallError("passing", "reply", f"an empty reply (finish_reason {reply.finish or 'none'})")
        return self.outcome("ok", reply.text, reply=reply)

    def pay(self, account: Account, reply: Reply | None) -> Amount:
        """Add a call to what the question has come to; one that the server did not count, at its upper estimate.

        Args:
            reply: None where none came and the server may bill it all the same.
        """
        amount = account.counted(self.chat, reply) if reply else None
        if reply and amount:
            self.tokens_in = (self.tokens_in or 0) + (reply.tokens_in or 0)
            self.tokens_out = (self.tokens_out or 0) + (reply.tokens_out or 0)
        amount = amount or self.most
        if account.dollars(0, 0) is not None:
            self.dollars = (self.dollars or 0.0) + amount.dollars
        return amount
