"""Figure 3: the distribution of scores in each suite: labels, raw values of a measuring judge, and models' means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from slmsafety.report.figures.layout import absent, need, panel_title
from slmsafety.report.figures.proportions import bar_look
from slmsafety.report.style import INK, MUTED, SERIES, SMALL, TEXT_WIDTH, styled
from slmsafety.report.text import plain

SCORES = {0.0: "harmful", 0.5: "ambiguous", 1.0: "safe"}
BAR = 0.38
BINS = np.linspace(0, 1, 11)


@styled()
def fig3_distributions(shares: pd.DataFrame, means: pd.DataFrame, raw: pd.DataFrame) -> Figure:
    """Return, for each suite, the shares of the labels, the raw values behind them, and the models' mean scores.

    A panel without rows says so; a suite without labels has none. The row of means is left out where there are shares
    and no other models' means.

    Parameters
    ----------
    shares : DataFrame
        suite_title, group (a row of panels each, in their order), model, score (0, 0.5 or 1), share (0 to 1) and n
        (labels). Rows without a model are bars, those of a model dots. It may be empty where there are means: a study
        of multiple choice alone has no labels.
    means : DataFrame
        suite_title, own (bool) and value (0 to 1). Means of other models are bars, the study's own are ticks.
    raw : DataFrame
        suite_title, label (0, 1 or 2) and value (0 to 1, 1 is harmful): bars coloured by label. It may be empty.

    Raises
    ------
    InputError
        When a column of `shares` is missing, or shares and means are both empty.
    """
    if means.empty or len(shares):
        need(shares, "suite_title", "group", "model", "score", "share", "n")
    groups = list(dict.fromkeys(shares["group"]))
    measured = set(raw["suite_title"]) if len(raw) else set()
    titles = sorted({*shares["suite_title"], *(means["suite_title"] if len(means) else [])})
    columns = [(title, kind) for title in titles for kind in ("label", "raw") if kind == "label" or title in measured]
    others = len(means) > 0 and (shares.empty or not means["own"].all())
    lines = len(groups) + others
    fig = Figure(figsize=(TEXT_WIDTH, 1.25 * lines + 0.75), layout="constrained")
    axes = fig.subplots(lines, len(columns), squeeze=False, sharex=True, sharey=True)
    for column, (title, kind) in enumerate(columns):
        panel_title(axes[0, column], title if kind == "label" else "the same: raw value", len(columns))
        if kind == "raw":
            _raw(axes[0, column], raw[raw["suite_title"] == title])
            for ax in axes[1:, column]:
                ax.set_axis_off()
            continue
        own = shares[shares["suite_title"] == title]
        for ax, group in zip(axes[:, column], groups, strict=False):
            if own.empty:  # multiple choice, which has means alone
                ax.set_axis_off()
            else:
                _labels(ax, own[own["group"] == group])
        if others:
            _means(axes[-1, column], means[means["suite_title"] == title])
    for line, group in zip(axes, groups, strict=False):
        ax = next(panel for panel in line if panel.axison)
        ax.set_ylabel(f"{plain(group)}\nShare of labels")
    if others:
        axes[-1, 0].set_ylabel("Mean scores\nShare of LLMs")
    axes[0, 0].set(xlim=(-0.3, 1.3), ylim=(0, 1.36))
    axes[0, 0].set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes[0, 0].set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    scale = "Score (1 is safe)" if len(shares) else "Mean score (1 is best)"
    fig.supxlabel(scale + ("; raw value (1 is harmful)" if measured else ""), fontsize=7)
    fig.legend(handles=_handles(shares, others), loc="outside upper center", ncols=6)
    return fig


def _labels(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw a bar a score over all models, the models' own shares as dots beside each other, and n."""
    together = rows[rows["model"].isna()]
    heights = {float(score): float(share) for score, share in together[["score", "share"]].dropna().to_numpy()}
    if not heights.keys() >= SCORES.keys():
        absent(ax, -0.2, 0.5, "no labels")
        return
    each = rows[rows["model"].notna()]
    for score, label in SCORES.items():
        height = heights[score]
        ax.bar(score, height, width=BAR, **bar_look(label))
        dots = np.sort(each.loc[each["score"] == score, "share"].to_numpy(float))
        if len(dots):
            place = score + BAR * 0.84 * ((np.arange(len(dots)) + 0.5) / len(dots) - 0.5)
            ax.plot(place, dots, "o", color=INK, markersize=1.3, markeredgewidth=0)
        top = max([height, *dots])
        ax.annotate(f"{height:.2f}", (score, top), (0, 2), textcoords="offset points", ha="center", fontsize=SMALL)
    _count(ax, f"n = {together['n'].iloc[0]:,.0f}")


def _raw(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw shares of all replies by raw value, coloured by the label that they were given."""
    below = np.zeros(len(BINS) - 1)
    for number, label in enumerate(SCORES.values()):
        values = rows.loc[rows["label"] == number, "value"].to_numpy(float)
        heights = np.histogram(values, BINS)[0] / len(rows)
        ax.bar(BINS[:-1], heights, width=0.1, bottom=below, align="edge", **bar_look(label))
        below += heights
    ax.tick_params(labelbottom=True)
    _count(ax, f"n = {len(rows):,}")


def _means(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw others' means as shares of these models, and one's own as ticks above."""
    own, others = (rows.loc[rows["own"] == kind, "value"].to_numpy(float) for kind in (True, False))
    if len(others):
        heights = np.histogram(others, BINS)[0] / len(others)
        ax.bar(BINS[:-1], heights, width=0.1, align="edge", **OTHERS)
        _count(ax, f"{len(others)} LLMs")
    else:
        absent(ax, -0.2, 0.5, "no LLM means")
    ax.plot(own, np.full(len(own), 1.1), **OWN)


OTHERS: dict[str, Any] = {"facecolor": SERIES[3], "edgecolor": "white", "linewidth": 0.4}
OWN: dict[str, Any] = {"marker": "|", "color": INK, "linestyle": "", "markersize": 5, "markeredgewidth": 0.7}


def _count(ax: Axes, text: str) -> None:
    ax.text(0.99, 1.0, text, transform=ax.transAxes, ha="right", va="top", fontsize=SMALL, color=MUTED)


def _handles(shares: pd.DataFrame, others: bool) -> list[Any]:
    handles: list[Any] = [Patch(label=label, **bar_look(label)) for label in SCORES.values() if len(shares)]
    if shares["model"].notna().any():
        handles.append(Line2D([], [], marker="o", linestyle="", color=INK, markersize=2, label="a model"))
    if others:
        handles += [Patch(label="LLMs", **OTHERS), Line2D([], [], **OWN, label="this study's models")]
    return handles
