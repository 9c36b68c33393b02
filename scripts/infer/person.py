"""The first person of a question or an option replaced: MyEgo's two changes of prompts, whose rules are not published.

``camera_wearer`` (the paper's "Enhanced"): "I" and "me" become "the camera wearer", "my" and "mine" "the camera
wearer's", "we" "the camera wearer's group". ``removed`` ("Remove"): nothing is left that says whose things or doings
are meant. "My" becomes "the", "I", "me" and "we" "someone", so that the sentence stays one. Verbs agree with the new
subject.

What stands in double quotes is text in the picture and stays, and so does an option in capitals throughout ("WE CAN DO
IT!"). So does all else, errors included.
"""

import re

VERSION = 1
"""Raise it when the words that a model reads change."""
CAMERA_WEARER = {
    **dict.fromkeys(("i", "me"), "the camera wearer"),
    **dict.fromkeys(("my", "mine"), "the camera wearer's"),
    **dict.fromkeys(("we", "us"), "the camera wearer's group"),
    **dict.fromkeys(("our", "ours"), "the camera wearer's group's"),
    **dict.fromkeys(("myself", "ourselves"), "themselves"),
}
REMOVED = {
    **dict.fromkeys(("i", "me", "we", "us"), "someone"),
    **dict.fromkeys(("my", "our"), "the"),
    **dict.fromkeys(("mine", "ours"), "someone's"),
    **dict.fromkeys(("myself", "ourselves"), "themselves"),
}
FORMS = {"camera_wearer": CAMERA_WEARER, "removed": REMOVED}
CONTRACTIONS = {
    **dict.fromkeys(("i'm", "im", "we're"), "is"),
    **dict.fromkeys(("i've", "ive", "we've"), "has"),
    **dict.fromkeys(("i'll", "we'll"), "will"),
    **dict.fromkeys(("i'd", "we'd"), "would"),
}
"""With what follows the subject then; "im" and "ive" as MyEgo's annotators write them."""
THIRD_PERSON = {
    **{"am": "is", "are": "is", "were": "was", "do": "does", "have": "has"},
    **{"aren't": "isn't", "weren't": "wasn't", "don't": "doesn't", "haven't": "hasn't"},
}
TOGETHER = {"am": "are", "was": "were"}
"""The same before "I and …", which are several."""
BEFORE_SUBJECT = {*THIRD_PERSON, *THIRD_PERSON.values(), "did", "had", "can", "could", "will", "would", "shall"}
BEFORE_SUBJECT |= {"should", "may", "might", "must", "didn't", "hadn't", "can't", "couldn't", "won't", "wouldn't"}
BEFORE_SUBJECT |= {"shouldn't"}
"""Verbs that a question puts before its subject; the verb after it is an infinitive or a participle then."""
ADVERBS = {"just", "still", "last", "finally", "first", "previously", "currently", "already", "also", "always", "now"}
ADVERBS |= {"recently", "usually", "really", "actually", "only", "never", "originally", "initially"}
PRESENT = {"add", "adjust", "bring", "buy", "carry", "check", "choose", "clean", "close", "come", "cook", "drink"}
PRESENT |= {"drive", "drop", "eat", "enter", "finish", "get", "give", "go", "grab", "hang", "hold", "keep", "know"}
PRESENT |= {"leave", "lift", "like", "look", "make", "move", "need", "open", "pass", "pick", "place", "play", "point"}
PRESENT |= {"pour", "prepare", "push", "ride", "see", "select", "sit", "stand", "start", "step", "stop", "take"}
PRESENT |= {"talk", "tear", "think", "throw", "touch", "try", "turn", "use", "walk", "want", "wash", "watch", "wear"}
PRESENT |= {"work", "write"}
"""Verbs that get an "s". Those whose past is the same ("put", "cut") are not here: they are in the past in MyEgo."""
TOKEN = re.compile(r"""("[^"]*"|“[^”]*”|\w+(?:['’`]\w+)*)""")
"""A quotation or a word."""


def rephrase(question: str, how: str) -> str:
    """The question as ``person`` of a prompt wants it: ``as_asked``, ``camera_wearer`` or ``removed``.

    Works for any text, an option without its letter too ("In my hand.", "Mine"), and a second time changes nothing.
    """
    if how == "as_asked" or is_lettering(question):
        return question
    forms = FORMS[how]
    parts = TOKEN.split(question)  # odd places are tokens
    for place in range(1, len(parts), 2):
        word = _plain(parts[place])
        if word in CONTRACTIONS:
            said = f"{forms['we' if word.startswith('we') else 'i']} {CONTRACTIONS[word]}"
        elif parts[place] == "US":
            continue
        elif word in forms:
            said = forms[word]
            if word in ("i", "we"):
                _agree(parts, place)
            elif said == "the" and _plain(_next_to(parts, place, 2)) == "own":
                said = "someone's"
        elif word.removesuffix("'s") in forms:  # "the girl beside me's hair"
            said = forms[word.removesuffix("'s")].removesuffix("'s") + "'s"
        else:
            continue
        begins = parts[place][0].isupper() and _begins_sentence(parts, place)
        parts[place] = said[0].upper() + said[1:] if begins else said
    return "".join(parts)


def is_lettering(text: str) -> bool:
    """Whether a text is in capitals throughout, as signs are. "I" alone is not, nor is a question."""
    return text.isupper() and not text.rstrip().endswith("?") and re.search(r"[^\W\d_]{2}", text) is not None


def _plain(token: str) -> str:
    return token.lower().replace("’", "'").replace("`", "'")


def _next_to(parts: list[str], place: int, step: int) -> str:
    """The token before (-2) or after (2) this one, where only white space is between them; else nothing."""
    other = place + step
    return parts[other] if 0 < other < len(parts) and parts[place + step // 2].isspace() else ""


def _begins_sentence(parts: list[str], place: int) -> bool:
    between = parts[place - 1].rstrip()
    return (place == 1 and not between) or between.endswith((".", "?", "!", ":"))


def _agree(parts: list[str], place: int) -> None:
    """Make the verb that goes with the subject at ``place`` the third person's."""
    before = _plain(_next_to(parts, place, -2))
    after = _plain(_next_to(parts, place, 2))
    if before in BEFORE_SUBJECT:
        number = TOGETHER if after == "and" else THIRD_PERSON
        _put(parts, place - 2, number.get(before, ""))
    elif before not in ("and", "or"):
        while _plain(_next_to(parts, place, 2)) in ADVERBS:
            place += 2
        verb = _plain(_next_to(parts, place, 2))
        _put(parts, place + 2, THIRD_PERSON.get(verb) or (third(verb) if verb in PRESENT else ""))


def third(verb: str) -> str:
    """The third person of a regular verb: "uses", "touches", "tries"."""
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def _put(parts: list[str], place: int, word: str) -> None:
    """Replace a token by a word, with the token's capital or capitals; no word leaves it."""
    if not word:
        return
    if parts[place].isupper():
        word = word.upper()
    elif parts[place][0].isupper():
        word = word.capitalize()
    parts[place] = word
