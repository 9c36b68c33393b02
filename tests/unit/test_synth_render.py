"""What is rendered: pixels against the logged truth, transitions, and resuming."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from scripts.lib import jsonl
from scripts.lib.errors import ConfigError, DataError, EngineError
from scripts.lib.records import Scenario, Source
from scripts.synth import backgrounds, build_scenarios, compose, encode, fonts, motion, render_videos, sprites
from tests.unit import synth_sample

ROOT = Path(__file__).resolve().parents[2]
FACES = fonts.find(False)
PLAIN = {"noise_sigma": 0.0, "overlay": {"colour": [0, 0, 0], "alpha": 0.0}}
EDGE = 3
DIFFERS = 28
"""Levels of luma: above the encoder's noise, below any text."""


def plain(scenario: Scenario) -> Scenario:
    """The scenario over one background, with neither shadow nor noise, so that only its text changes a pixel."""
    look = scenario.look | PLAIN
    if scenario.kind == "rolling":
        look |= {"joins": [], "backgrounds": look["backgrounds"][:1], "shadow": None, "opacity": 1.0}
        look |= {"backgrounds": [{"kind": "gradient", "tone": look["tone"], "seed": 1}]}
    return scenario.model_copy(update={"look": look})


def decoded(path: Path) -> tuple[list[np.ndarray], list[float]]:
    """Luma planes and presentation times of a file."""
    import av

    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    return [frame.to_ndarray(format="gray").astype(int) for frame in frames], [float(frame.time) for frame in frames]


def render(scenario: Scenario, path: Path) -> tuple[list[np.ndarray], list[float]]:
    size = scenario.width, scenario.height, scenario.fps
    encode.encode(path, compose.frames(scenario, FACES, None), *size, {"preset": "ultrafast", "crf": 8})
    return decoded(path)


@pytest.mark.parametrize("index", range(len(motion.MOTIONS)))
def test_the_pixels_of_rolling_text_are_where_the_truth_says(tmp_path: Path, index: int) -> None:
    source = synth_sample.rolling(duration_s=[7, 8], font_size=[22, 26])
    made, _ = build_scenarios.build(source | {"source": source["source"] | {"videos": index + 1}}, FACES)
    scenario = plain(made[index])
    pictures, times = render(scenario, tmp_path / "r.mp4")
    assert times == pytest.approx([k / scenario.fps for k in range(len(pictures))])
    assert len(pictures) == round(scenario.duration_s * scenario.fps)
    empty = render(scenario.model_copy(update={"look": scenario.look | {"pages": []}}), tmp_path / "e.mp4")[0][0]
    checked = 0
    for picture, t in zip(pictures, times, strict=True):
        boxes = [box for text in scenario.texts if (box := motion.box_at(text, t))]
        difference = abs(picture - empty)
        explained = np.zeros(picture.shape, bool)
        # what has entered by less than a pixel is drawn or not, as the rounding goes
        explained[:EDGE], explained[-EDGE:], explained[:, :EDGE], explained[:, -EDGE:] = True, True, True, True
        for box in boxes:
            explained[near(box)] = True
            if difference.max() > 3 * DIFFERS:  # a faint text shows in part
                checked += sides_agree(difference, box, t)
        assert not (difference > DIFFERS)[~explained].any(), (t, boxes)
    assert checked > len(pictures) / 2


def near(box: tuple[float, ...]) -> tuple[slice, slice]:
    """The pixels of a box and of three more around it."""
    left, top, right, bottom = box
    return slice(max(0, round(top) - 3), round(bottom) + 3), slice(max(0, round(left) - 3), round(right) + 3)


def sides_agree(difference: np.ndarray, box: tuple[float, ...], t: float) -> int:
    """Check each side of a text that is inside the frame; return how many there were. Of a text that is cut, only the
    sides across the cut: a few letters need not be as high as the line."""
    height, width = difference.shape
    left, top, right, bottom = box
    cut_x, cut_y = left <= EDGE or right >= width - EDGE, top <= EDGE or bottom >= height - EDGE
    rows, columns = np.nonzero(difference[near(box)] > DIFFERS)
    if (cut_x and right - left < 30) or cut_y or not rows.size:
        return 0
    area = near(box)
    seen = [columns.min() + area[1].start, columns.max() + 1 + area[1].start]
    sides = [(seen[0], left), (seen[1], right)] if not cut_x else []
    sides += [(seen[0], left)] if cut_x and left > EDGE else []
    sides += [(seen[1], right)] if cut_x and right < width - EDGE else []
    if not cut_x:
        sides += [(rows.min() + area[0].start, top), (rows.max() + 1 + area[0].start, bottom)]
    assert all(abs(a - b) <= 3.5 for a, b in sides), (t, sides)
    return len(sides)


def test_the_pixels_of_signs_are_where_the_truth_says(tmp_path: Path) -> None:
    made, _ = build_scenarios.build(synth_sample.signs(videos=1, duration_s=[8, 8], signs=[2, 2]), FACES)
    scenario = plain(made[0])
    pictures, times = render(scenario, tmp_path / "s.mp4")
    empty, _ = render(scenario.model_copy(update={"look": scenario.look | {"signs": []}}), tmp_path / "e.mp4")
    for sign, text, window in zip(scenario.look["signs"], scenario.texts, _windows(scenario), strict=True):
        k = round((window[0] + window[1]) / 2 * scenario.fps)
        rows, columns = np.nonzero(abs(pictures[k] - empty[k]) > DIFFERS)
        left, top, right, bottom = motion.box_at(text, times[k])
        pad = sign["ink"][0]
        board = left - pad, top - pad, right + pad, bottom + pad
        seen = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
        assert np.abs(np.subtract(seen, board)).max() <= 4, (seen, board)
        ink = pictures[k][round(top) : round(bottom), round(left) : round(right)]
        assert ink.max() - ink.min() > 60  # letters, not an empty board
    boards = {k for sign in scenario.look["signs"] for k in range(sign["start"], sign["end"] + 1)}
    bare = sorted(set(range(len(times))) - boards)
    assert bare, "a clip has frames without a sign"
    assert all(abs(pictures[k] - empty[k]).max() <= DIFFERS for k in bare)


def _windows(scenario: Scenario) -> list[tuple[float, float]]:
    from scripts.synth import signs

    return [(window.start, window.end) for window in signs.windows(scenario)]


def test_frames_drawn_by_parts_equal_frames_drawn_anew() -> None:
    for scenario in build_scenarios.build(synth_sample.rolling(), FACES)[0]:
        total = round(scenario.duration_s * scenario.fps)
        by_parts = [frame.to_ndarray(format="yuv420p") for frame in compose.frames(scenario, FACES, None)]
        for k in range(0, total, 7):
            painter = compose.rolling_painter(scenario, FACES, None)
            anew = np.zeros_like(by_parts[k])
            chroma = anew[scenario.height :].reshape(2, scenario.height // 2, scenario.width // 2)
            painter(k, (anew[: scenario.height], chroma[0], chroma[1]))
            assert np.array_equal(anew, by_parts[k]), (scenario.id, k)


def test_the_encoder_is_done_with_a_frame_before_it_is_drawn_over(tmp_path: Path) -> None:
    scenario = build_scenarios.build(synth_sample.rolling(videos=1), FACES)[0][0]
    kept = []
    for frame in compose.frames(scenario, FACES, None):
        kept.append(type(frame).from_ndarray(frame.to_ndarray(format="yuv420p"), format="yuv420p"))
        kept[-1].pts = frame.pts
    size, options = (scenario.width, scenario.height, scenario.fps), {"preset": "veryfast", "crf": 20}
    encode.encode(tmp_path / "kept.mp4", kept, *size, options)
    encode.encode(tmp_path / "drawn.mp4", compose.frames(scenario, FACES, None), *size, options)
    assert (tmp_path / "kept.mp4").read_bytes() == (tmp_path / "drawn.mp4").read_bytes()


@pytest.mark.parametrize("direction", backgrounds.DIRECTIONS)
@pytest.mark.parametrize("kind", backgrounds.JOINS)
def test_a_transition_shows_both_pictures(kind: str, direction: str) -> None:
    old, new = np.full((40, 60), 50, np.uint8), np.full((40, 60), 200, np.uint8)
    half = compose.joined(kind, direction, old, new, 0.5)
    assert half.shape == old.shape
    if kind == "dissolve":
        assert np.all(half == 125)
    else:
        assert set(np.unique(half)) == {50, 200} and (half == 200).mean() == 0.5
    early, late = (compose.joined(kind, direction, old, new, share).mean() for share in (0.1, 0.9))
    assert 50 < early < half.mean() < late < 200


def test_a_wipe_uncovers_the_new_picture_and_a_slide_moves_it_in() -> None:
    old, new = np.zeros((4, 10), np.uint8), np.tile(np.arange(1, 11, dtype=np.uint8), (4, 1))
    assert compose.joined("wipe", "right", old, new, 0.3)[0].tolist() == [1, 2, 3, 0, 0, 0, 0, 0, 0, 0]
    assert compose.joined("slide", "right", old, new, 0.3)[0].tolist() == [8, 9, 10, 0, 0, 0, 0, 0, 0, 0]
    assert compose.joined("wipe", "left", old, new, 0.3)[0].tolist() == [0, 0, 0, 0, 0, 0, 0, 8, 9, 10]
    assert compose.joined("slide", "left", old, new, 0.3)[0].tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 2, 3]


@pytest.mark.parametrize("parity", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_sprite_leaves_what_it_does_not_cover_and_colours_what_it_does(parity: tuple[int, int]) -> None:
    font = fonts.load(FACES[0].path, 24)
    sprite = sprites.text_sprite(font, "Ärger", [255, 0, 0], 1.0, None)
    ground = np.full((64, 96, 3), 90, np.uint8)
    planes = tuple(plane.copy() for plane in sprites.planes_of(ground))
    before = [plane.copy() for plane in planes]
    area = sprite.blit(planes, 10 + parity[0], 10 + parity[1])
    assert area is not None
    outside = np.ones((64, 96), bool)
    outside[area[1] : area[3], area[0] : area[2]] = False
    assert np.array_equal(planes[0][outside], before[0][outside])
    assert abs(int(planes[2].max()) - round(sprites.yuv([255, 0, 0])[2])) <= 25
    assert sprite.blit(planes, 200, 10) is None


def test_noise_is_one_fixed_field() -> None:
    [scenario] = build_scenarios.build(synth_sample.rolling(videos=1), FACES)[0]
    still = scenario.model_copy(update={"look": scenario.look | {"joins": [], "noise_sigma": 5.0, "pages": []}})
    frames = [frame.to_ndarray(format="gray") for frame in compose.frames(still, FACES, None, 3)]
    assert np.array_equal(frames[0], frames[2])
    quiet = next(compose.frames(plain(still), FACES, None)).to_ndarray(format="gray").astype(int)
    assert np.diff(frames[0].astype(int)).std() > 3 + np.diff(quiet).std()


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, Path]:
    """A tiny data set's files, with a name that is not ASCII."""
    for folder in ("datasets", "schemas"):
        (tmp_path / folder).mkdir()
    schema = (ROOT / "config/schemas/dataset.schema.yaml").read_text(encoding="utf-8")
    (tmp_path / "schemas/dataset.schema.yaml").write_text(schema, encoding="utf-8")
    paths = {"dataset": tmp_path / "datasets" / "größe.yaml", "scenarios": tmp_path / "s.jsonl"}
    dataset = synth_sample.rolling(videos=3, duration_s=[1.5, 1.5], languages=["fr"])
    del dataset["name"]
    paths["dataset"].write_text(yaml.safe_dump(dataset), encoding="utf-8")
    paths |= {"videos": tmp_path / "vidéos", "manifest": tmp_path / "m.jsonl"}
    arguments = ["--dataset", paths["dataset"], "--scenarios", paths["scenarios"], "--questions", tmp_path / "q.jsonl"]
    assert build_scenarios.main(list(map(str, arguments))) == 0
    return paths


def run_render(paths: dict[str, Path]) -> int:
    return render_videos.main([part for name, path in paths.items() for part in (f"--{name}", str(path))])


def stamps(paths: dict[str, Path]) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in sorted(paths["videos"].glob("*.mp4"))}


def test_a_rerun_renders_only_what_is_missing_or_changed(tree: dict[str, Path]) -> None:
    assert run_render(tree) == 0
    first = stamps(tree)
    sources = list(jsonl.read(tree["manifest"], Source))
    assert [source.id for source in sources] == ["rtl_000", "ltr_001", "ttb_002"]
    assert {Path(source.path).name for source in sources} == set(first)
    assert run_render(tree) == 0
    assert stamps(tree) == first
    scenarios = list(jsonl.read(tree["scenarios"], Scenario))
    name = f"änderung_{scenarios[0].id}"
    renamed = scenarios[0].model_copy(update={"id": name})
    changed = scenarios[1].model_copy(update={"look": scenarios[1].look | {"colour": [0, 0, 0]}})
    jsonl.write(tree["scenarios"], [renamed, changed, scenarios[2]])
    left = tree["videos"] / f".{changed.id}.half.mp4"
    left.write_bytes(b"what a killed run was writing")
    assert run_render(tree) == 0
    assert not left.exists()
    second = stamps(tree)
    assert second[f"{scenarios[2].id}.mp4"] == first[f"{scenarios[2].id}.mp4"]
    assert second[f"{changed.id}.mp4"] != first[f"{changed.id}.mp4"]
    assert f"{name}.mp4" in second
    assert [source.id for source in jsonl.read(tree["manifest"], Source)] == [name, changed.id, scenarios[2].id]


def test_a_kill_between_video_and_note_renders_again(tree: dict[str, Path]) -> None:
    assert run_render(tree) == 0
    first = stamps(tree)
    note = tree["videos"] / "ltr_001.json"
    assert set(json.loads(note.read_text(encoding="utf-8"))) == {"id", "fingerprint"}
    note.unlink()
    assert run_render(tree) == 0
    second = stamps(tree)
    assert {name for name in first if first[name] != second[name]} == {"ltr_001.mp4"}


def test_other_encoder_settings_render_again(tree: dict[str, Path]) -> None:
    [scenario, *_] = jsonl.read(tree["scenarios"], Scenario)
    first, second = ({"preset": "ultrafast", "crf": crf} for crf in (20, 30))
    assert render_videos.print_of(scenario, first) == render_videos.print_of(scenario, dict(reversed(first.items())))
    assert render_videos.print_of(scenario, first) != render_videos.print_of(scenario, second)


def test_a_font_that_is_gone_ends_in_one_line(tree: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    scenarios = list(jsonl.read(tree["scenarios"], Scenario))
    look = scenarios[0].look | {"font": {"family": "Nowhere Sans", "file": "nowhere.ttf", "size": 20}}
    jsonl.write(tree["scenarios"], [scenarios[0].model_copy(update={"look": look}), *scenarios[1:]])
    assert run_render(tree) == 1
    message = capsys.readouterr().err
    assert "font 'Nowhere Sans' (nowhere.ttf) is not installed here" in message and "1 of 3 videos failed" in message
    assert sorted(stamps(tree)) == ["ltr_001.mp4", "ttb_002.mp4"]
    assert not tree["manifest"].exists()


def test_a_place_that_cannot_be_written_ends_in_one_line(
    tree: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    tree["videos"].write_text("a file where the folder should be", encoding="utf-8")
    assert run_render(tree) == 1
    assert "check the path" in capsys.readouterr().err


def test_an_encoder_that_refuses_says_so(tmp_path: Path) -> None:
    [scenario] = build_scenarios.build(synth_sample.rolling(videos=1), FACES)[0]
    frames = compose.frames(scenario, FACES, None, 2)
    with pytest.raises(EngineError, match="not written"):
        encode.encode(tmp_path / "no folder" / "x.mp4", frames, 320, 180, 25, {"preset": "ultrafast", "crf": 23})


def test_users_pictures_are_used_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    from PIL import Image

    for name, colour in (("é.png", (200, 30, 30)), ("b.jpg", (200, 40, 20))):
        Image.new("RGB", (90, 200), colour).save(tmp_path / name)
    pictures = backgrounds.images(tmp_path)
    made, _ = build_scenarios.build(synth_sample.rolling(videos=1, backgrounds=str(tmp_path)), FACES, pictures)
    assert {look["file"] for look in made[0].look["backgrounds"]} <= {"é.png", "b.jpg"}
    frame = next(compose.frames(plain_photo(made[0]), FACES, tmp_path)).to_ndarray(format="rgb24")
    assert frame[..., 0].mean() > 150 > 100 > frame[..., 1].mean()
    for path in tmp_path.iterdir():
        Image.new("RGB", (90, 200), (1, 2, 3)).save(path)
    with pytest.raises(DataError, match="not the picture the scenario was made with"):
        next(compose.frames(made[0], FACES, tmp_path))
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(DataError, match="the background is gone"):
        next(compose.frames(made[0], FACES, tmp_path))


def plain_photo(scenario: Scenario) -> Scenario:
    return scenario.model_copy(update={"look": scenario.look | PLAIN | {"joins": []}})


def test_faces_are_resolved_by_family_and_file() -> None:
    face = FACES[0]
    assert fonts.resolve(FACES, face.family, face.file) == face
    with pytest.raises(ConfigError, match="not installed here"):
        fonts.resolve(FACES, face.family, "other.ttf")
