"""A small workflow's worth of records for the tests of the report: one data set, four cells, one clip."""

import json
from pathlib import Path

import av
import numpy as np
import yaml

from scripts.judge import score_cell, score_judgements
from scripts.lib import jsonl
from scripts.lib.cells import Cell, Scored
from scripts.lib.files import sha256, write_text
from scripts.lib.records import FramePlan, Judgement, OcrBox, OcrFrame, Prediction, Question, Video
from scripts.lib.video import encode_times
from scripts.tables import make_table
from tests.unit import clips

EVIL = "What does </script><script>alert(1)</script> say?"
RATE = clips.RATE
SIZE = (480, 288)
OTHER = "Straße 東京 café"


def cell(n: int) -> Cell:
    return Cell("signs", "reader", f"uniform_{n}", "native", "plain")


BLIND = Cell("signs", "blind", "uniform_4", "native", "plain")
CELLS = [cell(2), cell(4), BLIND]
MISSING = Cell("signs", "later", "uniform_4", "native", "plain")
JUDGED_ONLY = Cell("signs", "judged", "uniform_4", "native", "plain")
"""No metrics of text are asked for."""
TABLE = "config/tables/demo/signs.yaml"
JUDGED_TABLE = "config/tables/demo/judged.yaml"
JUDGE = {"name": "rules", "title": "Rules <b>of a test</b>"}
UNSURE = "Hard to <i>say</i>."
SCHEMA = Path("config/schemas/table.schema.yaml")


def questions(count: int) -> list[Question]:
    return [
        Question(
            key=f"signs/v{i % 2}/q{i}",
            video=f"v{i % 2}",
            question_id=f"q{i}",
            question=EVIL if i == 0 else f"What does sign {i} say now?",
            answers=[OTHER if i == 1 else f"EMERGENCY EXIT {i}"],
            options=["NO", f"EMERGENCY EXIT {i}"] if i == 2 else None,
            ground_truth="B" if i == 2 else None,
            t_question=2.0,
            category="now" if i % 3 else "first",
            subsets=["current"] if i % 2 else ["previous"],
        )
        for i in range(count)
    ]


def kind_of(i: int, which: Cell) -> str:
    """What becomes of a question: one of four kinds in turn, but fewer are right on few frames or none."""
    worse = {cell(2): {"near": "wrong"}, BLIND: {"near": "wrong", "right": "wrong"}}.get(which, {})
    kind = ("wrong", "near", "failed", "right")[i % 4]
    return worse.get(kind, kind)


def reply(kind: str, truth: str) -> tuple[str, str]:
    """Status and answer."""
    return {
        "wrong": ("ok", "<b>EXlT</b>"),
        "near": ("ok", truth[1:]),
        "failed": ("error:engine", ""),
        "right": ("ok", truth),
    }[kind]


def plan(question: Question, n: int) -> FramePlan:
    if question.question_id == "q6":
        return FramePlan(key=question.key, video=question.video, status="error:video_undecodable")
    frames = [round(i * 60 / (n - 1)) for i in range(n)]
    return FramePlan(
        key=question.key, video=question.video, status="ok", frames=frames, times=[f / RATE for f in frames]
    )


Predictions = dict[str, Prediction]


def write_predictions(root: Path, which: Cell, asked: list[Question], plans: dict[str, FramePlan]) -> Predictions:
    predictions = {}
    for i, question in enumerate(asked):
        status, answer = reply(kind_of(i, which), question.answers[0])
        predictions[question.key] = Prediction(
            key=question.key,
            status=status,
            raw=f"The sign says {answer}." if answer else "",
            answer=answer,
            detail="" if status == "ok" else "the engine ran out of memory",
            times=plans[question.key].times if status == "ok" and which.model != "blind" else [],
            width=SIZE[0],
            height=SIZE[1],
            engine="reader 1.0",
            prompt_hash="0123456789abcdef",
            seconds=0.25,
        )
    jsonl.write(root / "results/predictions" / which.path / "predictions.jsonl", predictions.values())
    return predictions


def write_scores(root: Path, which: Cell, asked: list[Question], predictions: Predictions) -> None:
    cases = score_cell.make_cases({question.key: question for question in asked}, predictions, "open")
    jsonl.write(root / "results/scores" / which.path / "cases.jsonl", cases)
    scores = score_cell.summary(cases, {}, "open", str(which), draws=200, seed=0)
    write_text(root / "results/scores" / which.path / "scores.json", json.dumps(scores))


def judgement(i: int, question: Question, which: Cell) -> Judgement:
    """What the judge makes of an answer; of q1, q9, q17 and so on nothing."""
    kind = kind_of(i, which)
    if kind == "failed":
        return Judgement(key=question.key, status="no_answer")
    if i % 8 == 1:
        return Judgement(key=question.key, status="parse_failed", raw=UNSURE, raw_repair="No.", detail="no verdict")
    verdict, score = {"wrong": ("no", 1), "near": ("yes", 4), "right": ("yes", 5)}[kind]
    again = {"again_verdict": "no", "again_score": 2} if i == 3 else {}
    raw = f"{{'pred': '{verdict}', 'score': {score}}}"
    return Judgement(key=question.key, status="ok", verdict=verdict, score=score, raw=raw, flags=["cut"], **again)


def write_judged(root: Path, which: Cell, asked: list[Question], predictions: Predictions) -> None:
    made = {question.key: judgement(i, question, which) for i, question in enumerate(asked)}
    jsonl.write(root / "results/judgements/rules" / which.path / "judgements.jsonl", made.values())
    cases = score_judgements.make_cases({question.key: question for question in asked}, predictions, made)
    folder = root / "results" / Scored(which, "rules").folder
    jsonl.write(folder / "cases.jsonl", cases)
    scores = score_judgements.summary(JUDGE, cases, predictions, made, str(which), draws=200, seed=0)
    write_text(folder / "scores.json", json.dumps(scores))


def write_dataset(root: Path, asked: list[Question]) -> None:
    folder = root / "resources/datasets/signs"
    jsonl.write(folder / "questions.jsonl", asked)
    clip = root / "clip.mp4"
    clips.write(clip, options=clips.H264_B, size=SIZE)
    common = {"dataset": "signs", "duration_s": 2.5, "fps_avg": 30.0, "width": SIZE[0], "height": SIZE[1]}
    common |= {"rotation": 0, "vfr": False, "codec": "h264", "source": "test", "licence": "CC0-1.0"}
    videos = [
        Video(id="v0", path=str(clip), sha256=sha256(clip), n_frames=75, status="ok", **common),
        Video(id="v1", path=str(root / "gone.mp4"), sha256="1" * 64, n_frames=75, status="ok", **common),
    ]
    jsonl.write(folder / "videos.jsonl", videos)
    with av.open(str(clip)) as container:  # the muxer chooses a time base of its own
        base = container.streams.video[0].time_base
        ticks = np.array([frame.pts for frame in container.decode(video=0)])
    times = [encode_times(one.id, ticks, base.as_integer_ratio()) for one in videos]
    jsonl.write(folder / "frame_times.jsonl", times)


def write_ocr(root: Path, plans: dict[str, FramePlan], sampler: str) -> None:
    """Text on every frame of the decodable video but the last."""
    frames = sorted({(p.video, f) for p in plans.values() for f in p.frames})
    box = OcrBox(text="AUSGANG <i>→</i>", confidence=0.93, polygon=[(40, 30), (240, 34), (238, 90), (38, 86)])
    read = [
        OcrFrame(video=v, frame=f, t=f / RATE, width=SIZE[0], height=SIZE[1], boxes=[box] if f < 60 else [])
        for v, f in frames
    ]
    jsonl.write(root / "resources/ocr/signs" / sampler / "native.jsonl", read)


def write_table(root: Path) -> None:
    spec = {
        "title": "Signs <demo>",
        "caption": "How well signs are read & understood.",
        "allow_missing": True,
        "defaults": {"dataset": "signs", "resolution": "native", "prompt": "plain", "metric": "rouge_l"},
        "rows": [
            {"label": f"{one.model}, {one.sampler[8:]} frames", "model": one.model, "sampler": one.sampler}
            for one in [*CELLS, MISSING]
        ],
        "columns": [{"label": "ROUGE-L"}, {"label": "current", "group": "current", "over": "Subset"}],
    }
    for row in spec["rows"][:2]:
        row["section"] = "Readers"
    spec["rows"][2]["only"] = ["ROUGE-L"]
    run_make_table(root, root / TABLE, spec)


def write_judged_table(root: Path) -> None:
    """Text and judge of one cell, the judge alone of another, and a judge that one cell still lacks."""
    rows = [("both", cell(4)), ("judge alone", JUDGED_ONLY), ("not judged", cell(2))]
    spec = {
        "title": "Judged signs",
        "caption": "What a judge made of them.",
        "allow_missing": True,
        "defaults": {"dataset": "signs", "resolution": "native", "prompt": "plain", "judge": "rules"},
        "rows": [{"label": label, "model": one.model, "sampler": one.sampler} for label, one in rows],
        "columns": [
            {"label": "ROUGE-L", "metric": "rouge_l"},
            {"label": "Accuracy", "metric": "judge_accuracy", "pair": "judge_score"},
            {"label": "Macro", "metric": "judge_score", "group": "macro"},
        ],
    }
    spec["rows"][1]["only"] = ["Accuracy", "Macro"]
    run_make_table(root, root / JUDGED_TABLE, spec)


def run_make_table(root: Path, path: Path, spec: dict) -> None:
    write_text(path, yaml.safe_dump(spec, sort_keys=False))
    write_text(root / SCHEMA, SCHEMA.read_text(encoding="utf-8"))
    out = root / "results/tables/demo" / path.stem
    made = [f"--{form}={out}.{form[:4]}" for form in ("tex", "csv", "json")]
    assert make_table.main([f"--table={path}", f"--results={root / 'results'}", *made, f"--markdown={out}.md"]) == 0


def build(root: Path, count: int = 12, judged: bool = False) -> list[str]:
    """Write everything under ``root``; return the arguments of make_report.

    Args:
        judged: show the table of judged scores, and not the other.
    """
    asked = questions(count)
    write_dataset(root, asked)
    for n in (2, 4):
        plans = {question.key: plan(question, n) for question in asked}
        jsonl.write(root / f"resources/frames/signs/uniform_{n}.jsonl", plans.values())
        if n == 4:
            write_ocr(root, plans, "uniform_4")
        for which in CELLS:
            if which.sampler == f"uniform_{n}":
                predictions = write_predictions(root, which, asked, plans)
                write_scores(root, which, asked, predictions)
                if which == cell(4):
                    write_judged(root, which, asked, predictions)
    write_judged(root, JUDGED_ONLY, asked, write_predictions(root, JUDGED_ONLY, asked, plans))
    (write_judged_table if judged else write_table)(root)
    folders = {"results": "results", "predictions": "results/predictions", "resources": "resources"}
    folders |= {"table-dir": "results/tables", "report": "results/report.html"}
    options = [word for name, path in folders.items() for word in (f"--{name}", str(root / path))]
    return ["--tables", str(root / (JUDGED_TABLE if judged else TABLE)), *options]
