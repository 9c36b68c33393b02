"""A function that fits on a screen can be read at once."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = 50
"""Lines, from ``def`` to the last of the body; decorators not counted."""


def lengths(source: str) -> dict[str, int]:
    """Name and first line of every function and method to its number of lines."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [one for one in ast.walk(ast.parse(source)) if isinstance(one, kinds)]
    return {f"{one.lineno} {one.name}": (one.end_lineno or one.lineno) - one.lineno + 1 for one in found}


def test_functions_stay_short() -> None:
    long = [
        f"{file.relative_to(ROOT)}:{name}: {count} lines"
        for file in sorted((ROOT / "scripts").rglob("*.py"))
        for name, count in lengths(file.read_text(encoding="utf-8")).items()
        if count > LONGEST
    ]
    assert long == []


def test_a_long_function_is_seen() -> None:
    body = "    pass\n" * LONGEST
    assert lengths(f"class A:\n    def f(self):\n    {body.replace(chr(10), chr(10) + '    ')}") == {"2 f": LONGEST + 1}
