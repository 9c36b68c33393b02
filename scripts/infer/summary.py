"""What became of a cell's questions, in a few lines for the log, and what another run can mend."""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.lib.records import Prediction


def again(*files: Path) -> str:
    """What to run so that Snakemake makes files anew, and then what follows from them."""
    return f"end your snakemake command with --forcerun {shlex.join(map(str, files))}"


def summary(predictions: Iterable[Prediction]) -> str:
    """``12 questions: 10 ok, 1 unanswerable, 1 error:decode; frames used at 704x1280; $0.12``."""
    predictions = list(predictions)
    counts = Counter(one.status for one in predictions)
    sizes = Counter(f"{one.height}x{one.width}" for one in predictions if one.height)
    text = ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "none"
    used = f"; frames used at {', '.join(size for size, _ in sizes.most_common(3))}" if sizes else ""
    bill = sum(one.dollars or 0.0 for one in predictions)
    return f"{len(predictions)} questions: {text}{used}" + (f"; ${bill:.2f}" if bill else "")


def changed_frames(predictions: Iterable[Prediction]) -> str:
    """What the model's own preprocessing did to the frames it was given, in one line; empty where nothing."""
    predictions = list(predictions)
    notes = Counter(one.frames_note for one in predictions if one.frames_note)
    if not notes:
        return ""
    most = "; ".join(f"{note} ({count})" for note, count in notes.most_common(3))
    more = f"; {len(notes) - 3} more kinds" if len(notes) > 3 else ""
    return f"frames changed by the model in {notes.total()} of {len(predictions)} questions: {most}{more}"


OF_THE_SERVER = ("rate_limit", "server", "timeout", "connection", "reply")
"""Kinds of errors with which a server did not answer."""
PASSING = ("decode", "engine", *OF_THE_SERVER)
"""Kinds of errors that may be gone another time."""


def remedies(predictions: Iterable[Prediction], file: Path, readings: Sequence[Path]) -> list[str]:
    """One line for each kind of error that another run can mend.

    Args:
        file: what holds the predictions.
        readings: where the text on the frames is, for models that read it and prompts that tell it.
    """
    counts = Counter(one.status for one in predictions)
    failed = sum(counts[f"error:{kind}"] for kind in PASSING)
    lines = [f"try the {failed} errors of decoding or the model again: {again(file)}"] if failed else []
    if readings and counts["error:ocr"]:
        lines.append(f"read the text that {counts['error:ocr']} questions lack: {again(*readings)}")
    return lines
