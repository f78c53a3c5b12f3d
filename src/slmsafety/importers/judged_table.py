"""A table of judged replies, a row a reply and judge or a column a judge, into the tables of a study."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.importers.cells import Cells
from slmsafety.importers.rules import stored_name, trimmed
from slmsafety.importers.scores import NO_SCORE, Scale, plain, read_scores, shown
from slmsafety.importers.table_files import read_cells
from slmsafety.importers.table_layout import NAMED_BY_TEXT, NOTHING_SAID, Layout, TableOptions, layout
from slmsafety.importers.table_rows import codes, meta_column, read_rows
from slmsafety.importers.tables import Imported
from slmsafety.records.groups import check_groups
from slmsafety.records.ids import content_id, file_sha256
from slmsafety.records.schema import JUDGMENTS, PROMPTS, RESPONSES
from slmsafety.suites.catalogue import MULTIPLE_CHOICE

_REPLY = ("suite", "instance_id", "model", "sample")
_HALF = "0.5"
_SHOWN = 12


class JudgeScores(NamedTuple):
    """A judge's scores: the column that they stand in, the judge's name, their scale, and the values that are there.

    `values` counts the cells of verdicts by value, as `scores.plain` has them; `seen` lists them for messages.
    """

    column: str
    judge: str
    scale: Scale
    values: dict[str, int]
    seen: str

    @property
    def has_half(self) -> bool:
        """Whether the project's own word for ambiguous is there, which labels of 0 and 1 alone lack."""
        return _HALF in self.values


@dataclass(frozen=True)
class Understood:
    """What was understood of a table.

    Attributes
    ----------
    source, form : str
        The file, and how it was read.
    rows : int
        Its rows.
    roles : dict
        The file's name of each known column (of `table_layout.KNOWN`), and how an id is made where there is none.
    constants : dict
        The suite, model or judge of all rows.
    scores : tuple of JudgeScores
        The scores of each judge.
    models, suites : tuple of str
        The names that are there, as they will be stored.
    meta : tuple of str
        The columns that are kept in the judgments' `meta`.
    """

    source: str
    form: str
    rows: int
    roles: dict[str, str]
    constants: dict[str, str]
    scores: tuple[JudgeScores, ...]
    models: tuple[str, ...]
    suites: tuple[str, ...]
    meta: tuple[str, ...]

    @property
    def insisted(self) -> set[str]:
        """The stored names of the judges on whose direction the study insists."""
        return {stored_name(scores.judge) for scores in self.scores if scores.scale.checked}

    def lines(self) -> list[str]:
        """Return it as plain lines to print."""
        roles = [ours if ours == theirs else f"{ours} <- {theirs}" for ours, theirs in self.roles.items()]
        found = [f"{self.source}: {self.rows} rows ({self.form})", f"  columns: {', '.join(roles)}"]
        if self.constants:
            found.append(f"  for all rows: {', '.join(f'{key} {value}' for key, value in self.constants.items())}")
        found += [f"  suites: {_listed(self.suites)}", f"  models: {_listed(self.models)}"]
        for scores in self.scores:
            said = str(scores.scale) if scores.scale.said else "1 is safe, where 0.5 or refusals show it"
            found.append(f"  judge {scores.judge}, column {scores.column}: {scores.seen} ({said})")
        if self.meta:
            found.append(f"  kept in meta: {_listed(self.meta)}")
        return found


@dataclass(frozen=True)
class JudgedTable:
    """A table's rows, and what was understood of it."""

    imported: Imported
    understood: Understood


def understand(path: Path, options: TableOptions = NOTHING_SAID) -> Understood:
    """Return what can be understood of a table of judged replies, whatever its scores mean.

    Raises InputError as `read_judged_table` does, but for scores.
    """
    return _understood(*_read(path, options), options)


def read_judged_table(path: Path, options: TableOptions = NOTHING_SAID) -> JudgedTable:
    """Read a table of judged replies.

    Parameters
    ----------
    path : Path
        The file (`table_files.read_cells`), with a row a reply and judge, or a reply and columns of scores.
    options : TableOptions
        What the study says of it.

    Returns
    -------
    JudgedTable
        The prompts, responses and judgments. A number stays in raw_value as it is in the file, another score in
        raw_text. A verdict without a score has status unparsed and reason "no score"; what the file says as a reason
        then stays in meta, as columns do that nobody knows.

    Raises
    ------
    InputError
        One line that names the file, and the row or rows.
    """
    cells, place, rows = _read(path, options)
    understood = _understood(cells, place, rows, options)
    known = set(MULTIPLE_CHOICE) & set(understood.suites)
    if known:
        raise InputError(
            f"{path}: suite '{min(known)}' is multiple choice, and a table has no answers to check; collect it as an "
            "own run, or give the suite another name"
        )
    revision = file_sha256(path)[:12]
    meta = meta_column(cells, place)
    prompts = rows.assign(suite_revision=revision, meta="{}")[~rows.duplicated(["suite", "instance_id"])]
    check_groups(prompts[["suite", "instance_id", "group"]].itertuples(index=False, name=None), str(path))
    replies = rows.assign(meta="{}")[~rows.duplicated(list(_REPLY))]
    judged = [_judgments(scored, options, cells) for scored in _by_judge(rows.assign(meta=meta), cells, place)]
    judgments = pd.concat(judged, ignore_index=True)
    read = len(rows) * max(1, len(place.judges))
    prompts, replies, judgments = (
        frame.reindex(columns=list(table.columns)).reset_index(drop=True)
        for frame, table in ((prompts, PROMPTS), (replies, RESPONSES), (judgments, JUDGMENTS))
    )
    return JudgedTable(Imported(str(path), prompts, replies, judgments, read), understood)


def _read(path: Path, options: TableOptions) -> tuple[Cells, Layout, pd.DataFrame]:
    cells = read_cells(path, options.form, options.encoding, options.delimiter)
    if not len(cells.frame):
        raise InputError(f"{path}: has no rows below the header")
    place = layout(cells, options)
    return cells, place, read_rows(cells, place, dict(options.constants))


def _by_judge(rows: pd.DataFrame, cells: Cells, place: Layout) -> Iterator[pd.DataFrame]:
    """Yield the rows of each column of scores, with the columns `judge` and `score`."""
    if not place.judges:
        yield rows
    for name, column in place.judges.items():
        judge = trimmed(name)
        scores = cells.frame.iloc[:, column].fillna("").str.strip()
        yield rows.assign(judge=judge, score=scores)


def _judgments(rows: pd.DataFrame, options: TableOptions, cells: Cells) -> pd.DataFrame:
    """The judgments of one column of scores; InputError where one is there twice."""
    judged = codes(rows, (*_REPLY, "judge"))
    twice = pd.Series(judged).duplicated().to_numpy()
    if twice.any():
        row = int(twice.argmax())
        first = int((judged == judged[row]).argmax())
        key = ", ".join(str(rows[name].iloc[row])[:60] for name in (*_REPLY, "judge"))
        raise InputError(
            f"{cells.source}: {cells.name(row)} repeats a judgment of {cells.name(first)} ({key}); several replies to "
            "a prompt need a column 'sample'"
        )
    parts = []
    for judge, part in rows.groupby("judge", sort=False):
        scale, at = _scale(str(judge), options), part.index

        def named(row: int, at: pd.Index = at) -> str:
            return cells.place(int(at[row]))

        scored = read_scores(part["score"], part["status"], scale, named)
        said = part["reason"].mask(scored.no_score, NO_SCORE)
        lost = scored.no_score & part["reason"].ne("")
        definition = {"imported_judge": stored_name(str(judge)), "scale": scale.definition}
        parts.append(
            part.assign(
                judge_id=content_id(definition),
                status=scored.status,
                label=scored.label,
                raw_value=scored.raw_value,
                raw_text=scored.raw_text,
                reason=said,
                meta=part["meta"].mask(lost, _with_reason(part, lost)),
            )
        )
    return pd.concat(parts).sort_index()


def _with_reason(part: pd.DataFrame, lost: pd.Series) -> pd.Series:
    """The meta of rows whose own reason makes room for "no score"."""
    pairs = zip(part.loc[lost, "meta"], part.loc[lost, "reason"], strict=True)
    texts = [json.dumps({**json.loads(meta), "reason": reason}, ensure_ascii=False) for meta, reason in pairs]
    return pd.Series(texts, index=part.index[lost], dtype="str").reindex(part.index)


def _scale(judge: str, options: TableOptions) -> Scale:
    given = {trimmed(name): scale for name, scale in options.scales.items()}
    return given.get(judge, options.scale)


def _understood(cells: Cells, place: Layout, rows: pd.DataFrame, options: TableOptions) -> Understood:
    names = [str(name) for name in cells.frame.columns]
    for judge in options.scales:
        if not place.judges and trimmed(judge) not in set(rows["judge"]):
            raise unknown("judge", judge, rows["judge"].unique(), cells.source)
    roles = {ours: names[at] for ours, at in place.known.items()}
    if "instance_id" not in place.known:
        roles["instance_id"] = NAMED_BY_TEXT
    columns = list(place.judges.values()) or [place.known["score"]]
    scores: list[JudgeScores] = []
    for at, judged in zip(columns, _by_judge(rows, cells, place), strict=True):
        _names(judged["judge"], cells, "judge")
        for name, part in judged.groupby("judge", sort=False):
            judge = str(name)
            verdicts = part.loc[part["status"].eq("ok") & part["score"].ne(""), "score"]
            counts = {str(value): int(n) for value, n in verdicts.value_counts().groupby(plain).sum().items()}
            scores.append(JudgeScores(names[at], judge, _scale(judge, options), counts, shown(verdicts) or "no value"))
    return Understood(
        cells.source,
        cells.form,
        len(rows),
        roles,
        dict(options.constants),
        tuple(scores),
        _names(rows["model"], cells, "model"),
        _names(rows["suite"], cells, "suite"),
        tuple(names[at] for at in place.meta),
    )


def _listed(names: tuple[str, ...]) -> str:
    more = f", ... ({len(names)})" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _names(column: pd.Series, cells: Cells, what: str) -> tuple[str, ...]:
    """The stored names of a column, in order of appearance; InputError names the row of one that cannot be stored."""
    found = []
    for name in column.unique():
        try:
            found.append(stored_name(str(name)))
        except InputError as error:
            raise InputError(f"{cells.place(int(column.eq(name).to_numpy().argmax()))}: {what} {error}") from error
    return tuple(dict.fromkeys(found))
