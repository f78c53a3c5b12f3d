"""The text around a prompt: a frame with the slot {{PROMPT}}, and {{SYSTEM}} for a system prompt."""

from __future__ import annotations

import re

from slmsafety.errors import InputError

_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")
# What is meant as a slot: words in double braces. Braces around anything else (JSON, TeX) are text.
_MEANT = re.compile(r"\{\{\s*(\w[\w .-]*?)\s*\}\}")
_PROMPT, _SYSTEM = "PROMPT", "SYSTEM"


def check_frame(frame: str, system_prompt: str | None) -> None:
    """Raise InputError unless a frame has {{PROMPT}} once, {{SYSTEM}} at most once, and no other slot.

    A frame with {{SYSTEM}} needs a system prompt. Slots are read in any case, with or without blanks inside.
    """
    found = [name.upper() for name in _MEANT.findall(frame)]
    for name in found:
        if name not in (_PROMPT, _SYSTEM):
            raise InputError(f"its frame has the slot {{{{{name}}}}}; valid: {{{{PROMPT}}}} and {{{{SYSTEM}}}}")
    if found.count(_PROMPT) != 1:
        raise InputError(f"its frame has the slot {{{{PROMPT}}}} {found.count(_PROMPT)} times; it needs it once")
    if found.count(_SYSTEM) > 1:
        raise InputError(f"its frame has the slot {{{{SYSTEM}}}} {found.count(_SYSTEM)} times; at most once")
    if _SYSTEM in found and system_prompt is None:
        raise InputError("its frame has the slot {{SYSTEM}}, and there is no system_prompt")


def takes_system(frame: str | None) -> bool:
    """Return whether a frame has a place for the system prompt; False without a frame."""
    return frame is not None and _SYSTEM in (name.upper() for name in _SLOT.findall(frame))


def framed(frame: str | None, prompt: str, system_prompt: str | None) -> str:
    """Return the prompt in its frame, in one pass: a slot that stands in a prompt is text."""
    if frame is None:
        return prompt
    texts = {_PROMPT: prompt, _SYSTEM: system_prompt or ""}
    return _SLOT.sub(lambda slot: texts[slot[1].upper()], frame)


def turns(prompt: str, frame: str | None, system_prompt: str | None) -> list[dict[str, str]]:
    """Return the turns of a chat: the system's, where there is a system prompt, and the user's, the framed prompt.

    A system prompt with a slot in the frame stands there and has no turn of its own.
    """
    user = {"role": "user", "content": framed(frame, prompt, system_prompt)}
    if system_prompt is None or takes_system(frame):
        return [user]
    return [{"role": "system", "content": system_prompt}, user]


def no_place(key: str) -> InputError:
    """Return the refusal of `template_kwargs` or `system_prompt` where no chat template is used."""
    if key == "template_kwargs":
        return InputError("it has template_kwargs and no chat template that would read them; remove them")
    return InputError("its system_prompt needs a chat template, or a frame with {{SYSTEM}} and {{PROMPT}}")
