"""Where a judge's completion gives verdicts: tagged elements (`<score>`) or headed ones (`##the_score:`).

A judge may quote the reply that it judges, and a reply may hold verdicts. What lies inside the reasoning therefore
never counts, and an end of reasoning that nothing opened shows that all before it was reasoning.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Form = Literal["tags", "heads"]

# `think` is how local models mark reasoning of their own before the answer; their template may have opened it.
_TAG = re.compile(r"<\s*(/?)\s*(reasoning|think|score)\s*>", re.IGNORECASE)
_HEAD = re.compile(r"##\s*(short_reasoning|the_score)\s*:", re.IGNORECASE)
_THOUGHT_END = re.compile(r"<\s*/\s*think\s*>", re.IGNORECASE)
_LINE_START = re.compile(r"(?:\A|\n)[\s*_`]*\Z")
_PLAIN = (["reasoning", "reasoning", "score", "score"], ["score", "score", "reasoning", "reasoning"])


class Element(NamedTuple):
    """The text of one verdict, whether its end is marked, and where it ends in the completion."""

    text: str
    closed: bool
    end: int


class Elements(NamedTuple):
    """The verdicts that count, in order; how they depart from the form; whether there were any in the reasoning."""

    verdicts: list[Element]
    slips: list[str]
    inside: bool


def find(completion: str, form: Form) -> Elements:
    """Return the verdicts of a completion: those after its reasoning, else those before it."""
    return _tagged(completion) if form == "tags" else _headed(completion)


def _tagged(text: str) -> Elements:
    tags = [(found, bool(found[1]), found[2].lower()) for found in _TAG.finditer(text)]
    slips: list[str] = []
    if [name for _, _, name in tags] in _PLAIN:
        # Two elements and nothing else: a forgotten slash in an end tag changes nothing.
        if [end for _, end, _ in tags] != [False, True, False, True]:
            slips.append("no_slash")
        tags = [(found, number % 2 == 1, name) for number, (found, _, name) in enumerate(tags)]
    final = _final_reasoning(text, tags)
    before: list[Element] = []
    after: list[Element] = []
    depth, start, reasoned, inside = 0, -1, False, False
    for number, (found, is_end, name) in enumerate(tags):
        if name == "score" and depth:
            inside = True
            continue
        if start >= 0:  # a value is open, and any tag ends it; its own end tag alone closes it
            closed = name == "score" and is_end
            end = found.end() if closed else found.start()
            (after if reasoned else before).append(Element(text[start : found.start()], closed, end))
        start = found.end() if name == "score" and not is_end else -1
        if name != "score" and not is_end:
            depth += 1
        elif name != "score":
            if depth == 0:
                inside = inside or bool(before or after)
                before, after = [], []
            depth = 0 if number == final else max(depth - 1, 0)
            reasoned = reasoned or depth == 0
    if start >= 0:
        (after if reasoned else before).append(Element(text[start:], False, len(text)))
    if before and not after:
        slips.append("score_first" if reasoned or depth else "no_reasoning")
    return Elements(after or before, slips, inside)


def _final_reasoning(text: str, tags: list[tuple[re.Match[str], bool, str]]) -> int:
    """Return the place of the end tag after which the completion holds a whole verdict and nothing else, or -1.

    It ends the judge's reasoning whatever was opened in it.
    """
    kinds = [(name, is_end) for _, is_end, name in tags[-3:]]
    if kinds != [("reasoning", True), ("score", False), ("score", True)]:
        return -1
    end, score, last = (found for found, _, _ in tags[-3:])
    between, rest = text[end.end() : score.start()], text[last.end() :]
    return -1 if between.strip() or rest.strip() else len(tags) - 3


def _headed(text: str) -> Elements:
    thoughts = [found.end() for found in _THOUGHT_END.finditer(text)]
    heads = list(_HEAD.finditer(text, thoughts[-1] if thoughts else 0))
    stops = [*(head.start() for head in heads[1:]), len(text)]
    scores = [(head, stop) for head, stop in zip(heads, stops, strict=False) if head[1].lower() == "the_score"]
    # A head within a line is a quote where another one starts a line.
    lines = [(head, stop) for head, stop in scores if _LINE_START.search(text, max(0, head.start() - 80), head.start())]
    verdicts = [Element(text[head.end() : stop], True, stop) for head, stop in lines or scores]
    reasons = [head.start() for head in heads if head[1].lower() == "short_reasoning"]
    slips: list[str] = []
    if verdicts and not reasons:
        slips.append("no_reasoning")
    elif verdicts and reasons[0] > scores[-1][0].start():
        slips.append("score_first")
    return Elements(verdicts, slips, False)
