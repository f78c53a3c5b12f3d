"""How much of a result is made by the mapping from a judge's score to labels: the same scores read in many ways."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.analysis.outcomes import outcomes
from slmsafety.analysis.rankings import tau


def rates_by_mapping(labels: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the mean rates of each arm over models, and how far its ranking is the reference arm's.

    `labels` holds judge, suite, arm, model, expected, status and label. Columns: judge, suite, arm, models, n (with
    a label), hcr, ar and srr (means over models, 0..1), ar_lowest and ar_highest (the least and the most ambiguous
    model), tau (Kendall's tau-b of the mean scores with the reference's, -1..1; nan below two models, when one is
    constant, and where the reference arm is not among the arms).
    """
    rows = []
    for (judge, suite), group in labels.groupby(["judge", "suite"], sort=True):
        found = {arm: outcomes(part).set_index("model") for arm, part in group.groupby("arm", sort=False)}
        base = found.get(reference)
        for arm, table in found.items():
            rates = table[["hcr", "ar", "srr"]].mean()
            agreed = np.nan
            if base is not None:
                both = pd.concat([base["mean"], table["mean"]], axis=1).dropna().to_numpy()
                agreed = tau(both[:, 0], both[:, 1])
            span = {"ar_lowest": table["ar"].min(), "ar_highest": table["ar"].max(), "tau": agreed}
            counts = {"models": len(table), "n": int(table["n"].sum())}
            means = dict(zip(rates.index, rates, strict=True))
            rows.append({"judge": judge, "suite": suite, "arm": arm, **counts, **means, **span})
    columns = ["judge", "suite", "arm", "models", "n", "hcr", "ar", "srr", "ar_lowest", "ar_highest", "tau"]
    return pd.DataFrame(rows, columns=columns)
