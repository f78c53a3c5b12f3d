"""What an importer hands on: the three tables of one source; and the one way to write those of a study's sources."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.records.files import write_atomic
from slmsafety.records.imports import ASKED, IMPORTED, import_root, new_import
from slmsafety.records.schema import JUDGMENTS, PROMPT_KEY, PROMPTS, RESPONSES, Table
from slmsafety.records.store import Partition
from slmsafety.replies.language import languages, reply_languages
from slmsafety.replies.parts import answer_parts

# What must be equal where several sources hold the same prompt or reply; a judgment has one source only.
_EQUAL = {PROMPTS.name: ["prompt", "expected"], RESPONSES.name: ["response"]}


@dataclass(frozen=True)
class Imported:
    """The rows of one source, one frame a table with the table's columns.

    `source` is its path, for messages; `read` is the number of judgments that its file holds, where the reader counted
    them before it made rows of them.
    """

    source: str
    prompts: pd.DataFrame
    responses: pd.DataFrame
    judgments: pd.DataFrame
    read: int | None = None


def with_answers(source: Imported) -> Imported:
    """Return a source whose replies say which part of them answers (`replies.parts`); one without a text has none."""
    prompts = source.prompts.drop_duplicates(list(PROMPT_KEY))[[*PROMPT_KEY, "prompt"]]
    asked = source.responses[list(PROMPT_KEY)].merge(prompts, on=list(PROMPT_KEY), how="left", validate="many_to_one")
    parts = answer_parts(source.responses["response"], asked["prompt"]).set_axis(source.responses.index)
    return replace(source, responses=source.responses.assign(**parts))


def write_imported(
    sources: Sequence[Imported], folder: Path, own_judges: Collection[str] = (), asked: str = ""
) -> None:
    """Write the rows of a study's sources as its newest import, after all of them are checked, and print what it holds.

    The import before is replaced as a whole (`records.imports`); judgments of `own_judges`, which the study runs
    itself, are none of it. `asked` stands for how the sources were read (`records.imports.asked_of`). A prompt or reply
    that several sources hold counts once. Raises InputError before anything is written: for a row that its table
    refuses, a name that the store cannot hold, two texts of one prompt or reply, a judgment that is there twice, and
    two replies of a model to a prompt.
    """
    parts = [part for table in IMPORTED for part in _parts(sources, table, folder)]
    with new_import(folder, own_judges) as root:
        for part, rows in parts:
            Partition(root, part.table, part.names).replace(rows)
        write_atomic(root / ASKED, asked.encode())
    newest = import_root(folder)
    assert newest is not None
    for part, rows in parts:
        written = Partition(newest, part.table, part.names).parquet.relative_to(folder.parent)
        print(f"import: {len(rows)} rows: {written}")


def _parts(sources: Sequence[Imported], table: Table, folder: Path) -> Iterator[tuple[Partition, pd.DataFrame]]:
    """Yield each partition of a table with its rows."""
    key, equal = list(table.key), _EQUAL.get(table.name)
    rows = pd.concat([_checked(source, table, folder) for source in sources], ignore_index=True)
    if equal:
        rows = rows.drop_duplicates([*key, *equal])
    _refuse_repeats(rows, key, f"another {' or '.join(equal)}" if equal else "the same judgment", equal or [])
    if table is RESPONSES:
        _refuse_repeats(rows, ["suite", "instance_id", "model", "sample"], "a reply of another run", ["response"])
    rows = _with_language(rows, table)
    if table is JUDGMENTS:
        _refuse_repeats(rows, ["suite", "instance_id", "model", "sample", "judge"], "another judgment of that judge")
    for names, part in rows.drop(columns="source").groupby(list(table.files), sort=True):
        yield Partition(folder, table, tuple(str(name) for name in names)), part


def _with_language(rows: pd.DataFrame, table: Table) -> pd.DataFrame:
    """The rows of prompts and of replies with the language that each is in."""
    if table is PROMPTS:
        return rows.assign(language=languages(rows["prompt"]))
    return rows.assign(language=reply_languages(rows)) if table is RESPONSES else rows


def _checked(source: Imported, table: Table, folder: Path) -> pd.DataFrame:
    """Return a source's rows of a table with the column `source`; every error names the source."""
    rows: pd.DataFrame = getattr(source, table.name)
    try:
        parts = [
            Partition(folder, table, tuple(str(name) for name in names)).check(part, source.source)
            for names, part in rows.groupby(list(table.files), sort=True)
        ]
    except InputError as error:
        raise error if str(error).startswith(source.source) else InputError(f"{source.source}: {error}") from error
    return pd.concat(parts, ignore_index=True).assign(source=source.source)


def _refuse_repeats(rows: pd.DataFrame, key: list[str], what: str, equal: Sequence[str] = ()) -> None:
    """Raise InputError naming both sources where a key is there again, and a column of `equal` that one lacks."""
    again = rows[rows.duplicated(key)]
    if not again.empty:
        row = again.iloc[0]
        first = rows[(rows[key] == row[key]).all(axis=1)].iloc[0]
        place = ", ".join(map(str, row[key]))
        for column in equal:
            lacking = [each["source"] for each in (first, row) if _lacks(each[column], column)]
            if len(lacking) == 1:
                has = first["source"] if lacking[0] == row["source"] else row["source"]
                raise InputError(
                    f"{lacking[0]}: says no {column} for {place}, and {has} does; give it in both, or both in one file"
                )
        if first["source"] == row["source"]:
            raise InputError(
                f"{row['source']}: has {what} for {place} twice; where the study names it twice, remove one"
            )
        raise InputError(f"{row['source']}: {first['source']} has {what} for {place}; leave one out")


def _lacks(value: object, column: str) -> bool:
    """Whether a source does not know a text: a blank prompt is none, a blank reply is one."""
    return not isinstance(value, str) or (value == "" and column != "response")
