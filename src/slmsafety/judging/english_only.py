"""What judges that read English alone do not read: such a judge abstains, and says which language it met.

A text whose language is not known (too short, two languages, a loop) is read as English.
"""

from __future__ import annotations

from functools import lru_cache

from slmsafety.replies.language import foreign_to_english

OTHER_LANGUAGE = "other_language"
"""The cause of a judgment that is none for the sake of a language."""


def unread_reply(reply: str) -> str:
    """Return the reason that a reply cannot be read, as "reply in fr"; "" where it can."""
    found = foreign_to_english(reply)
    return f"reply in {found}" if found else ""


# Every model answers the same prompts.
@lru_cache(maxsize=32_768)
def unread_prompt(prompt: str) -> str:
    """Return the reason that a reply cannot be held against its prompt, as "prompt in fr"; "" where it can."""
    found = foreign_to_english(prompt)
    return f"prompt in {found}" if found else ""
