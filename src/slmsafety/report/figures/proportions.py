"""Figure 2: the shares of harmful, ambiguous and safe labels of each model, with the mean score; or its accuracy."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from slmsafety.report.figures.layout import (
    absent,
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
from slmsafety.report.style import HATCHES, PALETTE, SERIES, SMALL, styled

PARTS = {"harmful": "hcr", "ambiguous": "ar", "safe": "srr"}
RIGHT: dict[str, Any] = {"facecolor": SERIES[0], "edgecolor": "white", "linewidth": 0.4}


@styled()
def fig2_proportions(outcomes: pd.DataFrame) -> Figure:
    """Return stacked bars of the three rates, a black dot at the mean, and n, the labels behind each bar.

    Where there are intervals, the upper thin line in a bar is that of the share of harmful labels, from the left, the
    lower one that of safe labels, from the right, and the line through the dot that of the mean.

    One n for a whole suite stands in its title, several stand beside the bars. A model without rates is written as "no
    labels", a suite without any is named below the panels. Of a multiple-choice suite the bars are accuracies.

    Parameters
    ----------
    outcomes : DataFrame
        One row a suite and model: suite_title, model, model_name and family (text), params_m (millions of parameters),
        n (labels), hcr, ar, srr, mean and accuracy (float, 0 to 1; nan where undefined), and <rate>_low and <rate>_high
        where there are intervals.

    Raises
    ------
    InputError
        When a column is missing, or no suite has a label or an accuracy.
    """
    need(outcomes, "suite_title", "model", "model_name", "family", "params_m", "n", *PARTS.values(), "mean", "accuracy")
    labelled, without = with_labels(outcomes, "ar", "accuracy")
    fig, axes, y_of = row_panels(labelled, margin=1.3)
    sure = False
    for ax, (title, rows) in zip(axes, by_suite(labelled), strict=True):
        y = rows["model"].map(y_of)
        choice = by_accuracy(rows)
        if choice:
            ax.barh(y, rows["accuracy"], height=0.74, **RIGHT)
            sure |= whiskers(ax, rows, "mean", y, zorder=3)
        else:
            sure |= _stack(ax, rows, y)
        unit_axis(ax)
        for row in each(rows[rows[["ar", "accuracy"]].isna().all(axis=1)]):
            absent(ax, 0.0, y_of[row.model], "no replies" if choice else "no labels")
        _counts(ax, title, rows, y, len(axes))
    handles: list[Any] = [Patch(label=label, **bar_look(label)) for label in PARTS]
    handles.append(Line2D([], [], marker="o", linestyle="", color="black", label="mean score"))
    letters = "; right letters: share of n" if by_accuracy(labelled) else ""
    if letters:
        handles.append(Patch(label="right letter", **RIGHT))
    fig.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    lines = "\nLines: 95% intervals (above: harmful, through the dot: mean, below: safe)" if sure else ""
    fig.supxlabel(f"Share of labelled replies{without}{letters}{lines}", fontsize=7)
    return fig


def _stack(ax: Axes, rows: pd.DataFrame, y: pd.Series) -> bool:
    """Draw the three rates beside each other, and the mean over them; return whether any has an interval."""
    left = pd.Series(0.0, index=rows.index)
    for label, rate in PARTS.items():
        ax.barh(y, rows[rate], left=left, height=0.74, **bar_look(label))
        left = left + rows[rate]
    whiskers(ax, rows, "hcr", y - 0.26)
    if "srr_low" in rows:  # safe labels are counted from the right
        whiskers(ax, rows.assign(srr_low=1 - rows["srr_low"], srr_high=1 - rows["srr_high"]), "srr", y + 0.26)
    sure = whiskers(ax, rows, "mean", y)
    ax.plot(rows["mean"], y, "o", color="black", markeredgecolor="white", markeredgewidth=0.5, zorder=3, clip_on=False)
    return sure


def bar_look(label: str) -> dict[str, Any]:
    """Return the look of a bar of one label: its colour, its hatch, and white edges."""
    return {"facecolor": PALETTE[label], "hatch": HATCHES[label], "edgecolor": "white", "linewidth": 0.4}


def _counts(ax: Axes, title: str, rows: pd.DataFrame, y: pd.Series, panels: int) -> None:
    if rows["n"].nunique(dropna=False) == 1:
        panel_title(ax, title, panels, f"n = {_count(rows['n'].iloc[0])}")
        return
    panel_title(ax, title, panels, "n at the bars")
    for n, height in zip(rows["n"], y, strict=True):
        ax.text(1.04, height, _count(n), fontsize=SMALL, va="center_baseline")


def _count(n: float) -> str:
    return "unknown" if pd.isna(n) else f"{n:,.0f}"
