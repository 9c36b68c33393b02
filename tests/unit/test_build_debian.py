"""Where an image's Debian comes from: a registry that answers, or the mirrors that a machine names."""

import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest

from containers import debian


@pytest.mark.parametrize(("answer", "is_one"), [(200, True), (401, True), (403, False), (503, False), (None, False)])
def test_only_a_registrys_answers_count(monkeypatch, answer, is_one):
    class Page(SimpleNamespace):
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    def urlopen(address, timeout):
        if answer is None:
            raise urllib.error.URLError("no route")
        if answer != 200:
            raise urllib.error.HTTPError(address, answer, "", None, None)
        return Page(status=200)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    assert debian.registry_answers() is is_one


DEBIAN = """# ours
Types: deb deb-src
Suites: bookworm
 bookworm-updates bookworm-backports
# a comment between
URIs: http://mirror.example/pub/debian/
Components: main contrib

Suites: bookworm-security
URIs: http://mirror.example/debian-security
types: deb
Components: main

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""
DEFAULTS = [
    "deb http://deb.debian.org/debian bookworm main",
    "deb http://deb.debian.org/debian bookworm-updates main",
    "deb http://deb.debian.org/debian-security bookworm-security main",
]
VENDOR = "Types: deb\nURIs: https://packages.example/repos/code\nSuites: bookworm\nComponents: main\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"sources.list.d/a_vendor.sources": VENDOR, "sources.list.d/debian.sources": DEBIAN},
            [
                "deb http://mirror.example/pub/debian/ bookworm main",
                "deb http://mirror.example/pub/debian/ bookworm-updates main",
                "deb http://mirror.example/debian-security bookworm-security main",
            ],
        ),
        (
            {
                "sources.list": "# deb http://off.example/debian bookworm main\n"
                "deb [arch=amd64 signed-by=/k] http://one.example/debian bookworm contrib main # ours\n",
                "sources.list.d/a.list": "deb https://packages.example/code bookworm main\n",
                "sources.list.d/z.list": "deb http://two.example/debian-security bookworm-security main\n",
                "sources.list.d/z.list.off": "deb http://off.example/debian bookworm main\n",
            },
            [
                "deb http://one.example/debian bookworm main",
                "deb http://two.example/debian-security bookworm-security main",
            ],
        ),
        ({"sources.list.d/a_vendor.sources": VENDOR}, DEFAULTS),
        ({"sources.list.d/debian.sources": DEBIAN.replace("bookworm", "trixie")}, DEFAULTS),
        ({}, DEFAULTS),
    ],
)
def test_debians_mirrors_are_those_of_this_machine(tmp_path, files, found):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert debian.mirrors("bookworm", tmp_path) == found
