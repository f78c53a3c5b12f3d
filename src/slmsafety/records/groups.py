"""Names of groups of prompts: a prompt without a group is one of its own, under its id."""

from __future__ import annotations

from collections.abc import Iterable

from slmsafety.errors import InputError, visible


def check_groups(prompts: Iterable[tuple[str, str, str]], source: str) -> None:
    """Refuse a group with the id of a prompt that has no group, which would join it in silence.

    Parameters
    ----------
    prompts : iterable of (suite, instance_id, group)
        Of each prompt; group is "" where it has none.
    source : str
        The file, for the error.

    Raises
    ------
    InputError
        Naming the first such prompt.
    """
    rows = list(prompts)
    named = {(suite, group) for suite, _, group in rows if group}
    for suite, instance, group in rows:
        if not group and (suite, instance) in named:
            raise InputError(
                f"{source}: prompt '{visible(instance)}' of suite '{visible(suite)}' has no group, and others are in a "
                "group of that name; name the group otherwise, or give that prompt a group"
            )
