"""A prompt as the token ids that go into a model."""

from __future__ import annotations

from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from slmsafety.errors import InputError, unknown

TEMPLATES = ("auto", "chat", "raw")
TRUNCATIONS = ("keep_end", "helm")
# Some templates print today's date when they are given none, which would make the prompt depend on the day of the run.
_TEMPLATE_DATE = "26 Jul 2024"


class Rendered(NamedTuple):
    """Token ids, whether the prompt was cut, the template used (chat, raw), and how many BOS tokens lead."""

    ids: list[int]
    truncated: bool
    template_used: str
    bos_count: int


def render(
    prompt: str, tokenizer: PreTrainedTokenizerBase, template: str, limit: int, truncation: str = "keep_end"
) -> Rendered:
    """Return a prompt as token ids.

    Parameters
    ----------
    prompt : str
        The prompt's text. Special tokens spelt out in it are read as such, as everywhere in transformers.
    tokenizer : PreTrainedTokenizerBase
        The model's tokenizer.
    template : {"auto", "chat", "raw"}
        `chat` uses the tokenizer's chat template, `raw` none, `auto` the template if there is one.
    limit : int
        The most token ids.
    truncation : {"keep_end", "helm"}, default "keep_end"
        Of a longer prompt, `keep_end` keeps the last ids, `helm` the start of the prompt and all of the template.

    Returns
    -------
    Rendered
        The ids and how they were made.

    Raises
    ------
    InputError
        For template "chat" without one in the tokenizer, for an unknown template or truncation, and when nothing is
        left to send.

    Notes
    -----
    A tokenizer that puts BOS before a text gets exactly one, whether or not the chat template writes one too; it stays
    when the start is cut off. HELM counts a prompt without its template (in_context_learning_adapter.py), which can
    exceed the context length; here the template counts.
    """
    if template not in TEMPLATES:
        raise unknown("template", template, TEMPLATES)
    if template == "chat" and not tokenizer.chat_template:
        raise InputError(f"template 'chat': {tokenizer.name_or_path} has no chat template; use 'auto' or 'raw'")
    if truncation not in TRUNCATIONS:
        raise unknown("truncation", truncation, TRUNCATIONS)
    chat = bool(tokenizer.chat_template) and template != "raw"
    start = [tokenizer.bos_token_id] if adds_bos(tokenizer) else []
    room = limit - len(start)
    ids = _encode(prompt, tokenizer, chat)
    kept = ids[max(0, len(ids) - room) :]
    if truncation == "helm" and len(kept) < len(ids):
        kept = _from_the_start(prompt, tokenizer, chat, room)
    if limit <= len(start) or not start + kept:
        raise InputError(f"a prompt of {len(ids)} tokens leaves nothing to send in a window of {limit} tokens")
    sent = start + kept
    return Rendered(sent, len(kept) < len(ids), "chat" if chat else "raw", _leading(sent, tokenizer.bos_token_id))


def _encode(text: str, tokenizer: PreTrainedTokenizerBase, chat: bool) -> list[int]:
    """Return the ids of a text or of its chat, without the BOS tokens that lead where the tokenizer adds one itself."""
    written = _chat(text, tokenizer) if chat else text
    ids: list[int] = tokenizer.encode(written, add_special_tokens=False, verbose=False)
    return ids[_leading(ids, tokenizer.bos_token_id) :] if adds_bos(tokenizer) else ids


def _from_the_start(prompt: str, tokenizer: PreTrainedTokenizerBase, chat: bool, room: int) -> list[int]:
    """Return the ids of the longest start of a prompt that fits with its template; [] when not even one token does."""
    words: list[int] = tokenizer.encode(prompt, add_special_tokens=False, verbose=False)
    if not chat:
        return words[: max(0, room)]
    length = min(len(words), room)
    while length > 0:
        ids = _encode(str(tokenizer.decode(words[:length])), tokenizer, chat)
        if len(ids) <= room:
            return ids
        length -= len(ids) - room
    return []


def adds_bos(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether the tokenizer itself puts its BOS token before a text; having a BOS token is not enough."""
    bos = tokenizer.bos_token_id
    return bos is not None and tokenizer.encode("a")[0] == bos


def _chat(prompt: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the prompt as the only turn of a chat, up to where the model's answer starts."""
    turn = [{"role": "user", "content": prompt}]
    return str(
        tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True, date_string=_TEMPLATE_DATE)
    )


def _leading(ids: list[int], token: int | None) -> int:
    """Return how many times the token is repeated at the start."""
    return next((index for index, found in enumerate(ids) if found != token), len(ids))
