"""Which fonts can be drawn with: those of installed Python packages and, on request, the system's.

A face is named by its family and file name, never by its path, so a scenario made on one machine renders on another.
"""

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.lib.errors import ConfigError

if TYPE_CHECKING:
    from PIL import ImageFont

ENTRY_POINTS = ("fonts_ttf", "fonts_otf")
FAMILY_PACKAGES = "fontpkg.family"
"""Entry points that name a package with one family in it."""
SYSTEM_FOLDERS = tuple(
    Path(folder).expanduser()
    for folder in ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "/Library/Fonts")
)
NOT_FOR_TEXT = re.compile(
    r"math|symbol|siz\w*sym|nonuni|emoji|icon|dingbat|initials|keyboard|braille|barcode|last ?resort"
    r"|display$|^cm(b|ex|mi|sy|ti)10$",
    re.IGNORECASE,
)
"""Families of symbols and formulas, and styles that call themselves a family of their own."""
UNLIKE_THEIR_CAPITALS = "aegrtb"
TOO_THIN = re.compile(r"thin|hairline|light", re.IGNORECASE)
REMEDY = (
    "install more font packages (pip: fontpkg-lobster fontpkg-arvo ...; Debian: fonts-liberation fonts-open-sans ...;"
    " the latter are found with `fonts: system`), or lower min_families"
)


@dataclass(frozen=True, order=True)
class Face:
    """One font file."""

    family: str
    style: str
    file: str
    path: Path


@lru_cache(maxsize=2)
def find(system: bool) -> tuple[Face, ...]:
    """All faces fit for text, sorted by family, style and file name; no thin weights, capitals only or doubles.

    Args:
        system: look through the system's font folders too.
    """
    folders = SYSTEM_FOLDERS if system else ()
    listed = [*_package_files(), *(file for folder in folders for file in _fonts_under(folder))]
    faces: dict[tuple[str, str], Face] = {}
    for face in sorted(face for face in map(_face, sorted(set(listed))) if face):
        faces.setdefault((face.family, face.style), face)
    return tuple(sorted(faces.values()))


def covering(faces: Iterable[Face], characters: Iterable[str]) -> list[Face]:
    """The faces that have a glyph for each of ``characters``."""
    wanted = {ord(character) for character in characters}
    return [face for face in faces if wanted <= _glyphs(face.path)]


def families(faces: Iterable[Face]) -> list[str]:
    """Distinct family names, sorted."""
    return sorted({face.family for face in faces})


def require(faces: Iterable[Face], least: int, where: str) -> None:
    """Refuse a set of faces of fewer than ``least`` families.

    Raises:
        ConfigError: says how many there are and how to get more.
    """
    found = len(families(faces))
    if found < least:
        raise ConfigError(f"{where}: {found} font families found, min_families asks for {least}; {REMEDY}")


def resolve(faces: Iterable[Face], family: str, file: str) -> Face:
    """The installed face that a scenario names.

    Raises:
        ConfigError: it is not installed here.
    """
    for face in faces:
        if (face.family, face.file) == (family, file):
            return face
    raise ConfigError(f"font '{family}' ({file}) is not installed here; install it, or run build_scenarios again")


@lru_cache(maxsize=64)
def load(path: Path, size: int) -> "ImageFont.FreeTypeFont":
    """The face at ``size`` px per em. Basic layout: the same glyph positions whether or not a shaper is installed."""
    from PIL import ImageFont

    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def _face(path: Path) -> Face | None:
    from PIL import ImageFont

    if "variable" in path.stem.lower():
        return None
    try:
        font = ImageFont.truetype(str(path), 48)
        family, style = font.getname()
    except OSError:
        return None
    if not family or NOT_FOR_TEXT.search(family) or NOT_FOR_TEXT.search(path.stem) or TOO_THIN.search(style or ""):
        return None
    return None if _capitals_only(font) else Face(family, style or "", path.name, path)


def _capitals_only(font: "ImageFont.FreeTypeFont") -> bool:
    """Whether small letters are drawn as capitals, of any size: the text logged would not be the one to be read."""
    alike = 0
    for letter in UNLIKE_THEIR_CAPITALS:
        small, large = (_shape(font, one) for one in (letter, letter.upper()))
        alike += sum(abs(a - b) for a, b in zip(small, large, strict=True)) < len(small) * 255 * 0.15
    return alike > len(UNLIKE_THEIR_CAPITALS) / 2


def _shape(font: "ImageFont.FreeTypeFont", letter: str) -> bytes:
    """A glyph scaled to 16 x 16."""
    from PIL import Image

    mask = font.getmask(letter)
    picture = Image.frombytes("L", mask.size, bytes(mask)) if all(mask.size) else Image.new("L", (1, 1))
    return picture.resize((16, 16)).tobytes()


@lru_cache(maxsize=1024)
def _glyphs(path: Path) -> frozenset[int]:
    """Code points that the file has a glyph for."""
    from fontTools.ttLib import TTFont, TTLibError

    try:
        with TTFont(path, lazy=True, fontNumber=0) as font:
            return frozenset(font.getBestCmap() or {})
    except (TTLibError, KeyError):
        return frozenset()


def _package_files() -> list[Path]:
    """Font files of packages that announce them by entry point, and those that come with matplotlib."""
    found: list[Path] = []
    for entry in sorted(importlib.metadata.entry_points(group=FAMILY_PACKAGES)):
        found += _fonts_of(entry.value)
    for group in ENTRY_POINTS:
        for entry in sorted(importlib.metadata.entry_points(group=group)):
            value: Any = entry.load()
            paths = value.values() if isinstance(value, dict) else [value] if isinstance(value, str | Path) else value
            for path in map(Path, paths):
                found += _fonts_under(path) if path.is_dir() else [path]
    return found + _fonts_of("matplotlib")


def _fonts_of(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return _fonts_under(Path(spec.origin).parent) if spec and spec.origin else []


def _fonts_under(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.[ot]tf") if path.is_file())
