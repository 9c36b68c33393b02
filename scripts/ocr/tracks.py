"""Lines of text read on single frames, joined into texts followed over time (design section 6, CoT).

Two rules, chosen in config/ocr.yaml. ``paper_literal`` is the paper's: two boxes are one instance when their texts are
similar beyond delta and their boxes overlap beyond theta; it merges only text that stands still. ``motion_aware`` also
follows text that moves. For each box of a frame, against the tracks seen within the last ``gap_s`` (or on the frame
before, where frames are further apart):

    stitch  a line that runs through the picture: the new reading goes on where the track's text ends (or begins)
    grow    the track's text and more, where it stood (typewriter)
    same    the same text, in the same row, column or place, or around the same centre (zoom)
    sub     a part of the track's text, in its row
    else    a new track

Afterwards pieces that another track contains are dropped, and so are texts seen less often than ``min_sightings``. Less
is asked where frames are so far apart that a text shown for ``gap_s`` is not met that often, and one sighting where
there are fewer than three frames. Tracks are in reading order: by first appearance, and within a vertical scroll by
their place on the sheet.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from scripts.lib.records import Box, OcrBox, OcrFrame, Track
from scripts.ocr import matching, scroll
from scripts.ocr.matching import columns_overlap, iou, rows_overlap

VERSION = 1
"""Raise it when a code change, here, in ``ocr.matching`` or in ``ocr.scroll``, can change the tracks or their order. It
belongs to the cache key of whatever answers with tracks."""
CUT_WEIGHT = 0.1
"""Vote of a reading that touches the frame's side, where part of it may be hidden, against 1 of a whole one."""


@dataclass(frozen=True)
class Reading:
    """One box of one frame, prepared for matching."""

    text: str
    core: list[str]
    """The units without those that the left or right side of the frame may have cut."""
    box: Box
    t: float
    size: tuple[int, int]
    weight: float
    cut_row: bool
    """Whether it touches the top or bottom of the frame."""

    @property
    def at_side(self) -> bool:
        """Whether the line may go on outside the frame: less than its height lies between it and the left or right."""
        height = self.box[3] - self.box[1]
        return self.box[0] < height or self.box[2] > self.size[0] - height


@dataclass
class Open:
    """A track that may still go on."""

    last: Reading
    core: list[str]
    votes: dict[str, float] = field(default_factory=dict)
    boxes: list[tuple[float, Box]] = field(default_factory=list)
    direction: int = 0
    """1 once text was appended, -1 once text was put in front."""
    whole: int = 0
    """Sightings of which the frame did not cut everything: not its top or bottom, and not the side its only word."""

    @property
    def text(self) -> str:
        if self.direction:
            return "".join(self.core).strip()
        return max(self.votes, key=self.votes.__getitem__)

    def vote(self, reading: Reading) -> None:
        """Count a reading of the whole text."""
        self.votes[reading.text] = self.votes.get(reading.text, 0) + reading.weight

    @property
    def sightings(self) -> int:
        return len(self.boxes)

    def see(self, reading: Reading, part: bool) -> None:
        """Note where it is now; several boxes of one frame are one sighting.

        Args:
            part: only a piece of the text was found, which does not make the place of standing text smaller.
        """
        if self.boxes and self.boxes[-1][0] == reading.t:
            box = self.boxes[-1][1]
            self.boxes[-1] = (reading.t, _around(box, reading.box))
        else:
            self.boxes.append((reading.t, reading.box))
            self.whole += bool(reading.core) and not reading.cut_row
        if self.direction or not part:
            self.last = reading


def merge(frames: list[OcrFrame], settings: dict[str, Any]) -> list[Track]:
    """Tracks of one video in reading order.

    Args:
        frames: of one video, in any order; frames without text matter (they say that a text was gone).
        settings: the ``tracks`` part of config/ocr.yaml.
    """
    ordered = sorted(frames, key=lambda frame: frame.t)
    rule = settings["rule"]
    if rule == "paper_literal":
        return _paper_literal(ordered, **settings[rule])
    return _motion_aware(ordered, settings[rule])


def reading(tracks: list[Track]) -> str:
    """The texts of the tracks as one text, in their order."""
    whole = ""
    for track in tracks:
        whole += (matching.joint(whole, track.text) if whole else "") + track.text
    return whole


def _paper_literal(frames: list[OcrFrame], delta: float, theta: float) -> list[Track]:
    found: list[Open] = []
    for frame in frames:
        lines = [line for line in frame.boxes if line.text.strip()]
        for index in matching.reading_order([line.box for line in lines]):
            now = _reading(frame, lines[index], edge=0)
            for track in found:
                if matching.similarity(now.text, track.text) > delta and iou(now.box, track.last.box) > theta:
                    break
            else:
                track = Open(now, [])
                found.append(track)
            track.votes[now.text] = max(track.votes.get(now.text, 0), lines[index].confidence)
            track.see(now, part=False)
    return [_record(track, frames) for track in sorted(found, key=_first_seen)]


def _first_seen(track: Open) -> tuple[float, float, float]:
    t, box = track.boxes[0]
    return t, box[1], box[0]


def _motion_aware(frames: list[OcrFrame], rules: dict[str, Any]) -> list[Track]:
    found: list[Open] = []
    before = None
    for frame in frames:
        gap = max(rules["gap_s"], 0 if before is None else frame.t - before)
        live = [track for track in found if frame.t - track.boxes[-1][0] <= gap + 1e-6]
        found += _follow(frame, live, rules)
        before = frame.t
    if not frames:
        return []
    needed = needed_sightings([frame.t for frame in frames], rules)
    kept = [
        _record(track, frames)
        for track in _absorb(found, rules)
        if track.sightings >= needed and not (needed > 1 and _is_fragment(track))
    ]
    width, height = frames[0].width, frames[0].height
    return scroll.in_reading_order(kept, height, rules["edge"] * width, rules["gap_s"])


def needed_sightings(times: list[float], rules: dict[str, Any]) -> int:
    """How often a text must have been seen: ``min_sightings``, or less where a text shown for ``gap_s`` cannot be, and
    once where there are fewer than three frames."""
    if len(times) < 3:
        return 1
    step = median(after - before for before, after in pairwise(times))
    expected = int(rules["gap_s"] / max(step, 1e-9) + 1e-6)
    return max(1, min(int(rules["min_sightings"]), expected))


def _follow(frame: OcrFrame, live: list[Open], rules: dict[str, Any]) -> list[Open]:
    """Give each line of a frame to the track it belongs to; return the tracks that it opens."""
    opened: list[Open] = []
    taken: list[Open] = []
    for now in _readings(frame, rules):
        free = [track for track in live if track not in taken]
        track = _stitch(now, free, rules) or _grow(now, free, rules) or _same(now, free, rules)
        whole = track is not None
        track = track or _sub(now, live, rules)
        if track is None:
            track = Open(now, now.core, {now.text: now.weight})
            opened.append(track)
            whole = True
        track.see(now, part=not whole)
        taken.append(track)
    return opened


def _readings(frame: OcrFrame, rules: dict[str, Any]) -> list[Reading]:
    """The frame's trusted lines in reading order."""
    lines = [box for box in frame.boxes if box.confidence >= rules["min_confidence"] and box.text.strip()]
    return [
        _reading(frame, lines[index], rules["edge"]) for index in matching.reading_order([line.box for line in lines])
    ]


def _reading(frame: OcrFrame, line: OcrBox, edge: float) -> Reading:
    margin = edge * frame.width
    left, top, right, bottom = line.box
    cut_left, cut_right = left <= margin, right >= frame.width - margin
    cut_row = top <= margin or bottom >= frame.height - margin
    core = matching.units(line.text.strip())
    core = core[cut_left : len(core) - cut_right]
    weight = line.confidence * (CUT_WEIGHT if cut_left or cut_right or cut_row else 1.0)
    return Reading(line.text.strip(), core, line.box, frame.t, (frame.width, frame.height), weight, cut_row)


def _stitch(now: Reading, tracks: list[Open], rules: dict[str, Any]) -> Open | None:
    """Lengthen the track that this reading carries on, if there is one."""
    best: tuple[int, Open, int] | None = None
    for track in tracks:
        if rows_overlap(now.box, track.last.box) <= rules["overlap"] or not (now.at_side or track.last.at_side):
            continue
        after = 0 if track.direction < 0 else matching.seam(track.core, now.core, rules["similar"])
        before = 0 if track.direction > 0 else matching.seam(now.core, track.core, rules["similar"])
        count, direction = (after, 1) if after >= before else (before, -1)
        if count and (best is None or count > best[0]):
            best = count, track, direction
    if best is None:
        return None
    count, track, direction = best
    if count == len(now.core):  # nothing new; only a track known to run is sure to be the one
        return track if track.direction else None
    if direction > 0:
        track.core = _spaced(track.core, now.core[count:])
    else:
        track.core = _spaced(now.core[:-count], track.core)
    track.direction = direction
    return track


def _spaced(first: list[str], second: list[str]) -> list[str]:
    """Units of two texts in a row; the space that a first unit lacks is put in."""
    if not first or not second or second[0][0].isspace():
        return first + second
    return [*first, matching.joint(first[-1], second[0]) + second[0], *second[1:]]


def _grow(now: Reading, tracks: list[Open], rules: dict[str, Any]) -> Open | None:
    """The track whose text this one repeats and goes on from, in the same place; its text becomes this one."""
    for track in tracks:
        last = track.last.box
        wider = (now.box[2] - now.box[0]) - (last[2] - last[0])
        if (
            not track.direction
            and wider > 0.25 * (now.box[3] - now.box[1])  # else it is the same text with a letter misread as two
            and rows_overlap(now.box, last) > rules["overlap"]
            and matching.inside_columns(last, now.box) > 0.9
            and matching.starts_with(now.text, track.text, rules["similar"] - 0.1)
        ):
            track.votes = {now.text: now.weight}
            track.core = now.core
            return track
    return None


def _same(now: Reading, tracks: list[Open], rules: dict[str, Any]) -> Open | None:
    """The track that shows the same text, the nearest of several."""
    fits = [
        track
        for track in tracks
        if matching.similarity(now.text, track.text) > rules["similar"] and _near(now, track, rules)
    ]
    if not fits:
        return None
    track = min(
        fits,
        key=lambda track: (round(1 - matching.similarity(now.text, track.text), 1), _distance(now.box, track.last.box)),
    )
    track.vote(now)
    track.core = track.core or now.core
    return track


def _near(now: Reading, track: Open, rules: dict[str, Any]) -> bool:
    """Whether a text may have moved from the track's place to this one: along its row or column, or by zooming."""
    last, least = track.last.box, rules["overlap"]
    if iou(now.box, last) > 0 or columns_overlap(now.box, last) > least or rows_overlap(now.box, last) > least:
        return True
    (x, y), (last_x, last_y) = matching.centre(now.box), matching.centre(last)
    return abs(x - last_x) < 0.03 * now.size[0] and abs(y - last_y) < 0.17 * now.size[1]


def _distance(a: Box, b: Box) -> float:
    (ax, ay), (bx, by) = matching.centre(a), matching.centre(b)
    return abs(ax - bx) + abs(ay - by)


def _sub(now: Reading, tracks: list[Open], rules: dict[str, Any]) -> Open | None:
    """A track of the same row whose text contains this one: a line leaving the picture, or found in two pieces."""
    for track in tracks:
        in_row = rows_overlap(now.box, track.last.box) > rules["overlap"]
        in_place = track.direction or now.at_side or matching.inside_columns(now.box, track.last.box) > rules["overlap"]
        part = "".join(now.core) or now.text
        if in_row and in_place and matching.contained(part, track.text, rules["similar"]):
            return track
    return None


def _absorb(tracks: list[Open], rules: dict[str, Any]) -> list[Open]:
    """Drop tracks that are a piece of another one, in its row at about the same time."""
    kept: list[Open] = []
    for track in sorted(tracks, key=lambda track: -len(track.text)):
        if not any(_is_piece(track, other, rules) for other in kept):
            kept.append(track)
    return kept


def _is_piece(track: Open, other: Open, rules: dict[str, Any]) -> bool:
    (start, first), (end, last) = track.boxes[0], track.boxes[-1]
    if start > other.boxes[-1][0] + rules["gap_s"] or end < other.boxes[0][0] - rules["gap_s"]:
        return False
    after = next((box for t, box in other.boxes if t > end), other.boxes[-1][1])
    pairs = [(first, _at(other, start)), (last, _at(other, end)), (last, after)]
    in_row = all(rows_overlap(mine, its) > rules["overlap"] for mine, its in pairs)  # no line that scrolls into its row
    in_place = any(matching.inside_columns(mine, its) > rules["overlap"] for mine, its in pairs)
    return (
        in_row and (in_place or bool(other.direction)) and matching.contained(track.text, other.text, rules["similar"])
    )


def _at(track: Open, t: float) -> Box:
    """Where the track was at the time nearest to ``t``."""
    return min(track.boxes, key=lambda seen: abs(seen[0] - t))[1]


def _is_fragment(track: Open) -> bool:
    """Whether only parts of it were ever seen, sliding over the border of the frame."""
    if track.whole:
        return False
    heights = [box[3] - box[1] for _, box in track.boxes]
    widths = [box[2] - box[0] for _, box in track.boxes]
    return max(heights) > 1.15 * min(heights) or max(widths) > 1.15 * min(widths)


def _around(a: Box, b: Box) -> Box:
    return min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])


def _record(track: Open, frames: list[OcrFrame]) -> Track:
    return Track(
        video=frames[0].video,
        text=track.text,
        t_start=track.boxes[0][0],
        t_end=track.boxes[-1][0],
        box=track.boxes[0][1],
        boxes=track.boxes,
        sightings=track.sightings,
    )
