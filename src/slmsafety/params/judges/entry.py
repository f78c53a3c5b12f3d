"""Which kind of judge an entry is: one of four, told apart by its keys.

A name alone is a judge of `judging.registry`; with `endpoint` it is a language model that follows a rubric; with
`adapter` a guard model whose weights run in this process; with `module` the user's own code.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag

from slmsafety.errors import InputError
from slmsafety.params.entries import by_name
from slmsafety.params.judges.base import JudgeEntry
from slmsafety.params.judges.endpoint import EndpointJudge
from slmsafety.params.judges.guard import GuardJudge
from slmsafety.params.judges.module import ModuleJudge
from slmsafety.params.judges.named import NamedJudge

# The key that tells a kind, its tag (two words, so that no key can be mistaken for it), and how messages call it.
_KINDS: dict[str, tuple[type[JudgeEntry], str, str]] = {
    "endpoint": (EndpointJudge, "endpoint judge", "a judge with an endpoint"),
    "adapter": (GuardJudge, "guard judge", "a judge with an adapter"),
    "module": (ModuleJudge, "module judge", "a judge with a module"),
}
_NAMED: tuple[type[JudgeEntry], str, str] = (NamedJudge, "named judge", "a name alone")


def _tag(value: Any) -> str:
    """Return the kind of an entry, as given in parameters or already read."""
    if isinstance(value, JudgeEntry):
        return next((tag for kind, tag, _ in _KINDS.values() if isinstance(value, kind)), _NAMED[1])
    given = value if isinstance(value, dict) else {}
    return next((tag for key, (_, tag, _) in _KINDS.items() if given.get(key) is not None), _NAMED[1])


def _refuse_foreign_keys(value: Any) -> Any:
    """Refuse an entry of two kinds at once, and a key that belongs to another kind than the entry's."""
    if not isinstance(value, dict):
        return value
    name, telling = value.get("name"), [key for key in _KINDS if value.get(key) is not None]
    if len(telling) > 1:
        raise InputError(f"judge '{name}' has {' and '.join(f'{_article(key)} {key}' for key in telling)}; give one")
    kind, _, said = _KINDS[telling[0]] if telling else _NAMED
    value = {key: given for key, given in value.items() if given is not None or key in kind.model_fields}
    for key in sorted(map(str, value)):
        owners = [owner for owner, (other, *_) in _KINDS.items() if key in other.model_fields]
        if key not in kind.model_fields and owners:
            owned = " or ".join(f"{_article(owner)} {owner}" for owner in owners)
            raise InputError(f"key '{key}' belongs to a judge with {owned}; '{name}' is {said}")
    return value


JudgeParams = Annotated[
    Annotated[NamedJudge, Tag("named judge")]
    | Annotated[EndpointJudge, Tag("endpoint judge")]
    | Annotated[GuardJudge, Tag("guard judge")]
    | Annotated[ModuleJudge, Tag("module judge")],
    Discriminator(_tag),
    BeforeValidator(_refuse_foreign_keys),
    by_name("name"),
]
JUDGE_KINDS: dict[str, type[JudgeEntry]] = {_NAMED[1]: _NAMED[0], **{tag: kind for kind, tag, _ in _KINDS.values()}}
"""The model of each kind of entry, by its tag in pydantic's locations."""


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"
