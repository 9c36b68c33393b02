"""Draw the scenarios of a synthetic data set: which text is shown when, where and how, and the questions about it.

Two kinds: ``synthetic_rolling`` follows the rolling-text subset of ViTexQA (sections 0.B.2 and 0.C.2 of the paper:
seven motions, background sequences, one fixed question per video), ``synthetic_signs`` shows first-person walks past
signs with timestamped questions. Everything random is drawn here from the data set's seed, so the same YAML and fonts
give the same files byte for byte, and the truth (strings, times, boxes) exists before anything is rendered. The words
stand in for those of COCA, a licensed corpus that the paper samples from: they come from wordfreq.
"""

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from scripts.lib import cli, config, jsonl
from scripts.lib.errors import ConfigError
from scripts.lib.records import Question, Scenario
from scripts.synth import backgrounds, fonts, rolling, signs, words

RANGES = ("fps", "duration_s", "font_size", "background_s", "signs")
KINDS = ("synthetic_rolling", "synthetic_signs")

VERSION = 1
"""Raise it when a change of the code draws other scenarios from the same seed."""


def build(
    dataset: dict[str, Any], faces: Sequence[fonts.Face], images: Sequence[backgrounds.Image] = ()
) -> tuple[list[Scenario], list[Question]]:
    """All scenarios and questions of a data set; video k depends on the seed and on k, not on how many there are.

    Args:
        dataset: the checked YAML with its ``name``.
        faces: the fonts to choose from, sorted.
        images: the user's backgrounds; none for procedural ones.
    Raises:
        ConfigError: too few fonts, or an unknown language.
    """
    source, name = dataset["source"], dataset["name"]
    by_language = {code: fonts.covering(faces, words.alphabet(code)) for code in sorted(set(source["languages"]))}
    fonts.require({face for found in by_language.values() for face in found}, source["min_families"], name)
    scenarios, questions = [], []
    for index in range(source["videos"]):
        seed = video_seed(source["seed"], index)
        language = Random(f"language {seed}").choice(source["languages"])
        usable = by_language[language]
        if not usable:
            raise ConfigError(f"{name}: no font has all letters of the language '{language}'; {fonts.REMEDY}")
        if source["kind"] == "synthetic_rolling":
            face = turn(usable, source["seed"], index)
            made = rolling.scenario(source, name, index, seed, face, language, images)
            questions.append(rolling.question(made))
        else:
            made = signs.scenario(source, name, index, seed, usable, language, images)
            questions += signs.questions(made, source["questions"])
        scenarios.append(made)
    return scenarios, questions


def video_seed(seed: int, index: int) -> int:
    """A seed of 48 bits for one video."""
    return int.from_bytes(hashlib.sha256(f"{seed} {index}".encode()).digest()[:6])


def turn(faces: Sequence[fonts.Face], seed: int, index: int) -> fonts.Face:
    """The face of video ``index``: every family once before any comes again, in a new order each round."""
    names = fonts.families(faces)
    cycle, place = divmod(index, len(names))
    rng = Random(f"fonts {seed} {cycle}")
    rng.shuffle(names)
    return Random(f"face {seed} {index}").choice([face for face in faces if face.family == names[place]])


def background_folder(source: dict[str, Any]) -> Path | None:
    """The user's folder of pictures, or None for procedural ones."""
    return None if source["backgrounds"] == "procedural" else Path(source["backgrounds"])


def load_dataset(path: Path) -> dict[str, Any]:
    """The YAML of a synthetic data set.

    Raises:
        ConfigError: refused by the schema, of another kind, or with a range whose ends are the wrong way round.
    """
    dataset = config.read_file("dataset", path)
    kind = dataset["source"]["kind"]
    if kind not in KINDS:
        raise ConfigError(f"{path}: source.kind is '{kind}', which is not rendered; use one of {', '.join(KINDS)}")
    for key in RANGES:
        low, high = dataset["source"].get(key, (0, 0))
        if low > high:
            raise ConfigError(f"{path}: source.{key}: [{low}, {high}] is the wrong way round; write [{high}, {low}]")
    return dataset


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parser(__doc__)
    parser.add_argument("--dataset", type=Path, required=True, help="YAML under config/datasets/")
    parser.add_argument("--scenarios", type=Path, required=True, help="scenarios.jsonl to write")
    parser.add_argument("--questions", type=Path, required=True, help="questions.jsonl to write")
    return parser


def step(args: argparse.Namespace) -> None:
    dataset = load_dataset(args.dataset)
    source = dataset["source"]
    faces = fonts.find(source["fonts"] == "system")
    scenarios, questions = build(dataset, faces, backgrounds.images(background_folder(source)))
    jsonl.write(args.scenarios, scenarios)
    jsonl.write(args.questions, questions)


def main(argv: list[str] | None = None) -> int:
    return cli.run(step, build_parser(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
