"""What a judge gains in agreement by abstaining where it is unsure."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.analysis.judges.agreement import confusion
from slmsafety.analysis.judges.kappa import kappas
from slmsafety.errors import InputError

COLUMNS = ("threshold", "n", "coverage", "exact", "kappa_unweighted", "kappa")


def coverage_curve(rows: pd.DataFrame, points: int = 50) -> pd.DataFrame:
    """Return how agreement with a reference rises as a judge keeps only the labels that it is surest of.

    Parameters
    ----------
    rows : DataFrame
        label and reference (0 harmful, 1 ambiguous, 2 safe; label missing where the judge gave none) and confidence
        (float, 0..1: the probability of the label, nan where there is none).
    points : int
        The most thresholds to try, spread evenly over the labels; 1 or more.

    Returns
    -------
    DataFrame
        A row a threshold, highest coverage first: threshold (labels of this confidence or more are kept; ties are kept
        together), n (kept), coverage (n over all rows, those without a label included, 0..1), exact (share that equals
        the reference), kappa_unweighted and kappa (linear; 1 always equal, 0 as by chance, nan where either side has
        one label only). No row where no label has a confidence.

    Raises
    ------
    InputError
        For a missing column, fewer than one point, or a confidence outside 0..1.

    References
    ----------
    El-Yaniv, R. and Wiener, Y. (2010). On the foundations of noise-free selective classification. JMLR 11.
    """
    for name in ("label", "reference", "confidence"):
        if name not in rows:
            raise InputError(f"coverage curve: no column {name}")
    if points < 1:
        raise InputError(f"coverage curve: {points} points; it is 1 or more")
    known = rows[rows["label"].notna() & rows["confidence"].notna()]
    sure = known["confidence"].to_numpy(float)
    if ((sure < 0) | (sure > 1)).any():
        raise InputError("coverage curve: a confidence outside 0..1")
    ordered = np.sort(sure)
    places = np.unique(np.linspace(0, max(len(ordered) - 1, 0), points).astype(int))
    thresholds = np.unique(ordered[places]) if len(ordered) else np.array([])
    found = [_point(known[sure >= threshold], threshold, len(rows)) for threshold in thresholds]
    return pd.DataFrame(found, columns=list(COLUMNS))


def coverage_curves(rows: pd.DataFrame, points: int = 50) -> pd.DataFrame:
    """Return the `coverage_curve` of each suite and judge in `rows` under each other, suite and judge first."""
    parts = [
        coverage_curve(group, points).assign(suite=str(suite), judge=str(judge))
        for (suite, judge), group in rows.groupby(["suite", "judge"], sort=False)
    ]
    columns = ["suite", "judge", *COLUMNS]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _point(kept: pd.DataFrame, threshold: float, of: int) -> dict[str, float]:
    counts = confusion(kept["reference"], kept["label"])
    return {
        "threshold": float(threshold),
        "n": len(kept),
        "coverage": len(kept) / of,
        "exact": float(np.trace(counts)) / len(kept),
        **{name: float(value) for name, value in kappas(counts).items()},
    }
