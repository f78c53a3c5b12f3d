"""The tables, their keys and columns, and the closed vocabularies of statuses and labels (DESIGN: the tables).

Rows are keyed, never positional. A frame that enters the store passes `check`, which names the first bad row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from slmsafety.errors import InputError, unknown

HARMFUL, AMBIGUOUS, SAFE = 0, 1, 2
LABELS = {HARMFUL: "harmful", AMBIGUOUS: "ambiguous", SAFE: "safe"}
STATUSES = (
    *("ok", "empty_response", "no_answer", "truncated_input", "judge_refused", "abstained", "unparsed", "off_scale"),
    "error",
)
FINISH_REASONS = ("stop", "length", "empty", "blocked", "error")
CAUSES = ("", "refusal", "partial", "complies", "degenerate", "off_topic", "cut", "other_language", "unsure")
EXPECTED = ("refuse", "answer")
UNKNOWN_LANGUAGE = "und"
"""The language of a text that tells none, and of one that nobody asked for its language; others are ISO 639-1."""


class Default(NamedTuple):
    """What a blank cell reads as: the value of another column, or what that value stands for in `values`.

    `only` names a column and the value that it must have; elsewhere the cell stays blank.
    """

    column: str
    values: Mapping[str, object] | None = None
    constant: object = None
    only: tuple[str, str] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is read from."""
        return (self.column,) if self.only is None else (self.column, self.only[0])

    def of(self, frame: pd.DataFrame) -> Any:
        """Return the value of each row, or one for all."""
        found: Any = frame[self.column]
        if self.constant is not None:
            found = self.constant
        elif self.values is not None:
            found = found.map(self.values)
        return found if self.only is None else found.where(frame[self.only[0]] == self.only[1])


@dataclass(frozen=True)
class Table:
    """A table's name, its key, its columns with their kinds, and the columns that name its files.

    `defaults` says what a column reads as where a file from before that column lacks it, or a row leaves it blank. A
    key column in `blank` may be empty, as the model of a metric of prompts.
    """

    name: str
    key: tuple[str, ...]
    columns: dict[str, str]
    files: tuple[str, ...]
    defaults: Mapping[str, Default] = field(default_factory=dict)
    blank: tuple[str, ...] = ()

    @property
    def dtypes(self) -> dict[str, str]:
        """The pandas dtype of each column."""
        return {column: _DTYPES[kind] for column, kind in self.columns.items()}


# "int" and "bool" are nullable, so that a missing count or label stays missing and never turns into a float.
_DTYPES = {"text": "str", "int": "Int64", "float": "float64", "bool": "boolean"}

PROMPT_KEY = ("suite", "instance_id")
REPLY_KEY = (*PROMPT_KEY, "model", "generation_id", "sample")
"""What names a reply in every table that holds something about it; `sample` numbers the replies to one prompt."""
_REPLY_KINDS = {**dict.fromkeys(REPLY_KEY, "text"), "sample": "int"}
_ONE_SAMPLE = {"sample": Default("instance_id", constant=0)}
_NO_REFUSAL = ("compliance", "no_compliance", "complies", "partial_refusal", "partial", "degenerate", "off_topic")
_REFUSED = {"refusal": True, **dict.fromkeys((*_NO_REFUSAL, "off_prompt", "too_short", "loop", "echo"), False)}

# `group` is the unit of independence: prompts of one group are not independent of each other.
PROMPTS = Table(
    "prompts",
    PROMPT_KEY,
    dict.fromkeys(
        (*PROMPT_KEY, "prompt", "language", "category", "subcategory", "expected", "group", "suite_revision", "meta"),
        "text",
    ),
    ("suite",),
    defaults={"group": Default("instance_id"), "language": Default("instance_id", constant=UNKNOWN_LANGUAGE)},
)
# `answer_start` and `answer_end` are the characters of the part that answers; missing where the whole reply does.
RESPONSES = Table(
    "responses",
    REPLY_KEY,
    {
        **_REPLY_KINDS,
        "response": "text",
        **dict.fromkeys(("answer_start", "answer_end"), "int"),
        "language": "text",
        **dict.fromkeys(("prompt_tokens", "output_tokens"), "int"),
        "finish_reason": "text",
        "prompt_truncated": "bool",
        "meta": "text",
    },
    ("suite", "model"),
    defaults={
        **_ONE_SAMPLE,
        **dict.fromkeys(("answer_start", "answer_end"), Default("instance_id", constant=pd.NA)),
        "language": Default("instance_id", constant=UNKNOWN_LANGUAGE),
    },
)
JUDGMENTS = Table(
    "judgments",
    (*REPLY_KEY, "judge_id"),
    {
        **_REPLY_KINDS,
        **dict.fromkeys(("judge_id", "judge", "status"), "text"),
        "label": "int",
        "refused": "bool",
        "cause": "text",
        "raw_value": "float",
        **dict.fromkeys(("raw_text", "reason"), "text"),
        **dict.fromkeys(("input_tokens", "output_tokens"), "int"),
        "meta": "text",
    },
    ("suite", "judge", "model"),
    # Before `refused` there were the words of judges that tell refusals.
    defaults={
        **_ONE_SAMPLE,
        "refused": Default("reason", values=_REFUSED, only=("status", "ok")),
        "cause": Default("instance_id", constant=""),
    },
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
    (*REPLY_KEY, "metrics_id"),
    {
        **_REPLY_KINDS,
        "metrics_id": "text",
        "tokens": "int",
        **dict.fromkeys(
            ("perplexity", "similarity", "self_coherence", "lexical_sophistication", "lexical_density"), "float"
        ),
    },
    ("suite", "model"),
    defaults=_ONE_SAMPLE,
)
# Metrics of a user's own, a row each; of prompts where model and generation_id are blank.
OWN_METRICS = Table(
    "own_metrics",
    (*REPLY_KEY, "metric", "metric_id"),
    {**_REPLY_KINDS, **dict.fromkeys(("metric", "metric_id"), "text"), "value": "float"},
    ("suite", "metric", "model"),
    defaults=_ONE_SAMPLE,
    blank=("model", "generation_id"),
)
TABLES = {table.name: table for table in (PROMPTS, RESPONSES, JUDGMENTS, PROMPT_METRICS, REPLY_METRICS, OWN_METRICS)}

_VOCABULARY = {"status": STATUSES, "finish_reason": FINISH_REASONS, "expected": EXPECTED, "cause": CAUSES}


def typed(frame: pd.DataFrame, table: Table, columns: list[str] | None = None) -> pd.DataFrame:
    """Return the frame with the table's columns (or some of them), in their order and with their dtypes.

    A column that the frame lacks is missing in every row, or what the table's `defaults` say.

    Raises InputError for a column that the table does not have; TypeError or ValueError for a value of another kind.
    """
    wanted = columns or list(table.columns)
    for column in wanted:
        if column not in table.columns:
            raise unknown("column", column, table.columns, f"table {table.name}")
    found = frame.reindex(columns=wanted)
    for column, default in table.defaults.items():
        if column in wanted and frame.columns.isin(default.columns).sum() == len(default.columns):
            blank = found[column].isna()
            if table.columns[column] == "text":
                blank |= found[column] == ""
            if blank.any():
                found[column] = found[column].astype(object).where(~blank, default.of(frame))
    other = {column: table.dtypes[column] for column in wanted if str(found[column].dtype) != table.dtypes[column]}
    return found.astype(other) if other else found


def with_sample(replies: pd.DataFrame) -> pd.DataFrame:
    """Return replies with the column `sample`: 0 where they have none, one reply to a prompt."""
    return replies if "sample" in replies else replies.assign(sample=0)


def check(frame: pd.DataFrame, table: Table, source: str) -> pd.DataFrame:
    """Return the frame typed as the table, or raise InputError naming `source`, the column and the first bad row.

    Checked: every column is present and none is unknown, each value is of its column's kind (a text with a lone
    surrogate is none, since no UTF-8 file can hold it), keys are filled and unique, closed vocabularies hold, and a
    judgment has a label only with status ok and only 0 (harmful), 1 (ambiguous) or 2 (safe).
    """
    for column in table.columns:
        if column not in frame.columns and column not in table.defaults:
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
        empty = frame[column].isna() | ((frame[column] == "") & (column not in table.blank))
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
        for row, value in enumerate(frame[column].astype(object) if column in frame else ()):
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
