"""What every judge's entry in a study has, whatever its kind."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from slmsafety.errors import InputError, unknown
from slmsafety.judging.mapping.methods import METHODS, PROBABILITY
from slmsafety.judging.mapping.stored import from_json
from slmsafety.judging.registry import JUDGES, MULTIPLE_CHOICE_JUDGE
from slmsafety.params.entries import Name, Strict, SuiteParams
from slmsafety.paths import data_path
from slmsafety.records.files import read_text
from slmsafety.suites.catalogue import MULTIPLE_CHOICE

# The judge whose refusals the mapping `semantic` takes.
REFUSALS = "refusal_rules"


class JudgeEntry(Strict):
    """What every judge's entry has, and what the stages ask of any of them."""

    # Whether the judge answers at once on a CPU, so that the noise floor may ask it again.
    light: ClassVar[bool] = False

    name: Name
    suites: tuple[str, ...] = ()
    models: tuple[Name, ...] = ()

    @property
    def label_mapping(self) -> str | None:
        """The mapping that makes labels of a measured number: a method's name, or the path of a stored one."""
        return None

    @property
    def calls_endpoint(self) -> bool:
        """Whether replies are sent to a server, which may cost money."""
        return False

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of the user's own that the judge is made of."""
        return ()

    def costs_money(self, root: Path) -> bool:
        """Return whether each call may be paid for."""
        return self.calls_endpoint

    def reads(self, suite: SuiteParams) -> bool:
        """Return whether the judge reads a suite: multiple-choice suites have a judge of their own."""
        if (suite.name in MULTIPLE_CHOICE) != (self.name == MULTIPLE_CHOICE_JUDGE):
            return False
        return not self.suites or suite.name in self.suites

    def check_suites(self, suites: list[SuiteParams]) -> None:
        """Raise InputError where the entry does not fit the suites that it reads, before any work."""

    def check_files(self, root: Path) -> None:
        """Raise InputError when a path that the entry names leads nowhere, or to something else."""

    def check_access(self) -> None:
        """Raise InputError when a server's key is not to be had."""

    def rubric_for(self, suite: SuiteParams) -> str | None:
        """Return the rubric that the judge follows on a suite (a name or a path); None for one without rubrics."""
        return None

    @property
    def same_asking(self) -> tuple[str, ...] | None:
        """The served model, then what else makes two entries one model asked in one way; None without rubrics."""
        return None

    def files(self, root: Path) -> list[Path]:
        """Return the files that the judge's labels are made with, beside those of its mapping."""
        return []


def refuse_known_name(name: str) -> None:
    """Raise InputError for an entry with a model or a module that has a named judge's name."""
    if name in JUDGES:
        raise InputError(f"judge '{name}' is the name of a judge without a model; call this one otherwise")


def check_mapping(name: str, mapping: str | None) -> None:
    """Raise InputError for a mapping that is neither a method of probabilities nor a stored one."""
    methods = [method for method, about in METHODS.items() if about.span == PROBABILITY]
    if mapping is not None and not mapping.endswith(".json") and mapping not in methods:
        raise unknown("mapping", mapping, methods, f"judge '{name}' (or the path of a stored one, .json)")


def check_stored_mapping(mapping: str | None, root: Path) -> None:
    """Raise InputError when a stored mapping is not there or is none."""
    if mapping is not None and mapping.endswith(".json"):
        path = data_path(mapping, root)
        from_json(read_text(path), str(path))
