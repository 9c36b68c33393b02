"""Frames for the questions, decoded ahead of the model: questions of one video share one decode.

Frames are large, so tasks are grouped until a group's frames fill ``MOST_PIXELS``, and only a few groups are at work or
waiting at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.infer import text_crops
from scripts.infer.cell import Cell, Task
from scripts.lib.records import FrameTimes
from scripts.lib.video import Image, read_batch
from scripts.lib.workers import Outcome, Run, run_all

MOST_PIXELS = 64_000_000
"""Of a group's frames after resizing: 200 MB. A question that shows more is a group of its own."""
MOST_PIXELS_AHEAD = 4 * MOST_PIXELS
"""Of the groups that are being decoded or wait to be shown."""


@dataclass(frozen=True)
class Decode:
    """What one child process does at a time: some frames of one video, as the model will see them."""

    video: str
    path: Path
    frame_times: FrameTimes
    frames: list[int]
    """Rising."""
    resolution: dict[str, Any]
    crops: Path | None
    """Enlarged text to put over the frames, by build_text_crops."""


def decode(job: Decode) -> list[Image]:
    """The frames of a job (height, width, 3), resized, with enlarged text where the resolution asks for it.

    Raises:
        DataError: as ``scripts.lib.video.read_frames``; a frame whose text was not cut.
    """
    images = read_batch((job.path, job.frame_times, job.frames, job.resolution))
    if job.crops is None:
        return images
    crops, scale = text_crops.open_crops(job.crops), job.resolution["scene_text"]["scale"]
    return [
        text_crops.paste(image, crops.of(job.video, frame), scale)
        for image, frame in zip(images, job.frames, strict=True)
    ]


def job_of(cell: Cell, tasks: Sequence[Task]) -> Decode:
    """The frames that some questions about one video need between them."""
    first = tasks[0]
    frames = sorted({frame for task in tasks for frame in task.plan.frames})
    return Decode(first.video.id, Path(first.video.path), first.frame_times, frames, cell.resolution, cell.crops)


def groups(cell: Cell, tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks of one video each, in the videos' order; none above ``MOST_PIXELS`` but single tasks.

    Within a video by the last frame, so that neighbours share most frames.
    """
    by_video: dict[str, list[Task]] = {}
    for task in tasks:
        by_video.setdefault(task.video.id, []).append(task)
    found: list[list[Task]] = []
    for together in by_video.values():
        size = pixels(cell.resolution, together[0].video.height, together[0].video.width)
        union: set[int] = set()
        for task in sorted(together, key=lambda one: (max(one.plan.frames), one.question.key)):
            larger = union.union(task.plan.frames)
            if union and len(larger) * size <= MOST_PIXELS:
                found[-1].append(task)
                union = larger
            else:
                found.append([task])
                union = set(task.plan.frames)
    return found


def pixels(resolution: dict[str, Any], height: int, width: int) -> int:
    """Pixels of one frame after resizing, roughly."""
    side = resolution.get("pixels")
    if side is None:
        return height * width
    if resolution["kind"] == "square":
        return int(side) ** 2
    return int(height * width * min(1.0, side / max(height, width)) ** 2)


class Frames:
    """Tasks with their frames, video by video; those of a blind prompt or a model that reads text get none.

    What can't be decoded is the error of the questions that show it, not of others about the same video; where a video
    takes longer than ``timeout_s``, which is for a group, of all questions of that group.
    """

    def __init__(
        self,
        cell: Cell,
        tasks: Sequence[Task],
        workers: int,
        timeout_s: float,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.cell, self.tasks, self.timeout_s, self.stopping = cell, tasks, timeout_s, stopping
        self.closed = False
        self.groups = groups(cell, tasks) if cell.shows_frames else []
        jobs = [job_of(cell, group) for group in self.groups]
        largest = max(map(pixels_of, jobs, self.groups), default=1)
        # At least one group more than is being decoded would wait, if its frames did not fill the memory.
        ahead = max(2, min(workers + 2, MOST_PIXELS_AHEAD // largest))
        self.run = run_all(decode, jobs, min(workers, ahead), timeout_s, ahead=ahead)
        self.alone: Run[Decode, list[Image]] | None = None
        """Questions one by one, of a group that could not be decoded together."""

    def __iter__(self) -> Iterator[Outcome[Task, list[Image]]]:
        if not self.cell.shows_frames:
            yield from (Outcome(task, []) for task in self.tasks)
            return
        for outcome, group in zip(self.run, self.groups, strict=False):  # fewer where it was closed
            if outcome.value is not None or len(group) == 1 or outcome.timed_out:
                yield from _shared(group, outcome)
            elif not self.closed and not self.stopping():  # a signal ends the decoding processes as well
                yield from self._one_by_one(group)

    def _one_by_one(self, group: list[Task]) -> Iterator[Outcome[Task, list[Image]]]:
        jobs = [job_of(self.cell, [task]) for task in group]
        self.alone = run_all(decode, jobs, 1, self.timeout_s, ahead=1)
        if self.closed:
            self.alone.close()
        for outcome, task in zip(self.alone, group, strict=False):
            yield from _shared([task], outcome)
        self.alone.close()

    def close(self) -> None:
        """End at once, from any thread."""
        self.closed = True
        for run in (self.run, self.alone):
            if run is not None:
                run.close()


def pixels_of(job: Decode, group: Sequence[Task]) -> int:
    """Of all frames of a group, roughly."""
    video = group[0].video
    return len(job.frames) * pixels(job.resolution, video.height, video.width)


def _shared(group: list[Task], outcome: Outcome[Decode, list[Image]]) -> Iterator[Outcome[Task, list[Image]]]:
    """Each task of a group with its own frames out of the group's."""
    if outcome.value is None:
        yield from (Outcome(task, None, outcome.error, outcome.timed_out) for task in group)
        return
    images = dict(zip(outcome.item.frames, outcome.value, strict=True))
    for task in group:
        yield Outcome(task, [images[frame] for frame in task.plan.frames])
