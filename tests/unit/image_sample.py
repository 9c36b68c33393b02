"""A catalogue of two images in a folder of its own, for the tests of images and of their builder."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from containers import build
from scripts.lib import images
from tests.conftest import ROOT

CATALOGUE = """# a comment that stays
epoch: 1796000000
bases:
  debian: {from: debian, digest: "", suite: bookworm}
images:
  base:
    base: debian
    # why these
    locks: [base]
    debs: [python3]
    digest: ""
  ocr:
    base: base
    locks: [ocr]
    digest: "sha256:%s"
""" % ("ab" * 32)


def catalogue_in(folder: Path) -> Iterator[Path]:
    """Write the catalogue and its schema to ``folder``, which is the current one; no image's file is there."""
    (folder / "containers").mkdir()
    (folder / images.IMAGES).write_text(CATALOGUE, encoding="utf-8")
    (folder / images.SCHEMA).parent.mkdir(parents=True)
    shutil.copy(ROOT / images.SCHEMA, folder / images.SCHEMA)
    images.catalogue.cache_clear()
    yield folder
    images.catalogue.cache_clear()


def image(name: str, content: bytes) -> Path:
    """Write an image file and record its digest; returns its path."""
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    build.record(name, digest)
    file = Path(images.path(name))
    file.write_bytes(content)
    return file
