"""What HarmBench's own classifier is asked about a behaviour, as upstream's evaluate_completions.py has it.

A contextual behaviour stands in a prompt of its own, apart from its context; models are asked both in one text. A
copyright behaviour is not the classifier's: upstream compares the reply with hashes of the protected text, which are
not here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from slmsafety.errors import InputError
from slmsafety.judging.guards.prompt_format import Layout
from slmsafety.judging.slots import check_slots, fill

SUITE = "harmbench"
# What stands between a context and its behaviour in what models are asked (suites/harmbench.py, and HELM's).
_BETWEEN = "\n\n---\n\n"
_CONTEXT = re.compile(r"\{\{context\}\}", re.IGNORECASE)


class Behaviour(NamedTuple):
    """The text of a behaviour, its context (None: it has none), and why it is not the classifier's ("" where it is)."""

    text: str
    context: str | None = None
    not_judged: str = ""


def behaviour(row: Mapping[str, Any]) -> Behaviour:
    """Return the behaviour that a row with prompt, suite, subcategory and meta (of the prompt, JSON) is about.

    Rows of other suites have no context. An imported row may lack its functional category; its semantic one and its
    form tell it then.
    """
    prompt = row["prompt"]
    if row.get("suite") != SUITE:
        return Behaviour(prompt)
    kind = json.loads(row.get("meta") or "{}").get("functional_category")
    kind = kind.lower() if isinstance(kind, str) else kind
    if kind == "copyright" or (kind is None and str(row.get("subcategory")).lower() == "copyright"):
        return Behaviour(prompt, not_judged="copyright")
    context, between, text = prompt.rpartition(_BETWEEN)
    if kind == "contextual" and not between:
        return Behaviour(prompt, not_judged="no_context")
    return Behaviour(prompt) if kind == "standard" or not between else Behaviour(text, context)


def context_layout(template: str, context: str, source: str = "judge template") -> Layout:
    """Return the layout of a contextual behaviour: the context in its slot, then as `prompt_format.text_layout`.

    Raises InputError naming `source` for a template without {{CONTEXT}}, {{QUESTION}} and {{ANSWER}}, once each.
    """
    check_context_slots(template, source)
    before, after = _CONTEXT.split(template)
    # The other slots are filled apart on each side, so that none within the context is one.
    return lambda prompt, reply: f"{fill(before, prompt, reply)}{context}{fill(after, prompt, reply)}"


def check_context_slots(template: str, source: str) -> None:
    """Raise InputError naming `source` unless the template has the slots of a contextual behaviour."""
    if len(_CONTEXT.findall(template)) != 1:
        raise InputError(f"{source} needs the slot {{{{CONTEXT}}}}, once")
    check_slots(template, source)
