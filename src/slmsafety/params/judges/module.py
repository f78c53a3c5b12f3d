"""A judge of the user's own code."""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator

from slmsafety.params.judges.base import JudgeEntry, check_mapping, check_stored_mapping, refuse_known_name
from slmsafety.plugins import load_plugin


class ModuleJudge(JudgeEntry):
    """A judge of the user's own: `module` is the import path or the file of its code (docs/extending.md).

    One that measures a number and gives no label has a `mapping`, as a guard model has.
    """

    module: str
    mapping: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> ModuleJudge:
        refuse_known_name(self.name)
        check_mapping(self.name, self.mapping)
        return self

    @property
    def label_mapping(self) -> str | None:
        """The entry's mapping."""
        return self.mapping

    @property
    def modules(self) -> tuple[str, ...]:
        """Its module."""
        return (self.module,)

    def check_files(self, root: Path) -> None:
        """Raise InputError when the module cannot be imported or the stored mapping is none."""
        load_plugin(self.module, root)
        check_stored_mapping(self.mapping, root)
