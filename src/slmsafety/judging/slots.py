"""The two slots of a judge's prompt, {{QUESTION}} and {{ANSWER}} (in any case), and how they are filled."""

from __future__ import annotations

import re

from slmsafety.errors import InputError

_SLOT = re.compile(r"\{\{(question|answer)\}\}", re.IGNORECASE)


def check_slots(template: str, source: str) -> None:
    """Raise InputError naming `source` unless the template has each slot exactly once."""
    if sorted(name.lower() for name in _SLOT.findall(template)) != ["answer", "question"]:
        raise InputError(f"{source} needs the slots {{{{QUESTION}}}} and {{{{ANSWER}}}}, once each")


def fill(template: str, question: str, answer: str) -> str:
    """Return the template with both texts in their slots; a slot within one of the texts stays as it is."""
    texts = {"question": question, "answer": answer}
    return _SLOT.sub(lambda slot: texts[slot[1].lower()], template)


def fill_in_turn(template: str, question: str, answer: str) -> str:
    """Return the template filled as HELM does, the question first: an answer's slot in a question is filled as well."""
    slots = {found[1].lower(): found[0] for found in _SLOT.finditer(template)}
    return template.replace(slots["question"], question).replace(slots["answer"], answer)
