"""A prompt as the token ids that go into a model."""

from __future__ import annotations

import re
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from slmsafety.errors import InputError
from slmsafety.generation.frames import framed, no_place, takes_system, turns
from slmsafety.generation.settings import GenerationSettings
from slmsafety.models.chat import DAY, chat_template, chat_text

# What stands in for a system prompt to see whether a template writes one: no template has it of itself.
_PROBE = "Zq7-probe-Kx4"


class Rendered(NamedTuple):
    """Token ids, whether the prompt was cut, the template used (chat, raw), and how many BOS tokens lead."""

    ids: list[int]
    truncated: bool
    template_used: str
    bos_count: int


def render(prompt: str, tokenizer: PreTrainedTokenizerBase, settings: GenerationSettings, limit: int) -> Rendered:
    """Return a prompt as token ids.

    Parameters
    ----------
    prompt : str
        The prompt's text. Special tokens spelt out in it are read as such, as everywhere in transformers.
    tokenizer : PreTrainedTokenizerBase
        The model's tokenizer.
    settings : GenerationSettings
        The template, the frame and the system prompt around the prompt, and what is cut of a longer one; checked once
        by `check_asking`.
    limit : int
        The most token ids.

    Returns
    -------
    Rendered
        The ids and how they were made.

    Raises
    ------
    InputError
        For template "chat" without one in the tokenizer, for a template that fails, and when nothing is left to send.

    Notes
    -----
    A tokenizer that puts BOS before a text gets exactly one, whether or not the chat template writes one too; it stays
    when the start is cut off. HELM counts a prompt without its template (in_context_learning_adapter.py), which can
    exceed the context length; here the template counts, and a frame as a part of it.
    """
    chat = uses_chat(tokenizer, settings)
    start = [tokenizer.bos_token_id] if adds_bos(tokenizer) else []
    room = limit - len(start)
    ids = _encode(prompt, tokenizer, settings)
    kept = ids[max(0, len(ids) - room) :]
    if settings.truncation == "helm" and len(kept) < len(ids):
        kept = _from_the_start(prompt, tokenizer, settings, room)
    if limit <= len(start) or not start + kept:
        raise InputError(f"a prompt of {len(ids)} tokens leaves nothing to send in a window of {limit} tokens")
    sent = start + kept
    return Rendered(sent, len(kept) < len(ids), "chat" if chat else "raw", _leading(sent, tokenizer.bos_token_id))


def uses_chat(tokenizer: PreTrainedTokenizerBase, settings: GenerationSettings) -> bool:
    """Return whether prompts go through the chat template; InputError for template "chat" without one."""
    has_one = bool(tokenizer.chat_template)
    if settings.template == "chat" and not has_one:
        raise InputError(f"template 'chat': {tokenizer.name_or_path} has no chat template; use 'auto' or 'raw'")
    return has_one and settings.template != "raw"


def check_asking(tokenizer: PreTrainedTokenizerBase, settings: GenerationSettings) -> None:
    """Refuse settings of which a part would not reach the model, before any prompt is rendered.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerBase
        The model's tokenizer.
    settings : GenerationSettings
        How its replies are made.

    Raises
    ------
    InputError
        For a system prompt that the chat template does not write, or that has no place without one; for variables of
        the template (`template_kwargs`) that it does not read, or that there is no template for; and for a template
        that fails.
    """
    system, own = settings.system_prompt, takes_system(settings.frame)
    if not uses_chat(tokenizer, settings):
        for key in ("template_kwargs", "system_prompt"):
            if getattr(settings, key) and not (key == "system_prompt" and own):
                raise no_place(key)
        return
    text = chat_template(tokenizer, settings.template_kwargs.get("chat_template"))
    for key in sorted(settings.template_kwargs.keys() - {"chat_template"}):
        if not re.search(rf"\b{re.escape(key)}\b", text):
            raise InputError(f"its chat template reads no '{key}', which template_kwargs gives it; remove it")
    _chat("a", tokenizer, settings)
    if system is None or own:
        return
    probed = _chat("a", tokenizer, settings.model_copy(update={"system_prompt": _PROBE}))
    if _PROBE not in probed or system.strip() not in _chat("a", tokenizer, settings):
        raise InputError(
            "its chat template leaves the system_prompt out; put it into the user's turn by a frame with {{SYSTEM}}"
        )


def _encode(prompt: str, tokenizer: PreTrainedTokenizerBase, settings: GenerationSettings) -> list[int]:
    """Return the ids of a prompt with all around it, without the BOS tokens that lead where the tokenizer adds one."""
    if uses_chat(tokenizer, settings):
        written = _chat(prompt, tokenizer, settings)
    else:
        written = framed(settings.frame, prompt, settings.system_prompt)
    ids: list[int] = tokenizer.encode(written, add_special_tokens=False, verbose=False)
    return ids[_leading(ids, tokenizer.bos_token_id) :] if adds_bos(tokenizer) else ids


def _from_the_start(
    prompt: str, tokenizer: PreTrainedTokenizerBase, settings: GenerationSettings, room: int
) -> list[int]:
    """Return the ids of the longest start of a prompt that fits with all around it; [] when not one token does."""
    words: list[int] = tokenizer.encode(prompt, add_special_tokens=False, verbose=False)
    if settings.frame is None and not uses_chat(tokenizer, settings):
        return words[: max(0, room)]
    length = min(len(words), room)
    while length > 0:
        ids = _encode(str(tokenizer.decode(words[:length])), tokenizer, settings)
        if len(ids) <= room:
            return ids
        length -= len(ids) - room
    return []


def adds_bos(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether the tokenizer itself puts its BOS token before a text; having a BOS token is not enough."""
    bos = tokenizer.bos_token_id
    return bos is not None and tokenizer.encode("a")[0] == bos


def _chat(prompt: str, tokenizer: PreTrainedTokenizerBase, settings: GenerationSettings) -> str:
    """Return the prompt in its frame as the user's turn of a chat, after the system's turn where there is one."""
    return chat_text(
        tokenizer,
        turns(prompt, settings.frame, settings.system_prompt),
        **{"date_string": f"{DAY:%d %b %Y}", **settings.template_kwargs},
    )


def _leading(ids: list[int], token: int | None) -> int:
    """Return how many times the token is repeated at the start."""
    return next((index for index, found in enumerate(ids) if found != token), len(ids))
