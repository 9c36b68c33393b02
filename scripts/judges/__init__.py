"""Judges: what says whether an answer is right, one small file for each kind.

How to add a kind: write a module with one function ``judge`` (scripts/judges/protocol.py), put it into KINDS and into
the schema config/schemas/judge.schema.yaml, and add a file to config/judges. A further judge of a kind that is here,
say another model, is a file in config/judges and nothing else.
"""

from importlib import import_module

from scripts.judges.protocol import Judge

KINDS = {
    "llm": "scripts.judges.llm:judge",
    "lexical": "scripts.judges.lexical:judge",
    "exact": "scripts.judges.exact:judge",
    "option_letter": "scripts.judges.option_letter:judge",
    "human": "scripts.judges.human:judge",
    "elsewhere": "scripts.judges.elsewhere:judge",
}


def find(kind: str) -> Judge:
    """The function that judges, imported now."""
    module, _, name = KINDS[kind].partition(":")
    judge: Judge = getattr(import_module(module), name)
    return judge
