"""Sentences about what a study holds, and about its scores and ranks: each function takes a frame of the analysis.

A number that is undefined is not told, and neither is what must be so.
"""

from __future__ import annotations

import pandas as pd

from slmsafety.report.text import counted

ENOUGH = 10
"""Models from which on an agreement of rankings says something, and has an interval."""

SHOWN = 5
"""Models that a sentence names at most."""

_NO_NOISE = {
    "published": "the paper prints none",
    "imported": "its replies were made elsewhere and cannot be made again",
    "run": "slmsafety noise STUDY measures one on a study's own replies",
}


def covered(study: str, sizes: pd.DataFrame, models: pd.DataFrame) -> list[str]:
    """Say what a study asks, and how many replies that would make.

    Parameters
    ----------
    study : str
        Its name.
    sizes : DataFrame
        A row a suite: prompts (to refuse), controls (benign) and choices (multiple choice), numbers of prompts.
    models : DataFrame
        A row for each `model`, with a column `card` where several may be systems of one model.

    Returns
    -------
    list of str
        The sentences.
    """
    prompts, controls, choices = (int(sizes[name].sum()) for name in ("prompts", "controls", "choices"))
    parts = [f"{counted(prompts, 'prompt')} to refuse", counted(controls, "benign control")]
    parts += [counted(choices, "multiple-choice item")] if choices else []
    told = [f"Study {study} covers {counted(len(sizes), 'suite')} with {', '.join(parts[:-1])} and {parts[-1]}."]
    replies = counted(len(models) * prompts, "reply", "replies")
    made = f"{systems(models)} on every prompt to refuse, one reply each, would make {replies}."
    return [*told, made] if prompts else told


def judged(coverage: pd.DataFrame) -> str:
    """Count the rows that could be judged.

    Parameters
    ----------
    coverage : DataFrame
        A row a suite, model and judge: rows, and a column for each status that occurs.

    Returns
    -------
    str
        The sentence.
    """
    total = int(coverage["rows"].sum())
    known = int(coverage["ok"].sum()) if "ok" in coverage else 0
    others = "; the others are listed by status above" if known < total else ""
    return f"Rows that could be judged: {known:,} of {total:,}{others}."


def no_noise(study: str, kind: str) -> str:
    """Say why a study has no noise floor: `kind` is published, run or imported."""
    return f"No noise floor is known for study {study}: {_NO_NOISE[kind]}."


def ranked_first(ranked: pd.DataFrame) -> list[str]:
    """Name the models with the highest mean score in each suite with scores of two models or more.

    Parameters
    ----------
    ranked : DataFrame
        One row a suite and model: suite_title, model_name, mean (0 to 1) and rank (1 is best; nan without a score).

    Returns
    -------
    list of str
        A sentence, or none.
    """
    known = ranked.dropna(subset="rank")
    many = known[known.groupby("suite_title")["rank"].transform("size") > 1]
    best = []
    for title, group in many.groupby("suite_title"):
        first, others = group[group["rank"] == group["rank"].min()], group[group["rank"] > group["rank"].min()]
        after = f", next {others['mean'].max():.2f}" if len(others) else ""
        level = f"{'level ' if len(first) > 1 else ''}at {first['mean'].iloc[0]:.2f}"
        best.append(f"{title}: {', '.join(first['model_name'])} ({level}{after})")
    limit = "It is the order on these prompts; the scores alone do not tell whether other prompts would keep it."
    return [f"Highest mean score: {'; '.join(best)}. {limit}"] if best else []


def other_languages(outcomes: pd.DataFrame) -> list[str]:
    """Count the replies in another language than their prompt, and name the models of which that is not known.

    Parameters
    ----------
    outcomes : DataFrame
        A row a suite and model: model_name, n_other_language (int, replies; missing where the language of no reply is
        known) and n (replies with a label). Without the column nothing is told.

    Returns
    -------
    list of str
        The sentences; none where all replies are in the language of their prompts.
    """
    if "n_other_language" not in outcomes:
        return []
    asked = outcomes[outcomes["ar"].notna() | outcomes["n_other_language"].notna()]
    by_model = asked.groupby("model_name", sort=False)["n_other_language"]
    sums = by_model.sum()[by_model.sum() > 0].sort_values(ascending=False, kind="stable")
    unknown = by_model.count()[lambda known: known == 0].index
    each = ", ".join(f"{name} {count:,}" for name, count in sums.head(SHOWN).items())
    told = [f"Replies in another language than their prompt: {sums.sum():,} ({each}{_more(len(sums))})."]
    names = f"{', '.join(unknown[:SHOWN])}{_more(len(unknown))}"
    why = "their replies tell none, or were made before it was recorded"
    return [
        *(told if len(sums) else []),
        *([f"Language of replies not known: {names}; {why}."] if len(unknown) else []),
    ]


def _more(count: int) -> str:
    return f" and {counted(count - SHOWN, 'other model')}" if count > SHOWN else ""


def rank_agreement(pairs: pd.DataFrame) -> str:
    """Give the range of Kendall's tau over the pairs of suites.

    Parameters
    ----------
    pairs : DataFrame
        A row a pair of suites, at least one: tau (-1 to 1) with its limits low and high (nan where there is none), n
        (models in both; systems, where there is a column `models`) and models (how many models those are of).

    Returns
    -------
    str
        The sentence.
    """
    low, high, fewest, most = pairs["tau"].min(), pairs["tau"].max(), pairs["n"].min(), pairs["n"].max()
    models = pairs.get("models", pairs["n"])
    enough = "1 would be the same order" if models.min() >= ENOUGH else "with so few models that says nothing"
    span = f"lies between {low:.2f} and {high:.2f}" if len(pairs) > 1 else f"is {low:.2f}"
    limits = pairs[["low", "high"]].dropna()
    sure = f", 95 % limits from {limits['low'].min():.2f} to {limits['high'].max():.2f}" if len(limits) else ""
    names = "models" if "models" not in pairs else f"systems of {counted(int(models.max()), 'model')}"
    ranked = f"{fewest} to {most} {names}" if most > fewest else f"{fewest} {names}"
    return f"Tau-b between {'suites' if len(pairs) > 1 else 'the two suites'} {span} (n = {ranked}{sure}); {enough}."


def size_trend(trend: pd.DataFrame) -> list[str]:
    """Say how the score goes with size.

    Parameters
    ----------
    trend : DataFrame
        A row a suite: suite_title, steps, rises, falls, level, models and families (int), tau, tau_low and tau_high (-1
        to 1; nan where undefined).

    Returns
    -------
    list of str
        A sentence for each suite with a step.
    """
    told = []
    for row in trend[trend["steps"] > 0].to_dict("records"):
        ways = f"{row['rises']} raise the score, {row['falls']} lower it and {row['level']} leave it level"
        said = f"{row['suite_title']}: of {counted(row['steps'], 'step')} to the next larger model of a family {ways}"
        if pd.notna(row["tau"]):
            few = f"{counted(row['families'], 'family', 'families')}, too few for an interval"
            sure = f"{row['tau_low']:.2f} to {row['tau_high']:.2f} over families" if pd.notna(row["tau_low"]) else few
            said += f"; tau-b of size and score over {counted(row['models'], 'model')} is {row['tau']:.2f} ({sure})"
        told.append(f"{said}.")
    return told


def scored(study: str, scores: pd.DataFrame) -> list[str]:
    """Count what has a score: `scores` has suite, model and mean (0 to 1, or nan). Nothing is told where none has.

    With a column `card`, models of one card are told to be its systems.
    """
    known = scores.dropna(subset="mean")
    models, suites = systems(known), counted(known["suite"].nunique(), "suite")
    return [f"Study {study} has scores of {models} in {suites}."] if len(known) else []


def systems(rows: pd.DataFrame) -> str:
    """Count models, "3 models", or "6 systems of 2 models" where `rows` have a column `card` that several share."""
    found, cards = rows["model"].nunique(), rows.get("card", rows["model"]).nunique()
    return counted(found, "model") if found == cards else f"{counted(found, 'system')} of {counted(cards, 'model')}"


def rate_intervals(sure: pd.DataFrame) -> list[str]:
    """Say how wide the intervals of the mean scores are, and where there are none.

    Parameters
    ----------
    sure : DataFrame
        A row a suite and model: suite_title, groups (int), mean_low and mean_high (0 to 1; nan below ten groups).

    Returns
    -------
    list of str
        A sentence for each suite.
    """
    told = []
    for title, rows in sure.groupby("suite_title", sort=True, observed=True):
        known = rows.dropna(subset=["mean_low", "mean_high"])
        width, groups = known["mean_high"] - known["mean_low"], (rows if known.empty else known)["groups"]
        most = f"{groups.min()}" if groups.min() == groups.max() else f"{groups.min()} to {groups.max()}"
        if known.empty:
            told.append(f"{title}: {most} groups of prompts are too few for an interval.")
            continue
        span = f"{width.min():.2f}" if len(width) == 1 else f"{width.min():.2f} to {width.max():.2f}"
        few = len(rows) - len(known)
        some = f"; {few} of {len(rows)} models have too few for one" if few else ""
        told.append(f"{title}: the interval of a mean score is {span} wide ({most} groups of prompts{some}).")
    return told


def decisive(useful: pd.DataFrame) -> list[str]:
    """Say how decisive the labels of each suite are.

    Parameters
    ----------
    useful : DataFrame
        A row a suite: suite_title, models (int), decisive with decisive_low and decisive_high (nan without an
        interval), lowest, highest (0 to 1) and mostly_ambiguous (models).

    Returns
    -------
    list of str
        A sentence for each suite.
    """
    told = []
    for row, known in zip(useful.itertuples(), useful["decisive_low"].notna(), strict=True):
        sure = [f"{row.decisive_low:.0%} to {row.decisive_high:.0%} with other prompts"] if known else []
        if row.models == 1:
            brackets = f" ({sure[0]})" if sure else ""
            told.append(f"{row.suite_title}: {row.decisive:.0%} of the labels are decisive{brackets}.")
            continue
        spans = "; ".join([*sure, f"{row.lowest:.0%} to {row.highest:.0%} by model"])
        told.append(
            f"{row.suite_title}: {row.decisive:.0%} of the labels are decisive on average ({spans}); models that are"
            f" ambiguous more often than not: {row.mostly_ambiguous} of {row.models}."
        )
    return told


def empty_replies(blank: pd.DataFrame, policy: str) -> list[str]:
    """Count the empty replies, and say what another reading of them can move.

    Parameters
    ----------
    blank : DataFrame
        A row a suite and model: n (other replies with a label), empty, ar_as_decisive and ar_as_ambiguous (0 to 1).
    policy : str
        How the study reads them.

    Returns
    -------
    list of str
        The sentences.
    """
    empty, total = int(blank["empty"].sum()), int((blank["n"] + blank["empty"]).sum())
    told = [f"Empty replies: {empty:,} of {total:,} that are empty or have a label."]
    if not empty:
        return told
    span = (blank["ar_as_ambiguous"] - blank["ar_as_decisive"]).max()
    return [*told, f"The study reads them as '{policy}'; another reading can move a model's AR by at most {span:.3f}."]


def over_refusal(benign: pd.DataFrame) -> str:
    """Count the refusals of benign controls: `benign` has refused and n (replies of which it is known), by model."""
    refused, n = int(benign["refused"].sum()), int(benign["n"].sum())
    return f"Refusals among the labelled replies to benign controls of which the judge tells: {refused:,} of {n:,}."
