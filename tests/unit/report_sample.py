"""A small workflow's worth of records for the tests of the report: two data sets, three cells, one clip really encoded."""

import json
from pathlib import Path

import av
import numpy as np
import yaml

from scripts.lib import jsonl
from scripts.lib.cells import Cell
from scripts.lib.files import sha256
from scripts.lib.records import Case, FramePlan, OcrBox, OcrFrame, Prediction, Question, Video
from scripts.lib.video import encode_times
from tests.unit import clips

EVIL = "What does </script><script>alert(1)</script> say?"
RATE = clips.RATE
SIZE = (480, 288)
OTHER = "Straße 東京 café"


def cell(n: int) -> Cell:
    return Cell("signs", "reader", f"uniform_{n}", "native", "plain")


BLIND = Cell("signs", "blind", "uniform_4", "native", "plain")
CELLS = [cell(2), cell(4), BLIND]


def questions(count: int) -> list[Question]:
    return [
        Question(
            key=f"signs/v{i % 2}/q{i}",
            video=f"v{i % 2}",
            question_id=f"q{i}",
            question=EVIL if i == 0 else f"What does sign {i} say now?",
            answers=[OTHER if i == 1 else f"EXIT {i}"],
            options=["NO", f"EXIT {i}"] if i == 2 else None,
            ground_truth="B" if i == 2 else None,
            t_question=2.0,
            category="now" if i % 3 else "first",
            subsets=["current"] if i % 2 else ["previous"],
        )
        for i in range(count)
    ]


def outcome(i: int) -> tuple[str, float]:
    """Status and score of a question's answer: of every four one wrong, one nearly right, one failed, one right."""
    return [("ok", 0.2), ("ok", 0.95), ("error:engine", -1.0), ("ok", 1.0)][i % 4]


def plan(question: Question, n: int) -> FramePlan:
    if question.question_id == "q6":
        return FramePlan(key=question.key, video=question.video, status="error:video_undecodable")
    frames = [round(i * 60 / (n - 1)) for i in range(n)]
    return FramePlan(
        key=question.key, video=question.video, status="ok", frames=frames, times=[f / RATE for f in frames]
    )


def write_cell(root: Path, which: Cell, asked: list[Question], plans: dict[str, FramePlan]) -> None:
    predictions, cases = [], []
    for i, question in enumerate(asked):
        status, score = outcome(i)
        scored = status == "ok"
        answer = question.answers[0] if score == 1.0 else "<b>EXlT</b>"
        predictions.append(
            Prediction(
                key=question.key,
                status=status,
                raw=f"The sign says {answer}." if scored else "",
                answer=answer if scored else "",
                detail="" if scored else "the engine ran out of memory",
                times=plans[question.key].times if scored and which.model != "blind" else [],
                width=SIZE[0],
                height=SIZE[1],
                engine="reader 1.0",
                prompt_hash="0123456789abcdef",
                seconds=0.25,
            )
        )
        metrics = {"rouge_l": score, "exact_match": float(score == 1.0)} if scored else {}
        case = {"category": question.category, "subsets": question.subsets, "status": status, "metrics": metrics}
        cases.append(Case(key=question.key, video=question.video, answer=answer if scored else "", **case))
    jsonl.write(root / "results/predictions" / which.path / "predictions.jsonl", predictions)
    jsonl.write(root / "results/scores" / which.path / "cases.jsonl", cases)


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
        "defaults": {"dataset": "signs", "resolution": "native", "prompt": "plain", "metric": "rouge_l"},
        "rows": [
            {"label": f"{one.model}, {one.sampler[8:]} frames", "model": one.model, "sampler": one.sampler}
            for one in CELLS
        ],
        "columns": [{"label": "ROUGE-L"}, {"label": "now", "group": "now"}],
    }
    for path, content in (("tables/demo/signs.yaml", spec), ("schemas/table.schema.yaml", {"type": "object"})):
        (root / "config" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "config" / path).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    made = root / "results/tables/demo/signs.json"
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(json.dumps(table_json(spec)), encoding="utf-8")


def build(root: Path, count: int = 12) -> list[str]:
    """Write everything under ``root``; return the arguments of make_report."""
    asked = questions(count)
    write_dataset(root, asked)
    for n in (2, 4):
        plans = {question.key: plan(question, n) for question in asked}
        jsonl.write(root / f"resources/frames/signs/uniform_{n}.jsonl", plans.values())
        if n == 4:
            write_ocr(root, plans, "uniform_4")
        for which in CELLS:
            if which.sampler == f"uniform_{n}":
                write_cell(root, which, asked, plans)
    write_table(root)
    folders = {"scores": "results/scores", "predictions": "results/predictions", "resources": "resources"}
    folders |= {"table-dir": "results/tables", "report": "results/report.html"}
    options = [word for name, path in folders.items() for word in (f"--{name}", str(root / path))]
    return ["--tables", str(root / "config/tables/demo/signs.yaml"), *options]


def table_json(spec):
    values = [(0.31, 0.2), (0.72, 0.8), (0.5, None)]
    rows = []
    for row, pair in zip(spec["rows"], values):
        rows.append({"label": row["label"], "entries": [
            {"value": v, "low": None if v is None else v - 0.1, "high": None if v is None else v + 0.12, "n": 9, "total": 12, "rank": r}
            for v, r in zip(pair, [{0.72: 1, 0.5: 2}.get(pair[0]), None])]})
    return {"rows": rows, "footnotes": ["3 of 12 answers failed (error:engine 3) and are not scored."]}
