"""Where a judge's completion gives verdicts: tagged elements (`<score>`) or headed ones (`##the_score:`).

A judge may quote the reply that it judges, and a reply may hold verdicts. What lies inside the reasoning therefore
never counts, and an end of reasoning that nothing opened shows that all before it was reasoning. What also stands in
the judged texts is a copy (`copies`), and its tags are taken for words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from slmsafety.judging.parsers import copies
from slmsafety.judging.parsers.copies import Mark
from slmsafety.judging.parsers.planted import NO_PLANTS, Form, Plants
from slmsafety.judging.parsers.values import number

__all__ = ["Element", "Elements", "Form", "find"]

# `think` is how local models mark reasoning of their own before the answer; their template may have opened it.
_TAG = re.compile(r"<\s*+(/?)\s*+(reasoning|think|score)\s*+>", re.IGNORECASE)
_HEAD = re.compile(r"##\s*+(short_reasoning|the_score)\s*+:", re.IGNORECASE)
_THOUGHT = re.compile(r"\s*+<\s*+think\s*+>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"<\s*+/\s*+think\s*+>", re.IGNORECASE)
_PLAIN = (["reasoning", "reasoning", "score", "score"], ["score", "score", "reasoning", "reasoning"])


class Element(NamedTuple):
    """The text of one verdict, whether its end is marked, where it ends, and whether it follows the reasoning."""

    text: str
    closed: bool
    end: int
    behind: bool


class Elements(NamedTuple):
    """The verdicts that count, and what else was seen.

    Attributes
    ----------
    verdicts : list of Element
        The judge's own, in order.
    slips : list of str
        How they depart from the form.
    inside : bool
        Whether there were any in the reasoning.
    copied : bool
        Whether there were any that also stand in the judged texts.
    rivals : set of float
        The values of copies that may have been meant as verdicts: the last verdict counts only if it agrees.
    """

    verdicts: list[Element]
    slips: list[str]
    inside: bool
    copied: bool
    rivals: set[float]


def find(completion: str, form: Form, plants: Plants = NO_PLANTS, stopped: bool = False) -> Elements:
    """Return the verdicts of a completion: those after its reasoning, else those before it.

    Parameters
    ----------
    completion : str
        What the judge wrote.
    form : {"tags", "heads"}
        The form that it was asked for.
    plants : Plants
        The verdicts that the judged texts hold.
    stopped : bool
        Whether the judge is known to have ended by itself.
    """
    return _tagged(completion, plants, stopped) if form == "tags" else _headed(completion, plants, stopped)


def _tagged(text: str, plants: Plants, stopped: bool) -> Elements:
    tags = [Mark(found.start(), found.end(), found[2].lower(), bool(found[1])) for found in _TAG.finditer(text)]
    copied = copies.of_tags(text, tags, plants, stopped)
    own = [tag for place, tag in enumerate(tags) if place not in copied]
    slips: list[str] = []
    if [tag.name for tag in own] in _PLAIN and not own[0].ends and not own[2].ends:
        # Two elements and nothing else: a forgotten slash in an end tag changes nothing.
        if [tag.ends for tag in own] != [False, True, False, True]:
            slips.append("no_slash")
        ended = iter([False, True, False, True])
        tags = [tag if place in copied else tag._replace(ends=next(ended)) for place, tag in enumerate(tags)]
        own = [tag for place, tag in enumerate(tags) if place not in copied]
    final = _final_reasoning(text, own)
    before: list[Element] = []
    after: list[Element] = []
    rivals: set[float] = set()
    depth, start, reasoned, inside, behind = 0, -1, False, False, False
    for place, tag in enumerate(tags):
        if start >= 0:  # a value is open, and any tag ends it; its own end tag alone closes it
            closed = tag.name == "score" and tag.ends and place not in copied
            end = tag.end if closed else tag.start
            (after if reasoned else before).append(Element(text[start : tag.start], closed, end, behind))
            start = -1
        opens = tag.name == "score" and not tag.ends
        if place in copied:
            inside = inside or (opens and depth > 0)
            if opens and depth == 0:
                rivals |= _values(copies.body(text, tags, place))
        elif tag.name == "score":
            inside = inside or depth > 0
            start = tag.end if opens and not depth else -1
        elif not tag.ends:
            depth, behind = depth + 1, False
        else:
            if depth == 0:
                inside = inside or bool(before or after or rivals)
                before, after, rivals = [], [], set()
            depth = 0 if tag.start == final else max(depth - 1, 0)
            reasoned = reasoned or depth == 0
            behind = depth == 0
    if start >= 0:
        (after if reasoned else before).append(Element(text[start:], False, len(text), behind))
    if before and not after:
        slips.append("score_first" if reasoned or depth else "no_reasoning")
    verdicts = after or before
    if verdicts and verdicts[-1].closed and verdicts[-1].behind:
        rivals = set()
    return Elements(verdicts, slips, inside, bool(copied), rivals)


def _final_reasoning(text: str, tags: Sequence[Mark]) -> int:
    """Return the start of the end tag after which the completion holds a whole verdict and nothing else, or -1.

    It ends the judge's reasoning whatever was opened in it.
    """
    if [(tag.name, tag.ends) for tag in tags[-3:]] != [("reasoning", True), ("score", False), ("score", True)]:
        return -1
    end, score, last = tags[-3:]
    between, rest = text[end.end : score.start], text[last.end :]
    return -1 if between.strip() or rest.strip() else end.start


def _headed(text: str, plants: Plants, stopped: bool) -> Elements:
    found = _HEAD.finditer(text, _start(text, plants))
    heads = [Mark(head.start(), head.end(), head[1].lower(), ends=False) for head in found]
    copied = copies.of_heads(text, heads, plants, stopped)
    scores = [place for place, head in enumerate(heads) if head.name == "the_score" and place not in copied]
    # A head within a line is a quote where another one starts a line.
    lines = [place for place in scores if copies.starts_line(text, heads[place].start)]
    reasons = [head.start for head in heads if head.name == "short_reasoning"]
    verdicts = [_headed_element(text, heads, place, reasons[:1]) for place in lines or scores]
    slips: list[str] = []
    if verdicts and not reasons:
        slips.append("no_reasoning")
    elif verdicts and reasons[0] > heads[scores[-1]].start:
        slips.append("score_first")
    settled = bool(verdicts) and verdicts[-1].behind
    rivals: set[float] = set()
    for place in copied:
        # No end tag tells a verdict from words: behind the last one a copy is a quote only if it is introduced as one.
        start = heads[place].start
        if not settled:
            counts = copies.starts_line(text, start)
        else:
            counts = start >= verdicts[-1].end and copies.stated(text, heads, place, plants)
        if counts:
            rivals |= _values(copies.body(text, heads, place))
    return Elements(verdicts, slips, False, bool(copied), rivals)


def _headed_element(text: str, heads: Sequence[Mark], place: int, reasons: Sequence[int]) -> Element:
    value = copies.body(text, heads, place)
    start, end = heads[place].start, heads[place].end + len(value)
    return Element(value, True, end, any(reason < start for reason in reasons))


def _start(text: str, plants: Plants) -> int:
    """Return where a headed completion's thought ends; a judged text that holds such an end could move it."""
    if plants.thought and not _THOUGHT.match(text):
        return 0
    ends = [found.end() for found in _THOUGHT_END.finditer(text)]
    return ends[-1] if ends else 0


def _values(text: str) -> set[float]:
    """Return the value of an element that is a number and nothing else."""
    value, word = number(text)
    return set() if value is None or word == "note" else {value}
