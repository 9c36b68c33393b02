"""A folder that may not be written: one line that names the file, and nothing half-written."""

import os
import tempfile
from pathlib import Path

import pytest

from scripts.judge import score_cell
from scripts.lib import jsonl
from scripts.lib.records import Prediction, Question
from tests.conftest import ROOT

NOBODY = 65534


@pytest.fixture
def locked():
    """A folder that this process may read and not write, also where the tests run as root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield folder
        folder.chmod(0o755)


def refused(step, folder, arguments):
    """Run a step with its outputs in ``folder`` as somebody who may not write there; return its exit status."""
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        return step(arguments)
    finally:
        if root:
            os.seteuid(0)


def test_a_step_that_may_not_write_says_so_in_one_line(locked, capsys):
    fields = {"key": "d/v/ä", "video": "v", "question_id": "ä", "question": "?", "answers": ["é"], "category": "now"}
    jsonl.write(locked / "q.jsonl", [Question(**fields)])
    jsonl.write(locked / "p.jsonl", [Prediction(key="d/v/ä", status="ok", answer="é")])
    before = sorted(locked.iterdir())
    arguments = ["--questions", str(locked / "q.jsonl"), "--predictions", str(locked / "p.jsonl")]
    arguments += ["--prompt", str(ROOT / "config" / "prompts" / "v_q.yaml"), "--draws", "100"]
    arguments += ["--scores", str(locked / "scores.json"), "--cases", str(locked / "cases.jsonl")]
    assert score_cell.main(arguments) == 0
    for made in set(locked.iterdir()) - set(before):
        made.unlink()
    assert refused(score_cell.main, locked, arguments) == 1
    error = capsys.readouterr().err
    assert f"error: {locked / 'cases.jsonl'}: cannot be written (Permission denied); check the folder" in error
    assert "Traceback" not in error
    assert sorted(locked.iterdir()) == before
