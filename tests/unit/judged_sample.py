"""Judgements of made-up answers, scored by the real step."""

import json
from pathlib import Path

import yaml

from scripts.judge import score_judgements
from scripts.lib import jsonl
from scripts.lib.records import Judgement, Prediction, Question
from tests.unit import table_sample

CELL = "signs/reader/uniform_4/native/v_q"
JUDGE = {"title": "Rules of a test", "kind": "exact", "note": "For a test alone.", "published_rule": "egotextvqa"}


def judgement(key: str, verdict: str | None = "yes", score: float | None = 5, **more) -> Judgement:
    """One that is ok, or has another status and then no verdict."""
    if more.get("status", "ok") != "ok":
        verdict = score = None
    return Judgement(**{"key": key, "status": "ok", "verdict": verdict, "score": score, **more})


def judgements(asked: list[Question], wrong: set[int] = frozenset(), other: dict[int, Judgement] | None = None):
    """Yes and 5, but no and 1 for those listed; other judgements where given."""
    made = [
        judgement(one.key, "no", 1) if at in wrong else judgement(one.key, "yes", 5) for at, one in enumerate(asked)
    ]
    for at, one in (other or {}).items():
        made[at] = one
    return made


def command(
    folder: Path,
    asked: list[Question],
    answered: list[Prediction],
    judged: list[Judgement],
    judge: dict | None = None,
    draws: int = 200,
) -> list[str]:
    """Write what the step reads; return its arguments."""
    root = table_sample.config(folder)
    (root / "judges").mkdir(exist_ok=True)
    text = yaml.safe_dump(JUDGE if judge is None else judge, allow_unicode=True)
    (root / "judges/rules.yaml").write_text(text, encoding="utf-8")
    files = {
        "judge": root / "judges/rules.yaml",
        "questions": folder / "questions.jsonl",
        "predictions": folder / "predictions" / CELL / "predictions.jsonl",
        "judgements": folder / "judgements/rules" / CELL / "judgements.jsonl",
        "scores": folder / "judged/rules" / CELL / "scores.json",
        "cases": folder / "judged/rules" / CELL / "cases.jsonl",
    }
    jsonl.write(files["questions"], asked)
    jsonl.write(files["predictions"], answered)
    jsonl.write(files["judgements"], judged)
    named = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    return [*named, "--draws", str(draws), "--seed", "3"]


def score(folder: Path, *given, **more) -> tuple[dict, Path]:
    """scores.json as the step writes it, and the folder that has it."""
    assert score_judgements.main(command(folder, *given, **more)) == 0
    out = folder / "judged/rules" / CELL
    return json.loads((out / "scores.json").read_text(encoding="utf-8")), out
