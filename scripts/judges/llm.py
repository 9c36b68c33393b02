"""A language model behind a server of OpenAI's protocol judges: EgoTextVQA's Table 16, MyEgo's, or any other prompt.

Every reply is kept as it came, in a cache, and read afterwards: a better reader costs no further call. An answer that
was judged before beside the same question and truth, in whatever cell, is not sent again. A reply that is no verdict is
asked for once more; then it counts as parse_failed. What the server could not do is never a verdict, so an outage of
any length changes no number.
"""

import hashlib
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.infer import prompting
from scripts.judges.protocol import Item, Run
from scripts.judges.replies import Reading, defuse, read_verdict
from scripts.lib.cache import Cache, fingerprint
from scripts.lib.errors import ConfigError, EngineError
from scripts.lib.jsonl import dumps
from scripts.lib.progress import track
from scripts.lib.records import Flag, Judgement
from scripts.lib.stopping import Stopping
from scripts.lib.text import nfc

VERSION = 1
"""Of the messages: raise it when a judge is told something else about the same answer."""
SPOILED = ("error:too_long", "error:request")
"""Failures of the question's own, which no other run mends."""
SAMPLING = ("temperature", "top_p")
OVERHEAD_TOKENS = 64
"""Of a chat's template."""
MOST_REPLY = 2000
"""Characters of an unreadable reply that are shown to the judge again."""
FEW = 3
"""Answers whose judgements may all be unreadable by chance."""
REPAIR = (
    "Your reply cannot be read as a verdict. Judge the predicted answer as before, and reply with nothing but one line"
    ' of this form, with "yes" or "no" and an integer from 0 to 5: {"pred": "yes or no", "score": 0}'
)
Messages = list[dict[str, Any]]
Kept = Mapping[str, Any]
"""An outcome of scripts/remote/chat.py, as the cache holds it."""


@dataclass(frozen=True)
class Ask:
    """One answer as the judge is told it."""

    system: str
    text: str
    flags: tuple[Flag, ...]

    def key(self, *more: str) -> str:
        """Names what is sent; with ``more``, a further sending of the same."""
        return hashlib.sha256(dumps([self.system, self.text, *more]).encode()).hexdigest()[:40]

    @property
    def messages(self) -> Messages:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.text}]


AGAIN = "again"
"""Names the second time that an answer is judged."""


def ask_of(run: Run, item: Item) -> Ask:
    """What the judge is told of an answer: no more of it than the judge's file allows, and nothing in it that could be
    read as the judge's own verdict."""
    told, prompt = run.judge["text"], run.llm["prompt"]
    truth, answer = " / ".join(item.question.answers), item.prediction.answer
    if told["form"] == "lower_one_line":
        # Line breaks go without a blank in their place, as in the released code.
        truth, answer = (text.replace("\n", "").lower() for text in (truth, answer))
    flags: list[Flag] = []
    if len(answer) > told["most_answer_chars"]:
        answer = answer[: told["most_answer_chars"]]
        flags.append("cut")
    answer, defused = defuse(answer)  # last: a line break could have hidden the word
    flags += ["defused"] if defused else []
    values = {"question": item.question.question, "GT answer": truth, "predicted answer": answer}
    return Ask(prompt.get("system", ""), prompting.fill(prompt["template"], values), tuple(flags))


def judge(run: Run) -> Iterator[Judgement]:
    """One judgement per item.

    Raises:
        EngineError: no access, the budget reached, an outage, a signal to stop, more failures than ``may_fail``, or no
            reply that could be read at all; what was judged is kept for the next run.
        ConfigError, DataError: of prices and of the file of what was spent; batches at the server, and no ``batch``.
    """
    asks = {item.key: ask_of(run, item) for item in run.items}
    twice = {key for key in asks if judged_again(key, run.judge["again_share"], run.llm["seed"])}
    with open_cache(run) as cache:
        server = _Server(run, cache)
        first = [ask.key() for ask in asks.values()] + [asks[key].key(AGAIN) for key in sorted(twice)]
        messages = {ask.key(): ask.messages for ask in asks.values()}
        messages |= {asks[key].key(AGAIN): asks[key].messages for key in twice}
        server.check_batches(run.judge.get("batch"))
        server.ask({key: messages[key] for key in first}, run.judge.get("batch"))
        server.ask(_repairs(asks, server.kept), None)
        server.check_failed(len(asks))
        made = [_judgement(run, key, ask, server.kept, key in twice) for key, ask in asks.items()]
        _check_any(run, made)
    yield from made


def judged_again(key: str, share: float, seed: int) -> bool:
    """Whether a question is in the sample that is judged twice: the same for every cell."""
    number = int(hashlib.sha256(f"{seed} {key}".encode()).hexdigest()[:12], 16)
    return number < share * 16**12


def open_cache(run: Run) -> Cache:
    """The replies that this judge has given so far, whatever the cell: one file per writer, as for models."""
    judge = run.judge
    name = fingerprint(judge["remote"]["id"], judge["generation"], judge["client"].get("body", {}), VERSION)
    written = fingerprint(str(Path(run.llm["judgements"]).absolute()))
    own = Path(run.llm["cache"]) / name / f"{written}.jsonl"
    return Cache(own, [path for path in sorted(own.parent.glob("*.jsonl")) if path != own])


class _Server:
    """What a judge's server has said, and asking it for what it has not."""

    def __init__(self, run: Run, cache: Cache) -> None:
        self.run, self.cache = run, cache
        self.kept: dict[str, Kept] = {}
        """By key of what was sent; failures too."""

    def ask(self, messages: Mapping[str, Messages], batch: dict[str, Any] | None) -> None:
        """Have every one of these answered; what the cache has is not sent."""
        known = [key for key in messages if key in self.cache]
        self.kept |= {key: self.cache[key] for key in known}
        todo = {key: messages[key] for key in messages if key not in self.cache}
        name = self.run.judge["name"]
        if known and todo:
            print(f"judge {name}: {len(known)} of {len(messages)} replies are known", file=sys.stderr)
        if not todo:
            return
        stopping = Stopping()
        with stopping, closing(self._outcomes(todo, batch, stopping)) as outcomes:
            for key, outcome in track(outcomes, f"judge {name}", len(todo), "replies"):
                self.kept[key] = outcome
                if not outcome["status"].startswith("error:"):
                    self.cache.put(key, outcome)
        if stopping:
            kept = f"{len(self.cache)} replies are kept in {self.cache.path.parent}"
            sent = ", batches that were sent stay at the server" if batch else ""
            raise EngineError(f"stopped by {stopping.signal_name}; {kept}{sent}, run again to go on")

    def _outcomes(
        self, todo: Mapping[str, Messages], batch: dict[str, Any] | None, stopping: Stopping
    ) -> Generator[tuple[str, Kept]]:
        from scripts.remote.batch import ask_batch
        from scripts.remote.chat import Chat
        from scripts.remote.pool import ask_all

        most = self.run.judge["generation"]["max_new_tokens"]
        chats = (Chat(key, lambda told=told: told, most, most_tokens(told)) for key, told in todo.items())  # type: ignore[misc]
        settings, stop = self._settings(), lambda: bool(stopping)
        journal = self.cache.path.with_suffix(".batches")
        if batch is None:
            asked: Iterable[Any] = ask_all(settings, chats, stopping=stop)
        else:
            asked = ask_batch(settings, chats, batch, journal, stopping=stop)
        for chat, outcome in asked:
            yield chat.key, asdict(outcome)

    def _settings(self) -> Any:
        from scripts.remote.chat import Endpoint, key_from
        from scripts.remote.pool import Settings

        remote, client, llm = self.run.judge["remote"], self.run.judge["client"], self.run.llm
        generation = self.run.judge["generation"]
        body = {name: generation[name] for name in SAMPLING if name in generation} | client.get("body", {})
        key = key_from(remote["key_env"])
        return Settings(
            Endpoint(remote["url"], key, remote["id"], client["timeout_s"], client["max_tokens_field"], body),
            client["concurrency"],
            llm["limits"],
            client.get("requests_per_min"),
            client.get("tokens_per_min"),
            llm["prices"] if key else None,
            Path(llm["ledger"]) if key else None,
            llm["seed"],
        )

    def check_batches(self, batch: dict[str, Any] | None) -> None:
        """Refuse to ask one by one what is at the server in batches, and will be billed.

        Raises:
            ConfigError: there are such batches, and the judge's file asks for none.
        """
        from scripts.remote.journal import under_way

        journal = self.cache.path.with_suffix(".batches")
        if batch is None and under_way(journal):
            raise ConfigError(
                f"config/judges/{self.run.judge['name']}.yaml: answers of this cell are at the server in batches; put"
                f" `batch` back to have their verdicts, or remove {journal} to give them up"
            )

    def check_failed(self, answers: int) -> None:
        """Refuse to call a cell judged of which the server has left out more than the judge's file allows.

        Raises:
            EngineError: how many, and the first reason.
        """
        failed = [one for one in self.kept.values() if one["status"].startswith("error:")]
        passing = [one for one in failed if one["status"] not in SPOILED]
        if len(passing) > self.run.judge["may_fail"]:
            raise EngineError(
                f"judge {self.run.judge['name']}: {len(passing)} replies for {answers} answers are still missing, the"
                f" first by {passing[0]['status']} {passing[0]['detail']}; the others are kept, run again to get the"
                " rest, or raise may_fail in the judge's file"
            )


def most_tokens(messages: Messages) -> int:
    """Upper estimate: of text, its bytes, because no token is shorter."""
    return OVERHEAD_TOKENS + sum(len(each["content"].encode()) for each in messages)


def _repairs(asks: Mapping[str, Ask], kept: Mapping[str, Kept]) -> dict[str, Messages]:
    """What is sent where the first reply can't be read."""
    found = {}
    for ask in asks.values():
        reply = kept[ask.key()]
        if reply["status"] in ("ok", "truncated") and read_verdict(reply["text"], ask.text).verdict is None:
            said = [{"role": "assistant", "content": reply["text"][:MOST_REPLY]}, {"role": "user", "content": REPAIR}]
            found[_repair_key(ask, reply)] = [*ask.messages, *said]
    return found


def _repair_key(ask: Ask, reply: Kept) -> str:
    return ask.key("repair", reply["text"], REPAIR)


def _judgement(run: Run, key: str, ask: Ask, kept: Mapping[str, Kept], twice: bool) -> Judgement:
    reply = kept[ask.key()]
    repair = kept.get(_repair_key(ask, reply))
    again = kept[ask.key(AGAIN)] if twice else None
    reading, status, detail = _read(reply, ask)
    flags = [*ask.flags, *reading.flags]
    if status == "parse_failed" and repair is not None:
        reading, second, why = _read(repair, ask)
        if second == "ok":
            status, detail, flags = "ok", "", [*ask.flags, *reading.flags, "repaired"]
        else:
            status = "api_failed" if second == "api_failed" else status
            detail = f"{detail}; asked again: {why}"
    second_time = _read(again, ask)[0] if again else Reading(None, None, (), "")
    ok = status == "ok"
    return Judgement(
        key=key,
        status=status,  # type: ignore[arg-type]
        verdict=reading.verdict if ok else None,
        score=reading.score if ok else None,
        flags=list(dict.fromkeys(flags)),
        raw=nfc(reply["text"]),
        raw_repair=nfc(repair["text"]) if repair else "",
        detail=detail,
        again_verdict=second_time.verdict if ok else None,
        again_score=second_time.score if ok else None,
        judge=", ".join(filter(None, [run.judge["remote"]["id"], reply["model"], reply["system_fingerprint"]])),
        prompt_hash=prompting.prompt_hash(ask.system, ask.text),
        **_costs([one for one in (reply, repair, again) if one]),
    )


def _read(reply: Kept, ask: Ask) -> tuple[Reading, str, str]:
    """A reply as a verdict, the status of the judgement, and why it is not ``ok``."""
    if reply["status"] == "refused":
        return Reading(None, None, (), ""), "content_filter" if reply["by_filter"] else "refused", reply["detail"]
    if reply["status"].startswith("error:"):
        return Reading(None, None, (), ""), "api_failed", f"{reply['status']}: {reply['detail']}"
    reading = read_verdict(reply["text"], ask.text)
    if reading.verdict is None:
        return reading, "parse_failed", reading.why + (" (cut off)" if reply["status"] == "truncated" else "")
    if reply["status"] == "truncated":
        reading = Reading(reading.verdict, reading.score, (*reading.flags, "truncated"), "")
    return reading, "ok", ""


def _costs(replies: list[Kept]) -> dict[str, Any]:
    """Sums over the calls for one judgement; None where no server counted."""

    def total(name: str) -> Any:
        counted = [reply[name] for reply in replies if reply[name] is not None]
        return sum(counted) if counted else None

    return {
        "seconds": round(total("seconds"), 3),
        "calls": total("attempts"),
        **{name: total(name) for name in ("tokens_in", "tokens_out", "dollars")},
    }


def _check_any(run: Run, made: list[Judgement]) -> None:
    """Refuse a judge that does not know how to give a verdict.

    Raises:
        EngineError: every reply was unreadable; shows the first.
    """
    if len(made) >= FEW and {one.status for one in made} == {"parse_failed"}:
        raise EngineError(
            f"judge {run.judge['name']}: none of {len(made)} replies is a verdict, the first is"
            f" {made[0].raw[:80]!r} ({made[0].detail}); take another model or prompt"
        )
