"""What is drawn before anything is rendered: scenarios, truth and questions."""

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.lib.errors import ConfigError
from scripts.lib.records import Scenario
from scripts.synth import backgrounds, build_scenarios, fonts, motion, rolling, signs, words
from tests.unit import synth_sample

ROOT = Path(__file__).resolve().parents[2]
FACES = fonts.find(False)


def test_another_process_with_another_hash_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    digests = []
    for hash_seed in ("1", "2"):
        names = [tmp_path / f"{part}{hash_seed}.jsonl" for part in "sq"]
        arguments = ["--dataset", "config/datasets/demo_signs.yaml", "--scenarios", names[0], "--questions", names[1]]
        subprocess.run(
            [sys.executable, "-m", "scripts.synth.build_scenarios", *map(str, arguments)],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
        )
        digests.append([hashlib.sha256(name.read_bytes()).hexdigest() for name in names])
    assert digests[0] == digests[1]


@pytest.mark.parametrize("sample", [synth_sample.rolling, synth_sample.signs])
def test_more_videos_keep_the_earlier_ones_and_another_seed_changes_them(sample) -> None:
    few, few_questions = build_scenarios.build(sample(videos=2), FACES)
    more, more_questions = build_scenarios.build(sample(videos=5), FACES)
    assert more[:2] == few
    assert more_questions[: len(few_questions)] == few_questions
    other, _ = build_scenarios.build(sample(videos=2, seed=4), FACES)
    assert [made.texts for made in other] != [made.texts for made in few]


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 10**6))
def test_any_seed_gives_texts_inside_their_frames_and_times(seed: int) -> None:
    for sample in (synth_sample.rolling, synth_sample.signs):
        made, _ = build_scenarios.build(sample(seed=seed), FACES)
        for scenario in made:
            _check_texts(scenario)


def _check_texts(made: Scenario) -> None:
    last = made.duration_s - 1 / made.fps
    for text in made.texts:
        times = [t for t, _ in text.boxes]
        assert times == sorted(set(times))
        assert 0 <= text.t_start == times[0] <= times[-1] == text.t_end <= last + 1e-9
        assert all(b - a <= 0.5 + 1e-9 for a, b in itertools.pairwise(times))
        for _, (left, top, right, bottom) in text.boxes:
            assert 0 <= left < right <= made.width
            assert 0 <= top < bottom <= made.height


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 10**6))
def test_any_seed_gives_signs_whose_questions_can_be_answered(seed: int) -> None:
    made, questions = build_scenarios.build(synth_sample.signs(seed=seed), FACES)
    scenarios = {scenario.id: scenario for scenario in made}
    assert questions
    for question in questions:
        scenario = scenarios[question.video]
        assert question.options is not None and question.ground_truth is not None
        assert len(set(map(str.casefold, question.options))) == signs.OPTIONS
        assert question.options.count(question.answers[0]) == 1
        assert question.options[ord(question.ground_truth) - 65] == question.answers[0]
        assert question.t_answer <= question.t_question <= scenario.duration_s
        assert question.qa_times == [question.t_answer, question.t_question]
        [(start, end)] = question.evidence
        assert 0 <= start <= question.t_answer <= end <= question.t_question
        assert question.subsets == ["current" if question.t_question - question.t_answer < 2 else "previous"]
        _check_asked(scenario, question)


def _check_asked(scenario, question) -> None:
    """Against the boxes alone: the answer is out at t_answer, and only the right sign at t_question."""
    answer = next(text for text in scenario.texts if text.text == question.answers[0])
    assert motion.box_at(answer, question.t_answer)
    out = [k for k, text in enumerate(scenario.texts) if text.t_start <= question.t_question <= text.t_end]
    assert len(out) == 1
    asked = scenario.texts.index(answer)
    assert asked == {"now": out[0], "previous": out[0] - 1, "first": 0}[question.category]
    assert question.category != "first" or out[0] > 1


def test_signs_are_distinct_stay_in_view_and_never_cover_each_other() -> None:
    made, _ = build_scenarios.build(synth_sample.signs(videos=20, duration_s=[40, 60], signs=[8, 12]), FACES)
    together = 0
    for scenario in made:
        names = [text.text.casefold() for text in scenario.texts]
        assert len(set(names)) == len(names)
        for window, text in zip(signs.windows(scenario), scenario.texts, strict=True):
            for t in (window.start, window.end):
                left, top, right, bottom = motion.box_at(text, t)
                assert left > 0 and top > 0 and right < scenario.width and bottom < scenario.height
        for first, second in itertools.pairwise(scenario.look["signs"]):
            if second["start"] < first["end"]:
                together += 1
                ends = [(sign["anchor"][0], sign["anchor"][0] + sign["board"][0]) for sign in (first, second)]
                assert ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0]
    assert together > 0


def test_rolling_asks_the_papers_question_and_the_answer_is_the_whole_text() -> None:
    made, questions = build_scenarios.build(synth_sample.rolling(), FACES)
    assert [scenario.look["motion"] for scenario in made] == list(motion.MOTIONS)
    for scenario, question in zip(made, questions, strict=True):
        assert question.question == "What is the content of large text rolling or printing in the video?"
        assert question.answers == [" ".join(text.text for text in scenario.texts)]
        assert (question.category, question.subsets) == ("RollingText", [scenario.look["motion"]])
        assert question.key == f"röllchen/{scenario.id}/0"


def test_counts_of_the_shipped_data_sets() -> None:
    expected = {"demo_rolling": (14, 14), "demo_signs": (8, None)}
    for name, (videos, asked) in expected.items():
        dataset = build_scenarios.load_dataset(ROOT / f"config/datasets/{name}.yaml")
        made, questions = build_scenarios.build(dataset, FACES)
        assert len({scenario.id for scenario in made}) == videos
        assert asked is None or len(questions) == asked
        if name == "demo_signs":
            assert {question.category for question in questions} == set(signs.WORDING)
            assert {subset for question in questions for subset in question.subsets} == {"current", "previous"}
            assert all(4 <= len(scenario.texts) <= 7 for scenario in made)
        else:
            by_language: dict[str, list[str]] = {}
            for scenario in made:
                by_language.setdefault(scenario.look["language"], []).append(scenario.look["font"]["family"])
            assert all(len(set(used)) == len(used) for used in by_language.values()), "no family twice in a round"


def test_full_size_data_sets_are_drawn_as_the_paper_describes() -> None:
    dataset = build_scenarios.load_dataset(ROOT / "config/datasets/rolling.yaml")
    source = dataset["source"]
    assert (source["videos"], source["min_families"], source["duration_s"], source["fps"]) == (
        100,
        20,
        [30, 600],
        [24, 30],
    )
    short = source | {"videos": 40, "duration_s": [30, 31], "languages": ["en"]}
    made, _ = build_scenarios.build(dataset | {"source": short}, FACES)
    assert len({scenario.look["font"]["family"] for scenario in made}) >= 20, "ViTexQA 0.B.2: over 20 families"
    made, _ = build_scenarios.build(dataset | {"source": source | {"videos": 7}}, FACES)
    assert all(30 <= scenario.duration_s <= 600 for scenario in made)
    assert all(sum(len(text.text.split()) for text in scenario.texts) <= source["max_words"] for scenario in made)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6))
def test_scrolls_are_slow_enough_to_be_stitched(seed: int) -> None:
    source = synth_sample.rolling(width=1280, height=720, font_size=[48, 80], duration_s=[12, 16], sampling_gap_s=1.0)[
        "source"
    ]
    face = FACES[seed % len(FACES)]
    for index in range(4):
        made = rolling.scenario(source, "r", index, seed, face, "en", [])
        size, lines = made.look["font"]["size"], made.look["lines"]
        longest = max(fonts.load(face.path, size).getlength(word) for line in lines for word in line["text"].split())
        _, _, width, height = made.look["blocks"][0]
        travel, room = (1280 + width, 1280 - longest) if index < 2 else (720 + height, 720 - 1.5 * size)
        assert travel / made.duration_s * source["sampling_gap_s"] < room


def test_words_are_alphabetic_composed_and_accented() -> None:
    listed = words.words("de")
    assert all(word.isalpha() and 2 <= len(word) <= words.LONGEST for word in listed)
    assert {"ä", "ö", "ü", "Ä"} <= words.alphabet("de")
    drawn = words.draw(Random(1), "de", 50)
    assert all(a != b for a, b in itertools.pairwise(drawn))
    with pytest.raises(ConfigError, match="no word list for the language 'xx'"):
        words.words("xx")


def test_faces_without_the_needed_glyphs_are_left_out() -> None:
    ascii_only = next(face for face in FACES if face.file.startswith("cmr10"))
    assert ascii_only in fonts.covering(FACES, "plain")
    assert ascii_only not in fonts.covering(FACES, "é")
    assert fonts.covering(FACES, "\U0010ffff") == []
    names = fonts.families(FACES)
    assert len(names) >= 14
    assert not [
        name for name in names if "Sym" in name or "Last Resort" in name or name in ("cmex10", "cmmi10", "cmsy10")
    ]


def test_every_family_has_its_turn_before_any_comes_again() -> None:
    names = fonts.families(FACES)
    order = [build_scenarios.turn(FACES, 5, index).family for index in range(2 * len(names))]
    assert sorted(order[: len(names)]) == sorted(order[len(names) :]) == names


def test_too_few_families_names_the_remedy() -> None:
    with pytest.raises(
        ConfigError, match=r"min_families asks for 500; install more font packages .*lower min_families"
    ):
        build_scenarios.build(synth_sample.rolling(min_families=500), FACES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vidoes": 3}, r"unknown key 'vidoes' \(did you mean 'videos'\?\)"),
        ({"fonts": "sytem"}, r"'sytem' is not known \(did you mean 'system'\?\)"),
        ({"width": 321}, "321 is not a multiple of 2"),
        ({"fps": [30, 24]}, r"source.fps: \[30, 24\] is the wrong way round"),
        ({"fps": [24.5, 30]}, "24.5 is not of type 'integer'"),
        ({"kind": "synthetic_sign"}, r"'synthetic_sign' is not known \(did you mean 'synthetic_signs'\?\)"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, changes: dict, message: str) -> None:
    dataset = synth_sample.rolling(**changes)
    del dataset["name"]
    with pytest.raises(ConfigError, match=message):
        build_scenarios.load_dataset(_written(tmp_path, dataset))


def _written(folder: Path, dataset: dict) -> Path:
    (folder / "datasets").mkdir()
    (folder / "schemas").mkdir()
    schema = (ROOT / "config/schemas/dataset.schema.yaml").read_text(encoding="utf-8")
    (folder / "schemas/dataset.schema.yaml").write_text(schema, encoding="utf-8")
    path = folder / "datasets" / "größe.yaml"
    path.write_text(yaml.safe_dump(dataset), encoding="utf-8")
    return path


def test_a_local_data_set_is_accepted_by_the_schema_but_not_rendered(tmp_path: Path) -> None:
    source = {"kind": "local", "videos": "clips", "questions": "q.jsonl"}
    path = _written(tmp_path, {"title": "Mine", "licence": "none", "source": source})
    with pytest.raises(ConfigError, match=r"source\.kind is 'local', which is not rendered"):
        build_scenarios.load_dataset(path)


def test_an_empty_folder_of_backgrounds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="put pictures in it"):
        backgrounds.images(tmp_path)
    with pytest.raises(ConfigError, match="put pictures in it"):
        backgrounds.images(tmp_path / "none")


@pytest.mark.parametrize(("word", "language"), [("shit", "en"), ("merde", "fr"), ("Arschloch", "de"), ("shit", "sk")])
def test_offensive_words_are_not_drawn(word, language):
    assert words.offensive(word, language)
    assert not words.offensive("window", language)


def test_a_face_without_small_letters_is_no_face_for_text(tmp_path: Path) -> None:
    """In such a font "abc" is seen as "ABC": the truth would be wrong for any reader that goes by what is drawn."""
    from fontTools.ttLib import TTFont

    path = next(face.path for face in FACES if face.family == "Lato" and face.style == "Bold")
    assert fonts._face(path) is not None
    with TTFont(path) as font:
        for table in font["cmap"].tables:
            table.cmap |= {ord(small): table.cmap[ord(small.upper())] for small in "abcdefghijklmnopqrstuvwxyz"}
        font.save(tmp_path / "Capitals.ttf")
    assert fonts._face(tmp_path / "Capitals.ttf") is None
