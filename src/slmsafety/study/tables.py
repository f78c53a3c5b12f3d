"""A study's tables as its parameters give them: each is read once, and only the rows of the present ids."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from slmsafety.pipeline.imported_texts import check_asked
from slmsafety.pipeline.judged_texts import NO_IDS, judged_rows
from slmsafety.pipeline.judges import all_judge_ids
from slmsafety.pipeline.measure import own_metrics
from slmsafety.pipeline.run import Run
from slmsafety.records.ids import file_sha256
from slmsafety.records.schema import JUDGMENTS, TABLES, Table, typed
from slmsafety.records.store import Partition

# Long texts are read when they are asked for, and not kept.
_TEXTS = {"prompt", "response", "raw_text", "meta"}


class StudyTables:
    """The tables of a run. Columns of short values are kept once they are read."""

    def __init__(self, run: Run) -> None:
        """Take the run whose ids say which rows count."""
        self._run = run
        self._kept: dict[str, pd.DataFrame] = {}

    def read(self, name: str, columns: list[str] | None = None, suites: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the rows of a table under the present settings, partition by partition and sorted within each.

        `columns` are read beside the key, of some `suites` (all where None). Raises InputError for an unknown table or
        column, and where an import was made when the parameters read its sources otherwise.
        """
        check_asked(self._run)
        parts = [part for part in self._counted(name) if suites is None or part.names[0] in suites]
        table = TABLES[name]
        wanted = list(dict.fromkeys([*table.key, *(table.columns if columns is None else columns)]))
        if suites is not None or set(wanted) & _TEXTS or not set(wanted) <= set(table.columns):
            return _stacked([self._rows(part, wanted) for part in parts], table, wanted)
        if name not in self._kept:
            short = [column for column in table.columns if column not in _TEXTS]
            self._kept[name] = _stacked([self._rows(part, short) for part in parts], table, short)
        return self._kept[name][wanted].copy()

    def count(self, name: str) -> int:
        """Return the number of rows of a table under the present settings, reading little more than their ids."""
        if name in self._kept:
            return len(self._kept[name])
        if name == JUDGMENTS.name:  # which of them count depends on their replies
            return sum(len(self._rows(part, list(part.table.key))) for part in self._counted(name))
        return sum(self._run.texts.count(part, self._ids(part)) for part in self._counted(name))

    def any(self, name: str) -> bool:
        """Return whether a table holds rows of any settings."""
        return bool(self._run.texts.parts(name))

    def files(self) -> list[Path]:
        """Return the files of finished rows that the study reads, of any settings, sorted."""
        texts = self._run.texts
        return sorted(part.parquet for name in TABLES for part in texts.parts(name) if part.parquet.exists())

    def _counted(self, name: str) -> list[Partition]:
        """The partitions whose suite, model and judge the study names."""
        return [part for part in self._run.texts.parts(name) if self._run.texts.counts(part)]

    def _rows(self, part: Partition, columns: list[str]) -> pd.DataFrame:
        """The rows of a partition that the study's ids name, about present texts."""
        run = self._run
        rows = run.texts.rows(part, columns, self._ids(part))
        if part.table is not JUDGMENTS or not run.texts.made_here(part):
            return rows
        suite, judge, model = part.names
        ids = run.once(("judge_ids",), lambda: all_judge_ids(run)).get((suite, judge), NO_IDS)
        return judged_rows(run, rows, (suite, model), ids)

    def _ids(self, part: Partition) -> dict[str, str]:
        """The ids of the study's own measures in a partition, by column, beside those of the texts; else none."""
        run, named = self._run, dict(zip(part.table.files, part.names, strict=True))
        ids: dict[str, str] = {}
        if not run.texts.made_here(part):
            return ids
        if "metrics_id" in part.table.key:
            ids["metrics_id"] = run.metrics_id
        if "metric_id" in part.table.key:
            own = [metric.id for metric in own_metrics(run) if metric.name == named["metric"]]
            ids["metric_id"] = own[0] if own else ""
        return ids


def hashes(
    cards: bytes, tables: Mapping[str, bytes], files: Iterable[Path] = (), root: Path | None = None
) -> dict[str, str]:
    """Return the sha256 of the cards, of tables of the package and of files (named from `root`), by name."""
    known = {"models/cards.csv": cards, **tables}
    found = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(known.items())}
    return found | {os.path.relpath(path, root): file_sha256(path) for path in files}


def _stacked(frames: list[pd.DataFrame], table: Table, columns: list[str]) -> pd.DataFrame:
    """The rows of partitions under each other; without any, an empty frame of the columns."""
    return pd.concat(frames, ignore_index=True) if frames else typed(pd.DataFrame(), table, columns)
