"""Tracks from frame readings, on sequences of boxes as an engine would give them, for every motion of rolling text."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq

from scripts.lib.records import OcrBox, OcrFrame, Track
from scripts.ocr import matching, scroll, tracks

W, H, ADVANCE, LINE = 1280, 720, 28, 50
RULES: dict[str, Any] = {
    "similar": 0.8,
    "overlap": 0.5,
    "gap_s": 2.0,
    "edge": 0.005,
    "min_confidence": 0.6,
    "min_sightings": 2,
}
AWARE: dict[str, Any] = {"rule": "motion_aware", "motion_aware": RULES, "paper_literal": {"delta": 0.8, "theta": 0.5}}
LITERAL = {**AWARE, "rule": "paper_literal"}
TEXT = (
    "naïve market über harbour seven crème silver Łódź window garden because orange planet quiet river señor marble"
    " thunder canvas polite yesterday copper journey lantern purple ribbon velvet winter anchor basket candle dragon"
)
WORDS = TEXT.split()
LINES = [" ".join(WORDS[start : start + 4]) for start in range(0, len(WORDS), 4)]
HAN = "春眠不覺曉處處聞啼鳥夜來風雨聲花落知多少白日依山盡黃河入海流欲窮千里目更上一層樓床前明月光疑是地上霜"


def box(
    text: str, x: float, y: float, x1: float | None = None, y1: float | None = None, confidence: float = 0.95
) -> OcrBox:
    x1, y1 = (x + ADVANCE * len(text) if x1 is None else x1), (y + LINE if y1 is None else y1)
    return OcrBox(text=text, confidence=confidence, polygon=[(x, y), (x1, y), (x1, y1), (x, y1)])


def frame(t: float, boxes: list[OcrBox]) -> OcrFrame:
    return OcrFrame(video="v", frame=round(t * 24), t=t, width=W, height=H, boxes=boxes)


def sideways(text: str, speed: float, step: float) -> list[OcrFrame]:
    """One line through the picture; a letter that is half outside is read as 'l', as engines do."""
    length, found = ADVANCE * len(text), []
    duration = (W + length) / abs(speed)
    for number in range(int(duration / step) + 1):
        t = number * step
        x = W - speed * t if speed > 0 else -length - speed * t
        letters = []
        for place, letter in enumerate(text):
            left = x + ADVANCE * place
            if left >= 0 and left + ADVANCE <= W:
                letters.append(letter)
            elif left + ADVANCE / 2 > 0 and left + ADVANCE / 2 < W and letter != " ":
                letters.append("l")
        seen = "".join(letters).strip()
        found.append(frame(t, [box(seen, max(0, x), 300, min(W, x + length))] if seen else []))
    return found


def upright(lines: list[str], speed: float, step: float) -> list[OcrFrame]:
    """A sheet of lines moving down (speed > 0) or up; a line that is cut by the frame is misread in one letter."""
    pitch, height = 70, 70 * len(lines)
    found = []
    for number in range(int((H + height) / abs(speed) / step) + 1):
        t = number * step
        top = -height + speed * t if speed > 0 else H + speed * t
        boxes = []
        for place, line in enumerate(lines):
            y0, y1 = top + pitch * place, top + pitch * place + LINE
            if y1 - max(0, y0) < 0.5 * LINE or min(H, y1) - y0 < 0.5 * LINE:
                continue
            cut = y0 < 0 or y1 > H
            boxes.append(box("c" + line[1:] if cut else line, 300, max(0, y0), None, min(H, y1)))
        found.append(frame(t, boxes))
    return found


def pages(lines: list[str], effect: str, step: float) -> list[OcrFrame]:
    """Three lines at a time, four seconds each, appearing by the letter, by fading or by growing from the centre."""
    found = []
    groups = [lines[start : start + 3] for start in range(0, len(lines), 3)]
    for number in range(int(4 * len(groups) / step)):
        t = number * step
        group, share = groups[int(t // 4)], t % 4 / 4
        boxes = []
        shown = int(min(1, share / 0.6) * sum(map(len, group)))
        for place, line in enumerate(group):
            y = 270 + 70 * place
            if effect == "typewriter":
                text, shown = line[: max(0, shown)].strip(), shown - len(line)
                boxes += [box(text, 300, y)] if text else []
            elif effect == "fade":
                faint = min(share, 1 - share) < 0.1
                boxes.append(box("#" + line[1:] if faint else line, 300, y, confidence=0.65 if faint else 0.95))
            else:
                scale = 0.3 + 0.7 * min(1, share / 0.7)
                half = ADVANCE * len(line) / 2 * scale
                middle = H / 2 + (y + LINE / 2 - H / 2) * scale
                boxes.append(
                    box(line, W / 2 - half, middle - LINE / 2 * scale, W / 2 + half, middle + LINE / 2 * scale)
                )
        found.append(frame(t, boxes))
    return found


MOTIONS = {
    "rtl": lambda step: sideways(TEXT, 400, step),
    "rtl_fast": lambda step: sideways(TEXT, 700, step),
    "ltr": lambda step: sideways(TEXT, -400, step),
    "ttb": lambda step: upright(LINES, 100, step),
    "btt": lambda step: upright(LINES, -100, step),
    "typewriter": lambda step: pages(LINES, "typewriter", step),
    "fade": lambda step: pages(LINES, "fade", step),
    "zoom": lambda step: pages(LINES, "zoom", step),
}


def score(text: str, truth: str) -> tuple[float, float]:
    """Recall and precision by the longest common subsequence of characters."""
    common = LCSseq.similarity(text, truth)
    return common / len(truth), common / max(1, len(text))


@pytest.mark.parametrize("step", [1 / 24, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("motion", MOTIONS)
def test_every_motion_gives_the_text_once_and_in_order(motion: str, step: float) -> None:
    found = tracks.merge(MOTIONS[motion](step), AWARE)
    recall, precision = score(tracks.reading(found), TEXT)
    assert recall >= 0.99 and precision >= 0.99, tracks.reading(found)


@pytest.mark.parametrize("speed", [400, -400])
def test_a_line_without_spaces_is_joined_by_characters(speed: float) -> None:
    text = tracks.reading(tracks.merge(sideways(HAN, speed, 0.5), AWARE))
    assert min(score(text, HAN)) >= 0.99, text


def test_a_vertical_scroll_that_changes_speed_keeps_its_order() -> None:
    frames = upright(LINES, 100, 0.5)
    late = [item.model_copy(update={"t": item.t if item.t < 5 else 5 + (item.t - 5) * 0.4}) for item in frames]
    assert [track.text for track in tracks.merge(late, AWARE)] == LINES


def test_lines_of_words_scrolling_down_side_by_side_keep_their_rows() -> None:
    frames = []
    for number in range(30):
        y = -300 + 40 * number
        rows = [(y, "one", 100), (y + 3, "two", 700), (y + 70, "three", 100), (y + 72, "four", 700)]
        frames.append(frame(number * 0.5, [box(text, x, y) for y, text, x in rows if 0 < y < H - LINE]))
    assert tracks.reading(tracks.merge(frames, AWARE)) == "one two three four"


def test_one_sighting_is_enough_where_more_cannot_be_expected() -> None:
    one = [frame(0.0, [box("STOP", 100, 100), box("Łódź 12 km", 100, 200)])]
    assert tracks.reading(tracks.merge(one, AWARE)) == "STOP Łódź 12 km"
    sparse = [
        frame(8.0 * number, [box(text, 100, 100)]) for number, text in enumerate(["alpha", "beta", "gamma", "delta"])
    ]
    assert [track.text for track in tracks.merge(sparse, AWARE)] == ["alpha", "beta", "gamma", "delta"]
    dense = [
        frame(0.5 * number, [box("seen", 100, 100)] + [box("once", 100, 500)] * (number == 1)) for number in range(4)
    ]
    assert [track.text for track in tracks.merge(dense, AWARE)] == ["seen"]


@pytest.mark.parametrize(("step", "count", "needed"), [(0.5, 9, 2), (1.0, 9, 2), (1.1, 9, 1), (5.0, 9, 1), (0.5, 2, 1)])
def test_as_many_sightings_are_asked_as_a_short_text_can_have(step: float, count: int, needed: int) -> None:
    assert tracks.needed_sightings([step * number for number in range(count)], RULES) == needed


def test_a_line_seen_once_and_cut_while_a_sheet_scrolls_is_dropped() -> None:
    frames = upright(LINES, 100, 1.5)
    cut = frames[4].model_copy(update={"boxes": [*frames[4].boxes, box("comcsercaac", 300, 0, None, 27)]})
    standing = [frame(1.5 * number, [box("half out", 300, 0, None, 27)] * (number == 2)) for number in range(5)]
    assert [track.text for track in tracks.merge([*frames[:4], cut, *frames[5:]], AWARE)] == LINES
    assert [track.text for track in tracks.merge(standing, AWARE)] == ["half out"]


def test_a_sign_that_drifts_with_the_camera_is_one_track() -> None:
    boxes = [box("Ausschuss", 68, 219, 230, 256), box("Ausschuss", 144, 237, 312, 274)]
    found = tracks.merge([frame(1.2 * number, [line]) for number, line in enumerate(boxes)], AWARE)
    assert [(track.text, track.sightings) for track in found] == [("Ausschuss", 2)]


def test_a_sign_that_comes_back_after_another_is_two_tracks() -> None:
    shown = ["north", "harbour", "north"]
    frames = [frame(4.0 * number, [box(text, 100, 100)]) for number, text in enumerate(shown)]
    assert [(track.text, track.t_start) for track in tracks.merge(frames, AWARE)] == [
        ("north", 0),
        ("harbour", 4),
        ("north", 8),
    ]


def test_static_text_at_the_side_of_the_frame_keeps_its_first_and_last_word() -> None:
    frames = [frame(0.5 * number, [box("breaking news tonight", 0, 650, W)]) for number in range(6)]
    assert tracks.reading(tracks.merge(frames, AWARE)) == "breaking news tonight"


def test_two_pieces_of_a_line_do_not_double_it() -> None:
    whole, pieces = [box("quick brown fox", 300, 300)], [box("quick", 300, 300), box("brown fox", 468, 300)]
    frames = [frame(0.5 * number, pieces if number in (2, 3) else whole) for number in range(8)]
    assert tracks.reading(tracks.merge(frames, AWARE)) == "quick brown fox"
    frames = [frame(0.5 * number, pieces if number < 3 else whole) for number in range(8)]
    assert tracks.reading(tracks.merge(frames, AWARE)) == "quick brown fox"


def test_the_most_frequent_reading_wins() -> None:
    texts = ["open daily", "open dai1y", "open daily", "0pen daily", "open daily"]
    frames = [frame(0.5 * number, [box(text, 100, 100)]) for number, text in enumerate(texts)]
    (track,) = tracks.merge(frames, AWARE)
    assert (track.text, track.sightings, track.t_start, track.t_end) == ("open daily", 5, 0.0, 2.0)
    assert track.box == track.boxes[0][1] == (100, 100, 380, 150)


@pytest.mark.parametrize("settings", [AWARE, LITERAL])
def test_no_frames_and_no_text_give_no_tracks(settings: dict[str, Any]) -> None:
    assert tracks.merge([], settings) == []
    assert tracks.merge([frame(0, []), frame(1, []), frame(2, [])], settings) == []
    assert tracks.reading([]) == ""


def test_paper_literal_merges_what_stands_and_splits_what_moves() -> None:
    standing = [frame(t, [box("the same", 100, 100)]) for t in (0.0, 1.0, 9.0)]
    assert [(track.text, track.sightings) for track in tracks.merge(standing, LITERAL)] == [("the same", 3)]
    moving = [frame(float(t), [box("the same", 100, 100 + 200 * t)]) for t in range(3)]
    assert len(tracks.merge(moving, LITERAL)) == 3
    assert len(tracks.merge(moving, AWARE)) == 1


def test_scrolling_texts_are_told_from_standing_and_zooming_ones() -> None:
    def track(boxes: list[tuple[float, tuple[float, float, float, float]]]) -> Track:
        return Track(video="v", text="x", t_start=0, t_end=1, box=boxes[0][1], boxes=boxes, sightings=len(boxes))

    assert scroll.speed(track([(0, (0, 100, 50, 150)), (1, (0, 140, 50, 190))])) == 40
    assert scroll.speed(track([(0, (0, 0, 50, 20)), (1, (0, 0, 50, 28))])) == 8
    assert scroll.speed(track([(0, (0, 100, 50, 120)), (1, (0, 80, 100, 160))])) == 0
    assert scroll.speed(track([(0, (0, 100, 50, 150))])) == 0


text_strategy = st.text(alphabet=string.ascii_letters + "éßŁ 春眠ไทย", min_size=1, max_size=20)
box_strategy = st.builds(
    lambda text, x, y, confidence: box(text, x, y, confidence=confidence),
    text_strategy,
    st.integers(0, 900),
    st.integers(0, 660),
    st.floats(0, 1),
)
frames_strategy = st.lists(st.lists(box_strategy, max_size=4), max_size=6).map(
    lambda shown: [frame(0.5 * number, boxes) for number, boxes in enumerate(shown)]
)


@given(frames_strategy, st.sampled_from([AWARE, LITERAL]))
def test_no_character_is_invented(frames: list[OcrFrame], settings: dict[str, Any]) -> None:
    read = {letter for item in frames for line in item.boxes for letter in line.text} | {" "}
    found = tracks.merge(frames, settings)
    assert set(tracks.reading(found)) <= read
    assert all(track.t_start <= track.t_end and track.sightings == len(track.boxes) for track in found)
    assert all(track.text and track.text == track.text.strip() for track in found)


@given(st.lists(box_strategy, max_size=5))
def test_a_single_frame_gives_its_own_lines_and_again_when_repeated(boxes: list[OcrBox]) -> None:
    once = tracks.merge([frame(0, boxes)], AWARE)
    trusted = {line.text.strip() for line in boxes if line.confidence >= RULES["min_confidence"]}
    assert {track.text for track in once} <= trusted
    again = [frame(track.t_start, [box(track.text, *track.box[:2])]) for track in once[:1]]
    assert [track.text for track in tracks.merge(again, AWARE)] == [track.text for track in once[:1]]


@given(frames_strategy, st.randoms(use_true_random=False))
def test_the_order_in_which_frames_are_given_does_not_matter(frames: list[OcrFrame], random: Any) -> None:
    shuffled = list(frames)
    random.shuffle(shuffled)
    assert tracks.merge(shuffled, AWARE) == tracks.merge(frames, AWARE)


@given(st.text(max_size=40))
def test_units_give_the_text_back(text: str) -> None:
    assert "".join(matching.units(text)) == text


def test_units_are_words_or_characters_of_a_script_without_spaces() -> None:
    assert matching.units("über das Tor") == ["über", " das", " Tor"]
    assert matching.units("東京 Tower 塔") == ["東", "京", " Tower", " 塔"]
    assert matching.units("ไม่ดี") == ["ไ", "ม่", "ดี"]


def test_a_seam_counts_the_repeated_words_despite_a_misread_letter() -> None:
    first = matching.units("the quick brown fox jumps")
    assert matching.seam(first, matching.units("br0wn fox jumps over"), 0.8) == 3
    assert matching.seam(first, matching.units("over the lazy dog"), 0.8) == 0
    assert matching.seam(first, first, 0.8) == 5
    assert matching.seam([], first, 0.8) == 0
