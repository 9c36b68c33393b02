"""What probe says about good, odd and broken files, and the step that probes a whole manifest."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from scripts.acquire import probe_videos
from scripts.lib import jsonl, video
from scripts.lib.probe import is_variable, probe
from scripts.lib.records import FrameTimes, Source, Video
from tests.unit import clips


@pytest.mark.parametrize("kind", ["h264", "h264_mkv", "hevc", "vp9", "av1", "mpeg4", "h264_avi_b"])
def test_a_good_clip_of_each_codec(tmp_path, kind):
    found = probe(clips.write_kind(tmp_path, kind, 40))
    assert (found.status, found.detail, found.n_frames, found.vfr) == ("ok", "", 40, False)
    assert (found.width, found.height, found.rotation) == (clips.WIDTH, clips.HEIGHT, 0)
    assert found.duration_s == pytest.approx(40 / 30, abs=0.002)
    assert found.fps_avg == pytest.approx(30, rel=0.002)
    assert found.codec == {"h264_mkv": "h264", "h264_avi_b": "h264"}.get(kind, kind)


def test_a_variable_rate_is_seen(tmp_path):
    ticks = clips.variable_ticks(30)
    for name in ("v.mp4", "v.mkv"):
        found = probe(
            clips.write(tmp_path / name, ticks=ticks, time_base=clips.Fraction(1, 1000), options=clips.H264_B)
        )
        assert found.vfr and found.n_frames == 30
        assert found.duration_s == pytest.approx((ticks[-1] - ticks[0]) / 1000, abs=0.07)


def test_rounding_to_ticks_is_no_variable_rate():
    for rate in (23.976, 24, 25, 29.97, 30, 59.94):
        assert not is_variable(np.round(np.arange(500) * 1000 / rate).astype(np.int64))
        assert not is_variable(np.floor(np.arange(500) * 1000 / rate).astype(np.int64))
    assert is_variable(np.array([0, 33, 67, 133, 167]))
    assert not is_variable(np.array([7])) and not is_variable(np.array([7, 90]))


@pytest.mark.parametrize(("kind", "share"), [("mp4", 0.7), ("mkv", 0.6), ("webm", 0.6), ("mp4", 0.55)])
def test_a_file_cut_short_keeps_its_good_part(tmp_path, kind, share):
    whole = {
        "mp4": lambda: clips.write(tmp_path / "w.mp4", options=clips.H264_B, container={"movflags": "faststart"}),
        "mkv": lambda: clips.write_kind(tmp_path, "h264_mkv"),
        "webm": lambda: clips.write_kind(tmp_path, "vp9"),
    }[kind]()
    found = probe(clips.cut_short(whole, tmp_path / f"cut.{kind}", share))
    assert found.status == "truncated" and 5 < found.n_frames < 74
    assert found.detail.startswith("good until") and "of 2.5 s" in found.detail and "\n" not in found.detail
    times = video.frame_times(found.times)
    assert len(times) == found.n_frames and times[-1] < 2.4


def test_damage_in_the_middle_ends_the_good_part(tmp_path):
    path = clips.write(tmp_path / "d.mp4", options=clips.H264_B, container={"movflags": "faststart"})
    data = bytearray(path.read_bytes())
    middle = (data.index(b"mdat") + len(data)) // 2
    data[middle : middle + 1500] = bytes((7 * value + 13) % 256 for value in data[middle : middle + 1500])
    path.write_bytes(data)
    found = probe(path)
    assert found.status == "truncated" and 5 < found.n_frames < 74
    frames = list(video.read_frames(path, found.times, range(found.n_frames)))
    assert [clips.code(frame) for frame in frames] == list(range(found.n_frames))


def test_a_header_that_promises_more_or_fewer_frames_is_not_believed(tmp_path):
    path = clips.write_kind(tmp_path, "mpeg4", 40)
    data = path.read_bytes()
    for lie, status in ((1, "ok"), (38, "ok"), (400, "truncated")):
        for chunk, offset in ((b"avih", 8 + 16), (b"strh", 8 + 32)):
            place = data.index(chunk) + offset
            assert int.from_bytes(data[place : place + 4], "little") == 40 or lie != 1
            data = data[:place] + lie.to_bytes(4, "little") + data[place + 4 :]
        path.write_bytes(data)
        found = probe(path)
        assert (found.n_frames, found.status) == (40, status)


BROKEN = {
    "leer.mp4": (lambda path: path.write_bytes(b""), "empty"),
    "text.mp4": (
        lambda path: path.write_text("<html>Zugriff verweigert — é</html>" * 50, encoding="utf-8"),
        "not a video",
    ),
    "ton.mp4": (clips.sound_only, "no picture track"),
    "ohne_moov.mp4": (lambda path: clips.cut_short(clips.write(path, options=clips.H264_B), path, 0.5), "moov"),
    "kopf.mkv": (
        lambda path: clips.cut_short(clips.write(path, options=clips.H264_B), path, 0.01),
        "container is broken",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_without_any_frame_says_why(tmp_path, name):
    make, words = BROKEN[name]
    make(tmp_path / name)
    found = probe(tmp_path / name)
    assert found.status == "undecodable" and found.n_frames == 0 and found.times is None
    assert words in found.detail and "\n" not in found.detail


@pytest.fixture
def project(tmp_path):
    """A data set with one good, one cut, four broken and two missing videos; returns the command line."""
    (tmp_path / "config" / "datasets").mkdir(parents=True)
    root = probe_videos.__file__.rsplit("/scripts/", 1)[0]
    (tmp_path / "config" / "schemas").symlink_to(f"{root}/config/schemas")
    dataset = tmp_path / "config" / "datasets" / "größe.yaml"
    dataset.write_text(
        "title: T\nlicence: CC0-1.0\nsource: {kind: local, videos: v, questions: q.jsonl}\n", encoding="utf-8"
    )
    videos = tmp_path / "v"
    videos.mkdir()
    fast = clips.write(videos / "gut é.mp4", options=clips.H264_B, container={"movflags": "faststart"})
    clips.cut_short(fast, videos / "kurz.mp4", 0.7)
    (videos / "kopie.mp4").write_bytes(fast.read_bytes())
    for name in ("leer.mp4", "text.mp4"):
        BROKEN[name][0](videos / name)
    listed = [Source(id=file.stem, path=str(file), source="s", licence="l") for file in sorted(videos.iterdir())]
    listed.append(Source(id="fort", path=str(videos / "fort.mp4"), source="s", licence="l"))
    listed.append(Source(id="privat", path="", status="missing:private", source="s", licence="l"))
    jsonl.write(tmp_path / "manifest.jsonl", listed)
    out = ["--videos", str(tmp_path / "videos.jsonl"), "--frame-times", str(tmp_path / "times.jsonl")]
    kept = ["--cache", str(tmp_path / "cache"), "--workers", "1", "--timeout-s", "60"]
    return tmp_path, ["--dataset", str(dataset), "--manifest", str(tmp_path / "manifest.jsonl"), *out, *kept]


def test_bad_files_are_marked_and_never_stop_the_run(project, capsys):
    folder, argv = project
    assert probe_videos.main(argv) == 0
    found = jsonl.read_unique(folder / "videos.jsonl", Video, "id")
    assert {video_.id: video_.status for video_ in found.values()} == {
        "gut é": "ok",
        "kopie": "ok",
        "kurz": "truncated",
        "leer": "undecodable",
        "text": "undecodable",
        "fort": "missing:other",
        "privat": "missing:private",
    }
    assert all(video_.detail for video_ in found.values() if video_.status != "ok")
    assert found["gut é"].dataset == "größe" and len(found["gut é"].sha256) == 64 and found["fort"].sha256 == ""
    times = jsonl.read_unique(folder / "times.jsonl", FrameTimes, "id")
    assert set(times) == {"gut é", "kopie", "kurz"}
    assert all(len(video.frame_ticks(record)) == found[key].n_frames for key, record in times.items())
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("probe_videos größe: 2 ok, ") and "1 truncated" in line and "2 undecodable" in line
    assert "text.mp4 (undecodable)" in line and "privat (missing:private)" in line and "rerun" in line
    assert "gut é" not in line


def test_what_was_found_is_not_decoded_again(project):
    folder, argv = project
    assert probe_videos.main(argv) == 0
    first = (folder / "videos.jsonl").read_bytes()
    kept = sorted((folder / "cache").rglob("*.json"))
    assert len(kept) == 4  # two files are the same
    for file in kept:  # a finding that decoding would not give shows where the second run took it from
        content = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**content, "codec": "from the cache"}), encoding="utf-8")
    (folder / "videos.jsonl").unlink()
    (folder / "v" / "leer.mp4").write_bytes((folder / "v" / "kopie.mp4").read_bytes()[:-1])
    assert probe_videos.main(argv) == 0
    found = jsonl.read_unique(folder / "videos.jsonl", Video, "id")
    assert {video_.codec for video_ in found.values() if video_.sha256} == {"from the cache", "h264"}
    assert found["leer"].codec == "h264" and first != (folder / "videos.jsonl").read_bytes()


def hang(task):
    """Waits for a writer that never comes."""
    pipe = task[1].with_suffix(".pipe")
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    pipe.read_bytes()


def test_a_file_that_takes_too_long_is_given_up_until_the_limit_changes(project, monkeypatch):
    folder, argv = project
    lines = [line for line in jsonl.read(folder / "manifest.jsonl", Source) if line.id in ("gut é", "leer")]
    jsonl.write(folder / "manifest.jsonl", lines)
    [empty] = [Path(line.path) for line in lines if line.id == "leer"]
    assert probe_videos.main(argv) == 0
    empty.write_text("hang", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(probe_videos, "probe_into", hang)
        assert probe_videos.main([*argv[:-1], "0.5"]) == 0
    found = jsonl.read_unique(folder / "videos.jsonl", Video, "id")
    assert (found["leer"].status, found["leer"].detail) == ("undecodable", "no answer within 0.5 s")
    assert probe_videos.main([*argv[:-1], "0.5"]) == 0
    assert jsonl.read_unique(folder / "videos.jsonl", Video, "id")["leer"].detail == "no answer within 0.5 s"
    assert probe_videos.main(argv) == 0
    assert "not a video" in jsonl.read_unique(folder / "videos.jsonl", Video, "id")["leer"].detail


def die(task):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_file_on_which_the_process_died_is_tried_again_by_the_next_run(project, monkeypatch, capsys):
    folder, argv = project
    lines = [line for line in jsonl.read(folder / "manifest.jsonl", Source) if line.id in ("gut é", "kurz")]
    jsonl.write(folder / "manifest.jsonl", lines[:1])
    assert probe_videos.main(argv) == 0
    jsonl.write(folder / "manifest.jsonl", lines)
    with monkeypatch.context() as patch:
        patch.setattr(probe_videos, "probe_into", die)
        assert probe_videos.main(argv) == 0
    found = jsonl.read_unique(folder / "videos.jsonl", Video, "id")
    assert (found["kurz"].status, found["kurz"].detail) == ("undecodable", "the process died (exit code -9)")
    assert "kurz.mp4: the process died (exit code -9)" in capsys.readouterr().err
    assert probe_videos.main(argv) == 0
    assert jsonl.read_unique(folder / "videos.jsonl", Video, "id")["kurz"].status == "truncated"


def test_the_summary_says_for_each_kind_what_to_do(project, capsys):
    folder, argv = project
    assert probe_videos.main(argv) == 0
    line = capsys.readouterr().err.strip().splitlines()[-1]
    broken, absent, lost = [line.index(words) for words in probe_videos.REMEDIES.values()]
    assert broken < line.index("fort.mp4") < absent < line.index("privat (missing:private)") < lost
    assert line.index("leer.mp4") < broken and line.endswith("; then rerun")
    videos = list(jsonl.read(folder / "videos.jsonl", Video))
    assert probe_videos.summary([one for one in videos if one.status == "ok"]) == "2 ok"
    only = probe_videos.summary([one for one in videos if one.id in ("gut é", "fort")])
    assert only.startswith("1 ok, 1 missing:other; fort.mp4 (missing:other): put the file") and "fetch" not in only


def test_a_data_set_without_a_usable_video_is_refused(project, capsys):
    folder, argv = project
    lines = [line for line in jsonl.read(folder / "manifest.jsonl", Source) if line.id in ("leer", "fort")]
    jsonl.write(folder / "manifest.jsonl", lines)
    assert probe_videos.main(argv) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "manifest.jsonl: none of 2 videos can be used" in error and "leer.mp4: the file is empty" in error
    assert not (folder / "videos.jsonl").exists()
