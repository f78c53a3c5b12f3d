"""A judge's input: where the judged prompt and reply stand in its text, and the token ids that it becomes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from slmsafety.errors import InputError
from slmsafety.judging.slots import check_slots, fill
from slmsafety.models.chat import chat_text

# Prompt and reply -> the whole text that a judge reads.
Layout = Callable[[str, str], str]


class Encoded(NamedTuple):
    """Token ids, whether the end of the reply did not fit, and how many special tokens were spelt out in the texts.

    `clipped`: the judge is by its own rule shown no more than the start of the reply.
    """

    ids: list[int]
    truncated: bool
    neutralised: int
    clipped: bool = False


class NotShown(InputError):
    """A chat template that left out or changed one of the judged texts."""


def read_template(path: Path) -> str:
    """Return a judge's prompt from a UTF-8 file; {{QUESTION}} and {{ANSWER}} mark where the judged texts go.

    The file's line breaks are read as line feeds, and a byte-order mark is none of the prompt. How the prompt ends is
    the adapter's to say. Raises InputError when the file is not there or lacks a slot.
    """
    try:
        template = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"judge template {path}: cannot be read ({type(error).__name__})") from error
    text_layout(template, str(path))
    return template


def own_end(template: str) -> str:
    """Return the text of a file without its last line break, which editors add."""
    return template.removesuffix("\n")


def text_layout(template: str, source: str = "judge template") -> Layout:
    """Return the layout that puts the texts into the template's slots; nothing else in it is special, braces neither.

    Raises InputError naming `source` for a template without {{QUESTION}} and {{ANSWER}}, once each.
    """
    check_slots(template, source)
    return lambda prompt, reply: fill(template, prompt, reply)


def chat_layout(tokenizer: PreTrainedTokenizerBase) -> Layout:
    """Return the layout of the tokenizer's own chat template: the prompt is a user's turn, the reply the assistant's.

    Guard models ship a template that writes their whole instruction. Most take a turn's content as a text; others, made
    for models that see pictures too, want a list of parts and write nothing of a text.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerBase
        The judge's.

    Returns
    -------
    Layout
        It raises NotShown where one of the texts does not stand in what the template wrote; blanks around it may be
        gone.

    Raises
    ------
    InputError
        When there is no template, and for one that shows neither form of turn whole and as it is.
    """
    if not tokenizer.chat_template:
        raise InputError(f"{tokenizer.name_or_path} has no chat template, which this judge's instruction comes from")
    specials = special_strings(tokenizer)
    probes = [neutralise(f"{name}{_PROBE}{name}", specials)[0] for name in ("Asked", "Said")]
    problems = []
    for content in (str, _parts):
        layout = partial(_chat, tokenizer, content)
        try:
            layout(*probes)
        except InputError as error:
            problems.append(error)
        else:
            return layout
    raise problems[0]


# What templates are seen to drop, cut, escape or change: length, case, blanks, line breaks, quotes, markup.
_PROBE = " a  Long Text:\n\n\"Quoted\", 'too' & <b>marked</b> {{ up }}\n\t- " + "word by word " * 300


def _parts(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def _chat(tokenizer: PreTrainedTokenizerBase, content: Callable[[str], Any], prompt: str, reply: str) -> str:
    """Return both texts as turns of a chat; NotShown unless they stand in it, the reply behind the prompt."""
    turns = [{"role": "user", "content": content(prompt)}, {"role": "assistant", "content": content(reply)}]
    try:
        text = chat_text(tokenizer, turns)
    except InputError as error:
        raise InputError(f"{tokenizer.name_or_path}: {error}") from error
    start = 0
    for what, judged in (("prompt", prompt), ("reply", reply)):
        found = text.find(judged.strip(), start)
        if found < 0:
            raise NotShown(
                f"{tokenizer.name_or_path}: its chat template leaves out or changes the judged {what}, so that the "
                "judge would not see it as it is; use the tokenizer of the published judge"
            )
        start = found + len(judged.strip())
    return text


def encode(layout: Layout, prompt: str, reply: str, tokenizer: PreTrainedTokenizerBase, limit: int) -> Encoded | None:
    """Return the judge's input in at most `limit` token ids; None when it does not fit even without a reply.

    Too long an input loses the end of its reply and nothing else: the answer cue comes last. Special tokens spelt out
    in the judged texts are broken up, so that they end no turn. A tokenizer that puts BOS before a text gets exactly
    one, whether or not the layout writes one. Raises InputError for a prompt or reply that is no text.
    """
    refuse_no_text(prompt, reply)
    specials = special_strings(tokenizer)
    (prompt, in_prompt), (reply, in_reply) = (neutralise(text, specials) for text in (prompt, reply))

    def ids(length: int) -> list[int]:
        return _with_one_bos(tokenizer, layout(prompt, reply[:length]))

    whole, neutralised = ids(len(reply)), in_prompt + in_reply
    if len(whole) <= limit:
        return Encoded(whole, False, neutralised)
    # The longest start of the reply that fits; a character more can be a token less, so the find is checked.
    length = bisect_right(range(len(reply)), limit, key=lambda length: len(ids(length))) - 1
    while length >= 0 and len(cut := ids(length)) > limit:
        length -= 1
    return Encoded(cut, True, neutralised) if length >= 0 else None


def refuse_no_text(prompt: object, reply: object) -> None:
    """Raise InputError for a prompt or reply that is no text."""
    if not (isinstance(prompt, str) and isinstance(reply, str)):
        raise InputError(f"a judge reads text, not {type(prompt).__name__} and {type(reply).__name__}")


def special_strings(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str]:
    """Return the pattern of the tokenizer's special tokens as they are spelt, the longest first."""
    added = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    spelt = sorted({*added, *tokenizer.all_special_tokens} - {""}, key=lambda text: (-len(text), text))
    return re.compile("|".join(map(re.escape, spelt)) or r"(?!)")


def neutralise(text: str, specials: re.Pattern[str]) -> tuple[str, int]:
    """Return the text with a space after the first character of each special token in it, and their number."""
    return specials.subn(lambda found: f"{found[0][0]} {found[0][1:]}", text)


def _with_one_bos(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the ids of a text that holds its own special tokens, with one BOS where the tokenizer wants one."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False, verbose=False)
    bos = tokenizer.bos_token_id
    if bos is None or tokenizer.encode("a")[0] != bos:
        return ids
    written = next((index for index, token in enumerate(ids) if token != bos), len(ids))
    return [bos, *ids[written:]]
