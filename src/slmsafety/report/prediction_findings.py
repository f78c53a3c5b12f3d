"""What the tables of ambiguity prediction say, in sentences: each function takes an analysis frame."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd


def predicted(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say how well the best classifier does, for each table and split; the tables have the columns of `best`."""
    told = []
    for name, table in tables.items():
        for row in table[table["features"] == "metrics"].to_dict("records"):
            where = row["source"] if row["source"] == row["target"] else f"{row['source']} to {row['target']}"
            counts = f"{row['test_rows']:,} replies, of which {row['incomplete']:,} lack a metric"
            interval = "no interval" if pd.isna(row["low"]) else f"{row['low']:.2f} to {row['high']:.2f}"
            scores = f"balanced accuracy {row['balanced_accuracy']:.2f} ({interval}), ROC-AUC {row['roc_auc']:.2f}"
            found = f"{row['classifier']}, {scores}"
            result = f"undefined, as {row['note']}" if row["note"] else found
            told.append(f"{_title(name)}, {where}: {result}; {counts}.")
        if table.empty:
            told.append(f"{_title(name)}: the study has nothing to split in this way.")
    return told


def held_out(unseen: list[str], models: int) -> str:
    """Say which models are unseen, of how many."""
    return f"The unseen models of Table 3 are {len(unseen)} of {models}: {', '.join(unseen) or 'none'}."


def fewer_metrics(means: pd.DataFrame) -> list[str]:
    """Say how the chosen classifier does on each set of features; `means` come from `over_repeats`."""
    told = []
    for source, group in means.groupby("source", sort=False):
        each = ", ".join(f"{row.features} {row.balanced_accuracy:.2f}" for row in group.itertuples())
        told.append(f"{source}, mean balanced accuracy of {group['classifier'].iloc[0]}: {each}.")
    return told


def shuffled_groups(drops: pd.DataFrame) -> list[str]:
    """Say which group of columns costs most when shuffled; `drops` come from `importance`."""
    told = []
    for source, group in drops.dropna(subset=["drop"]).groupby("source", sort=False):
        most = group.nlargest(1, "drop").iloc[0]
        costs = f"the {most['group']}'s columns costs most, {most['drop']:.2f} of balanced accuracy"
        told.append(f"{source}: shuffling {costs if most['drop'] > 0 else 'no group of columns costs anything'}.")
    return told


def leaks(checks: pd.DataFrame) -> list[str]:
    """Say how many splits are clean, and which features alone tell the label; `checks` come from `leakage`."""
    known = checks.dropna(subset=["clean"])
    unclean = [f"{row.source} to {row.target}" for row in known[~known["clean"].astype(bool)].itertuples()]
    told = [
        f"Splits without a sign of rows on both sides: {len(known) - len(unclean)} of {len(known)}; others:"
        f" {', '.join(unclean) or 'none'}; {len(checks) - len(known)} cannot be checked, as they hold one class only.",
    ]
    single = checks.dropna(subset=["alone"])
    if single.empty:
        return [*told, "No feature alone can be checked."]
    most, telling = single.nlargest(1, "alone").iloc[0], single[single["telling"] != ""]
    named = [f"{row.telling} ({row.source} to {row.target})" for row in telling.itertuples()]
    best = f"The strongest feature alone is {most['strongest']}, with a balanced accuracy of {most['alone']:.2f}"
    return [*told, f"{best}; features that nearly tell the label, and may hold it: {'; '.join(named) or 'none'}."]


def _title(table: str) -> str:
    """What the paper calls a table: "Table 1" for table1_within_suite."""
    return f"Table {table.removeprefix('table')[0]}"
