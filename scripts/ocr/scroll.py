"""Tracks in reading order, also where a sheet of text scrolls past from its end: then the last line is seen first."""

from bisect import bisect_right
from itertools import pairwise
from statistics import median

from scripts.lib.records import Box, Track
from scripts.ocr import matching

LEAST_SPEED = 0.007
"""Of the frame's height per second: slower is standing still with a trembling box."""


def in_reading_order(tracks: list[Track], height: int, margin: float, gap_s: float) -> list[Track]:
    """Order tracks by first appearance; those that scroll up or down together by their place on the common sheet.

    A text seen once, at the frame's top or bottom while a sheet scrolls, is a line half out of the picture that was
    misread; it is dropped.

    Args:
        height: of the frame in pixels.
        margin: pixels from top or bottom within which a line counts as cut.
        gap_s: two scrolling tracks further apart in time than this belong to different sheets.
    """
    sheets, rest = _sheets(tracks, height, margin, gap_s)
    groups = [_by_place(sheet) for sheet in sheets] + [[track] for track in rest]
    starts: dict[float, list[list[Track]]] = {}
    for group in groups:
        starts.setdefault(min(track.t_start for track in group), []).append(group)
    ordered: list[Track] = []
    for start in sorted(starts):
        together = starts[start]
        first = [min(group, key=lambda track: track.t_start).box for group in together]
        ordered += [track for index in matching.reading_order(first) for track in together[index]]
    return ordered


def speed(track: Track) -> float:
    """Median vertical speed in px/s, downwards positive; 0 for a text seen once or one that zooms or grows."""
    widths = [box[2] - box[0] for _, box in track.boxes]
    some = max(1, len(widths) // 3)
    before, after = median(widths[:some]), median(widths[-some:])
    if len(widths) < 2 or max(before, after) > 1.5 * min(before, after):
        return 0.0
    return median(_step(a, b) / (tb - ta) for (ta, a), (tb, b) in pairwise(track.boxes))


def _step(a: Box, b: Box) -> float:
    """Vertical way between two sightings: of top or bottom, whichever moved more, as the frame may hold the other."""
    return max(b[1] - a[1], b[3] - a[3], key=abs)


def _sheets(tracks: list[Track], height: int, margin: float, gap_s: float) -> tuple[list[list[Track]], list[Track]]:
    """Group the tracks that scroll the same way at about the same time; return the groups and the other tracks."""
    speeds = {id(track): speed(track) for track in tracks}
    sheets: list[list[Track]] = []
    for sign in (1, -1):
        moving = [track for track in tracks if sign * speeds[id(track)] > LEAST_SPEED * height]
        end = float("-inf")
        for track in sorted(moving, key=lambda track: track.t_start):
            if track.t_start > end + gap_s:
                sheets.append([])
            sheets[-1].append(track)
            end = max(end, track.t_end)
    grouped = {id(track) for sheet in sheets for track in sheet}
    rest: list[Track] = []
    for track in tracks:
        if id(track) in grouped:
            continue
        home = next((sheet for sheet in sheets if track.sightings == 1 and _spans(sheet, track.t_start)), None)
        if home is None:
            rest.append(track)
        elif margin < track.box[1] and track.box[3] < height - margin:
            home.append(track)
    return sheets, rest


def _spans(sheet: list[Track], t: float) -> bool:
    return min(track.t_start for track in sheet) <= t <= max(track.t_end for track in sheet)


def _by_place(sheet: list[Track]) -> list[Track]:
    """Order the tracks of one sheet from its top, whatever its changes of speed."""
    way = _way(sheet)
    places = []
    for track in sheet:
        t, box = max(track.boxes, key=lambda seen: seen[1][3] - seen[1][1])  # the tallest is the least cut by the frame
        shift = way[t]
        places.append((box[0], box[1] - shift, box[2], box[3] - shift))
    return [sheet[index] for index in matching.reading_order(places)]


def _way(sheet: list[Track]) -> dict[float, float]:
    """How far the sheet has moved down since its first sighting, in px, at each time at which any of it was seen."""
    times = sorted({t for track in sheet for t, _ in track.boxes})
    previous = {after: before for before, after in pairwise(times)}
    steps: dict[float, list[float]] = {t: [] for t in times}
    for track in sheet:
        for (ta, a), (tb, b) in pairwise(track.boxes):
            for t in times[bisect_right(times, ta) : bisect_right(times, tb)]:
                steps[t].append(_step(a, b) * (t - max(ta, previous[t])) / (tb - ta))
    way, total = {}, 0.0
    for t in times:
        total += median(steps[t]) if steps[t] else 0.0
        way[t] = total
    return way
