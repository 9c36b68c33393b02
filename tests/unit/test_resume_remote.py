"""A cell of a remote model that is killed or stopped at any moment goes on without asking anything twice."""

import json
import random
import signal
from pathlib import Path

import pytest
import yaml

from scripts.infer import run_cell
from scripts.lib import jsonl
from scripts.lib.probe import probe
from scripts.lib.records import Prediction, Question, Video
from tests.conftest import wait_until
from tests.unit import clips
from tests.unit.cell_sample import arguments, make_inputs, start
from tests.unit.fault_server import FaultServer, scripted

KILLS, CONCURRENCY, QUESTIONS = 10, 4, 201


def remote_cell(folder: Path, server: FaultServer, **changes: object) -> Path:
    """Inputs of run_cell with a question only, each in words of its own, for a model at ``server``."""
    make_inputs(folder, videos=QUESTIONS // 3)
    questions = [
        one.model_copy(update={"question": f"What is sign {number:03}?"})
        for number, one in enumerate(jsonl.read(folder / "questions.jsonl", Question))
    ]
    jsonl.write(folder / "questions.jsonl", questions)
    model = yaml.safe_load((folder / "config/models/gpt_4o.yaml").read_text(encoding="utf-8"))
    model["remote"]["url"] = server.url
    model["client"] |= {"concurrency": CONCURRENCY, "timeout_s": 20, **changes}
    (folder / "config/models/far.yaml").write_text(yaml.safe_dump(model), encoding="utf-8")
    return folder


def command(folder: Path, prompt: str = "q") -> list[str]:
    limits = ["--remote", f"{folder}/config/remote.yaml", "--prices", f"{folder}/config/prices.yaml"]
    return arguments(folder, "far", prompt, *limits, "--spent", f"{folder}/spent.jsonl")


def recorded(folder: Path) -> dict[str, dict]:
    """The answers in the cache, by their question's key."""
    lines = [line for file in folder.glob("cache/*/*.jsonl") for line in file.read_bytes().splitlines(keepends=True)]
    found = [json.loads(line)[1] for line in lines if line.endswith(b"\n")]
    assert len(found) == len({one["key"] for one in found}), "an answer was written twice"
    return {one["key"]: one for one in found}


def asked_of(server: FaultServer, keys: dict[str, str]) -> dict[str, int]:
    """How often each question was asked, by its key."""
    with server.lock:
        return {key: sum(n for text, n in server.asked.items() if words in text) for key, words in keys.items()}


def words_of(folder: Path) -> dict[str, str]:
    return {one.key: one.question for one in jsonl.read(folder / "questions.jsonl", Question)}


def made(folder: Path) -> list[Prediction]:
    return list(jsonl.read(folder / "out" / "predictions.jsonl", Prediction))


def test_killed_ten_times_it_asks_nothing_twice_that_was_answered_and_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    chance = random.Random(7)
    with FaultServer(delay_s=0.03) as server:
        folder = remote_cell(tmp_path / "cell", server)
        words, before = words_of(folder), {}
        for _ in range(KILLS):
            process = start(command(folder))
            enough = len(before) + chance.randint(2, 15)
            wait_until(lambda enough=enough: len(recorded(folder)) >= enough, process=process)
            process.send_signal(signal.SIGKILL)
            process.wait()
            wait_until(lambda: server.at_once == 0)
            answered, asked = recorded(folder), asked_of(server, words)
            assert all(asked[key] >= 1 for key in answered)
            # What was on record at the last kill has not been asked again since.
            assert all(asked[key] == count for key, count in before.items())
            before = {key: asked[key] for key in answered}
        last = start(command(folder))
        _, said = last.communicate()
        assert last.returncode == 0, said
        assert f"{len(before)} of {QUESTIONS} answers are in" in said
        asked = asked_of(server, words)
        assert all(asked[key] == count for key, count in before.items())
        # Asked again is only what was on its way at a kill.
        assert sum(asked.values()) <= QUESTIONS + KILLS * CONCURRENCY
        assert min(asked.values()) >= 1
    assert [one.key for one in made(folder)] == list(words)
    assert {one.status for one in made(folder)} == {"ok"}
    assert all(one.answer == f"answer to {prompt_of(words[one.key])}" for one in made(folder))
    assert not [file for file in folder.rglob("*") if file.is_file() and b"sk-secret" in file.read_bytes()]


def prompt_of(question: str) -> str:
    """What prompt ``q`` makes of it."""
    general = "You are a helpful assistant. You can answer the following questions based on your general knowledge."
    return f"{general} Question: {question}"


def test_told_to_stop_it_finishes_what_is_on_its_way_and_asks_nothing_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    with FaultServer(delay_s=0.03) as server:
        folder = remote_cell(tmp_path / "cell", server)
        words, known = words_of(folder), 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            process = start(command(folder))
            wait_until(lambda known=known: len(recorded(folder)) > known + 20, process=process)
            process.send_signal(number)
            _, said = process.communicate()
            known = len(recorded(folder))
            assert process.returncode == 1
            assert f"stopped by {number.name}; {known} answers are kept" in said and "Traceback" not in said
            assert set(asked_of(server, words).values()) <= {0, 1}
            assert sum(asked_of(server, words).values()) == known
        assert run_cell.main(command(folder)) == 0
        assert set(asked_of(server, words).values()) == {1}
    bill = [json.loads(line) for line in (folder / "spent.jsonl").read_text(encoding="utf-8").splitlines()]
    spent = sum(line["dollars"] for line in bill if line["state"] == "spent")
    assert spent == pytest.approx(sum(one.dollars for one in made(folder)))
    assert spent == pytest.approx(QUESTIONS * (100 * 2.5 + 10 * 10) / 1e6), "100 tokens in, 10 out, at GPT-4o's price"


def test_a_server_that_is_not_there_leaves_no_cell_that_looks_done(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    with FaultServer() as server:
        folder = remote_cell(tmp_path / "cell", server)
    lines = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()[:6]
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    quick_retries(folder)
    assert run_cell.main(command(folder)) == 1
    assert "far: every question failed: error:connection: " in capsys.readouterr().err
    assert not (folder / "out").exists()


def quick_retries(folder: Path) -> None:
    limits = yaml.safe_load((folder / "config/remote.yaml").read_text(encoding="utf-8"))
    limits |= {"retries": 8, "first_wait_s": 0.001, "longest_wait_s": 0.01, "give_up_after": 1000}
    (folder / "config/remote.yaml").write_text(yaml.safe_dump(limits), encoding="utf-8")


def test_killed_and_stopped_while_frames_are_decoded_it_asks_nothing_twice(tmp_path, monkeypatch):
    """With frames on their way from decoding processes into requests."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    clip = clips.write(tmp_path / "clip.mp4", options=clips.H264_B)
    with FaultServer(delay_s=0.02) as server:
        folder = remote_cell(tmp_path / "cell", server)
        videos = [one.model_copy(update={"path": str(clip)}) for one in jsonl.read(folder / "videos.jsonl", Video)]
        jsonl.write(folder / "videos.jsonl", videos)
        times = probe(clip).times
        ids = [one.id for one in videos]
        jsonl.write(folder / "frame_times.jsonl", [times.model_copy(update={"id": name}) for name in ids])
        words, known = words_of(folder), 0
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            process = start(command(folder, "v_q"))
            wait_until(lambda known=known: len(recorded(folder)) > known + 9, process=process)
            process.send_signal(number)
            _, said = process.communicate()
            wait_until(lambda: server.at_once == 0)
            assert process.returncode == (1 if number == signal.SIGTERM else -number), said
            before = {key: asked_of(server, words)[key] for key in recorded(folder)}
            known = len(before)
        assert run_cell.main(command(folder, "v_q")) == 0
        asked = asked_of(server, words)
        assert all(asked[key] == count for key, count in before.items())
        assert sum(asked.values()) <= QUESTIONS + 2 * CONCURRENCY, "asked again: what was on its way at a SIGKILL"
        shown = [part for part in server.bodies[0]["messages"][-1]["content"] if part["type"] == "image_url"]
        assert len(shown) == 12
    assert {one.status for one in made(folder)} == {"ok"} and len(made(folder)) == QUESTIONS
    assert {(one.height, one.width, len(one.times), one.times_told) for one in made(folder)} == {(96, 160, 12, "each")}


def test_whatever_a_server_does_every_question_has_a_status_and_the_next_run_asks_only_the_failed(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    good_after = ["429 retry-after-ms=3", "429", "500", "cut", "malformed", "empty_choices", "503 retry-after-ms=2"]
    script = {
        r"sign 00\d": [*good_after, "ok"],
        r"sign 01\d": ["429"],
        r"sign 02\d": ["500"],
        r"sign 03\d": ["filter"],
        r"sign 04\d": ["empty_choices"],
        r"sign 05\d": ["cut"],
        r"sign 06[01]": ["silence"],
        r"sign 07\d": ["malformed"],
        r"sign 08\d": ["refusal"],
        r"sign 09\d": ["length"],
        r"sign 10\d": ["too_long"],
        r"sign 11[01]": ["drip"],
    }
    counts = {
        "ok": 107,
        "refused": 20,
        "truncated": 10,
        "error:rate_limit": 10,
        "error:server": 10,
        "error:reply": 20,
        "error:connection": 10,
        "error:timeout": 4,
        "error:too_long": 10,
    }
    with FaultServer(scripted(script)) as server:
        folder = remote_cell(tmp_path / "cell", server, timeout_s=0.5, concurrency=16)
        quick_retries(folder)
        assert run_cell.main(command(folder)) == 0
        found = made(folder)
        tally = {status: sum(one.status == status for one in found) for status in {one.status for one in found}}
        assert tally == counts and sum(tally.values()) == QUESTIONS == len(found)
        assert all(one.detail for one in found if one.status.startswith("error:"))
        said = capsys.readouterr().err
        assert "try the 54 errors of decoding or the model again" in said
        asked = asked_of(server, words_of(folder))
        server.steps = scripted({})
        assert run_cell.main(command(folder)) == 0
        again = {key for key, count in asked_of(server, words_of(folder)).items() if count != asked[key]}
    assert again == {one.key for one in found if one.status.startswith("error:")}
    assert {one.status for one in made(folder)} == {"ok", "refused", "truncated"}
    assert len(made(folder)) == QUESTIONS
