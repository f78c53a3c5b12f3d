"""Figure 1: each model's mean score and rank, one panel a suite."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from slmsafety.report.figures.layout import (
    absent,
    beside,
    by_accuracy,
    by_suite,
    each,
    need,
    panel_title,
    row_panels,
    unit_axis,
    whiskers,
    with_labels,
)
from slmsafety.report.style import RULE, SERIES, styled


@styled()
def fig1_rankings(outcomes: pd.DataFrame, ranks: pd.DataFrame) -> Figure:
    """Return a dot at each model's mean score with its interval, and its rank beside it.

    A suite whose mean is an accuracy says so: its dots are shares of right letters. One without any score is named
    below the panels.

    Parameters
    ----------
    outcomes : DataFrame
        One row a suite and model: suite, suite_title, model, model_name and family (text), params_m (millions of
        parameters), mean (float, 0 to 1, 1 is safe; nan is written as "no score") and accuracy (float, 0 to 1, or nan);
        mean_low and mean_high where there are intervals.
    ranks : DataFrame
        suite, model and rank (1 is the safest; ties have halves; nan leaves the dot without a number).

    Raises
    ------
    InputError
        When a column is missing, or no suite has a score.
    """
    need(outcomes, "suite", "suite_title", "model", "model_name", "family", "params_m", "mean", "accuracy")
    need(ranks, "suite", "model", "rank")
    outcomes, without = with_labels(outcomes, "mean")
    rank_of = ranks.set_index(["suite", "model"])["rank"]
    fig, axes, y_of = row_panels(outcomes)
    sure = False
    for ax, (title, rows) in zip(axes, by_suite(outcomes), strict=True):
        if by_accuracy(rows):
            panel_title(ax, title, len(axes), "accuracy")
        unit_axis(ax)
        ax.hlines(list(y_of.values()), 0, 1, color=RULE, linewidth=0.5, zorder=0)
        sure |= whiskers(ax, rows, "mean", rows["model"].map(y_of), color=SERIES[0], linewidth=1.0)
        ax.plot(rows["mean"], rows["model"].map(y_of), "o", color=SERIES[0], clip_on=False)
        for row in each(rows):
            rank = rank_of.get((row.suite, row.model), float("nan"))
            if pd.isna(row.mean):
                absent(ax, 0.0, y_of[row.model], "no score")
            elif not pd.isna(rank):
                right = row.mean < 0.75
                ends = (getattr(row, f"mean_{end}", float("nan")) for end in ("low", "high"))
                edge = (max if right else min)(row.mean, *(end for end in ends if not pd.isna(end)), row.mean)
                beside(ax, (edge, y_of[row.model]), f"{rank:g}", right=right)
    scale = "Mean score (1 = every reply safe)"
    if by_accuracy(outcomes):
        scale = "Mean score (1 = all safe) or accuracy (1 = all right)"
    line = "; line: 95% interval" if sure else ""
    fig.supxlabel(f"{scale}{line}; the number is the rank in the suite{without}", fontsize=7)
    return fig
