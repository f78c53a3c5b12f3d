"""Judged outputs from a CSV, one row per reply and judge, into the tables of a study."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.importers.csv_text import read_csv_text, row_of
from slmsafety.importers.scores import PLAIN, Scale, read_scores
from slmsafety.importers.tables import Imported
from slmsafety.records.ids import content_id, file_sha256
from slmsafety.records.schema import EXPECTED, JUDGMENTS, PROMPTS, RESPONSES, STATUSES, Table

REQUIRED = ("suite", "instance_id", "model", "judge", "score")
OPTIONAL = ("prompt", "response", "expected", "category", "subcategory", "status", "reason")


def read_judged_csv(path: Path, scale: Scale = PLAIN) -> Imported:
    """Read a CSV of judged replies.

    Parameters
    ----------
    path : Path
        A CSV in UTF-8, one row a reply and judge. Needed columns: suite, instance_id, model, judge, score (0 harmful,
        0.5 ambiguous, 1 safe). Further ones: prompt, response, expected (refuse, answer; without it every prompt should
        be refused), category, subcategory, reason, status (needed where a score is empty).
    scale : Scale
        How the scores are read, where 0, 0.5 and 1 mean something else or other values stand there.

    Returns
    -------
    Imported
        The prompts, responses and judgments. A number stays in raw_value as it is in the file. A value that the scale
        calls missing becomes status unparsed with reason "no score".

    Raises
    ------
    InputError
        Naming the file and the column or row (the header is row 1).
    """
    rows = _tidy(_read(path), path, scale)
    source = file_sha256(path)[:12]
    rows["generation_id"] = content_id({"imported": source})
    rows["judge_id"] = [content_id({"imported_judge": name}) for name in rows["judge"]]
    rows["suite_revision"] = source
    return Imported(str(path), *(_rows(rows, table, path) for table in (PROMPTS, RESPONSES, JUDGMENTS)))


def _rows(rows: pd.DataFrame, table: Table, path: Path) -> pd.DataFrame:
    """Return the rows of a table; a prompt or reply that several lines of the file name counts once."""
    frame = rows.reindex(columns=list(table.columns))
    if table is not JUDGMENTS:
        frame = frame.drop_duplicates()
    twice = frame.duplicated(list(table.key)).reindex(rows.index, fill_value=False)
    if twice.any():
        key = ", ".join(map(str, rows.loc[twice, list(table.key)].iloc[0]))
        problem = "repeats a judgment" if table is JUDGMENTS else f"contradicts an earlier row of table {table.name}"
        raise InputError(f"{path}: row {row_of(twice)} {problem}: {key}")
    return frame


def _read(path: Path) -> pd.DataFrame:
    frame = read_csv_text(path, REQUIRED)
    for column in frame.columns:
        if column not in (*REQUIRED, *OPTIONAL):
            raise unknown("column", column, (*REQUIRED, *OPTIONAL), str(path))
    if not isinstance(frame.index, pd.RangeIndex):  # pandas makes surplus fields the index, and every column shifts
        raise InputError(f"{path}: its rows have more fields than the header has columns")
    if frame.empty:
        raise InputError(f"{path}: has no rows below the header")
    return frame


def _tidy(frame: pd.DataFrame, path: Path, scale: Scale) -> pd.DataFrame:
    """Return the rows with label, status and raw_value, and with the columns that the file leaves out."""
    for column in REQUIRED[:-1]:
        empty = frame[column] == ""
        if empty.any():
            raise InputError(f"{path}: row {row_of(empty)} has no {column}")
    blank = frame["score"] == ""
    if "status" not in frame.columns:
        if blank.any():
            raise InputError(f"{path}: row {row_of(blank)} has no score; add a column 'status' that says why")
        frame = frame.assign(status="ok")
    strange = ~frame["status"].isin(STATUSES)
    if strange.any():
        raise unknown("status", frame["status"][strange].iloc[0], STATUSES, f"{path}, row {row_of(strange)}")
    unscored = frame["status"].eq("ok") & blank
    if unscored.any():
        raise InputError(f"{path}: row {row_of(unscored)} has status ok and no score; valid: {', '.join(STATUSES[1:])}")
    scored = read_scores(frame["score"], frame["status"] == "ok", scale, str(path))
    expected = frame["expected"] if "expected" in frame.columns else pd.Series("refuse", index=frame.index)
    if not expected.isin(EXPECTED).all():
        wrong = ~expected.isin(EXPECTED)
        raise unknown("expected", expected[wrong].iloc[0], EXPECTED, f"{path}, row {row_of(wrong)}")
    # Without the column the replies are not known; with it a blank one is a blank reply.
    text = {name: frame[name] if name in frame.columns else None if name == "response" else "" for name in OPTIONAL}
    return frame.assign(
        **{name: text[name] for name in ("prompt", "response", "category", "subcategory")},
        reason=pd.Series(text["reason"], index=frame.index).mask(scored.missing, "no score"),
        sample=0,
        expected=expected,
        status=frame["status"].mask(scored.missing, "unparsed"),
        raw_value=scored.raw_value,
        label=scored.label,
        finish_reason=_finish_reason(frame),
        meta="{}",
    )


def _finish_reason(frame: pd.DataFrame) -> pd.Series:
    """empty where the file has a blank response, else stop: why a reply ended is not in the file."""
    if "response" not in frame.columns:
        return pd.Series("stop", index=frame.index)
    return frame["response"].str.strip().eq("").map({True: "empty", False: "stop"})
