"""Data inside a page that needs no network."""

import html
import json
from typing import Any


def embed(name: str, value: Any) -> str:
    """A block of JSON that the page parses when it first needs it; nothing in it can end the block."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{html.escape(name)}">{text}</script>'
