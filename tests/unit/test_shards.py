"""A cell made in shards is the cell made at once, and neither pays for what the other has answered."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.infer import merge_shards, run_cell, run_shard
from scripts.infer.cell import add_arguments, open_cache, read_cell
from scripts.infer.summary import again
from scripts.lib import cells, cli
from scripts.lib.errors import ConfigError
from scripts.lib.records import Question
from scripts.models import ocr_reader
from tests.unit.cell_sample import ROOT, arguments, change, make_inputs, start, written


def ask(video, number):
    return Question(
        key=f"d/{video}/{number}", video=video, question_id=str(number), question="?", answers=["x"], category="now"
    )


def shard_file(folder, shard):
    return folder / "out" / "shards" / f"{shard}.jsonl"


def shard_arguments(folder, shard, *args):
    """Of one shard; ``--predictions`` is the last pair of run_cell's."""
    return [*arguments(folder, *args)[:-1], str(shard_file(folder, shard)), "--shard", shard]


def run_shards(folder, count, *args):
    return [run_shard.main(shard_arguments(folder, shard, *args)) for shard in cells.shard_names(count)]


def merge(folder, shards):
    files = [str(shard_file(folder, shard)) for shard in shards]
    given = ["--questions", f"{folder}/questions.jsonl", "--shards", *files]
    return merge_shards.main([*given, "--predictions", f"{folder}/out/predictions.jsonl"])


def cached(folder):
    return [line for file in sorted(folder.glob("cache/*/*.jsonl")) for line in file.read_bytes().splitlines()]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 8), st.randoms(use_true_random=False))
def test_shares_are_a_partition_by_video_whatever_the_order(sizes, count, random):
    questions = [ask(f"vidéo {video}", number) for video, size in enumerate(sizes) for number in range(size)]
    shares = [run_shard.share(questions, number, count) for number in range(1, count + 1)]
    assert sorted(one.key for part in shares for one in part) == sorted(one.key for one in questions)
    for part in shares:
        videos = {one.video for one in part}
        assert part == [one for one in questions if one.video in videos], "a video's questions stay together, in order"
    counts = [len(part) for part in shares]
    assert max(counts) - min(counts) <= max(sizes)
    shuffled = random.sample(questions, len(questions))
    for number, part in enumerate(shares, 1):
        assert {one.key for one in run_shard.share(shuffled, number, count)} == {one.key for one in part}


def test_shards_merge_to_what_the_whole_cell_gives(tmp_path, capsys):
    folder = make_inputs(tmp_path, videos=5)
    change(folder / "frames.jsonl", 4, status="error:video_undecodable", frames=[], times=[], note="kein Bild")
    assert run_cell.main(arguments(folder)) == 0
    whole = written(folder)
    assert run_shards(folder, 3) == [0, 0, 0]
    sizes = [len(shard_file(folder, one).read_text().splitlines()) for one in cells.shard_names(3)]
    assert sum(sizes) == 15 and min(sizes) > 0
    (folder / "out" / "predictions.jsonl").unlink()
    capsys.readouterr()
    assert merge(folder, cells.shard_names(3)) == 0
    assert written(folder) == whole
    assert "15 questions: 14 ok, 1 error:video_undecodable" in capsys.readouterr().err


def test_more_shards_than_videos_leave_some_empty_and_load_no_model_for_them(tmp_path, monkeypatch):
    folder = make_inputs(tmp_path)
    assert run_shards(folder, 2) == [0, 0]
    monkeypatch.setattr(ocr_reader, "load", None)  # calling it would fail
    assert run_shards(folder, 4) == [0] * 4
    assert [shard_file(folder, one).read_text() for one in ("3of4", "4of4")] == ["", ""]
    assert merge(folder, cells.shard_names(4)) == 0
    assert len(written(folder)) == 6


@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 1), (2, 5)])
def test_another_number_of_shards_asks_nothing_anew(tmp_path, monkeypatch, first, then):
    """The number stands in the model's YAML, which is edited between the runs."""
    folder = make_inputs(tmp_path, videos=4)
    model = folder / "config" / "models" / "ocr_reader.yaml"
    text = model.read_text(encoding="utf-8")

    def run(count):
        model.write_text(text.replace("cpus: 1}", f"cpus: 1, shards: {count}}}"), encoding="utf-8")
        return [run_cell.main(arguments(folder))] if count == 1 else run_shards(folder, count)

    assert run(first) == [0] * first
    paid = cached(folder)
    assert len(paid) == 12
    monkeypatch.setattr(ocr_reader, "load", None)  # calling it would fail
    assert run(then) == [0] * then
    assert cached(folder) == paid
    assert then == 1 or merge(folder, cells.shard_names(then)) == 0
    assert len(written(folder)) == 12


def test_a_shard_does_not_wait_for_another_that_is_at_work(tmp_path):
    """Jobs on two nodes: a lock on a shared cache file would make them take turns."""
    folder = make_inputs(tmp_path)
    args = add_arguments(cli.parser(None)).parse_args(shard_arguments(folder, "1of2")[:-2])
    with open_cache(args.cache, read_cell(args), args.predictions):
        other = start(shard_arguments(folder, "2of2"), "run_shard")
        _, messages = other.communicate(timeout=60)  # waits for ever if both write one file
        assert other.returncode == 0, messages
    assert "waiting" not in messages
    assert len(shard_file(folder, "2of2").read_text().splitlines()) == 3


def test_shards_side_by_side_keep_every_answer(tmp_path):
    folder = make_inputs(tmp_path, videos=30)
    at_work = [start(shard_arguments(folder, shard), "run_shard") for shard in cells.shard_names(3)]
    for process in at_work:
        _, messages = process.communicate(timeout=120)
        assert process.returncode == 0, messages
    assert len({json.loads(line)[0] for line in cached(folder)}) == len(cached(folder)) == 90
    assert merge(folder, cells.shard_names(3)) == 0


def test_a_share_without_text_is_no_other_error_than_in_the_whole_cell(tmp_path):
    folder = make_inputs(tmp_path)
    lines = (folder / "ocr.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "ocr.jsonl").write_text("".join(lines[:12]), encoding="utf-8")  # of the first video only
    assert run_cell.main(arguments(folder)) == 0
    whole = written(folder)
    assert [one["status"] for one in whole] == ["ok"] * 3 + ["error:ocr"] * 3
    assert run_shards(folder, 2) == [0, 0]
    assert merge(folder, cells.shard_names(2)) == 0
    assert written(folder) == whole


def test_the_merge_says_which_shard_to_try_again(tmp_path, capsys):
    folder = make_inputs(tmp_path)
    run_shards(folder, 2)
    change(shard_file(folder, "2of2"), 0, status="error:engine", answer="", raw="", detail="out of paper")
    capsys.readouterr()
    assert merge(folder, ["1of2", "2of2"]) == 0
    said = capsys.readouterr().err
    assert f"try the 1 errors of decoding or the model again: {again(shard_file(folder, '2of2'))}" in said
    assert str(shard_file(folder, "1of2")) not in said


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        (["1of2"], "no shard has 'd/vidéo 1/0' (3 missing of 6)"),
        (["1of2", "2of2", "1of3"], "1of3.jsonl: 'd/vidéo 0/0' is in "),
        (["1of2", "foreign"], "foreign.jsonl: no question 'd/un autre/0' in the data set"),
        (["1of2", "absent"], "absent.jsonl: no such file"),
    ],
)
def test_shards_that_do_not_make_a_cell_are_refused(tmp_path, capsys, shards, message):
    folder = make_inputs(tmp_path)
    run_shards(folder, 2)
    shard_file(folder, "1of3").write_bytes(shard_file(folder, "1of2").read_bytes())
    shard_file(folder, "foreign").write_bytes(shard_file(folder, "2of2").read_bytes())
    change(shard_file(folder, "foreign"), 0, key="d/un autre/0")
    capsys.readouterr()
    assert merge(folder, shards) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("error: ") and "Traceback" not in said
    assert not (folder / "out" / "predictions.jsonl").exists()


@pytest.mark.parametrize("shard", ["5of4", "0of4", "2", "02of4", "2of4.jsonl"])
def test_a_shard_that_can_not_be_is_one_line(tmp_path, capsys, shard):
    with pytest.raises(ConfigError):
        cells.parse_shard(shard)
    assert run_shard.main(shard_arguments(make_inputs(tmp_path), shard)) == 1
    assert capsys.readouterr().err == f"error: shard '{shard}' is not of the form 2of4\n"


def test_names_of_shards_are_read_back():
    assert [cells.parse_shard(one) for one in cells.shard_names(11)] == [(number, 11) for number in range(1, 12)]


def test_merging_needs_no_package_of_the_models():
    """It runs in the image base."""
    code = "import sys, scripts.infer.merge_shards, scripts.infer.fetch_predictions; "
    code += "print([m for m in ('av', 'cv2', 'rapidfuzz', 'torch', 'transformers') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
