"""The engine of APIs against a server that is nobody's stand-in: ``transformers serve`` with the tiny Qwen3-VL."""

import json
import signal

import pytest
import yaml

from scripts.infer import run_cell
from scripts.lib import jsonl
from scripts.lib.probe import probe
from scripts.lib.records import Prediction, Video
from scripts.models import vllm_server
from scripts.train import build_tiny_model
from tests.conftest import wait_until
from tests.unit import clips
from tests.unit.cell_sample import arguments, make_inputs, start
from tests.unit.fault_server import FaultServer, scripted
from tests.unit.test_models_server import MODEL
from tests.unit.test_resume_remote import asked_of, command, recorded, remote_cell, words_of


@pytest.mark.slow
def test_a_cell_is_answered_by_a_real_server_through_the_engine_of_apis(tmp_path, monkeypatch):
    build_tiny_model.build(0, tmp_path / "tiny")
    folder = make_inputs(tmp_path / "cell", videos=2)
    clip = clips.write(tmp_path / "clip.mp4", options=clips.H264_B)
    videos = [one.model_copy(update={"path": str(clip)}) for one in jsonl.read(folder / "videos.jsonl", Video)]
    jsonl.write(folder / "videos.jsonl", videos)
    times = probe(clip).times
    jsonl.write(folder / "frame_times.jsonl", [times.model_copy(update={"id": one.id}) for one in videos])
    server = vllm_server.start(MODEL, tmp_path / "tiny", 0)
    try:
        monkeypatch.setenv("KEY_OF_THE_TEST", server.key)
        model = yaml.safe_load((folder / "config/models/gpt_4o.yaml").read_text(encoding="utf-8"))
        model["remote"] |= {"url": server.url, "id": server.model_id, "key_env": "KEY_OF_THE_TEST"}
        model["client"] |= {"concurrency": 2, "image_format": "png"}
        model["client"].pop("image_detail")
        model["generation"] = {"max_new_tokens": 16, "thinking": False, "temperature": 0}
        (folder / "config/models/far.yaml").write_text(yaml.safe_dump(model), encoding="utf-8")
        limits = yaml.safe_load((folder / "config/remote.yaml").read_text(encoding="utf-8"))
        limits["budget"] = {"dollars": None, "tokens": 100_000}
        (folder / "config/remote.yaml").write_text(yaml.safe_dump(limits), encoding="utf-8")
        files = ["--remote", f"{folder}/config/remote.yaml", "--prices", f"{folder}/config/prices.yaml"]
        assert run_cell.main(arguments(folder, "far", "v_q", *files, "--spent", f"{folder}/spent.jsonl")) == 0
    finally:
        server.stop()
    made = list(jsonl.read(folder / "out/predictions.jsonl", Prediction))
    assert len(made) == 6
    for one in made:
        assert one.status in ("ok", "truncated", "unanswerable", "error:reply")
        assert (one.height, one.width, len(one.times), one.times_told) == (96, 160, 12, "each")
        assert one.tokens_in > 12 * 15, "each frame of 96 x 160 is 15 visual tokens"
        assert one.model_revision == server.model_id
    spent = [json.loads(line) for line in (folder / "spent.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum(line["tokens"] for line in spent if line["state"] == "spent") >= sum(one.tokens_in for one in made)


@pytest.mark.parametrize("step", ["429 retry-after=100", "429", "500"])
def test_told_to_stop_while_a_server_lets_wait_it_stops(tmp_path, monkeypatch, step):
    """Minutes of repeats are not waited for: these questions are asked another time."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    with FaultServer(scripted({r"sign 0[5-9]\d": [step]})) as server:
        folder = remote_cell(tmp_path / "cell", server)
        process = start(command(folder))
        wait_until(lambda: len(recorded(folder)) >= 50 and server.asked.total() > 50, process=process)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1 and "stopped by SIGTERM" in said and "Traceback" not in said
        known = recorded(folder)
        server.steps = scripted({})
        asked = asked_of(server, words_of(folder))
        assert run_cell.main(command(folder)) == 0
        assert all(asked_of(server, words_of(folder))[key] == asked[key] for key in known)
    assert {one.status for one in jsonl.read(folder / "out/predictions.jsonl", Prediction)} == {"ok"}
