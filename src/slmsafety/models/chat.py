"""A tokenizer's chat template at work: on one fixed day, and with one line for whatever goes wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from threading import Lock
from typing import Any

from transformers import PreTrainedTokenizerBase
from transformers.utils import chat_template_utils

from slmsafety.errors import InputError, unknown

# Some templates write today's date, which would make a prompt depend on the day of the run.
DAY = datetime(2024, 7, 26)
_HELLO = [{"role": "user", "content": "a"}]
_LOCK = Lock()


def chat_text(tokenizer: PreTrainedTokenizerBase, turns: list[dict[str, str]], **more: Any) -> str:
    """Return turns of a chat as the tokenizer's template writes them, up to where the model's answer starts.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerBase
        The model's tokenizer, with a chat template.
    turns : list of dict
        Each with role and content.
    **more
        Variables of the template; `chat_template` is the name of one, where the tokenizer has several.

    Returns
    -------
    str
        The text. A template that asks for today's date (`strftime_now`) gets DAY.

    Raises
    ------
    InputError
        In one line: several templates without a default, a template that raises or is broken, a variable that the
        template does not read, and a date that this version of transformers lets nobody fix.
    """
    template = chat_template(tokenizer, more.get("chat_template"))
    if "strftime_now" in template and not _day_is_fixed():
        raise InputError("its chat template writes today's date, which this version of transformers lets nobody fix")
    try:
        with _fixed_day():
            text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **more)
    except MemoryError:
        raise
    except Exception as error:  # a template is a program, which raises anything
        told = str(error).strip().splitlines() or ["no reason given"]
        raise InputError(f"its chat template fails ({type(error).__name__}): {told[0]}") from error
    return str(text)


def chat_template(tokenizer: PreTrainedTokenizerBase, name: str | None = None) -> str:
    """Return the text of a tokenizer's chat template; "" where it has none.

    Raises InputError for several templates without one that is named `default` and no `name`, and an unknown name.
    """
    given: str | dict[str, str] | None = tokenizer.chat_template
    if not isinstance(given, dict):
        if name is not None:
            raise InputError("it has one chat template; remove template_kwargs.chat_template, which names one of many")
        return given or ""
    if name is None and "default" not in given:
        raise InputError(
            f"it has several chat templates and none is the default: {', '.join(sorted(given))}; "
            "choose one by template_kwargs: {chat_template: NAME}"
        )
    if name is not None and name not in given:
        raise unknown("chat template", name, sorted(given))
    return given[name or "default"]


@contextmanager
def _fixed_day() -> Iterator[None]:
    """Let the templates' `strftime_now`, which asks a name of its module for the time, find DAY there."""
    with _LOCK:
        real = vars(chat_template_utils).get("datetime")
        vars(chat_template_utils)["datetime"] = _Clock
        try:
            yield
        finally:
            vars(chat_template_utils)["datetime"] = real


class _Clock:
    """What `datetime.now()` finds instead of the clock."""

    @staticmethod
    def now() -> datetime:
        return DAY


@cache
def _day_is_fixed() -> bool:
    """Whether a template is given DAY: that module is not ours, and may look elsewhere in another version."""
    probe = "{{ strftime_now('%Y-%m-%d') }}"
    with _fixed_day():
        written: Any = chat_template_utils.render_jinja_template([_HELLO], chat_template=probe)
    return list(written[0]) == [f"{DAY:%Y-%m-%d}"]
