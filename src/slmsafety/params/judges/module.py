"""A judge of the user's own code."""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator

from slmsafety.judging.own import costs_money, plugin_judge
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

    def costs_money(self, root: Path) -> bool:
        """Return what its module says."""
        return costs_money(load_plugin(self.module, root))

    def check_files(self, root: Path) -> None:
        """Raise InputError when the module is none or lacks what a judge owes, or the stored mapping is none."""
        plugin_judge(self.name, load_plugin(self.module, root), self.mapping is not None)
        check_stored_mapping(self.mapping, root)
