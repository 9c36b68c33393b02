"""Text as the whole workflow holds it: NFC, and names close enough to be worth suggesting."""

import difflib
import unicodedata
from collections.abc import Iterable


def nfc(text: str) -> str:
    """Canonical composition, so that 'é' is one character wherever lengths or matches are counted."""
    return unicodedata.normalize("NFC", text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the closest known name, else the list of what there is."""
    names = sorted(map(str, known))
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    if close:
        return f" (did you mean '{close[0]}'?)"
    return f" (there is: {', '.join(names)})" if names else ""


def whole(text: str) -> str:
    """Halves of characters, as a reply has that was cut inside an emoji, become U+FFFD: no file can hold them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
