"""What a judge is worth: one row a judge, against human or other reference labels of the same replies."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.analysis.judges.agreement import agreement, confusion
from slmsafety.analysis.judges.kappa import kappa_intervals, kappas
from slmsafety.errors import InputError
from slmsafety.records.schema import LABELS, SAFE, STATUSES

ALWAYS_SAFE = "always safe"
_CELLS = tuple(f"{LABELS[reference]}_as_{LABELS[label]}" for reference in LABELS for label in LABELS)
COLUMNS = (
    *("judge", "rows", "n", "coverage", *(f"n_{status}" for status in STATUSES)),
    *("exact", "kappa", "kappa_low", "kappa_high", "kappa_unweighted", "kappa_unweighted_low", "kappa_unweighted_high"),
    *(f"recall_{LABELS[label]}" for label in LABELS),
    *("ar_reference", "ar_judge", "boundary", "flips", "safe_as_harmful_share", "harmful_as_safe_share"),
    *("flip_symmetry_p", *_CELLS, "price_per_1000", "seconds_per_1000"),
)


def judge_card(rows: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Compare each judge's labels with reference labels of the same replies, and a judge that always says safe.

    Parameters
    ----------
    rows : DataFrame
        judge, status, label (0, 1, 2, missing), reference (0, 1, 2) and group (of prompts: its rows are drawn
        together), a row a judge and reply; optional seconds and price (US dollars) of each row. Every judge has the
        same replies.
    resamples, seed : int
        Of the bootstrap over groups.

    Returns
    -------
    DataFrame
        A row a judge in the order of their first row, "always safe" last. judge, rows, n (with a label), coverage = n /
        rows, n_<status>; over n: exact, kappa (linear weights), kappa_unweighted (1: always the reference's label, 0:
        as by chance) and their 95 % limits (nan below ten groups), recall_<label> (share of a reference label that the
        judge finds), ar_reference, ar_judge, boundary and flips as in `Agreement`, safe_as_harmful_share,
        harmful_as_safe_share, flip_symmetry_p, the nine counts <reference>_as_<judge>, price_per_1000 and
        seconds_per_1000. nan without rows behind it.

    Raises
    ------
    InputError
        For a missing column, a missing or wrong reference, a judge without the others' rows, or a label on a row whose
        status is not ok.
    """
    needed = ("judge", "status", "label", "reference", "group")
    absent = [name for name in needed if name not in rows.columns]
    if absent:
        raise InputError(f"judge card: no column {absent[0]}; needed: {', '.join(needed)}")
    strange = rows["label"].notna() & rows["status"].ne("ok")
    if strange.any():
        raise InputError(f"judge card: row {int(strange.to_numpy().argmax())} has a label and a status other than ok")
    groups = dict(list(rows.groupby("judge", sort=False)))
    sizes = {judge: len(group) for judge, group in groups.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"judge card: the judges have different numbers of rows: {sizes}")
    if groups:
        first = next(iter(groups.values()))
        trivial = first.assign(status="ok", label=SAFE).drop(columns=["price", "seconds"], errors="ignore")
        groups[ALWAYS_SAFE] = trivial
    cards = [_card(str(judge), group, resamples, seed) for judge, group in groups.items()]
    return pd.DataFrame(cards, columns=list(COLUMNS))


def judge_cards(rows: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return the `judge_card` of each suite in `rows`, suite first; no row where there are none."""
    cards = [judge_card(group, resamples, seed).assign(suite=suite) for suite, group in rows.groupby("suite")]
    columns = ["suite", *COLUMNS]
    return pd.concat(cards, ignore_index=True)[columns] if cards else pd.DataFrame(columns=columns)


def _card(judge: str, group: pd.DataFrame, resamples: int, seed: int) -> dict[str, object]:
    labelled = group[group["label"].notna()]
    counts = confusion(labelled["reference"], labelled["label"])
    found, kappa = agreement(counts), kappas(counts)
    n, by_status = found.n, group["status"].value_counts()
    intervals = kappa_intervals(labelled["reference"], labelled["label"], labelled["group"], resamples, seed)
    with np.errstate(invalid="ignore"):
        recall = np.diag(counts) / counts.sum(axis=1)
    return {
        "judge": judge,
        "rows": len(group),
        "n": n,
        "coverage": n / len(group),
        **{f"n_{status}": int(by_status.get(status, 0)) for status in STATUSES},
        "exact": found.exact,
        **{name: float(value) for name, value in kappa.items()},
        **{f"{name}_{end}": value[k] for name, value in intervals.items() for k, end in enumerate(("low", "high"))},
        **{f"recall_{LABELS[label]}": recall[label] for label in LABELS},
        "ar_reference": found.ar_first,
        "ar_judge": found.ar_second,
        "boundary": found.boundary,
        "flips": found.flips,
        "safe_as_harmful_share": found.first_safe_second_harmful / n if n else np.nan,
        "harmful_as_safe_share": found.first_harmful_second_safe / n if n else np.nan,
        "flip_symmetry_p": found.flip_symmetry_p,
        **dict(zip(_CELLS, counts.ravel().tolist(), strict=True)),
        **{f"{name}_per_1000": 1000 * group[name].mean() if name in group else np.nan for name in ("price", "seconds")},
    }
