"""The samplers: examples worked out by hand, and what must hold for every video and question (design section 6)."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import samplers
from scripts.lib import config
from scripts.lib.errors import ConfigError
from scripts.samplers import common
from scripts.samplers.common import LacksMomentError, Moments
from scripts.samplers.keyframes import sample as keyframes
from scripts.samplers.moments import sample_moment_aware, sample_qa_frames, sample_ts_frame
from scripts.samplers.single import sample_answer_keyframes, sample_answer_random, sample_oracle, sample_random
from scripts.samplers.uniform import sample as uniform
from scripts.samplers.uniform import sample_fps1
from scripts.samplers.window import sample_backward_1fps, sample_fixed
from scripts.synth import build_scenarios, fonts
from tests.unit import synth_sample

ROOT = Path(__file__).parents[2]
FPS30 = np.arange(300) / 30
FPS2 = np.arange(20) / 2  # 0.0, 0.5, ... 9.5


@st.composite
def videos(draw: st.DrawFn) -> np.ndarray:
    """Times of 1 to 60 frames: constant or variable rate, starting anywhere near 0, on a grid of ticks as in files."""
    start = draw(st.integers(-2000, 5000))
    count = draw(st.integers(1, 60))
    if draw(st.booleans()):
        steps = [draw(st.integers(1, 3000))] * (count - 1)
    else:
        steps = draw(st.lists(st.integers(1, 3000), min_size=count - 1, max_size=count - 1))
    return (start + np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)) / 1000


@st.composite
def questions(draw: st.DrawFn) -> tuple[np.ndarray, Moments]:
    times = draw(videos())
    second = st.floats(-5, float(times[-1]) + 10).map(lambda value: round(value, 1))
    spans = draw(st.lists(st.tuples(second, st.floats(0, 3)), max_size=3))
    picks = draw(st.lists(st.integers(0, len(times) - 1), max_size=10))
    return times, Moments(
        t_question=draw(st.none() | second | st.sampled_from(times.tolist())),
        t_answer=draw(st.none() | second),
        qa_times=tuple(draw(st.lists(second, max_size=4))),
        evidence=tuple((start, start + length) for start, length in spans),
        keyframes=np.unique(np.array(picks, dtype=np.int64)) if draw(st.booleans()) else None,
        text_amount={index: index % 3 for index in picks} if draw(st.booleans()) else None,
        seed=draw(st.integers(0, 2**64 - 1)),
    )


def every_sampler(n: int) -> dict[str, object]:
    """Name to a call with ``n`` frames where the sampler takes a number."""
    needs_n = {"uniform", "uniform_fps1", "moment_aware", "fixed", "backward_1fps", "keyframes"}
    calls = {}
    for name in samplers.SAMPLERS:
        settings = {
            "sampler": name,
            **({"n": n} if name in needs_n else {}),
            **({"seconds": 5} if name == "fixed" else {}),
        }
        calls[name] = samplers.load(settings, "test")
    return calls


@given(questions(), st.integers(1, 70))
def test_every_sampler_gives_rising_distinct_frames_no_later_than_the_question(asked, n):
    times, moments = asked
    for name, (sampler, settings) in every_sampler(n).items():
        try:
            chosen = sampler(times, moments, **settings)
        except LacksMomentError:
            continue
        assert chosen.dtype == np.int64, name
        most = {"qa_frames": 4, "answer_keyframes": len(times)}.get(name, 1)  # those that are asked for no number
        assert 1 <= len(chosen) <= max(n, most), name
        assert (np.diff(chosen) > 0).all(), name
        assert chosen[0] >= 0 and chosen[-1] < len(times), name
        late = times[chosen] > (np.inf if moments.t_question is None else moments.t_question) + 1e-6
        assert not late.any() or chosen.tolist() == [0], name
        again = sampler(times, moments, **settings)
        assert again.tolist() == chosen.tolist(), name


@given(questions(), st.integers(1, 70))
def test_lengths_are_exact(asked, n):
    times, moments = asked
    bound = times[-1] if moments.t_question is None else moments.t_question
    may = max(1, int((times <= bound + 1e-6).sum()))
    assert len(uniform(times, moments, n=n)) == min(n, may)
    if moments.t_question is not None:
        seconds = int(np.floor(moments.t_question - times[0] + 1e-6))
        assert len(sample_fps1(times, moments, n=n)) == min(n, max(1, seconds), may)
    assert len(sample_ts_frame(times, moments)) == 1
    if moments.t_answer is not None and moments.t_question is not None and times[0] <= moments.t_question <= times[-1]:
        allowed = times[times <= moments.t_question + 1e-6]
        around = {
            float(time)
            for middle in (min(moments.t_answer, moments.t_question), moments.t_question)
            for time in allowed
            if abs(time - middle) <= 1.5 + 1e-6
        }
        chosen = sample_moment_aware(times, moments, n=n)
        assert min(n, len(around)) <= len(chosen) <= min(n, len(around) + 2)  # 2: the nearest, where a window is empty


@given(questions())
def test_what_lacks_is_named_never_replaced(asked):
    times, moments = asked
    for sampler, given_, what in [
        (sample_qa_frames, moments.qa_times, "qa_times"),
        (lambda *args: sample_moment_aware(*args, n=8), moments.t_answer is not None, "answer_time"),
        (sample_answer_random, moments.evidence, "evidence"),
        (sample_oracle, moments.evidence, "evidence"),
        (lambda *args: keyframes(*args, n=8), moments.keyframes is not None and len(moments.keyframes), "keyframes"),
    ]:
        if not given_:
            with pytest.raises(LacksMomentError) as lack:
                sampler(times, moments)
            assert lack.value.what == what


@given(videos(), st.data())
def test_nearest_is_the_best_of_all_distinct_choices(times, data):
    times = times[:9]
    count = data.draw(st.integers(1, len(times)))
    targets = np.sort(data.draw(st.lists(st.floats(-5, 40), min_size=count, max_size=count)))
    chosen = common.nearest(times, targets)
    assert (np.diff(chosen) > 0).all() and len(chosen) == count
    best = min(
        ((times[list(choice)] - targets) ** 2).sum() for choice in itertools.combinations(range(len(times)), count)
    )
    assert ((times[chosen] - targets) ** 2).sum() <= best + 1e-3  # equal distances within the tolerance count as equal


@given(videos(), st.floats(-5, 100))
def test_one_target_takes_the_nearest_frame(times, target):
    [chosen] = common.nearest(times, np.array([target]))
    assert abs(times[chosen] - target) <= np.abs(times - target).min() + 2e-6


@pytest.mark.parametrize(
    ("n", "t_question", "expected"),
    [
        (4, 9.5, [0, 6, 13, 19]),  # targets 0, 3.1667, 6.3333, 9.5: nearest 0, 3.0, 6.5, 9.5
        (3, 4.0, [0, 4, 8]),
        (3, 3.99, [0, 3, 7]),  # allowed up to 3.5; the middle 1.75 lies between 1.5 and 2.0: the earlier
        (2, None, [0, 19]),
        (1, 9.5, [0]),  # linspace with one value is its start
        (5, 1.0, [0, 1, 2]),  # fewer allowed than asked for
        (8, -1.0, [0]),  # asked before the first frame
        (2, 99.0, [0, 19]),  # asked after the end
    ],
)
def test_uniform_by_hand(n, t_question, expected):
    assert uniform(FPS2, Moments(t_question=t_question), n=n).tolist() == expected


def test_the_frame_at_a_question_time_written_with_one_digit_is_allowed():
    assert FPS30[9] <= 0.3 < FPS30[10]
    ticks = np.arange(300) * 512 / 15360  # 0.1 * 3 is above 0.3, 9 / 30 may be below: equal times must stay equal
    assert uniform(ticks, Moments(t_question=0.1 * 3), n=1000).tolist() == list(range(10))
    assert sample_ts_frame(ticks + 1e-9, Moments(t_question=0.3)).tolist() == [9]
    assert sample_ts_frame(FPS30, Moments(t_question=0.29)).tolist() == [8]


@pytest.mark.parametrize("n", [2, 3, 8, 13, 16, 32, 60])
def test_uniform_is_never_the_head_only(n):
    chosen = uniform(FPS30, Moments(t_question=8.0), n=n)
    assert len(chosen) == n and chosen[0] == 0 and chosen[-1] == 240
    assert np.diff(chosen).max() - np.diff(chosen).min() <= 1


def test_uniform_on_a_video_with_a_pause_stays_distinct_and_close():
    times = np.array([0.0, 0.1, 0.2, 8.0, 9.0, 10.0])  # targets 0, 2.5, 5, 7.5, 10
    assert uniform(times, Moments(), n=5).tolist() == [0, 2, 3, 4, 5]  # 2.5 -> 0.2, 5 -> 8, 7.5 -> 9: least squares


@pytest.mark.parametrize(
    ("t_question", "expected"),
    [(0.4, [0]), (1.0, [0]), (2.0, [0, 4]), (3.9, [0, 3, 7]), (None, [0, 2, 4, 6, 8, 11, 13, 15, 17, 19]), (11.0, 11)],
)
def test_uniform_fps1_by_hand(t_question, expected):
    chosen = sample_fps1(FPS2, Moments(t_question=t_question), n=32)
    if isinstance(expected, int):
        assert len(chosen) == expected
    else:
        assert chosen.tolist() == expected


@pytest.mark.parametrize(
    ("t_question", "seconds", "n", "expected"),
    [
        (6.0, 2.0, 8, [8, 9, 10, 11, 12]),
        (6.0, 2.0, 3, [8, 10, 12]),
        (1.0, 5.0, 8, [0, 1, 2]),
        (6.2, 0.1, 8, [12]),  # no frame is so recent
        (30.0, 2.0, 3, [16, 17, 19]),  # after the end (10.0): the last 2 s, 8.0 to 9.5; 8.75 lies between
        (-3.0, 2.0, 3, [0]),
    ],
)
def test_fixed_by_hand(t_question, seconds, n, expected):
    assert sample_fixed(FPS2, Moments(t_question=t_question), seconds=seconds, n=n).tolist() == expected


@pytest.mark.parametrize(
    ("t_question", "n", "expected"),
    [
        (6.0, 3, [8, 10, 12]),
        (6.0, 99, [0, 2, 4, 6, 8, 10, 12]),
        (6.3, 2, [11, 12]),  # 5.3 -> 5.5, 6.3 -> 6.0: never 6.5
        (0.2, 4, [0]),
        (-1.0, 4, [0]),
        (25.0, 3, [16, 18, 19]),  # as if asked at the end 10.0: 8, 9, 10 -> 9.5
    ],
)
def test_backward_by_hand(t_question, n, expected):
    assert sample_backward_1fps(FPS2, Moments(t_question=t_question), n=n).tolist() == expected


@pytest.mark.parametrize(
    ("qa_times", "t_question", "expected"),
    [
        ((1.0, 2.2, 4.9), 5.0, [2, 4, 10]),
        ((4.9, 1.0, 2.2), 5.0, [2, 4, 10]),
        ((1.0, 7.0, 8.0), 5.0, [2, 10]),  # both late ones count as 5.0
        ((1.0, 1.1), 5.0, [2, 3]),  # two moments, two frames
        ((1.0, 1.0), 5.0, [2]),
        ((0.75,), 5.0, [1]),  # the earlier of equals
        ((-4.0, 3.0), -1.0, [0]),
    ],
)
def test_qa_frames_by_hand(qa_times, t_question, expected):
    assert sample_qa_frames(FPS2, Moments(qa_times=qa_times, t_question=t_question)).tolist() == expected


@pytest.mark.parametrize(
    ("t_answer", "t_question", "n", "expected"),
    [
        (2.0, 8.0, 4, [1, 7, 13, 16]),  # 0.5 to 3.5 and 6.5 to 8.0, both ends of each
        (2.0, 8.0, 5, [1, 4, 7, 13, 16]),  # the odd one goes to the answer
        (2.0, 8.0, 99, [1, 2, 3, 4, 5, 6, 7, 13, 14, 15, 16]),
        (8.0, 8.0, 4, [13, 14, 15, 16]),
        (7.0, 8.0, 3, [11, 13, 16]),  # windows overlap: 5.5 to 8.0 as one; 6.75 lies between, the earlier
        (9.0, 8.0, 2, [13, 16]),  # an answer seen after the question counts as seen at it
    ],
)
def test_moment_aware_by_hand(t_answer, t_question, n, expected):
    chosen = sample_moment_aware(FPS2, Moments(t_answer=t_answer, t_question=t_question), n=n)
    assert chosen.tolist() == expected


def test_moment_aware_gives_what_one_window_cannot_fill_to_the_other():
    times = np.array([0.0, 5.0, 5.2, 5.4, 5.6, 5.8, 6.0])
    assert len(sample_moment_aware(times, Moments(t_answer=0.0, t_question=6.0), n=6)) == 6
    times = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 9.0])
    assert len(sample_moment_aware(times, Moments(t_answer=0.0, t_question=9.0), n=6)) == 6


def test_single_random_draws_over_all_allowed_frames_by_seed():
    drawn = [sample_random(FPS2, Moments(t_question=4.0, seed=seed)).item() for seed in range(400)]
    assert set(drawn) == set(range(9))


def test_single_answer_random_draws_within_the_evidence_before_the_question():
    spans = ((1.0, 2.0), (7.0, 9.0))
    drawn = {sample_answer_random(FPS2, Moments(8.0, evidence=spans, seed=seed)).item() for seed in range(400)}
    assert drawn == {2, 3, 4, 14, 15, 16}
    assert sample_answer_random(FPS2, Moments(8.0, evidence=((1.1, 1.2),))).tolist() == [2]  # between two frames
    with pytest.raises(LacksMomentError, match="evidence"):
        sample_answer_random(FPS2, Moments(0.5, evidence=((1.0, 2.0),)))


def test_answer_keyframes_are_those_within_the_evidence():
    moments = Moments(6.0, evidence=((1.0, 2.0), (4.0, 5.0), (7.0, 8.0)), keyframes=np.array([0, 3, 4, 9, 15]))
    assert sample_answer_keyframes(FPS2, moments).tolist() == [3, 4, 9]
    none_among = Moments(6.0, evidence=((1.0, 2.0),), keyframes=np.array([0]))
    assert sample_answer_keyframes(FPS2, none_among).tolist() == [3]
    for lacking in (None, np.array([], dtype=np.int64)):
        with pytest.raises(LacksMomentError, match="keyframes"):
            sample_answer_keyframes(FPS2, Moments(6.0, evidence=((1.0, 2.0),), keyframes=lacking))


def test_single_oracle_takes_the_answer_keyframe_with_most_text():
    keys = np.array([0, 3, 4, 15])
    amounts = {0: 99, 2: 80, 3: 7, 4: 7, 15: 50}
    spans = ((1.0, 2.0), (7.0, 8.0))
    assert sample_oracle(FPS2, Moments(6.0, evidence=spans, keyframes=keys, text_amount=amounts)).tolist() == [3]
    for nothing in (None, {}, {0: 99}):
        with pytest.raises(LacksMomentError, match="ocr"):
            sample_oracle(FPS2, Moments(6.0, evidence=((1.0, 2.0),), keyframes=keys, text_amount=nothing))


def test_keyframes_are_cut_at_the_question_and_thinned_evenly():
    found = np.array([0, 3, 4, 8, 9, 15])
    assert keyframes(FPS2, Moments(keyframes=found), n=99).tolist() == found.tolist()
    assert keyframes(FPS2, Moments(4.5, keyframes=found), n=3).tolist() == [0, 4, 9]
    assert keyframes(FPS2, Moments(4.5, keyframes=found), n=1).tolist() == [0]
    assert keyframes(FPS2, Moments(1.0, keyframes=np.array([5])), n=3).tolist() == [0]


CONFIGS = sorted(path for path in (ROOT / "config" / "samplers").glob("*.yaml") if path.stem != "elsewhere")
"""Of those that choose frames here."""


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_names_a_sampler_and_its_settings(path):
    content = config.read_file("sampler", path)
    sampler, settings = samplers.load(content, str(path))
    moments = Moments(8.0, 2.0, (1.0, 3.0), ((1.0, 2.0),), np.array([0, 35, 40]), {35: 4, 40: 5})
    n = settings.get("n", 1)
    most = {"qa_frames": 2, "keyframes": 3, "uniform_fps1": 8, "answer_keyframes": 2, "uniform": 241}
    most |= {"backward_1fps": 9, "fixed": min(241, 30 * settings.get("seconds", 0) + 1)}
    of_all = content["sampler"] in ("qa_frames", "answer_keyframes")
    expected = most[content["sampler"]] if of_all else min(n, most.get(content["sampler"], n))
    assert len(sampler(FPS30, moments, **settings)) == expected
    by_keyframes = content["sampler"] in ("keyframes", "answer_keyframes", "single_oracle")
    assert ("keyframes" in content.get("needs", [])) == by_keyframes
    assert ("ocr" in content.get("needs", [])) == (content["sampler"] == "single_oracle")


def test_every_sampler_of_the_registry_has_a_config():
    assert {config.read_file("sampler", path)["sampler"] for path in CONFIGS} == set(samplers.SAMPLERS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"sampler": "unifrom", "n": 3}, "no sampler 'unifrom' \\(did you mean 'uniform'\\?\\)"),
        ({"sampler": "uniform"}, "takes n, got nothing"),
        ({"sampler": "ts_frame", "n": 3}, "takes nothing, got n"),
        ({"sampler": "fixed", "n": 3}, "takes seconds, n, got n"),
    ],
)
def test_a_wrong_config_is_refused_with_its_file(content, message):
    with pytest.raises(ConfigError, match=f"wörk.yaml: .*{message}"):
        samplers.load(content, "wörk.yaml")


def test_moment_aware_shows_what_answers_every_question_about_an_earlier_sign():
    """On walks as in the demo: of the eight frames, one at least is within the evidence."""
    dataset = synth_sample.signs(videos=40, fps=[24, 30], duration_s=[23, 25])
    scenarios, asked = build_scenarios.build(dataset, fonts.find(system=False))
    rates = {made.id: (made.fps, round(made.duration_s * made.fps)) for made in scenarios}
    checked = 0
    for question in asked:
        if question.category not in ("first", "previous"):
            continue
        fps, frames = rates[question.video]
        times = np.arange(frames) / fps
        chosen = times[sample_moment_aware(times, Moments(question.t_question, question.t_answer), n=8)]
        ((start, stop),) = question.evidence
        assert ((chosen >= start) & (chosen <= stop)).any(), question.key
        checked += 1
    assert checked > 50
