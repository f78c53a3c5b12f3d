"""A study's tables as its parameters give them: each is read once, and only the rows of the present ids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from slmsafety.pipeline.judges import judge_ids
from slmsafety.pipeline.measure import own_metrics
from slmsafety.pipeline.run import Run
from slmsafety.records.imports import OpenImport, open_import
from slmsafety.records.schema import TABLES, Table, typed
from slmsafety.records.store import Partition, partitions

# Long texts are read when they are asked for, and not kept.
_TEXTS = {"prompt", "response", "raw_text", "meta"}


class StudyTables:
    """The tables of a run. Columns of short values are kept once they are read."""

    def __init__(self, run: Run) -> None:
        """Take the run whose ids say which rows count."""
        self._run = run
        self._kept: dict[str, pd.DataFrame] = {}
        self._import: OpenImport | None = None

    def read(self, name: str, columns: list[str] | None = None, suites: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the rows of a table under the present settings, partition by partition and sorted within each.

        `columns` are read beside the key, of some `suites` (all where None). Raises InputError for an unknown table or
        column.
        """
        parts = [part for part in self._parts(name) if suites is None or part.names[0] in suites]
        table = TABLES[name]
        wanted = list(dict.fromkeys([*table.key, *(table.columns if columns is None else columns)]))
        if suites is not None or set(wanted) & _TEXTS or not set(wanted) <= set(table.columns):
            return _stacked([self._rows(part, wanted) for part in parts if self._counts(part)], table, wanted)
        if name not in self._kept:
            short = [column for column in table.columns if column not in _TEXTS]
            rows = [self._rows(part, short) for part in parts if self._counts(part)]
            self._kept[name] = _stacked(rows, table, short)
        return self._kept[name][wanted].copy()

    def count(self, name: str) -> int:
        """Return the number of rows of a table under the present settings, reading little more than their ids."""
        if name in self._kept:
            return len(self._kept[name])
        parts = [part for part in self._parts(name) if self._counts(part)]
        return sum(part.count(**self._ids(part)) for part in parts)

    def any(self, name: str) -> bool:
        """Return whether a table holds rows of any settings."""
        return bool(self._parts(name))

    def files(self) -> list[Path]:
        """Return the files of finished rows that the study reads, of any settings, sorted."""
        return sorted(part.parquet for name in TABLES for part in self._parts(name) if part.parquet.exists())

    def _parts(self, name: str) -> list[Partition]:
        """The partitions of a table; of an imported study those of the import that was the newest at the first call."""
        if self._run.params.kind != "imported":
            return partitions(self._run.folder, name)
        if self._import is None:
            self._import = open_import(self._run.folder)
        return self._import.partitions(name)

    def _counts(self, part: Partition) -> bool:
        """Whether the parameters name a partition's suite, model and judge; of an imported study all count."""
        params, named = self._run.params, dict(zip(part.table.files, part.names, strict=True))
        if params.kind != "run":
            return True
        if named["suite"] not in [suite.name for suite in params.suites]:
            return False
        if named.get("model", "") not in ("", *params.model_ids):
            return False
        judges = [judge for judge in params.judges if judge.name == named.get("judge")]
        return "judge" not in named or any(named["model"] in params.judged_models(judge) for judge in judges)

    def _rows(self, part: Partition, columns: list[str]) -> pd.DataFrame:
        """The rows of a partition that the parameters' ids name."""
        rows = part.read(columns)
        keep = np.ones(len(rows), bool)
        for column, value in self._ids(part).items():
            keep &= (rows[column] == value).to_numpy(bool)
        return rows if keep.all() else rows[keep]

    def _ids(self, part: Partition) -> dict[str, str]:
        """The ids of the rows of a partition that the parameters ask for, by column; of an imported study none."""
        if self._run.params.kind != "run":
            return {}
        run, named = self._run, dict(zip(part.table.files, part.names, strict=True))
        ids = {}
        if "generation_id" in part.table.key:
            ids["generation_id"] = run.generation_ids.get((named["suite"], named["model"]), "")
        if "metrics_id" in part.table.key:
            ids["metrics_id"] = run.metrics_id
        if "metric_id" in part.table.key:
            own = [metric.id for metric in own_metrics(run) if metric.name == named["metric"]]
            ids["metric_id"] = own[0] if own else ""
        if "judge_id" in part.table.key:
            judges = run.once(("judge_ids",), lambda: judge_ids(run))
            ids["judge_id"] = judges.get((named["suite"], named["judge"]), "")
        return ids


def _stacked(frames: list[pd.DataFrame], table: Table, columns: list[str]) -> pd.DataFrame:
    """The rows of partitions under each other; without any, an empty frame of the columns."""
    return pd.concat(frames, ignore_index=True) if frames else typed(pd.DataFrame(), table, columns)
