"""Questions and predictions of made-up cells, scored by the real steps, for the tests of scores and tables."""

import shutil
from pathlib import Path

import yaml

from scripts.judge import score_cell, score_judgements
from scripts.lib import jsonl
from scripts.lib.records import Judgement, Prediction, Question

ROOT = Path(__file__).parents[2]
WORDS = ["AUSGANG", "Café Zürich", "出口 3", "100% & more", "Exit #7", "दिल्ली"]
DRAWS = 200


def questions(count: int = 12, videos: int = 4, options: bool = False) -> list[Question]:
    """Categories now, first and previous; subsets current and previous; four options where asked."""
    made = []
    for at in range(count):
        video = f"vidéo {at % videos}"
        choice = {"options": WORDS[:4], "ground_truth": "ABCD"[at % 4]} if options else {}
        made.append(
            Question(
                key=f"signs/{video}/q{at}",
                video=video,
                question_id=f"q{at}",
                question="What does the sign say now?",
                answers=[WORDS[at % 4]],
                category=("now", "first", "previous")[at % 3],
                subsets=["current" if at % 3 == 0 else "previous"],
                **choice,
            )
        )
    return made


def predictions(asked: list[Question], wrong: set[int] = frozenset(), status: dict[int, str] | None = None):
    """Right answers, but for those listed; statuses other than ok where given."""
    return [
        Prediction(
            key=question.key,
            status=(status or {}).get(at, "ok"),
            answer="nothing" if at in wrong else (question.ground_truth or question.answers[0]),
        )
        for at, question in enumerate(asked)
    ]


def config(folder: Path, table: dict | None = None) -> Path:
    """A config folder with the repository's schemas, two prompts and one table ``p/t``."""
    root = folder / "config"
    shutil.copytree(ROOT / "config/schemas", root / "schemas", dirs_exist_ok=True)
    (root / "prompts").mkdir(parents=True, exist_ok=True)
    for name in ("v_q", "v_q_options"):
        shutil.copy(ROOT / f"config/prompts/{name}.yaml", root / "prompts")
    if table is not None:
        (root / "tables/p").mkdir(parents=True, exist_ok=True)
        (root / "tables/p/t.yaml").write_text(
            yaml.safe_dump(table, sort_keys=False, allow_unicode=True), encoding="utf-8"
        )
    return root


def score(folder: Path, cell: str, asked: list[Question], answered: list[Prediction]) -> Path:
    """Run score_cell on a cell whose prompt is one of the two; return the folder of its scores."""
    prompt = cell.rpartition("/")[2]
    root = config(folder)
    jsonl.write(folder / "questions.jsonl", asked)
    jsonl.write(folder / "predictions" / cell / "predictions.jsonl", answered)
    out = folder / "scores" / cell
    assert score_cell.main(command(folder, cell, root / "prompts" / f"{prompt}.yaml")) == 0
    return out


def command(folder: Path, cell: str, prompt: Path) -> list[str]:
    return [
        *("--predictions", str(folder / "predictions" / cell / "predictions.jsonl")),
        *("--questions", str(folder / "questions.jsonl")),
        *("--prompt", str(prompt)),
        *("--draws", str(DRAWS)),
        *("--seed", "3"),
        *("--scores", str(folder / "scores" / cell / "scores.json")),
        *("--cases", str(folder / "scores" / cell / "cases.jsonl")),
    ]


def judge(folder: Path, name: str, content: dict, cell: str, judged: list[Judgement]) -> Path:
    """Run score_judgements on a cell whose answers are there; return the folder of its scores.

    Args:
        content: of the judge's file.
    """
    root = config(folder)
    (root / "judges").mkdir(exist_ok=True)
    (root / f"judges/{name}.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    out = folder / "judged" / name / cell
    files = {
        "judge": root / f"judges/{name}.yaml",
        "questions": folder / "questions.jsonl",
        "predictions": folder / "predictions" / cell / "predictions.jsonl",
        "judgements": folder / "judgements" / name / cell / "judgements.jsonl",
        "scores": out / "scores.json",
        "cases": out / "cases.jsonl",
    }
    jsonl.write(files["judgements"], judged)
    named = [word for option, path in files.items() for word in (f"--{option}", str(path))]
    assert score_judgements.main([*named, "--draws", str(DRAWS), "--seed", "3"]) == 0
    return out
