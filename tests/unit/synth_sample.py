"""Small synthetic data sets for tests."""

from typing import Any

COMMON: dict[str, Any] = {
    "seed": 3,
    "videos": 7,
    "width": 320,
    "height": 180,
    "fps": [10, 12],
    "duration_s": [3.0, 4.0],
    "font_size": [14, 20],
    "languages": ["en", "fr"],
    "fonts": "packages",
    "min_families": 3,
    "backgrounds": "procedural",
    "encoder": {"preset": "ultrafast", "crf": 12},
}


def rolling(**changes: Any) -> dict[str, Any]:
    """A rolling data set of seven tiny videos, one for each motion."""
    own = {"kind": "synthetic_rolling", "max_words": 30, "sampling_gap_s": 0.5, "background_s": [0.8, 1.2]}
    return {"name": "röllchen", "title": "Tiny", "licence": "CC0-1.0", "source": COMMON | own | changes}


def signs(**changes: Any) -> dict[str, Any]:
    """A signs data set of three clips."""
    own = {"kind": "synthetic_signs", "videos": 3, "duration_s": [20, 24], "signs": [4, 7]}
    own |= {"questions": {"now": 2, "first": 1, "previous": 2}}
    return {"name": "schilder", "title": "Tiny", "licence": "CC0-1.0", "source": COMMON | own | changes}
