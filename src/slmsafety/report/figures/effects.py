"""RQ4 beyond Figure 5: correlations under several checks, rates at a common quality, and ranges without a family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from slmsafety.report.figures.layout import ROW, absent, each, metric_label, need, signed, unit_axis
from slmsafety.report.style import FAINT, INK, MUTED, SERIES, SMALL, TEXT_WIDTH, styled
from slmsafety.report.text import plain

_CHECKS: dict[str, tuple[str, dict[str, Any]]] = {
    "r": ("Pearson, all prompts (95%)", {"marker": "o", "color": SERIES[0], "markersize": 4.2}),
    "rho": ("Spearman", {"marker": "D", "color": SERIES[1], "markersize": 3.0}),
    "within": ("Pearson, within suites", {"marker": "^", "color": SERIES[2], "markersize": 3.8}),
    "partial": ("Pearson, given length", {"marker": "s", "color": INK, "markersize": 3.0}),
}


@styled()
def association_checks(checks: pd.DataFrame) -> Figure:
    """Return four correlations of each metric with AR on one line, the first with its interval.

    Parameters
    ----------
    checks : DataFrame
        One row a metric: metric (text), r, low, high (Pearson's r and its 95 % interval), rho (Spearman), within
        (Pearson within suites) and partial (Pearson at equal lengths), each float from -1 to 1. A nan has no mark; a
        metric without r has no line.

    Raises
    ------
    InputError
        When a column is missing or there is no row.
    """
    need(checks, "metric", "r", "low", "high", "rho", "within", "partial")
    checks = checks[checks["r"].notna()]
    need(checks)
    fig = Figure(figsize=(TEXT_WIDTH, 0.2 * len(checks) + 0.9), layout="constrained")
    ax = fig.subplots()
    _correlation_axis(ax, checks[["r", "low", "high", "rho", "within", "partial"]].to_numpy(float))
    ax.hlines(range(len(checks)), *ax.get_xlim(), color=FAINT, linewidth=0.3, zorder=0)
    ax.hlines(range(len(checks)), checks["low"], checks["high"], color=SERIES[0], linewidth=1.3)
    for place, (column, (_, look)) in enumerate(_CHECKS.items()):
        # Marks stand a little apart, so that equal values can be told.
        ax.plot(checks[column], np.arange(len(checks)) + 0.13 * (place - 1.5) * (place > 0), linestyle="", **look)
    _names(ax, list(map(metric_label, checks["metric"])), 46)
    ax.set_xlabel("Correlation with the ambiguity rate of a prompt")
    handles = [Line2D([], [], linestyle="", label=label, **look) for label, look in _CHECKS.values()]
    fig.legend(handles=handles, loc="outside upper center", ncols=2, handletextpad=0.1)
    return fig


@styled()
def common_quality(rates: pd.DataFrame) -> Figure:
    """Return each model's ambiguity rate at its own and at a common quality of the replies, and both ranks.

    Parameters
    ----------
    rates : DataFrame
        One row a model: model_name (text), own and common (AR, 0 to 1), common_low and common_high (its 95 %
        interval), rank and rank_common (1 is the lowest AR). Models are sorted by own; one without own and common has
        no line.

    Raises
    ------
    InputError
        When a column is missing or there is no row.
    """
    need(rates, "model_name", "own", "common", "common_low", "common_high", "rank", "rank_common")
    rows = rates.dropna(subset=["own", "common"]).sort_values(["own", "model_name"], ignore_index=True)
    need(rows)
    y = np.arange(len(rows))
    fig = Figure(figsize=(TEXT_WIDTH, len(rows) * ROW + 0.85), layout="constrained")
    ax = fig.subplots()
    ax.hlines(y, rows["own"], rows["common"], color=FAINT, linewidth=0.8, zorder=0)
    ax.hlines(y, rows["common_low"], rows["common_high"], color=SERIES[0], linewidth=1.3)
    looks: dict[str, dict[str, Any]] = {
        "own": {"marker": "o", "markerfacecolor": "white", "markeredgecolor": INK, "markersize": 4},
        "common": {"marker": "o", "color": SERIES[0], "markersize": 3.6},
    }
    labels = {"own": "at its own quality", "common": "at a common quality (95%)"}
    for column, look in looks.items():
        ax.plot(rows[column], y, linestyle="", label=labels[column], **look)
    unit_axis(ax)
    ax.set_xlabel("Ambiguity rate")
    _names(ax, list(rows["model_name"]), 26)
    for place, row in enumerate(each(rows)):
        ax.text(1.06, place, f"{row.rank:g} → {row.rank_common:g}", fontsize=SMALL, va="center_baseline", clip_on=False)
    ax.text(1.06, -1, "rank", fontsize=SMALL, color=MUTED, va="center_baseline")
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig


@styled()
def metadata_ranges(ranges: pd.DataFrame) -> Figure:
    """Return r of each feature with AR and with the mean score, and its range when one family is left out.

    Parameters
    ----------
    ranges : DataFrame
        One row a feature and encoding: encoding and feature (text), r_ar, low_ar, high_ar, r_score, low_score and
        high_score (float, -1 to 1). Encodings are rows of panels, in the order given. A nan r is named; a
        side without any has no panel.

    Raises
    ------
    InputError
        When a column is missing or there is no row.
    """
    sides = {"ar": "Ambiguity rate", "score": "Mean score"}
    need(ranges, "encoding", "feature", *(f"{part}_{side}" for side in sides for part in ("r", "low", "high")))
    sides = {side: title for side, title in sides.items() if ranges[f"r_{side}"].notna().any()}
    encodings = list(dict.fromkeys(ranges["encoding"]))
    counts = [int((ranges["encoding"] == encoding).sum()) for encoding in encodings]
    fig = Figure(figsize=(TEXT_WIDTH, sum(counts) * ROW + 0.45 * len(encodings) + 0.3), layout="constrained")
    axes = fig.subplots(len(encodings), len(sides), squeeze=False, sharey="row", sharex=True, height_ratios=counts)
    for line, encoding in zip(axes, encodings, strict=True):
        rows = ranges[ranges["encoding"] == encoding]
        for ax, (side, title) in zip(line, sides.items(), strict=True):
            _correlation_axis(ax, np.array([-1.0, 1.0]))
            ax.hlines(range(len(rows)), rows[f"low_{side}"], rows[f"high_{side}"], color=SERIES[3], linewidth=2.6)
            ax.plot(rows[f"r_{side}"], range(len(rows)), "o", color=SERIES[0], markersize=3.2)
            for y, r in enumerate(rows[f"r_{side}"]):
                if pd.isna(r):
                    absent(ax, 0.05, y, "undefined")
            ax.set_title(f"{title}, {plain(encoding)}")
        _names(line[0], list(rows["feature"]), 26)
        for ax in line[1:]:
            ax.tick_params(axis="y", length=0)
            ax.spines["left"].set_visible(False)
    fig.supxlabel("Correlation over models; bar: its range when one family is left out", fontsize=7)
    return fig


def _names(ax: Axes, names: list[str], longest: int) -> None:
    """Write the names of the lines from top to bottom."""
    ax.set_yticks(range(len(names)), [plain(name, longest) for name in names], fontsize=SMALL + 0.5)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _correlation_axis(ax: Axes, values: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Give the x axis a range around 0 that holds the values, at most -1 to 1."""
    largest = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 1.0
    limit = next(step for step in (0.2, 0.4, 0.6, 1.0) if largest <= step or step == 1.0)
    ticks = [-limit, -limit / 2, 0.0, limit / 2, limit]
    ax.axvline(0, color=MUTED, linewidth=0.8, zorder=0)
    ax.set_xlim(-1.04 * limit, 1.04 * limit)
    ax.set_xticks(ticks, [signed(tick) for tick in ticks])
    ax.grid(True, axis="x")
