"""Which frames a question is given, whoever else asks about the same video."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.infer import answer, frames
from scripts.infer.cell import Cell, Task
from scripts.lib import workers
from scripts.lib.probe import probe
from scripts.lib.records import FramePlan, Question, Video
from scripts.lib.stopping import Stopping
from tests.conftest import ROOT
from tests.unit import clips
from tests.unit.cell_sample import video_of

CELL = Cell(
    {"needs": ["frames"], "name": "m", "adapter": "transformers"},
    {"frames": "sampled", "answers": "open", "name": "p"},
    {"kind": "native", "name": "native"},
    None,
    0,
)


def video(name: str, path: Path = Path("none.mp4"), size: tuple[int, int] = (1280, 720)) -> Video:
    made = video_of(name)
    return made.model_copy(update={"path": str(path), "n_frames": 75, "width": size[0], "height": size[1]})


def task(number: int, shown: Video, indices: list[int], times=None) -> Task:
    key = f"d/{shown.id}/{number}"
    question = Question(key=key, video=shown.id, question_id=str(number), question="q", answers=["a"], category="c")
    plan = FramePlan(key=key, video=shown.id, status="ok", frames=indices, times=[float(i) for i in indices])
    return Task(key, question, plan, shown, times, "text", None)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sets(st.integers(0, 70), min_size=1, max_size=40)), min_size=1, max_size=25
    )
)
def test_groups_hold_every_task_once_one_video_each_and_stay_small(asked):
    tasks = [task(number, video(name), sorted(wanted)) for number, (name, wanted) in enumerate(asked)]
    made = frames.groups(CELL, tasks)
    assert sorted(one.key for group in made for one in group) == sorted(one.key for one in tasks)
    for group in made:
        assert len({one.video.id for one in group}) == 1
        union = {frame for one in group for frame in one.plan.frames}
        assert len(group) == 1 or len(union) * 1280 * 720 <= frames.MOST_PIXELS


def test_questions_that_fit_share_one_decode():
    shown = video("a", size=(160, 96))
    assert len(frames.groups(CELL, [task(number, shown, [number, number + 1]) for number in range(50)])) == 1


@given(st.integers(16, 2000), st.integers(16, 2000), st.integers(1, 600))
def test_the_size_of_a_resized_frame_is_no_more_than_the_source(height, width, half):
    for kind in ("long_side", "square"):
        found = frames.pixels({"kind": kind, "pixels": 2 * half}, height, width)
        assert 0 <= found <= max(height * width, (2 * half) ** 2)
    assert frames.pixels({"kind": "native"}, height, width) == height * width


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = clips.write_kind(tmp_path_factory.mktemp("clip"), "h264")
    return path, probe(path)


def test_every_question_gets_its_own_frames_out_of_the_shared_ones(clip):
    path, found = clip
    shown = video("a", path, (clips.WIDTH, clips.HEIGHT))
    asked = [[0, 30, 74], [5], [30, 31], list(range(0, 75, 7))]
    tasks = [task(number, shown, indices, found.times) for number, indices in enumerate(asked)]
    outcomes = {one.item.key: one.value for one in frames.Frames(CELL, tasks, 2, 60)}
    for one in tasks:
        assert [clips.code(image) for image in outcomes[one.key]] == one.plan.frames


def test_a_broken_video_costs_only_the_questions_about_its_broken_part(clip, tmp_path):
    path, found = clip
    broken = clips.cut_short(clips.write(tmp_path / "whole.mkv", options=clips.H264_B), tmp_path / "cut.mkv", 0.5)
    whole, cut = video("a", path, (160, 96)), video("b", broken, (160, 96))
    times = found.times
    tasks = [task(0, cut, [0], times), task(1, cut, [74], times), task(2, whole, [74], times)]
    outcomes = {one.item.key: one for one in frames.Frames(CELL, tasks, 1, 60)}
    assert [clips.code(image) for image in outcomes["d/b/0"].value] == [0]
    assert outcomes["d/b/1"].value is None and "cut.mkv" in outcomes["d/b/1"].error
    assert [clips.code(image) for image in outcomes["d/a/2"].value] == [74]


def slow(seconds: float) -> float:
    threading.Event().wait(seconds)
    return seconds


def test_work_is_ended_from_another_thread_at_once():
    """Without that, a process that has failed would sit there until its last decode is done."""
    run = workers.run_all(slow, [0.0, 3600.0, 3600.0], 1, ahead=3)
    assert next(run).value == 0.0
    waiting = threading.Thread(target=lambda: list(run))
    waiting.start()
    run.close()
    waiting.join(60)
    assert not waiting.is_alive()
    assert list(run) == []


def test_what_nobody_asks_for_any_more_is_not_worked(tmp_path):
    """A step that fails in the middle ends without doing the rest of its work at exit."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom scripts.lib.workers import run_all\n"
        "from tests.unit.test_infer_frames import touch_slowly\n"
        "if __name__ == '__main__':\n"
        "    for outcome in run_all(touch_slowly, [Path(sys.argv[1]) / str(n) for n in range(50)], 1):\n"
        "        raise SystemExit(3)\n"
    )
    (tmp_path / "run.py").write_text(code, encoding="utf-8")
    (tmp_path / "made").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, tmp_path / "run.py", tmp_path / "made"], timeout=120, env=environment)
    assert run.returncode == 3
    assert len(list((tmp_path / "made").iterdir())) < 25


def touch_slowly(path: Path) -> None:
    slow(0.2)
    path.touch()


def test_groups_that_fail_leave_no_process_behind(clip, tmp_path):
    _, found = clip
    broken = clips.cut_short(clips.write(tmp_path / "whole.mkv", options=clips.H264_B), tmp_path / "cut.mkv", 0.5)
    shown = [video(f"v{number}", broken, (160, 96)) for number in range(4)]
    tasks = [task(2 * at + part, one, [74 * part], found.times) for at, one in enumerate(shown) for part in (0, 1)]
    made = frames.Frames(CELL, tasks, 1, 60)
    outcomes = list(made)
    assert [outcome.value is None for outcome in outcomes] == [False, True] * 4
    assert not multiprocessing.active_children()


def test_a_process_whose_model_cannot_be_loaded_ends_though_frames_are_being_decoded(tmp_path):
    code = (
        "import threading\nfrom pathlib import Path\nfrom scripts.infer import answer, frames\n"
        "from scripts.lib.stopping import Stopping\nfrom tests.unit import test_infer_frames as here\n"
        "frames.decode = here.slow_decode\n"
        "if __name__ == '__main__':\n"
        "    tasks = [here.task(n, here.video(str(n)), [0]) for n in range(9)]\n"
        "    source = answer.Source(here.CELL, tasks, 2, 3600, Stopping())\n"
        "    source.close()\n"
        "    print('closed')\n"
    )
    (tmp_path / "run.py").write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, tmp_path / "run.py"], timeout=120, env=environment, capture_output=True)
    assert (run.returncode, run.stdout) == (0, b"closed\n"), run.stderr


def slow_decode(job: frames.Decode) -> list:
    return [slow(3600)]


def test_frames_that_were_shown_are_let_go(clip):
    path, found = clip
    tasks = [task(number, video(f"v{number}", path, (160, 96)), [number], found.times) for number in range(4)]
    alive = []
    for request in answer.Source(CELL, tasks, 1, 60, Stopping()):
        assert not any(reference() is not None for reference in alive[:-1]), "frames of questions long answered"
        alive.append(weakref.ref(request.frames[0]))
        del request
        gc.collect()
    assert len(alive) == 4


def test_many_large_frames_are_not_decoded_far_ahead():
    small = [task(number, video(f"v{number}"), [0]) for number in range(9)]
    large = [task(number, video(f"v{number}", size=(1920, 1080)), list(range(60))) for number in range(9)]
    assert frames.Frames(CELL, small, 4, 60).run.ahead == 6
    assert frames.Frames(CELL, large, 4, 60).run.ahead == 2


def test_a_request_is_not_given_out_after_the_signal(clip):
    path, found = clip
    stopping = Stopping()
    source = answer.Source(CELL, [task(0, video("a", path), [0], found.times)], 1, 60, stopping)
    source.first.result()
    stopping.signal_name = "SIGTERM"
    assert list(source) == []


def test_frames_are_shared_not_copied(clip):
    path, found = clip
    shown = video("a", path, (160, 96))
    pair = [task(number, shown, [3, 9], found.times) for number in range(2)]
    first, second = (one.value for one in frames.Frames(CELL, pair, 1, 60))
    assert all(np.shares_memory(a, b) for a, b in zip(first, second, strict=True))


def test_a_signal_sets_the_flag_and_a_second_one_ends_the_process():
    code = (
        "import signal, sys\nfrom scripts.lib.stopping import Stopping\n"
        "with Stopping() as stopping:\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print(bool(stopping), stopping.signal_name, flush=True)\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print('still here')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.stdout == "True SIGTERM\n"
    assert run.returncode == -signal.SIGTERM


def test_outside_the_main_thread_and_afterwards_signals_are_as_they_were():
    before = signal.getsignal(signal.SIGTERM)
    with Stopping() as stopping:
        assert not stopping and signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    seen = []
    thread = threading.Thread(target=lambda: seen.append(Stopping().__enter__()))
    thread.start()
    thread.join()
    assert len(seen) == 1 and signal.getsignal(signal.SIGTERM) == before
