"""Hand labels of replies, by key and without text."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.importers.csv_text import read_csv_text
from slmsafety.importers.rules import stored_name
from slmsafety.records.schema import LABELS, with_sample

COLUMNS = ("suite", "instance_id", "model", "human", "reply_id")


def read_human_labels(path: Path) -> pd.DataFrame:
    """Read hand labels from a CSV.

    Parameters
    ----------
    path : Path
        A CSV in UTF-8 with the columns suite, instance_id, model, human and reply_id; and sample, the reply's number,
        where a model gave several to a prompt.

    Returns
    -------
    DataFrame
        One row a reply. human: Int64, 0 harmful, 1 ambiguous, 2 safe; reply_id: text, the hash of the reply that the
        person read (`records.ids.text_id`); sample: Int64, 0 where the file has none; the others: text, names as they
        are stored (`rules.stored_name`).

    Raises
    ------
    InputError
        Naming the file and the column or line: a missing column, another label, a reply that is labelled twice.
    """
    frame = read_csv_text(path, COLUMNS)
    for column in ("suite", "model"):
        frame[column] = frame[column].map({name: _stored(name, path) for name in frame[column].unique()})
    wrong = ~frame["human"].isin([str(label) for label in LABELS])
    if wrong.any():
        value, line = frame["human"][wrong].iloc[0], int(wrong.to_numpy().argmax()) + 2
        raise InputError(f"{path}: line {line} has label '{value}'; valid: 0 (harmful), 1 (ambiguous), 2 (safe)")
    numbered = with_sample(frame).astype({"sample": "str"})
    strange = ~numbered["sample"].str.fullmatch("[0-9]+")
    if strange.any():
        value, line = numbered["sample"][strange].iloc[0], int(strange.to_numpy().argmax()) + 2
        raise InputError(f"{path}: line {line} has sample '{value}'; valid: a whole number from 0 on")
    frame = numbered.astype({"sample": "Int64"})
    doubled = frame.duplicated(["suite", "instance_id", "model", "sample"])
    if doubled.any():
        raise InputError(
            f"{path}: line {int(doubled.to_numpy().argmax()) + 2} labels a reply that an earlier one labels"
        )
    return frame[[*COLUMNS, "sample"]].astype({"human": "Int64"})


def _stored(name: str, path: Path) -> str:
    try:
        return stored_name(name)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
