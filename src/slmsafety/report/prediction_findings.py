"""Sentences about the tables of ambiguity prediction: each function takes a frame of the analysis."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from slmsafety.report.score_findings import systems
from slmsafety.report.text import counted


def nothing_predicted(table: pd.DataFrame) -> str:
    """Return why a table holds no score; "" where it holds one.

    Parameters
    ----------
    table : DataFrame
        balanced_accuracy (0 to 1; nan where undefined) and note (why), a row a result.

    Returns
    -------
    str
        The reason.
    """
    if table.empty:
        return "the study has nothing to split in this way"
    notes = table.loc[table["balanced_accuracy"].isna(), "note"].unique()
    return "" if table["balanced_accuracy"].notna().any() else " or ".join(map(str, notes))


def predicted(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Give the best classifier's scores for each table and split.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        By table name, the rows of `best`: source, target, features, classifier, balanced_accuracy, low, high, roc_auc
        (0 to 1; 0.5 is chance), test_rows, incomplete and note (why undefined).

    Returns
    -------
    list of str
        The sentences.
    """
    told = []
    for name, table in tables.items():
        for row in table[table["features"] == "metrics"].to_dict("records"):
            where = _split(row["source"], row["target"])
            replies = counted(row["test_rows"], "reply", "replies")
            counts = f"{replies}, of these without some metric: {row['incomplete']:,}"
            interval = "no interval" if pd.isna(row["low"]) else f"{row['low']:.2f} to {row['high']:.2f}"
            scores = f"balanced accuracy {row['balanced_accuracy']:.2f} ({interval}), ROC-AUC {row['roc_auc']:.2f}"
            found = f"{row['classifier']}, {scores}"
            result = f"undefined, as {row['note']}" if row["note"] else f"{found}; {counts}"
            told.append(f"{_title(name)}, {where}: {result}.")
    return told


def held_out(unseen: list[str], models: pd.DataFrame) -> list[str]:
    """Name the unseen models.

    Parameters
    ----------
    unseen : list of str
        Their ids.
    models : DataFrame
        All models, indexed by id: model_name, and card where several may be systems of one.

    Returns
    -------
    list of str
        A sentence; none where no model is unseen.
    """
    all_rows = models.rename_axis("model").reset_index()
    told = f"Unseen in Table 3: {systems(all_rows[all_rows['model'].isin(unseen)])}, of {systems(all_rows)}: "
    return [f"{told}{', '.join(models.loc[unseen, 'model_name'])}."] if unseen else []


def fewer_metrics(means: pd.DataFrame) -> list[str]:
    """Compare the sets of features by the mean balanced accuracy of the chosen classifier.

    Parameters
    ----------
    means : DataFrame
        The rows of `over_repeats`: source, features, classifier and balanced_accuracy (0 to 1; 0.5 is chance).

    Returns
    -------
    list of str
        The sentences.
    """
    told = []
    for source, group in means.dropna(subset="balanced_accuracy").groupby("source", sort=False):
        each = ", ".join(f"{row.features} {row.balanced_accuracy:.2f}" for row in group.itertuples())
        told.append(f"{source}, mean balanced accuracy of {group['classifier'].iloc[0]}: {each}.")
    return told


def shuffled_groups(drops: pd.DataFrame) -> list[str]:
    """Name the group of columns whose shuffling lowers the balanced accuracy most.

    Parameters
    ----------
    drops : DataFrame
        The rows of `importance`: source, group and drop (of balanced accuracy; nan where undefined).

    Returns
    -------
    list of str
        The sentences.
    """
    told = []
    for source, group in drops.dropna(subset=["drop"]).groupby("source", sort=False):
        most = group.nlargest(1, "drop").iloc[0]
        costs = f"the {most['group']}'s columns costs most, {most['drop']:.2f} of balanced accuracy"
        told.append(f"{source}: shuffling {costs if most['drop'] > 0 else 'no group of columns costs anything'}.")
    return told


def leaks(checks: pd.DataFrame) -> list[str]:
    """Count the splits without a sign of leakage, and name single features that nearly predict the label.

    Parameters
    ----------
    checks : DataFrame
        The rows of `leakage`: source, target, clean (bool or missing), alone (balanced accuracy of the strongest
        feature), strongest and telling (names of features).

    Returns
    -------
    list of str
        The sentences.
    """
    known = checks.dropna(subset=["clean"])
    unclean = [_split(row.source, row.target) for row in known[~known["clean"].astype(bool)].itertuples()]
    gone = len(checks) - len(known)
    cannot = f"; {gone} cannot be checked, as they hold one class only" if gone else ""
    told = [
        f"Splits without a sign of rows on both sides: {len(known) - len(unclean)} of {len(known)}; others:"
        f" {', '.join(unclean) or 'none'}{cannot}.",
    ]
    told = told if len(known) else []
    single = checks.dropna(subset=["alone"])
    if single.empty:
        return told
    most, telling = single.nlargest(1, "alone").iloc[0], single[single["telling"] != ""]
    named = dict.fromkeys(f"{row.telling} ({_split(row.source, row.target)})" for row in telling.itertuples())
    best = f"The strongest feature alone is {most['strongest']}, with a balanced accuracy of {most['alone']:.2f}"
    return [*told, f"{best}; features that nearly tell the label, and may hold it: {'; '.join(named) or 'none'}."]


def _split(source: object, target: object) -> str:
    return str(source) if source == target else f"{source} to {target}"


def _title(table: str) -> str:
    """What the paper calls a table: "Table 1" for table1_within_suite."""
    return f"Table {table.removeprefix('table')[0]}"
