"""Agreement of two suites on the order of the same models: Kendall's tau with its interval."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from slmsafety.report.figures.layout import absent, beside, each, need, signed
from slmsafety.report.style import FAINT, MUTED, SERIES, figsize, styled
from slmsafety.report.text import plain


@styled()
def rank_agreement(pairs: pd.DataFrame) -> Figure:
    """Return a dot at Kendall's tau of each pair of suites, and a line over its interval.

    Parameters
    ----------
    pairs : DataFrame
        One row a pair of suites, drawn in this order: suite_a, suite_b (text), tau, low and high (float, -1 to 1: 1 is
        the same order, 0 no agreement, -1 the reverse) and n (models in both). A nan tau or interval is named in the
        figure.

    Raises
    ------
    InputError
        When a column is missing or there is no row.
    """
    need(pairs, "suite_a", "suite_b", "tau", "low", "high", "n")
    fig = Figure(figsize=figsize(1.0, (0.22 * len(pairs) + 0.55) / 4.8), layout="constrained")
    ax = fig.subplots()
    ax.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    labels = []
    for y, row in enumerate(each(pairs)):
        labels.append(f"{plain(row.suite_a)} and {plain(row.suite_b)} (n = {row.n:g})")
        if pd.isna(row.tau):
            absent(ax, 0.02, y, "tau undefined")
            continue
        if pd.isna(row.low) or pd.isna(row.high):
            beside(ax, (row.tau, y), "interval undefined", right=row.tau < 0.4, color=MUTED)
        else:
            ax.hlines(y, row.low, row.high, color=SERIES[0], linewidth=1.4)
        ax.plot(row.tau, y, "o", color=SERIES[0], markersize=4.5)
    ax.set_yticks(range(len(labels)), labels)
    ax.set(ylim=(len(labels) - 0.4, -0.6), xlim=(-1.03, 1.03), xlabel="Kendall's tau between the two rankings")
    ax.set_xticks([-1, -0.5, 0, 0.5, 1], [signed(tick) for tick in (-1, -0.5, 0, 0.5, 1)])
    ax.grid(True, axis="x")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    return fig
