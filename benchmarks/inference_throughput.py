"""How long a model waits for its frames, and what a question costs beside the same work done one question at a time.

    python -m benchmarks.inference_throughput [--workdir DIR] [--questions 400] [--size 1280x720]

Renders clips of ten seconds (EgoTextVQA's outdoor ones have that length), with seven questions each at different times,
eight frames a question. The model is a stand-in that takes exactly 100 ms a question and no processor, so that what is
measured is ours: decoding ahead in child processes, questions of one video sharing their decode. Compared with it: the
same frames read and the same model called one question after the other.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.sample_frames import BITS, CELL, number
from scripts.infer.answer import Source
from scripts.infer.cell import Cell, Task
from scripts.lib import files, probe, progress, video
from scripts.lib.records import FramePlan, Question, Video
from scripts.lib.stopping import Stopping
from scripts.models.protocol import Answered, Reply, Request
from scripts.samplers.common import Moments
from scripts.samplers.uniform import sample

MODEL_S = 0.1
LOAD_S = 5.0
"""Until the model is there; the tiny one of this repository takes seven seconds, a real one minutes."""
SECONDS, RATE, PER_VIDEO, FRAMES = 10, 30, 7, 8


def render(path: Path, width: int, height: int, seed: int) -> None:
    """Noise that moves, and the frame's number in black and white cells above it."""
    import av

    ground = np.random.default_rng(seed).integers(40, 200, (height // 8 + 1, width // 8 + SECONDS * RATE), np.uint8)
    options = {"preset": "veryfast", "crf": "23", "bf": "3"}
    with files.atomic_path(path) as temporary, av.open(str(temporary), "w") as out:
        stream = out.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.thread_count = 1
        planes = np.full((height * 3 // 2, width), 128, np.uint8)
        for index in range(SECONDS * RATE):
            moved = np.kron(ground[:, index : index + width // 8 + 1], np.ones((8, 8), np.uint8))
            planes[:height] = moved[:height, :width]
            for bit in range(BITS):
                planes[:CELL, bit * CELL : (bit + 1) * CELL] = 235 if index >> bit & 1 else 16
            out.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        out.mux(stream.encode())


def make_tasks(folder: Path, questions: int, width: int, height: int) -> list[Task]:
    """Seven questions a clip; a few clips are rendered and asked about under many names."""
    kinds = []
    for seed in progress.track(range(4), "render", 4, "clips"):
        path = folder / f"{seed}.mp4"
        if not path.is_file():
            render(path, width, height, seed)
        kinds.append((path, probe.probe(path)))
    tasks = []
    for index in range(questions):
        name = f"v{index // PER_VIDEO}"
        path, found = kinds[index // PER_VIDEO % len(kinds)]
        assert found.times is not None
        asked_at = 1.0 + 9.0 * (index % PER_VIDEO) / PER_VIDEO
        chosen = sample(video.frame_times(found.times), Moments(t_question=asked_at, seed=0), n=FRAMES).tolist()
        key = f"d/{name}/{index}"
        question = Question(key=key, video=name, question_id=str(index), question="?", answers=["a"], category="c")
        plan = FramePlan(key=key, video=name, status="ok", frames=chosen, times=[frame / RATE for frame in chosen])
        tasks.append(Task(key, question, plan, as_video(name, path, found), found.times, "?", None))
    return tasks


def as_video(name: str, path: Path, found: probe.Probe) -> Video:
    made = found.model_dump(exclude={"times", "detail"})
    return Video(id=name, dataset="d", path=str(path), sha256="0" * 64, source="rendered", licence="CC0-1.0", **made)


def stand_in(requests: Iterable[Request]) -> Iterator[Answered]:
    """A model that takes 100 ms and looks at one thing: that the frames are the ones asked for."""
    for request in requests:
        shown = [number(frame) for frame in request.frames]
        if shown != [round(seconds * RATE) for seconds in request.times]:
            raise SystemExit(f"wrong frames: {shown} for {request.times}")
        time.sleep(MODEL_S)
        yield request, Reply("ok")


def ahead(cell: Cell, tasks: list[Task], workers: int) -> tuple[float, float]:
    """Seconds in all from when the model is loaded, and waited for frames."""
    source = Source(cell, tasks, workers, 600, Stopping())
    time.sleep(LOAD_S)
    start = time.monotonic()
    for _ in progress.track(stand_in(source), "ahead", len(tasks), "questions"):
        pass
    return time.monotonic() - start, source.waited_s


def one_at_a_time(cell: Cell, tasks: list[Task]) -> float:
    """Seconds for reading a question's frames, then asking it, then the next."""
    start = time.monotonic()
    for task in progress.track(tasks, "one at a time", len(tasks), "questions"):
        shown = video.read_batch((Path(task.video.path), task.frame_times, task.plan.frames, cell.resolution))
        request = Request(task.key, shown, task.plan.times, "", "?", "?", None)
        list(stand_in([request]))
    return time.monotonic() - start


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", type=Path, help="keep the rendered clips here")
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--workers", type=int, default=2, help="processes that decode")
    parser.add_argument("--size", default="1280x720", help="of the clips (at least 832 wide)")
    args = parser.parse_args(argv)
    width, height = map(int, args.size.split("x"))
    model, prompt = {"name": "stand-in", "needs": ["frames"]}, {"name": "p", "frames": "sampled", "answers": "open"}
    cell = Cell(model, prompt, {"kind": "native", "name": "native"}, None, 0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.workdir or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        tasks = make_tasks(folder, args.questions, width, height)
        # Both over the whole list would take long: the slow way's time per question doesn't depend on their number.
        slow = one_at_a_time(cell, tasks[: 10 * PER_VIDEO]) / len(tasks[: 10 * PER_VIDEO])
        total, waited = ahead(cell, tasks, args.workers)
    print(f"time per question: {total / len(tasks):.3f} s ahead, {slow:.3f} s one at a time:", end=" ")
    print(f"{slow / (total / len(tasks)):.2f} times faster; the model itself takes {MODEL_S:.3f} s")
    print(f"the model waits for frames: {waited / total:.1%} of the time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
