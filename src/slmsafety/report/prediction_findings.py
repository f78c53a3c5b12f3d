"""Sentences about the tables of ambiguity prediction: each function takes a frame of the analysis."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import pandas as pd

from slmsafety.report.score_findings import systems
from slmsafety.report.text import counted

FEWEST = 10
"""Groups or families from which on there is an interval."""
PRINTED = ("table1_within_suite", "table2_cross_suite", "table3_unseen_slm")
"""The paper's tables."""


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


def with_titles(frame: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the frame with a column of titles after each column of suites' ids: source_title after source.

    Parameters
    ----------
    frame : DataFrame
        Any of source, target and suite (ids).
    titles : mapping of str to str
        The title of each suite; one without a title keeps its id.

    Returns
    -------
    DataFrame
        A copy.
    """
    found = frame.copy()
    for name in [name for name in ("source", "target", "suite") if name in found]:
        shown = [titles.get(suite, suite) for suite in found[name].astype("str")]
        found.insert(list(found).index(name) + 1, f"{name}_title", shown)
    return found


def predicted(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Give the best classifier's scores for each table and split.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        By table name, the rows of `prediction_table` with titles: unit, source_title, target_title, features,
        classifier, balanced_accuracy, low, high, roc_auc (0 to 1; 0.5 is chance), interval (what low to high is for),
        test_rows, test_groups, incomplete and note (why undefined).

    Returns
    -------
    list of str
        The sentences; a split by groups with the results of that by prompts is left to `group_split`.
    """
    told = []
    for name, table in tables.items():
        for row in _metrics_only(table).to_dict("records"):
            replies = counted(row["test_rows"], "reply", "replies")
            counts = f"{replies} in {counted(row['test_groups'], 'group')} of prompts"
            counts = f"{counts}, of these replies without some metric: {row['incomplete']:,}"
            none = "no interval" if row["test_groups"] >= FEWEST else f"no interval: fewer than {FEWEST} groups"
            interval = none if pd.isna(row["low"]) else f"{row['low']:.2f} to {row['high']:.2f} {row['interval']}"
            scores = f"balanced accuracy {row['balanced_accuracy']:.2f} ({interval}), ROC-AUC {row['roc_auc']:.2f}"
            found = f"{row['classifier']}, {scores}"
            result = f"undefined, as {row['note']}" if row["note"] else f"{found}; {counts}"
            told.append(f"{_title(name)}, {_split(row)}: {result}.")
    return told


def group_split(table: pd.DataFrame) -> list[str]:
    """Compare the split by groups of prompts with the paper's split by prompts.

    Parameters
    ----------
    table : DataFrame
        The rows of Table 1, as in `predicted`, of both units.

    Returns
    -------
    list of str
        A sentence for each suite with both values.
    """
    told, metrics = [], table[table["features"] == "metrics"]
    for title, rows in metrics.groupby("source_title", sort=False):
        values = rows.set_index("unit")["balanced_accuracy"].dropna()
        if not {"prompts", "groups"} <= set(values.index):
            continue
        apart = f"{title}, with all variants of a question on one side: balanced accuracy {values['groups']:.2f}"
        both = f"{apart} instead of {values['prompts']:.2f} by prompts; it is another draw of rows, too."
        same = f"{title}: the split by groups of prompts gives the same results as that by prompts."
        told.append(same if _doubled(rows).any() else both)
    return told


def choice(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say what choosing the best classifier on the test rows adds to its score.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        As for `predicted`, with nested_balanced_accuracy (0 to 1) and optimism (its distance from the best); without
        these columns nothing is told.

    Returns
    -------
    list of str
        A sentence for each table with such a value, and one that names the splits without.
    """
    told = []
    for name, table in tables.items():
        if "optimism" not in table:
            continue
        metrics = _metrics_only(table).dropna(subset="balanced_accuracy")
        known, none = metrics.dropna(subset="optimism"), metrics[metrics["optimism"].isna()]
        if len(none):
            where = "; ".join(_split(row) for row in none.to_dict("records"))
            why = "one group of prompts, or labels of one class where a fold is left out"
            told.append(f"{_title(name)}: nothing could be chosen inside the training rows, which hold {why}: {where}.")
        if known.empty:
            continue
        gaps, inner = known["optimism"], known["nested_balanced_accuracy"]
        spans = [f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}" for low, high in map(_ends, (gaps, inner))]
        mean = f" ({gaps.mean():.2f} on average)" if len(known) > 1 else ""
        told.append(
            f"{_title(name)}: with the classifier chosen inside the training rows, balanced accuracy is {spans[1]}; the"
            f" best of five on the test rows has {spans[0]} more{mean}."
        )
    return told


def unseen_families(found: pd.DataFrame) -> list[str]:
    """Say how well ambiguity is predicted for the models of a family that is left out.

    Parameters
    ----------
    found : DataFrame
        The rows of `families.summary` with suite_title.

    Returns
    -------
    list of str
        A sentence for each suite with a value.
    """
    told = []
    for row in found.dropna(subset="balanced_accuracy").to_dict("records"):
        wide = f"a further model, of a new family: {row['new_low']:.2f} to {row['new_high']:.2f}"
        known = f"{row['low']:.2f} to {row['high']:.2f} over families; {wide}"
        few = "fewer than 10 families" if row["families"] < FEWEST else "all families have one mean"
        interval = f"no interval: {few}" if pd.isna(row["low"]) else known
        mean = f"balanced accuracy {row['balanced_accuracy']:.2f} on average over "
        mean += counted(row["families"], "family", "families")
        models = f"{counted(row['models'], 'model')}, from {row['lowest']:.2f} to {row['highest']:.2f}"
        gone = f"; {counted(row['undefined'], 'model')} without a value" if row["undefined"] else ""
        told.append(
            f"Table 3 with each family left out in turn, {row['suite_title']}: {row['classifier']}, {mean}"
            f" ({interval}); {models}{gone}."
        )
    return told


def printed(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say what the paper's printed Tables 1-3 hold, and what they leave out.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        table1_within_suite and table3_unseen_slm (suite, balanced_accuracy, test_rows), table2_cross_suite (source,
        target, balanced_accuracy), as printed.

    Returns
    -------
    list of str
        The sentences.
    """
    within, across, unseen = (tables[name] for name in PRINTED)
    own = within.set_index("suite")["balanced_accuracy"]
    pairs = across["source"] + " to " + across["target"]
    moved = across.set_index(pairs)["balanced_accuracy"]
    falls = across["target"].map(own).set_axis(pairs) - moved
    gains = unseen.set_index("suite")["balanced_accuracy"] - own
    each = ", ".join(f"{suite} {gain:+.2f}" for suite, gain in gains.dropna().items())
    return [
        f"Table 1 as printed: within a suite the best classifier has a balanced accuracy of {_span(own)}.",
        f"Table 2 as printed: trained on another suite it is {_span(moved)}, below that of Table 1 on the target suite"
        f" in {int((falls > 0).sum())} of {len(falls)} pairs: by {_span(falls)}, {falls.mean():.2f} on average.",
        f"Table 3 as printed: for unseen models, to whose prompts seen models replied, it differs from Table 1 by"
        f" {each}.",
        "The paper prints no interval, prints the best classifier by a score on the test rows, and says neither which"
        " classifiers it compared and how they were set nor which six models were unseen.",
    ]


def with_ids(printed_table: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return a printed table with the suites' ids as suite, source and target, and their printed names as titles.

    `titles` are those of the ids; a name that is no title has no id ("").
    """
    found, ids = printed_table.copy(), {title: suite for suite, title in titles.items()}
    for name in [name for name in ("suite", "source", "target") if name in found]:
        found.insert(list(found).index(name) + 1, f"{name}_title", found[name])
        found[name] = [ids.get(shown, "") for shown in found[name]]
    return found


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
        The rows of `over_repeats` with titles: source_title, features, classifier and balanced_accuracy (0 to 1; 0.5 is
        chance).

    Returns
    -------
    list of str
        The sentences.
    """
    told = []
    for source, group in means.dropna(subset="balanced_accuracy").groupby("source_title", sort=False):
        each = ", ".join(f"{row.features} {row.balanced_accuracy:.2f}" for row in group.itertuples())
        told.append(f"{source}, mean balanced accuracy of {group['classifier'].iloc[0]}: {each}.")
    return told


def shuffled_groups(drops: pd.DataFrame) -> list[str]:
    """Name the group of columns whose shuffling lowers the balanced accuracy most.

    Parameters
    ----------
    drops : DataFrame
        The rows of `importance` with titles: source_title, group and drop (of balanced accuracy; nan where undefined).

    Returns
    -------
    list of str
        The sentences.
    """
    told = []
    for source, group in drops.dropna(subset=["drop"]).groupby("source_title", sort=False):
        most = group.nlargest(1, "drop").iloc[0]
        costs = f"the {most['group']}'s columns costs most, {most['drop']:.2f} of balanced accuracy"
        told.append(f"{source}: shuffling {costs if most['drop'] > 0 else 'no group of columns costs anything'}.")
    return told


def leaks(checks: pd.DataFrame) -> list[str]:
    """Count the splits without a sign of leakage, and name single features that nearly predict the label.

    Parameters
    ----------
    checks : DataFrame
        The rows of `leakage` with titles: unit, source_title, target_title, shared_groups (int), clean (bool or
        missing), alone (balanced accuracy of the strongest feature), strongest and telling (names of features).

    Returns
    -------
    list of str
        The sentences.
    """
    known = checks.dropna(subset=["clean"])
    unclean = [_split(row) for row in known[~known["clean"].astype(bool)].to_dict("records")]
    gone = len(checks) - len(known)
    cannot = f"; {gone} cannot be checked, as they hold one class only" if gone else ""
    told = [
        f"Splits without a sign of leakage (a group of prompts and a model on both sides, or random labels that are"
        f" predicted): {len(known) - len(unclean)} of {len(known)}; others: {'; '.join(unclean) or 'none'}{cannot}.",
    ]
    told = told if len(known) else []
    parted = checks[(checks["unit"] == "prompts") & (checks["shared_groups"] > 0)]
    each = "; ".join(f"{row.source_title} {row.shared_groups:,}" for row in parted.itertuples())
    told += [f"Groups of variants with prompts on both sides of the split by prompts: {each}."] if each else []
    single = checks.dropna(subset=["alone"])
    if single.empty:
        return told
    most, telling = single.nlargest(1, "alone").iloc[0], single[single["telling"] != ""]
    named = dict.fromkeys(f"{row['telling']} ({_split(row)})" for row in telling.to_dict("records"))
    best = f"The strongest feature alone is {most['strongest']}, with a balanced accuracy of {most['alone']:.2f}"
    return [*told, f"{best}; features that nearly tell the label, and may hold it: {'; '.join(named) or 'none'}."]


def _metrics_only(table: pd.DataFrame) -> pd.DataFrame:
    """The results from all metrics, without a second one of the same rows."""
    found = table[table["features"] == "metrics"]
    return found[~_doubled(found)]


def _doubled(metrics: pd.DataFrame) -> pd.Series:
    """Whether an earlier row has the very results of a row, by another unit."""
    about = ["source_title", "target_title", "balanced_accuracy", "roc_auc", "test_rows"]
    return metrics.duplicated(about) & metrics["balanced_accuracy"].notna()


def _split(row: Mapping[Hashable, object]) -> str:
    source, target, unit = str(row["source_title"]), str(row["target_title"]), row["unit"]
    return f"{source}, split by {unit}" if source == target else f"{source} to {target}"


def _span(values: pd.Series) -> str:
    """The lowest and the highest value, each with its name."""
    ends = f"{values.min():.2f} ({values.idxmin()}) to {values.max():.2f} ({values.idxmax()})"
    return ends if len(values) > 1 else f"{values.iloc[0]:.2f} ({values.index[0]})"


def _ends(values: pd.Series) -> tuple[float, float]:
    return round(float(values.min()), 2), round(float(values.max()), 2)


def _title(table: str) -> str:
    """What the paper calls a table: "Table 1" for table1_within_suite."""
    return f"Table {table.removeprefix('table')[0]}"
