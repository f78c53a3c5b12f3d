"""Worst-case bounds: the scores that a model can have if its ambiguous replies were all harmful, or all safe."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from slmsafety.report.figures.layout import ROW, absent, by_suite, grid, need, unit_axis, whiskers, with_labels
from slmsafety.report.style import RULE, SERIES, SMALL, styled
from slmsafety.report.text import plain


@styled()
def bounds(outcomes: pd.DataFrame) -> Figure:
    """Return the interval [SRR, SRR + AR] of each model with a dot at its mean, sorted by midpoint.

    A thin line from score_low to score_high, where there is one, adds what another draw of prompts would do.

    Each suite has its own order, the safest model on top. A model without rates comes last and is written as "no
    labels"; a suite without any is named below.

    Parameters
    ----------
    outcomes : DataFrame
        One row a suite and model: suite_title, model and model_name (text), srr, ar and mean (float, 0 to 1, 1 is safe;
        nan where nothing has a label).

    Raises
    ------
    InputError
        When a column is missing, or no suite has a label.
    """
    need(outcomes, "suite_title", "model", "model_name", "srr", "ar", "mean")
    labelled, without = with_labels(outcomes, "ar")
    suites, sure = list(by_suite(labelled)), False
    most = max(len(rows) for _, rows in suites)
    fig, axes, _ = grid(len(suites), most=3, height=most * ROW * 0.86 + 0.5, extra=0.32)
    for ax, (title, rows) in zip(axes, suites, strict=True):
        rows = rows.assign(middle=rows["srr"] + rows["ar"] / 2)
        rows = rows.sort_values(["middle", "model_name"], ascending=[False, True], na_position="last")
        y = range(len(rows))
        ax.hlines(y, 0, 1, color=RULE, linewidth=0.5, zorder=0)
        sure |= whiskers(ax, rows, "score", y, color=SERIES[3], linewidth=1.1)
        ax.hlines(y, rows["srr"], rows["srr"] + rows["ar"], color=SERIES[3], linewidth=3.6)
        ax.plot(rows["mean"], y, "o", color="black", markersize=2.0, clip_on=False)
        for place, middle in zip(y, rows["middle"], strict=True):
            if pd.isna(middle):
                absent(ax, 0.0, place, "no labels")
        ax.set_yticks(y, [plain(name, 20) for name in rows["model_name"]], fontsize=SMALL)
        ax.set_ylim(most - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_title(plain(title), loc="right")
        unit_axis(ax)
    scale = f"Score: from every ambiguous reply harmful to every one safe; dot: mean{without}"
    line = "\nThin line: 95% interval of the score under every reading" if sure else ""
    fig.supxlabel(scale + line, fontsize=7)
    return fig
