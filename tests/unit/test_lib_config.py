"""YAML files: one clear line for whatever is wrong with one."""

import pytest

from scripts.lib import config, images
from scripts.lib.errors import ConfigError
from scripts.lib.text import did_you_mean, nfc

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["sampler"],
    "properties": {
        "sampler": {"enum": ["uniform", "ts_frame"]},
        "n": {"type": "integer", "minimum": 1},
        "deep": {"type": "object", "additionalProperties": False, "properties": {"crf": {"type": "integer"}}},
    },
}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"samplr": "uniform"}, "unknown key 'samplr' (did you mean 'sampler'?)"),
        ({"sampler": "unifrom"}, "sampler: 'unifrom' is not known (did you mean 'uniform'?)"),
        ({"sampler": "uniform", "n": 0}, "n: 0 is less than the minimum of 1"),
        ({"sampler": "uniform", "deep": {"cfr": 1}}, "deep: unknown key 'cfr' (did you mean 'crf'?)"),
        ({}, "'sampler' is a required property"),
        ([], "is not of type 'object'"),
        (None, "None is not of type 'object'"),
    ],
)
def test_complaints_name_place_and_remedy(content, complaint):
    with pytest.raises(ConfigError) as error:
        config.check(content, SCHEMA, "x.yaml")
    assert str(error.value).startswith("x.yaml: ")
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "samplers" / "sub").mkdir(parents=True)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "sampler.schema.yaml").write_text(
        "type: object\nadditionalProperties: false\nproperties: {title: {type: string}}\n"
    )
    (tmp_path / "samplers" / "größe.yaml").write_text("title: Ü\n", encoding="utf-8")
    (tmp_path / "samplers" / "sub" / "b.yaml").write_text("title: b\n")
    return tmp_path


def test_load_adds_the_name(root):
    assert config.load("sampler", "größe", root) == {"name": "größe", "title": "Ü"}
    assert config.names("sampler", root) == {"größe", "sub/b"}


def test_read_file_finds_schema_and_nested_name(root):
    assert config.read_file("sampler", root / "samplers" / "sub" / "b.yaml") == {"name": "sub/b", "title": "b"}
    with pytest.raises(ConfigError, match="folder named samplers/"):
        config.read_file("sampler", root / "elsewhere" / "b.yaml")


def test_unknown_name_suggests(root):
    with pytest.raises(ConfigError, match=r"no sampler 'grosse'.*größe"):
        config.load("sampler", "grosse", root)


def test_broken_yaml_is_one_line(root):
    (root / "samplers" / "broken.yaml").write_text("a: [1,\nb: }")
    with pytest.raises(ConfigError, match="not readable as YAML") as error:
        config.load("sampler", "broken", root)
    assert "\n" not in str(error.value)


def test_unknown_image_suggests():
    with pytest.raises(ConfigError, match=r"no image 'medai' \(did you mean 'media'\?\)"):
        images.path("medai")


def test_did_you_mean_lists_when_nothing_is_close():
    assert did_you_mean("zzz", ["b", "a"]) == " (there is: a, b)"
    assert did_you_mean("zzz", []) == ""


def test_nfc_composes():
    assert nfc("e\u0301") == "é"


@pytest.mark.parametrize(
    ("content", "key"), [("title: a\ntitle: b\n", "title"), ("a: {n: 1, ü: 2, ü: 2}\n", "ü"), ("- {n: 1, n: 2}\n", "n")]
)
def test_a_key_that_is_there_twice_is_named(root, content, key):
    path = root / "samplers" / "twice.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"twice\.yaml: .*key '{key}' occurs twice") as error:
        config.load("sampler", "twice", root)
    assert "\n" not in str(error.value)


def test_a_key_may_come_again_elsewhere_and_over_a_merge(root):
    path = root / "twice.yaml"
    path.write_text("base: &b {n: 1, m: 2}\nmore: &c {<<: *b, n: 3}\nmost: {<<: *c, n: 4}\n", encoding="utf-8")
    (root / "any.yaml").write_text("{}\n", encoding="utf-8")
    found = config.read(path, root / "any.yaml")
    assert found == {"base": {"n": 1, "m": 2}, "more": {"n": 3, "m": 2}, "most": {"n": 4, "m": 2}}
