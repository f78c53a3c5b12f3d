"""The five tables, their keys and columns, and the closed vocabularies of statuses and labels (DESIGN: the tables).

Rows are keyed, never positional. A frame that enters the store passes `check`, which names the first bad row.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from slmsafety.errors import InputError, unknown

HARMFUL, AMBIGUOUS, SAFE = 0, 1, 2
LABELS = {HARMFUL: "harmful", AMBIGUOUS: "ambiguous", SAFE: "safe"}
STATUSES = ("ok", "empty_response", "truncated_input", "judge_refused", "unparsed", "off_scale", "error")
FINISH_REASONS = ("stop", "length", "empty")
EXPECTED = ("refuse", "answer")


@dataclass(frozen=True)
class Table:
    """A table's name, its key, its columns with their kinds, and the columns that name its files."""

    name: str
    key: tuple[str, ...]
    columns: dict[str, str]
    files: tuple[str, ...]

    @property
    def dtypes(self) -> dict[str, str]:
        """The pandas dtype of each column."""
        return {column: _DTYPES[kind] for column, kind in self.columns.items()}


# "int" and "bool" are nullable, so that a missing count or label stays missing and never turns into a float.
_DTYPES = {"text": "str", "int": "Int64", "float": "float64", "bool": "boolean"}

PROMPTS = Table(
    "prompts",
    ("suite", "instance_id"),
    dict.fromkeys(
        ("suite", "instance_id", "prompt", "category", "subcategory", "expected", "suite_revision", "meta"), "text"
    ),
    ("suite",),
)
_REPLY = ("suite", "instance_id", "model", "generation_id")
RESPONSES = Table(
    "responses",
    _REPLY,
    {
        **dict.fromkeys((*_REPLY, "response"), "text"),
        **dict.fromkeys(("prompt_tokens", "output_tokens"), "int"),
        "finish_reason": "text",
        "prompt_truncated": "bool",
        "meta": "text",
    },
    ("suite", "model"),
)
JUDGMENTS = Table(
    "judgments",
    (*_REPLY, "judge_id"),
    {
        **dict.fromkeys((*_REPLY, "judge_id", "judge", "status"), "text"),
        "label": "int",
        "raw_value": "float",
        **dict.fromkeys(("raw_text", "reason"), "text"),
        **dict.fromkeys(("input_tokens", "output_tokens"), "int"),
        "meta": "text",
    },
    ("suite", "judge", "model"),
)
# What made the numbers is part of the key: the reference models and the version of the metrics' definitions.
PROMPT_METRICS = Table(
    "prompt_metrics",
    ("suite", "instance_id", "metrics_id"),
    {
        **dict.fromkeys(("suite", "instance_id", "metrics_id"), "text"),
        "tokens": "int",
        **dict.fromkeys(("flesch_kincaid", "gunning_fog", "perplexity"), "float"),
        "instruction_verbs": "int",
        "dependency_distance": "float",
    },
    ("suite",),
)
REPLY_METRICS = Table(
    "reply_metrics",
    (*_REPLY, "metrics_id"),
    {
        **dict.fromkeys((*_REPLY, "metrics_id"), "text"),
        "tokens": "int",
        **dict.fromkeys(
            ("perplexity", "similarity", "self_coherence", "lexical_sophistication", "lexical_density"), "float"
        ),
    },
    ("suite", "model"),
)
TABLES = {table.name: table for table in (PROMPTS, RESPONSES, JUDGMENTS, PROMPT_METRICS, REPLY_METRICS)}

_VOCABULARY = {"status": STATUSES, "finish_reason": FINISH_REASONS, "expected": EXPECTED}


def typed(frame: pd.DataFrame, table: Table, columns: list[str] | None = None) -> pd.DataFrame:
    """Return the frame with the table's columns (or some of them), in their order and with their dtypes.

    Raises InputError for a column that the table does not have; TypeError or ValueError for a value of another kind.
    """
    wanted = columns or list(table.columns)
    for column in wanted:
        if column not in table.columns:
            raise unknown("column", column, table.columns, f"table {table.name}")
    return frame.reindex(columns=wanted).astype({column: table.dtypes[column] for column in wanted})


def check(frame: pd.DataFrame, table: Table, source: str) -> pd.DataFrame:
    """Return the frame typed as the table, or raise InputError naming `source`, the column and the first bad row.

    Checked: every column is present and none is unknown, each value is of its column's kind (a text with a lone
    surrogate is none, since no UTF-8 file can hold it), keys are filled and unique, closed vocabularies hold, and a
    judgment has a label only with status ok and only 0 (harmful), 1 (ambiguous) or 2 (safe).
    """
    for column in table.columns:
        if column not in frame.columns:
            raise InputError(f"{source}: table {table.name} lacks column '{column}'")
    for column in frame.columns:
        if column not in table.columns:
            raise unknown(f"column of table {table.name}", column, table.columns, source)
    if "label" in table.columns:
        _check_labels(frame, source)
    try:
        frame = typed(frame, table)
    except (TypeError, ValueError) as error:
        raise _misfit(frame, table, source) from error
    keys = list(table.key)
    for column in keys:
        empty = frame[column].isna() | (frame[column] == "")
        if empty.any():
            raise InputError(f"{source}: row {int(empty.to_numpy().argmax())} of table {table.name} has no {column}")
    doubled = frame.duplicated(keys)
    if doubled.any():
        twice = frame.loc[doubled, keys].iloc[0].to_dict()
        raise InputError(f"{source}: table {table.name} has the key {twice} twice; instance ids must be unique")
    for column, vocabulary in _VOCABULARY.items():
        if column in table.columns:
            bad = ~frame[column].isin(vocabulary)
            if bad.any():
                row, value = int(bad.to_numpy().argmax()), frame.loc[bad, column].iloc[0]
                raise unknown(column, value, vocabulary, f"{source}, row {row}")
    return frame


def _misfit(frame: pd.DataFrame, table: Table, source: str) -> InputError:
    """Return the error for the first value that its column's kind cannot hold."""
    for column, kind in table.columns.items():
        for row, value in enumerate(frame[column].astype(object)):
            try:
                pd.DataFrame({column: [value]}, dtype=object).astype({column: _DTYPES[kind]})
            except (TypeError, ValueError):
                wanted = f"{kind} without lone surrogates" if kind == "text" else kind
                return InputError(f"{source}: row {row} has {column} {ascii(value)[:80]}; valid: {wanted}")
    return InputError(f"{source}: not a table {table.name}")


def _check_labels(frame: pd.DataFrame, source: str) -> None:
    """Raise InputError when a label is outside {0, 1, 2} or stands beside a status other than ok."""
    labels = frame["label"]
    bad = ~(labels.isna() | labels.isin(list(LABELS)))
    if bad.any():
        row, value = int(bad.to_numpy().argmax()), labels[bad].iloc[0]
        raise InputError(
            f"{source}: row {row} has label {value!r}; valid: 0 (harmful), 1 (ambiguous), 2 (safe) or nothing"
        )
    stray = labels.notna() & (frame["status"] != "ok")
    if stray.any():
        row = int(stray.to_numpy().argmax())
        raise InputError(f"{source}: row {row} has a label and status '{frame['status'].iloc[row]}'; only ok has one")
