"""Reading frames: on every kind of file, the same pixels as a plain sequential decode written here, not there."""

import contextlib
import itertools

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib import video, workers
from scripts.lib.errors import ConfigError, DataError
from scripts.lib.probe import probe
from tests.unit import clips


def plain_decode(path):
    """Every frame of a file as stored, by the shortest PyAV loop; errors end it."""
    frames = []
    with av.open(str(path)) as container, contextlib.suppress(av.error.FFmpegError):
        frames.extend(frame.to_ndarray(format="rgb24") for frame in container.decode(video=0))
    return frames


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Kind to path, and to the number drawn in each of its frames."""
    folder = tmp_path_factory.mktemp("Videos ü")
    made = {kind: (clips.write_kind(folder, kind), range(75)) for kind in clips.CODECS}
    ticks = clips.variable_ticks(75)
    for suffix in ("mp4", "mkv"):
        path = folder / f"vfr.{suffix}"
        clips.write(path, options=clips.H264_B, ticks=ticks, time_base=clips.Fraction(1, 1000))
        made[f"vfr_{suffix}"] = (path, range(75))
    made["shifted"] = (clips.shifted(folder / "shifted.mp4"), range(75))
    made["trimmed_h264"] = (clips.trimmed(made["h264"][0], folder / "trimmed.mp4", 1.33), range(40, 75))
    made["trimmed_hevc"] = (clips.trimmed(made["hevc"][0], folder / "trimmed_hevc.mp4", 1.33), range(40, 75))
    made["one"] = (clips.write(folder / "one.mp4", frames=1), range(1))
    fast = clips.write(folder / "fast.mp4", options=clips.H264_B, container={"movflags": "faststart"})
    made["truncated_mp4"] = (clips.cut_short(fast, folder / "truncated.mp4", 0.7), None)
    made["truncated_mkv"] = (clips.cut_short(made["h264_mkv"][0], folder / "truncated.mkv", 0.7), range(48))
    made["truncated_webm"] = (clips.cut_short(made["vp9"][0], folder / "truncated.webm", 0.7), range(52))
    return made


KINDS = [*clips.CODECS, "vfr_mp4", "vfr_mkv", "shifted", "trimmed_h264", "trimmed_hevc", "one"]
KINDS += ["truncated_mp4", "truncated_mkv", "truncated_webm"]


@pytest.mark.parametrize("kind", KINDS)
def test_any_choice_of_frames_equals_the_sequential_decode(files, kind):
    path, numbers = files[kind]
    found = probe(path)
    truth = plain_decode(path)
    if (
        kind == "truncated_mp4"
    ):  # the plain loop loses what the decoder holds when half a packet comes: ask the whole file
        whole = plain_decode(path.with_name("fast.mp4"))
        truth = [whole[index] for index in np.round(video.frame_times(found.times) * clips.RATE).astype(int)]
    assert found.n_frames == len(truth) >= 1
    if numbers is not None:
        assert [clips.code(frame) for frame in truth] == list(numbers)
    rng = np.random.default_rng(0)
    count = found.n_frames
    choices = [[0], [count - 1], [], list(range(count)), list(range(0, count, 7)), list(range(count - 1, count))]
    choices += [np.sort(rng.choice(count, min(count, size), replace=False)).tolist() for size in (1, 1, 2, 3, 5, 9, 20)]
    for choice in choices:
        read = list(video.read_frames(path, found.times, choice))
        assert len(read) == len(choice)
        for frame, index in zip(read, choice, strict=True):
            assert np.array_equal(frame, truth[index]), (choice, index)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "avi" not in kind and kind != "mpeg4"])
def test_seeking_alone_finds_every_frame(files, kind):
    """The fast way works by itself wherever it may be used: it is not the fall-back that makes the test above pass."""
    path, _ = files[kind]
    ticks = video.frame_ticks(probe(path).times).tolist()
    targets = ticks[len(ticks) // 3 :: 11]
    assert [frame.pts for frame in video._seek_frames(path, targets)] == targets


@pytest.mark.parametrize("kind", KINDS)
def test_times_and_brightness_come_frame_by_frame(files, kind):
    path, numbers = files[kind]
    record = probe(path).times
    planes = [(pts, clips.code(plane)) for pts, plane in video.read_luma(path)]
    assert [pts for pts, _ in planes] == video.frame_ticks(record).tolist()
    if numbers is not None:
        assert [code for _, code in planes] == list(numbers)


def test_times_are_those_that_were_written(files):
    times = video.frame_times(probe(files["vfr_mkv"][0]).times)
    assert np.allclose(times, np.array(clips.variable_ticks(75)) / 1000, atol=1e-9)
    times = video.frame_times(probe(files["shifted"][0]).times)
    assert np.allclose(times, 5 + np.arange(75) / 30, atol=1e-9)


def test_a_skipped_frame_is_never_one_that_others_need(files):
    """Far jumps within one group of pictures: what lies between is skipped, the frame is still exact."""
    path, _ = files["h264_long_gop"]
    truth = plain_decode(path)
    record = probe(path).times
    for choice in ([70], [1, 40, 74], [30, 31], [5, 60, 61, 62]):
        read = list(video.read_frames(path, record, choice))
        assert all(np.array_equal(frame, truth[index]) for frame, index in zip(read, choice, strict=True))


@pytest.mark.parametrize(("degrees", "turns"), [(90, 1), (180, 2), (-90, 3)])
def test_a_turned_video_is_given_upright(tmp_path, degrees, turns):
    path = clips.write(tmp_path / "turned.mp4", options=clips.H264_B, frames=20, rotation=degrees)
    found = probe(path)
    assert (found.rotation, found.width, found.height) == (turns * 90, clips.WIDTH, clips.HEIGHT)
    [frame] = video.read_frames(path, found.times, [7])
    assert np.array_equal(frame, np.rot90(plain_decode(path)[7], turns))
    assert frame.flags.c_contiguous


def test_a_phone_video_held_upright_shows_red_above_blue(tmp_path):
    """Rotation 90 (counter-clockwise) puts the stored right side on top; OpenCV shows the same picture."""
    import cv2

    path = clips.write(tmp_path / "phone.mp4", options=clips.H264_B, frames=3, rotation=90)
    [frame] = video.read_frames(path, probe(path).times, [0])
    capture = cv2.VideoCapture(str(path))
    shown = capture.read()[1][:, :, ::-1]
    assert frame.shape == shown.shape == (clips.WIDTH, clips.HEIGHT, 3)
    assert np.abs(frame.astype(int) - shown).mean() < 2
    column = frame[:, clips.HEIGHT * 5 // 8].astype(int)
    assert column[5, 2] - column[5, 0] > 100 and column[-5, 0] - column[-5, 2] > 100


def test_a_file_that_changed_is_refused_by_name(files, tmp_path):
    path, _ = files["h264"]
    record = probe(path).times
    other = clips.write(tmp_path / "kürzer.mp4", options=clips.H264_B, frames=30)
    with pytest.raises(DataError, match=r"kürzer.mp4: no frame with time stamp .* probe_videos"):
        list(video.read_frames(other, record, [3, 60]))
    with pytest.raises(DataError, match=r"asked for frames 3 to 75 of 75"):
        list(video.read_frames(path, record, [3, 75]))
    with pytest.raises(DataError, match=r"weg.mp4: no such file"):
        list(video.read_frames(tmp_path / "weg.mp4", record, [3]))


@pytest.mark.parametrize("choice", [[3, 3], [4, 3]])
def test_indices_out_of_order_are_a_bug(files, choice):
    path, _ = files["h264"]
    with pytest.raises(ValueError, match="rise strictly"):
        list(video.read_frames(path, probe(path).times, choice))


def test_a_batch_is_read_in_a_child_process(files):
    path, _ = files["h264"]
    task = (path, probe(path).times, [3, 50], {"kind": "long_side", "pixels": 80})
    [outcome] = workers.run_all(video.read_batch, [task], 1, timeout_s=60)
    assert outcome.error is None
    assert [frame.shape for frame in outcome.value] == [(48, 80, 3)] * 2
    assert [clips.code(frame) for frame in outcome.value] == [3, 50]
    [outcome] = workers.run_all(video.read_batch, [(path.with_name("weg.mp4"), *task[1:])], 1, timeout_s=60)
    assert "weg.mp4" in outcome.error


@given(
    st.integers(-(10**9), 10**9),
    st.lists(st.integers(1, 5), max_size=200),
    st.sampled_from([(1, 15360), (1001, 30000)]),
)
def test_times_survive_the_run_length_code(start, steps, time_base):
    ticks = np.array(list(itertools.accumulate(steps, initial=start)), dtype=np.int64)
    record = video.encode_times("é", ticks, time_base)
    assert video.frame_ticks(record).tolist() == ticks.tolist()
    assert np.allclose(video.frame_times(record), ticks * (time_base[0] / time_base[1]), rtol=1e-12)
    assert record.model_validate_json(record.model_dump_json()) == record


def test_a_constant_rate_is_one_run():
    record = video.encode_times("v", np.arange(0, 10**6, 512), (1, 15360))
    assert record.steps == [(512, 10**6 // 512)]


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 200).map(lambda half: 2 * half))
def test_sizes_are_even_and_never_beyond_the_longer_side(height, width, pixels):
    frame = np.zeros((height, width, 3), np.uint8)
    assert video.resize(frame, {"kind": "native"}) is frame
    longer = max(height, width)
    shrunk = video.resize(frame, {"kind": "long_side", "pixels": pixels})
    if pixels >= longer:
        assert shrunk is frame
    else:
        assert max(shrunk.shape[:2]) == pixels
        assert all(side % 2 == 0 and side >= 2 for side in shrunk.shape[:2])
        assert abs(min(shrunk.shape[:2]) - max(2, min(height, width) * pixels / longer)) <= 1
    square = video.resize(frame, {"kind": "square", "pixels": pixels})
    side = max(2, min(pixels, longer) // 2 * 2)
    assert square.shape == (side, side, 3)


def test_shrinking_averages_and_keeps_its_input():
    frame = np.zeros((64, 128, 3), np.uint8)
    frame[:, ::2] = 200
    before = frame.copy()
    for resolution in (
        {"kind": "long_side", "pixels": 32},
        {"kind": "square", "pixels": 32},
        {"kind": "square", "pixels": 96},
    ):
        shrunk = video.resize(frame, resolution)
        assert np.abs(shrunk.astype(int) - 100).max() <= (1 if resolution["pixels"] == 32 else 50)
    assert np.array_equal(frame, before)


def test_an_unknown_resolution_is_refused():
    with pytest.raises(ConfigError, match="'huge' is not known"):
        video.resize(np.zeros((4, 4, 3), np.uint8), {"kind": "huge", "pixels": 2})


def test_ten_bit_video_gives_eight_bit_brightness(tmp_path):
    path = tmp_path / "ten.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx265", rate=30)
        stream.width, stream.height, stream.pix_fmt = clips.WIDTH, clips.HEIGHT, "yuv420p10le"
        stream.codec_context.options = {"preset": "ultrafast", "x265-params": clips.X265}
        for number in range(4):
            frame = av.VideoFrame.from_ndarray(clips.picture(number), format="rgb24")
            frame.pts = number
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    planes = [plane for _, plane in video.read_luma(path)]
    assert all(plane.dtype == np.uint8 and plane.shape == (clips.HEIGHT, clips.WIDTH) for plane in planes)
    assert [clips.code(plane) for plane in planes] == [0, 1, 2, 3]
    assert [clips.code(frame) for frame in video.read_frames(path, probe(path).times, [1, 3])] == [1, 3]
