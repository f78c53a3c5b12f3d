"""Which texts a study has, and which rows of its tables are about them: those of an own run, or those of an import.

An own run has one generation_id for each suite and model, which its parameters give. Every imported reply has one of
its own, made of its text, so that what was made of a reply is found again after another import; rows about texts that
the newest import does not hold are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.judging.registry import JUDGES
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import JudgeEntry
from slmsafety.records.ids import content_id
from slmsafety.records.imports import OpenImport, open_import
from slmsafety.records.schema import JUDGMENTS, PROMPTS, RESPONSES
from slmsafety.records.store import Partition, partitions

if TYPE_CHECKING:
    from slmsafety.pipeline.run import Run

_REPLY = ["instance_id", "generation_id", "sample"]


class Texts(Protocol):
    """What the stages and the tables ask of a study's prompts and replies."""

    @property
    def suites(self) -> tuple[SuiteParams, ...]:
        """The study's suites."""

    @property
    def judges(self) -> tuple[JudgeEntry, ...]:
        """The judges that the study runs itself, in the order of the parameters."""

    def models(self, suite: str | None = None) -> tuple[str, ...]:
        """Return the ids of the models that answer a suite, or any."""

    def prompts(self, suite: str) -> Partition:
        """Return the partition of a suite's prompts."""

    def responses(self, suite: str, model: str) -> Partition:
        """Return the partition of a model's replies to a suite."""

    def replies(self, suite: str, model: str, columns: list[str]) -> pd.DataFrame:
        """Return the present replies of a model to a suite that have a text, with some columns."""

    def wanted(self, suite: str, model: str, prompts: int) -> int:
        """Return how many replies to a suite of so many prompts there are when the stages before judging are done."""

    def readable(self) -> dict[str, int] | None:
        """Return how many prompts and replies have a text; None: all that the tables hold."""

    def present(self, rows: pd.DataFrame, suite: str, model: str) -> pd.DataFrame:
        """Return the rows, of a table that is keyed by replies, that are about present replies."""

    def wording(self, suite: str, model: str) -> str:
        """Return what stands for the present replies of a model to a suite: another one where they are others."""

    def notes(self, suite: str, model: str) -> str:
        """Return what names the notes about calls on a model's replies to a suite, which outlive a change of texts."""

    def parts(self, table_name: str) -> list[Partition]:
        """Return the partitions of a table, of any settings."""

    def counts(self, part: Partition) -> bool:
        """Return whether the study names a partition's suite, model and judge."""

    def made_here(self, part: Partition) -> bool:
        """Return whether the rows of a partition are the study's own work, told apart by ids."""

    def rows(self, part: Partition, columns: list[str], ids: Mapping[str, str]) -> pd.DataFrame:
        """Return the rows of a partition with the ids, about present texts."""

    def count(self, part: Partition, ids: Mapping[str, str]) -> int:
        """Return how many rows `rows` would give."""

    def record(self) -> dict[str, Any]:
        """Return what a manifest says of the texts."""


class OwnTexts:
    """The texts of an own run: `Texts` by the ids that the parameters give."""

    def __init__(self, run: Run) -> None:
        """Take the run."""
        self._run = run

    @property
    def suites(self) -> tuple[SuiteParams, ...]:
        """The suites of the parameters."""
        return self._run.params.suites

    @property
    def judges(self) -> tuple[JudgeEntry, ...]:
        """The judges of the parameters."""
        return self._run.params.judges

    def models(self, suite: str | None = None) -> tuple[str, ...]:
        """Return the models of the parameters, or those of them that take part in a suite."""
        params = self._run.params
        return tuple(model for model in params.model_ids if suite is None or params.takes_part(suite, model))

    def prompts(self, suite: str) -> Partition:
        """Return the partition of a suite's prompts."""
        return Partition(self._run.folder, PROMPTS, (suite,))

    def responses(self, suite: str, model: str) -> Partition:
        """Return the partition of a model's replies to a suite."""
        return Partition(self._run.folder, RESPONSES, (suite, model))

    def replies(self, suite: str, model: str, columns: list[str]) -> pd.DataFrame:
        """Return the replies under the present settings."""
        return self.present(self.responses(suite, model).read(columns), suite, model)

    def wanted(self, suite: str, model: str, prompts: int) -> int:
        """Return as many as the parameters ask for."""
        return prompts * self._run.samples

    def readable(self) -> dict[str, int] | None:
        """Return None: whatever was asked or made is a text."""
        return None

    def present(self, rows: pd.DataFrame, suite: str, model: str) -> pd.DataFrame:
        """Return the rows of the present generation_id, of as many samples as the parameters ask for."""
        return rows[(rows["generation_id"] == self._generation(suite, model)) & (rows["sample"] < self._run.samples)]

    def wording(self, suite: str, model: str) -> str:
        """Return the generation_id, or a hash of it and of the number of samples where that is above 1."""
        generation, samples = self._generation(suite, model), self._run.samples
        return generation if samples == 1 else content_id({"generation": generation, "samples": samples})

    def notes(self, suite: str, model: str) -> str:
        """Return the generation_id."""
        return self._generation(suite, model)

    def _generation(self, suite: str, model: str) -> str:
        """The generation_id; none that a row has where the parameters do not name the suite and the model."""
        return self._run.generation_ids.get((suite, model), "")

    def parts(self, table_name: str) -> list[Partition]:
        """Return the partitions below the study's folder."""
        return partitions(self._run.folder, table_name)

    def counts(self, part: Partition) -> bool:
        """Return whether the parameters name a partition's suite, model and judge."""
        if self._run.params.kind != "run":
            return True
        named = dict(zip(part.table.files, part.names, strict=True))
        if named["suite"] not in [suite.name for suite in self.suites]:
            return False
        if named.get("model", "") not in ("", *self.models(named["suite"])):
            return False
        judges = [judge for judge in self.judges if judge.name == named.get("judge")]
        return "judge" not in named or any(named["model"] in self._run.judged_models(judge) for judge in judges)

    def made_here(self, part: Partition) -> bool:
        """Return True where there is an own run."""
        return self._run.params.kind == "run"

    def rows(self, part: Partition, columns: list[str], ids: Mapping[str, str]) -> pd.DataFrame:
        """Return the rows with the ids, and of present replies."""
        rows = _with_ids(part.read(columns), self._ids(part, ids))
        return rows[rows["sample"] < self._run.samples] if self._drawn(part) else rows

    def count(self, part: Partition, ids: Mapping[str, str]) -> int:
        """Return how many rows `rows` would give, reading little more than the ids."""
        return len(self.rows(part, ["sample", *ids], ids)) if self._drawn(part) else part.count(**self._ids(part, ids))

    def _drawn(self, part: Partition) -> bool:
        """Whether a partition may hold more samples of the present generation than the parameters ask for."""
        drawn = self.made_here(part) and self._run.params.generation.temperature > 0
        return drawn and "sample" in part.table.key

    def record(self) -> dict[str, Any]:
        """Return the ids and sources of the replies."""
        run = self._run
        return {
            "generation_ids": {
                " ".join(key): value for key, value in run.generation_ids.items() if run.params.takes_part(*key)
            },
            "models": {model: source.definition() for model, source in run.sources.items()},
        }

    def _ids(self, part: Partition, ids: Mapping[str, str]) -> dict[str, str]:
        named = dict(zip(part.table.files, part.names, strict=True))
        if not self.made_here(part) or "generation_id" not in part.table.key:
            return dict(ids)
        # A metric of prompts has no model and no generation.
        own = self._generation(named["suite"], named["model"]) if named["model"] else ""
        return {"generation_id": own, **ids}


class ImportedTexts:
    """The texts of the newest import of a study: `Texts` by what it holds, read once in the life of this object."""

    def __init__(self, run: Run) -> None:
        """Take the run."""
        self._run = run
        self._kept: dict[tuple[str, str], pd.MultiIndex] = {}

    @cached_property
    def opened(self) -> OpenImport:
        """The import, which stays on disk while it is held."""
        return open_import(self._run.folder)

    @property
    def numbered(self) -> bool:
        """Whether there is an import apart from the study's own work."""
        return self.opened.root != self._run.folder

    @cached_property
    def suites(self) -> tuple[SuiteParams, ...]:
        """The suites of the import, sorted, with what the parameters say of them."""
        given = {suite.name: suite for suite in self._run.params.suites}
        names = [part.names[0] for part in self.opened.partitions(PROMPTS.name)]
        # A suite of an import has its prompts there: unlike one that is asked it needs no path.
        return tuple(given.get(name) or SuiteParams.model_construct(name=name) for name in names)

    @cached_property
    def judges(self) -> tuple[JudgeEntry, ...]:
        """The judges that the study runs itself; none while there is no import that they could read."""
        if not self.numbered:
            return ()
        return own_judges(self._run.params.judges, imported_judges(self.opened.root))

    def models(self, suite: str | None = None) -> tuple[str, ...]:
        """Return the models with replies, sorted."""
        return tuple(sorted({name for of, name in self._pairs if suite in (None, of)}))

    @cached_property
    def held(self) -> list[tuple[str, str]]:
        """The suites and models that the import holds replies of."""
        return [(part.names[0], part.names[1]) for part in self.opened.partitions(RESPONSES.name)]

    @cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        """Those of them that take part."""
        return [pair for pair in self.held if self._run.params.takes_part(*pair)]

    def prompts(self, suite: str) -> Partition:
        """Return the partition of a suite's prompts in the import."""
        return Partition(self.opened.root, PROMPTS, (suite,))

    def responses(self, suite: str, model: str) -> Partition:
        """Return the partition of a model's replies to a suite in the import."""
        return Partition(self.opened.root, RESPONSES, (suite, model))

    def replies(self, suite: str, model: str, columns: list[str]) -> pd.DataFrame:
        """Return the replies that the source has a text of."""
        rows = self.responses(suite, model).read([*columns, "response"])
        return rows[rows["response"].notna()]

    def wanted(self, suite: str, model: str, prompts: int) -> int:
        """Return the replies with a text to a prompt with a text."""
        replies = self.replies(suite, model, [])
        return int(replies["instance_id"].isin(self._run.readable_prompts(suite)["instance_id"]).sum())

    def readable(self) -> dict[str, int]:
        """Return how many prompts and replies the sources have a text of."""
        prompts = {suite.name: len(self._run.readable_prompts(suite.name)) for suite in self.suites}
        replies = sum(self.wanted(suite, model, prompts[suite]) for suite, model in self._pairs)
        return {"prompts": sum(prompts.values()), "replies": replies}

    def present(self, rows: pd.DataFrame, suite: str, model: str) -> pd.DataFrame:
        """Return the rows whose reply the import holds with the same text."""
        if (suite, model) not in self._kept:
            self._kept[suite, model] = pd.MultiIndex.from_frame(self.responses(suite, model).read([])[_REPLY])
        return rows[pd.MultiIndex.from_frame(rows[_REPLY]).isin(self._kept[suite, model])]

    def wording(self, suite: str, model: str) -> str:
        """Return a hash of the texts of all replies."""
        return content_id({"texts": sorted(self.responses(suite, model).read([])["generation_id"].unique())})

    def notes(self, suite: str, model: str) -> str:
        """Return one name for all imports: a call is named by the text that it is about."""
        return "imported"

    def parts(self, table_name: str) -> list[Partition]:
        """Return the partitions of the import, and of what the study made of it."""
        return self.opened.partitions(table_name, [judge.name for judge in self.judges])

    def counts(self, part: Partition) -> bool:
        """Return whether the import holds a partition's suite and model."""
        named = dict(zip(part.table.files, part.names, strict=True))
        if not self.made_here(part):
            return self._run.params.takes_part(named["suite"], named.get("model", ""))
        suites = [suite.name for suite in self.suites]
        return named["suite"] in suites and named.get("model", "") in ("", *self.models(named["suite"]))

    def made_here(self, part: Partition) -> bool:
        """Return whether a partition is not the import's."""
        return self.numbered and part.root == self._run.folder

    def rows(self, part: Partition, columns: list[str], ids: Mapping[str, str]) -> pd.DataFrame:
        """Return the rows of the import as they are, and those of the study's own work about its texts."""
        rows = _with_ids(part.read(columns), ids)
        named = dict(zip(part.table.files, part.names, strict=True))
        if self.made_here(part) and "generation_id" in part.table.key and named["model"]:
            return self.present(rows, named["suite"], named["model"])
        return rows

    def count(self, part: Partition, ids: Mapping[str, str]) -> int:
        """Return how many rows `rows` would give."""
        return len(self.rows(part, list(ids), ids)) if self.made_here(part) else part.count(**ids)

    def record(self) -> dict[str, Any]:
        """Return the number of the import."""
        return {"import": self.opened.root.name if self.numbered else None}


def imported_judges(root: Path) -> frozenset[str]:
    """Return the judges that the import below `root` brings."""
    return frozenset(part.names[1] for part in partitions(root, JUDGMENTS.name))


def own_judges(entries: tuple[JudgeEntry, ...], held: frozenset[str]) -> tuple[JudgeEntry, ...]:
    """Return the entries that are to be run: with keys beside the name, or named judges that no source holds.

    The others name judges that the sources hold, and say their order. Raises InputError for an entry with further keys
    that has the name of one of those.
    """
    for entry in entries:
        if entry.name in held and entry.model_fields_set != {"name"}:
            raise InputError(
                f"judge '{entry.name}' is to be run, and the study's sources hold labels of a judge of that name; "
                "rename one, or give the name alone for the labels that are there"
            )
    return tuple(
        entry
        for entry in entries
        if entry.model_fields_set != {"name"} or (entry.name in JUDGES and entry.name not in held)
    )


def _with_ids(rows: pd.DataFrame, ids: Mapping[str, str]) -> pd.DataFrame:
    """The rows that have every id; the frame itself where all do."""
    keep = pd.Series(True, rows.index)
    for column, value in ids.items():
        keep &= rows[column] == value
    return rows if keep.all() else rows[keep]
