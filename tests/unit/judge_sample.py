"""A cell's answers and a judge behind a local server, for the tests of judging."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from scripts.judge import judge_cell
from scripts.lib import jsonl
from scripts.lib.records import Judgement, Prediction, Question
from tests.unit.fault_server import FaultServer

ROOT = Path(__file__).parents[2]
JUDGE = "far"
YES, NO = "{'pred': 'yes', 'score': 5}", "{'pred': 'no', 'score': 1}"


def questions(count: int, videos: int = 4) -> list[Question]:
    return [
        Question(
            key=f"d/v{at % videos}/{at}",
            video=f"v{at % videos}",
            question_id=str(at),
            question=f"What is sign {at:03}?",
            answers=[f"Sign\nNumber {at:03}"],
            category=("now", "first")[at % 2],
        )
        for at in range(count)
    ]


def predictions(asked: list[Question], **changed: dict) -> list[Prediction]:
    """``answer 000`` and so on; ``changed`` by the number of the question, as in ``q3={"answer": ""}``."""
    return [
        Prediction(**({"key": one.key, "status": "ok", "answer": f"answer {at:03}"} | changed.get(f"q{at}", {})))
        for at, one in enumerate(asked)
    ]


def write_cell(folder: Path, server: FaultServer, made: list[Prediction], asked: list[Question], **changes) -> Path:
    """Inputs of judge_cell: the repository's configuration with one judge more, which asks ``server``.

    Args:
        changes: of the judge's YAML, laid over EgoTextVQA's.
    """
    jsonl.write(folder / "questions.jsonl", asked)
    jsonl.write(folder / "predictions.jsonl", made)
    for name in ("schemas", "judges", "prompts"):
        shutil.copytree(ROOT / "config" / name, folder / "config" / name, dirs_exist_ok=True)
    for name in ("remote.yaml", "prices.yaml"):
        shutil.copy(ROOT / "config" / name, folder / "config")
    limits = yaml.safe_load((folder / "config/remote.yaml").read_text(encoding="utf-8"))
    limits |= {"retries": 2, "first_wait_s": 0.001, "longest_wait_s": 0.005}
    (folder / "config/remote.yaml").write_text(yaml.safe_dump(limits), encoding="utf-8")
    judge = yaml.safe_load((ROOT / "config/judges/egotextvqa.yaml").read_text(encoding="utf-8"))
    judge["remote"] |= {"url": server.url}
    judge["client"] |= {"concurrency": 4, "timeout_s": 20}
    judge = {key: value | changes.get(key, {}) if isinstance(value, dict) else value for key, value in judge.items()}
    judge |= {key: value for key, value in changes.items() if not isinstance(judge.get(key), dict)}
    (folder / f"config/judges/{JUDGE}.yaml").write_text(yaml.safe_dump(judge), encoding="utf-8")
    return folder


def command(folder: Path, judge: str = JUDGE, out: str = "judgements.jsonl") -> list[str]:
    config = folder / "config"
    return [
        *("--judge", f"{config}/judges/{judge}.yaml", "--prompt", f"{config}/prompts/egotextvqa_judge.yaml"),
        *("--predictions", f"{folder}/predictions.jsonl", "--questions", f"{folder}/questions.jsonl"),
        *("--remote", f"{config}/remote.yaml", "--prices", f"{config}/prices.yaml", "--spent", f"{folder}/spent.jsonl"),
        *("--cache", f"{folder}/cache", "--judgements", f"{folder}/{out}"),
    ]


def judge(folder: Path, code: int = 0, **options: str) -> list[Judgement]:
    """Run judge_cell; the judgements it wrote, none where it ends with another code."""
    assert judge_cell.main(command(folder, **options)) == code
    return list(jsonl.read(folder / options.get("out", "judgements.jsonl"), Judgement)) if code == 0 else []


def start(folder: Path) -> subprocess.Popen:
    """judge_cell as its own process."""
    return subprocess.Popen(
        [sys.executable, "-m", "scripts.judge.judge_cell", *command(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONUTF8": "1"},
        stderr=subprocess.DEVNULL,
    )


def number_of(text: str) -> int:
    """Of the question that a message to the judge asks about; -1 for a request to say it again."""
    _, found, rest = text.partition("What is sign ")
    return int(rest[:3]) if found else -1


def says(replies: dict[int, str], otherwise: str = YES) -> Callable[[str], str]:
    """What the judge replies, by the number of the question."""
    return lambda text: replies.get(number_of(text), otherwise)


def bodies(server: FaultServer) -> list[dict]:
    with server.lock:
        return [json.loads(json.dumps(body)) for body in server.bodies]
