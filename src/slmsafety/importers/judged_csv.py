"""Judged outputs from a CSV, one row per reply and judge, into the tables of a study."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.records.ids import content_id, file_sha256
from slmsafety.records.schema import EXPECTED, JUDGMENTS, PROMPTS, RESPONSES, STATUSES
from slmsafety.records.store import Partition

REQUIRED = ("suite", "instance_id", "model", "judge", "score")
OPTIONAL = ("prompt", "response", "expected", "category", "subcategory", "status", "reason")


def import_judged_csv(path: Path, folder: Path) -> None:
    """Read a CSV of judged replies and write its prompts, responses and judgments below the study's folder.

    Needed columns: suite, instance_id, model, judge, score (0 harmful, 0.5 ambiguous, 1 safe). Further ones: prompt,
    response, expected (refuse, answer; without it every prompt should be refused), category, subcategory, reason,
    status (needed where a score is empty). Another score than 0, 0.5 or 1 becomes status off_scale, its value kept. A
    slash in a model's name becomes an underscore. Raises InputError naming the file and the column or row.
    """
    rows = _tidy(_read(path), path)
    source = file_sha256(path)[:12]
    rows["generation_id"] = content_id({"imported": source})
    rows["judge_id"] = [content_id({"imported_judge": name}) for name in rows["judge"]]
    rows["suite_revision"] = source
    for table in (PROMPTS, RESPONSES, JUDGMENTS):
        frame = rows.drop_duplicates(list(table.key)) if table is not JUDGMENTS else rows
        frame = frame.reindex(columns=list(table.columns))
        for names, part in frame.groupby(list(table.files), sort=True):
            target = Partition(folder, table, tuple(str(name) for name in names))
            target.replace(part)
            print(f"import: {len(part)} rows: {target.parquet.relative_to(folder.parent)}")


def _read(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, dtype="str", keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not readable as CSV ({' '.join(str(error).split())})") from error
    for column in REQUIRED:
        if column not in frame.columns:
            raise InputError(f"{path}: lacks column '{column}'; needed: {', '.join(REQUIRED)}")
    for column in frame.columns:
        if column not in (*REQUIRED, *OPTIONAL):
            raise unknown("column", column, (*REQUIRED, *OPTIONAL), str(path))
    return frame


def _tidy(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the rows with label, status and raw_value, and with the columns that the file leaves out."""
    score = pd.to_numeric(frame["score"].where(frame["score"] != ""), errors="coerce")
    bad = score.isna() & (frame["score"] != "")
    if bad.any():
        raise InputError(
            f"{path}: line {_row(bad)} has score '{frame['score'][bad].iloc[0]}'; valid: 0, 0.5, 1 or empty"
        )
    if "status" not in frame.columns:
        if score.isna().any():
            raise InputError(f"{path}: line {_row(score.isna())} has no score; add a column 'status' that says why")
        frame = frame.assign(status="ok")
    on_scale = score.isin([0, 0.5, 1])
    status = frame["status"].where(on_scale | score.isna(), "off_scale")
    unscored = (status == "ok") & score.isna()
    if unscored.any():
        raise InputError(f"{path}: line {_row(unscored)} has status ok and no score; valid: {', '.join(STATUSES[1:])}")
    expected = frame["expected"] if "expected" in frame.columns else pd.Series("refuse", index=frame.index)
    if not expected.isin(EXPECTED).all():
        wrong = ~expected.isin(EXPECTED)
        raise unknown("expected", expected[wrong].iloc[0], EXPECTED, f"{path}, line {_row(wrong)}")
    text = {name: frame[name] if name in frame.columns else "" for name in OPTIONAL}
    return frame.assign(
        **{name: text[name] for name in ("prompt", "response", "category", "subcategory", "reason")},
        model=[re.sub(r"[^A-Za-z0-9._-]+", "_", name) for name in frame["model"]],
        expected=expected,
        status=status,
        raw_value=score,
        label=(score * 2).where((status == "ok") & on_scale),
        finish_reason="stop",
        meta="{}",
    )


def _row(mask: pd.Series) -> int:
    """The line of the file's first True row; the header is line 1."""
    return int(mask.to_numpy().argmax()) + 2
