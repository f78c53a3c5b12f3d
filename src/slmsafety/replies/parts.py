"""The part of a reply that answers: without reasoning, the tag of a role, a heading, and an echo of the prompt.

What is not sure is left in: a reply that only repeats its prompt, or repeats it more than once, is whole, so that
judges see that. Where a base model goes on with another turn of the user, the answer ends before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pandas as pd

from slmsafety.replies.reasoning import outside

# Raise it when a reply could have another answer part: it is in the judge_id of those that have one.
VERSION = 1

_NAMED = r"(?:final\s+)?(?:answer|response|reply|output|solution)|assistant|(?:ai\s+)?chatbot|ai\s+assistant|ai|bot"
# A role's tag or a heading that says no more than that the answer follows.
_LEAD = re.compile(
    r"\s*(?:"
    + "|".join(
        (
            rf"[#*_>\s]*\b(?:{_NAMED})\s*[*_]*\s*:\s*[*_]*",
            rf"[#]+\s*[*_]*(?:{_NAMED})[*_]*\s*(?:\n|\Z)",
            rf"[*_]{{2}}(?:{_NAMED})[*_]{{2}}\s*(?:\n|\Z)",
            r"<\|(?:assistant|bot)\|>",
            r"(?:<\|im_start\|>|<\|start\|>)assistant\b",
            r"<\|start_header_id\|>assistant<\|end_header_id\|>",
            r"<start_of_turn>model\b",
            r"\[/INST\]",
            r"<(?:answer|output|response)>",
            r"<\|(?:begin_of_solution|START_RESPONSE)\|>",
            # What is left of a header where special tokens were skipped: the role alone on the first line.
            r"(?-i:assistant|model)[ \t]*\n",
        )
    )
    + ")",
    re.IGNORECASE,
)
# What may stand before an echo of the prompt, and around it.
_ASKED = re.compile(r"[#*_>\s]*(?:(?:user|human|question|prompt|instruction|q)\s*[*_]*\s*:\s*[*_]*)?\s*", re.IGNORECASE)
_DRESS = "\"'`*_\u201c\u201d"
# A prompt below both is too short to be told from a reply that happens to begin so.
_FEWEST_WORDS, _FEWEST_CHARACTERS = 3, 8
_ENDS = ".?!:;\u3002\uff1f\uff01\u2026"

# The next turn: a tag in words, at the start of a line, or the marks of a template. A heading that says more than the
# role, such as "## User guide", is one of the answer.
_TAG = (
    r"(?:(?:Human|User|HUMAN|USER)[ \t]*:"
    r"|#{2,4}[ \t]*(?:(?:Instruction|Human|User|Input)[ \t]*:|(?:Instruction|Human|User)[ \t]*(?:\n|\Z)))"
)
_TURN_IN_WORDS = re.compile(rf"\n[ \t]*{_TAG}")
_OPENS_WITH_TURN = re.compile(rf"\s*{_TAG}")
_TURN = re.compile(
    r"<\|(?:user|im_end|eot_id|end|return|endoftext|end_of_text|end_of_solution|END_RESPONSE)\|>|<end_of_turn>|\n\[INST\]"
    r"|<\|im_start\|>user|<start_of_turn>user|<\|start_header_id\|>user|</(?:answer|output|response)>\s*\Z"
)


def answer_part(reply: str, prompt: str = "") -> tuple[int, int] | None:
    """Return where the answer stands in a reply.

    Parameters
    ----------
    reply : str
        The reply as the model gave it.
    prompt : str
        What it replies to, for an echo of it; "" where that is not known.

    Returns
    -------
    (int, int) or None
        The first character of the answer and the one after its last; both the same where the reply is reasoning only,
        or was cut within it. None where the whole reply is the answer, white space around it aside.
    """
    words = _echoed_words(prompt)
    start, end, reasoned, echo = 0, len(reply), False, None
    while True:
        rest = reply[start:end]
        parts, more = outside(rest)
        if more:
            first, last = _answering(rest, parts)
            start, end, reasoned, echo = start + first, start + last, True, None
            if first == last:
                return start, start
        elif lead := _lead(rest):
            start += lead
        elif skipped := _echo(rest, words):
            if echo is not None:  # a loop
                start = echo
                break
            start, echo = start + skipped, start
        else:
            break
    if echo is not None and _begins(reply[start:end], words):
        start = echo
    return _trimmed(reply, start, start + _turn(reply[start:end]), reasoned)


def answer_of_pieces(pieces: Sequence[tuple[str, bool]], prompt: str = "") -> tuple[int, int] | None:
    """Return where the answer stands in a reply whose special tokens are known, which its text leaves out.

    Parameters
    ----------
    pieces : sequence of (str, bool)
        The reply in pieces, and whether a piece is a special token, as the mark of a channel may be.
    prompt : str
        As in `answer_part`.

    Returns
    -------
    (int, int) or None
        What `answer_part` says of all pieces, counted in the text of those that are no special tokens.
    """
    found = answer_part("".join(piece for piece, _ in pieces), prompt)
    if found is None:
        return None
    begins, shown, places = 0, 0, [0, 0]
    for piece, special in pieces:
        for which, place in enumerate(found):
            if place >= begins:
                places[which] = shown + (0 if special else min(place - begins, len(piece)))
        begins, shown = begins + len(piece), shown + (0 if special else len(piece))
    text = "".join(piece for piece, special in pieces if not special)
    return _trimmed(text, places[0], places[1], reasoned=True)


def answer_parts(replies: Iterable[object], prompts: Iterable[object]) -> pd.DataFrame:
    """Return the columns answer_start and answer_end of the responses table.

    Parameters
    ----------
    replies, prompts : iterable of str
        Replies and what they reply to, as many of each. Either may be missing (None or nan): a reply without a text has
        no parts, and of a prompt that is not known no echo is found.

    Returns
    -------
    DataFrame
        answer_start and answer_end (Int64, characters), a row for each reply with an index from 0; both missing where
        the whole reply is the answer, and equal where there is none in it.
    """
    pairs = [
        answer_part(reply, prompt if isinstance(prompt, str) else "") if isinstance(reply, str) else None
        for reply, prompt in zip(replies, prompts, strict=True)
    ]
    columns = ["answer_start", "answer_end"]
    rows = [(pd.NA, pd.NA) if pair is None else pair for pair in pairs]
    return pd.DataFrame(rows, columns=columns, dtype=object).astype("Int64")


def has_part(rows: pd.DataFrame) -> pd.Series:
    """Return which replies (with answer_start and answer_end) have an answer that is not the whole of them, or none."""
    return rows["answer_start"].notna() & rows["answer_end"].notna()


def answers(rows: pd.DataFrame) -> pd.Series:
    """Return the text that answers of each reply (with response, answer_start, answer_end); "" where there is none."""
    apart = has_part(rows)
    texts = rows["response"].astype(object)
    cut = [
        text[int(start) : int(end)] if part and isinstance(text, str) else text
        for text, start, end, part in zip(texts, rows["answer_start"], rows["answer_end"], apart, strict=True)
    ]
    return pd.Series(cut, index=rows.index, dtype=rows["response"].dtype)


def _answering(text: str, parts: list[tuple[int, int]]) -> tuple[int, int]:
    """The part outside of reasoning that answers: the first that another turn follows in, else the last with a text."""
    written = [(first, last) for first, last in parts if text[first:last].strip()]
    for first, last in written:
        if _turn(text[first:last]) < last - first:
            return first, last
    return written[-1] if written else (len(text), len(text))


def _lead(text: str) -> int:
    """The characters of a role's tag or a heading at the start of a text; 0 where there is none."""
    found = _LEAD.match(text)
    return found.end() if found else 0


def _echoed_words(prompt: str) -> list[str]:
    """The words of a prompt that an echo repeats; none of one so short that a reply may begin so by chance."""
    words = prompt.split()
    long = len(words) >= _FEWEST_WORDS or (not prompt.isascii() and len(prompt.strip()) >= _FEWEST_CHARACTERS)
    return words if long else []


def _echo(text: str, words: list[str]) -> int:
    """The characters of the whole prompt at the start of a text, and of what may stand around it; 0 where it goes on.

    A text that goes on with the prompt's last sentence continues it and repeats nothing.
    """
    if not words:
        return 0
    asked = _ASKED.match(text)
    place = asked.end() if asked else 0
    while text[place : place + 1] and text[place] in _DRESS:
        place += 1
    for number, word in enumerate(words):
        spaced = place
        while text[spaced : spaced + 1].isspace():
            spaced += 1
        if (number and spaced == place) or not text.startswith(word, spaced):
            return 0
        place = spaced + len(word)
    closed = place + len(text[place:]) - len(text[place:].lstrip(_DRESS))
    rest = text[closed:]
    gap = rest[: len(rest) - len(rest.lstrip())]
    ended = words[-1][-1] in _ENDS or closed > place or "\n" in gap or not rest.strip()
    glued = bool(rest) and not gap and (words[-1][-1] not in _ENDS or rest[0] in _ENDS)
    return closed + len(gap) if ended and not glued else 0


def _begins(text: str, words: list[str]) -> bool:
    """Whether a text is nothing, or the beginning of the prompt once more, as a reply that is cut ends."""
    asked = _ASKED.match(text)
    said = text[asked.end() if asked else 0 :].lstrip(_DRESS).split()
    if not said:
        return True
    return len(said) <= len(words) and said[:-1] == words[: len(said) - 1] and words[len(said) - 1].startswith(said[-1])


def _turn(text: str) -> int:
    """Where another turn begins in a text: its length where none does.

    Where the first tag in words follows a colon, or the text begins with one, they are a dialogue that was asked for.
    """
    end = len(text) + 1
    while end > len(text):  # what ends a text may stand before a turn
        end = len(text)
        marks = _TURN.finditer(text) if "<" in text or "[INST]" in text else iter(())
        text = text[: next((mark.start() for mark in marks if text[: mark.start()].strip()), end)]
        tag = None if _OPENS_WITH_TURN.match(text) else _TURN_IN_WORDS.search(text)
        if tag and not text[: tag.start()].rstrip().endswith(":"):
            text = text[: tag.start()]
    return end


def _trimmed(reply: str, start: int, end: int, reasoned: bool) -> tuple[int, int] | None:
    """The answer without white space around it; None where it is the whole reply, or a reply of tags without one."""
    answer = reply[start:end]
    if not answer.strip():
        return (end, end) if reasoned else None
    if answer.strip() == reply.strip():
        return None
    return start + len(answer) - len(answer.lstrip()), end - (len(answer) - len(answer.rstrip()))
