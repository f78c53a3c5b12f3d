"""Figure 3: how the labels of a suite are distributed over 0, 0.5 and 1, one row of panels a group of models."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from slmsafety.report.figures.layout import absent, by_suite, need, panel_title
from slmsafety.report.figures.proportions import bar_look
from slmsafety.report.style import MUTED, SMALL, TEXT_WIDTH, styled
from slmsafety.report.text import plain

SCORES = {0.0: "harmful", 0.5: "ambiguous", 1.0: "safe"}


@styled()
def fig3_distributions(shares: pd.DataFrame) -> Figure:
    """Return bars of the share (0 to 1) of labels with score 0, 0.5 and 1, with n in each panel.

    `shares` has suite_title, group, score, share and n (labels behind the panel). Suites are columns and groups rows;
    a group without a suite, or with a nan share, says "no labels".
    """
    need(shares, "suite_title", "group", "score", "share", "n")
    suites = list(by_suite(shares))
    groups = sorted(shares["group"].unique())
    fig = Figure(figsize=(TEXT_WIDTH, 1.3 * len(groups) + 0.6), layout="constrained")
    axes = fig.subplots(len(groups), len(suites), squeeze=False, sharex=True, sharey=True)
    for column, (title, rows) in enumerate(suites):
        panel_title(axes[0, column], title, len(suites))
        for ax, group in zip(axes[:, column], groups, strict=True):
            one = rows[rows["group"] == group].set_index("score")["share"].reindex(list(SCORES))
            if one.isna().any():
                absent(ax, -0.4, 0.5, "no labels")
                continue
            for x, (score, label) in enumerate(SCORES.items()):
                ax.bar(x, one[score], width=0.8, **bar_look(label))
                ax.annotate(
                    f"{one[score]:.2f}",
                    (x, one[score]),
                    (0, 1.5),
                    textcoords="offset points",
                    ha="center",
                    fontsize=SMALL,
                )
            n = rows.loc[rows["group"] == group, "n"].iloc[0]
            ax.text(
                0.98, 1.0, f"n = {n:,.0f}", transform=ax.transAxes, ha="right", va="top", fontsize=SMALL, color=MUTED
            )
    for ax, group in zip(axes[:, 0], groups, strict=True):
        ax.set_ylabel(f"{plain(group)}\nShare of labels")
    axes[0, 0].set(xlim=(-0.6, 2.6), ylim=(0, 1.3))
    axes[0, 0].set_xticks(range(3), ["0", "0.5", "1"])
    fig.supxlabel("Score of the label", fontsize=7)
    handles = [Patch(label=label, **bar_look(label)) for label in SCORES.values()]
    fig.legend(handles=handles, loc="outside upper center", ncols=3)
    axes[0, 0].set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    return fig
