"""Reasoning that a reply shows, in the forms that models and servers have published; what stands outside of it.

A tag in quotes or in a block of code is talk about the tag, and so are an opening and its closing within a line. An
opening counts at the start of a line only, a closing without an opening says that the chat template had opened it, and
what is never closed was cut within the reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# Plain tags; the other forms have names of our own.
_TAGS = "think|thinking|thought|reasoning|reflection|seed:think|longcat_think"
_OPENINGS = {
    **{name: rf"<{name}>" for name in _TAGS.split("|")},
    "begin_of_thought": r"<\|begin_of_thought\|>",
    "start_thinking": r"<\|START_THINKING\|>",
    "inner": r"<\|inner_prefix\|>",
    "bracketed": r"\[THINK\]",
    "triangles": "\u25c1think\u25b7",
    "channel": r"<\|channel\|>(?:analysis|commentary)\b[^<\n]{0,60}<\|message\|>",
    "thought_channel": r"<\|channel>thought\b",
    "unused": r"<unused94>thought\b",
    "said": r"(?:Here is|Here's) my thought process:",
    # What is left of channels where special tokens were skipped: the words alone, glued to the text after them.
    "glued": r"analysis(?=(?:The|We|User|I|It|This|Need|They|There|So|You|A|Let|Okay|OK)\b)",
}
_CLOSINGS = {
    **{name: rf"</{name}>" for name in _TAGS.split("|")},
    "begin_of_thought": r"<\|end_of_thought\|>",
    "start_thinking": r"<\|END_THINKING\|>",
    "inner": r"<\|inner_suffix\|>",
    "bracketed": r"\[/THINK\]",
    "triangles": "\u25c1/think\u25b7",
    "channel": r"(?:<\|end\|>)?(?:<\|start\|>assistant)?<\|channel\|>final\b[^<\n]{0,60}<\|message\|>",
    "thought_channel": r"<channel\|>",
    "unused": r"<unused95>",
    "said": r"(?:Here is|Here's) my response:",
    "glued": r"assistantfinal",
}
# Words of everyday text: they open at the very start only, and close nothing that did not open.
_WORDS = ("said", "glued")


def _joined(forms: dict[str, str], kind: str) -> str:
    return "|".join(f"(?P<{kind}{number}>{form})" for number, form in enumerate(forms.values()))


_NAMES = list(_OPENINGS)
_ANY = re.compile(f"{_joined(_OPENINGS, 'o')}|{_joined(_CLOSINGS, 'c')}", re.IGNORECASE)
# What every tag has beside its "<": most replies have none of it, and are not looked at any further.
_HINTS = ("think", "thought", "reasoning", "reflection", "inner_", "channel", "unused95")
# The opening that a prompt may end with, and the most characters of it with the white space after it.
_LAST = re.compile(
    f"({'|'.join(form for name, form in _OPENINGS.items() if name not in _WORDS)})\\s*\\Z", re.IGNORECASE
)
_LONGEST = 120
_CODE = re.compile(r"```.*?```", re.DOTALL)
_QUOTES = "`'\"\u2018\u2019\u201c\u201d"


class _Mark(NamedTuple):
    """`code` is the number of the block of code that it stands in; None for none."""

    form: str
    opens: bool
    start: int
    end: int
    code: int | None


def opened_by(prompt: str) -> str:
    """Return the mark of reasoning that a prompt ends with, as chat templates of some models do; "" where none does."""
    found = _LAST.search(prompt[-_LONGEST:])
    return found[1] if found else ""


def outside(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Return the parts of a text that are no reasoning, and whether there is any reasoning.

    Parameters
    ----------
    text : str
        A reply, or what is left of one.

    Returns
    -------
    parts : list of (int, int)
        First character and the one after the last of each part, in their order; a part may be blank. All of the text
        where it has no reasoning, none where all of it is.
    reasoned : bool
        Whether a mark of reasoning stands in it.
    """
    parts: list[tuple[int, int]] = []
    inside, begin, reasoned = "", 0, False
    mentioned: _Mark | None = None
    for mark in _marks(text):
        if inside:
            if not mark.opens and mark.form == inside:
                inside, begin = "", mark.end
        elif mark.opens and _opens(text, mark, begin):
            parts.append((begin, mark.start))
            inside, reasoned = mark.form, True
        elif mark.opens:
            mentioned = mark
        elif mark.form not in _WORDS and not _closes_talk(text, mark, mentioned):  # the template had opened it
            begin, reasoned = mark.end, True
    return (parts if inside else [*parts, (begin, len(text))]), reasoned


def _closes_talk(text: str, mark: _Mark, mentioned: _Mark | None) -> bool:
    """Whether a closing belongs to an opening that is talk about tags: within its line, or in its block of code."""
    if mentioned is None or mentioned.form != mark.form:
        return False
    return "\n" not in text[mentioned.end : mark.start] or (mark.code is not None and mark.code == mentioned.code)


def _opens(text: str, mark: _Mark, begin: int) -> bool:
    """Whether an opening stands where reasoning starts: on a new line, or where nothing stands before it."""
    if mark.code is not None:
        return False
    before = text[begin : mark.start]
    if mark.form == "said" and not re.search(_CLOSINGS["said"], text[mark.end :], re.IGNORECASE):
        return False  # an answer may begin so
    if mark.form in _WORDS:
        return not before.strip()
    return not before.rpartition("\n")[2].strip()


def _may_hold_marks(low: str) -> bool:
    """Whether a text in lower case is worth the search: it takes longer than all that is done for most replies."""
    if "<" in low and any(hint in low for hint in _HINTS):
        return True
    words = "my thought process:" in low or low.lstrip().startswith("analysis")
    return words or "think]" in low or "\u25c1" in low


def _marks(text: str) -> Iterator[_Mark]:
    """Yield the marks of a text in their order, without those that are quoted."""
    if not _may_hold_marks(text.lower()):
        return
    code = [match.span() for match in _CODE.finditer(text)] if "```" in text else []
    for found in _ANY.finditer(text):
        name = str(found.lastgroup)
        before, after = text[max(found.start() - 1, 0) : found.start()], text[found.end() : found.end() + 1]
        quoted = before and after and before in _QUOTES and after in _QUOTES
        opens, form = name[0] == "o", _NAMES[int(name[1:])]
        block = next((n for n, (first, last) in enumerate(code) if first < found.start() < last), None)
        if not quoted:
            yield _Mark(form, opens, found.start(), found.end(), block)
