"""Quantiles of the metrics of prompts and replies, one panel a metric and one line a suite."""

from __future__ import annotations

import textwrap

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from slmsafety.report.figures.layout import absent, each, metric_label, need
from slmsafety.report.style import INK, SERIES, SMALL, TEXT_WIDTH, styled
from slmsafety.report.text import plain

COLUMNS = 3
LONG_TAIL = 30
"""A metric above zero whose tail is this many times its head is drawn on a logarithmic axis."""


@styled()
def metric_distributions(summary: pd.DataFrame) -> Figure:
    """Return the quantiles of each metric, a line a suite: 5th to 95th percentile, 25th to 75th, and the median.

    Parameters
    ----------
    summary : DataFrame
        One row a metric and suite: metric and suite (text), n and missing (texts with and without a value), q05, q25,
        q50, q75 and q95 (float, in the metric's unit). Panels are in the order given; a metric or suite
        without any value has no place, and a suite without values of one metric says so.

    Raises
    ------
    InputError
        When a column is missing or there is no row.
    """
    need(summary, "metric", "suite", "n", "missing", "q05", "q25", "q50", "q75", "q95")
    known = summary[summary["q50"].notna()]
    need(known)
    metrics, suites = list(dict.fromkeys(known["metric"])), sorted(known["suite"].unique())
    columns = min(COLUMNS, len(metrics))
    lines = -(-len(metrics) // columns)
    fig = Figure(figsize=(TEXT_WIDTH, lines * (0.62 + 0.15 * len(suites)) + 0.3), layout="constrained")
    axes = fig.subplots(lines, columns, squeeze=False)
    for ax in axes.flat[len(metrics) :]:
        ax.set_axis_off()
    for ax, metric in zip(axes.flat, metrics, strict=False):
        _panel(ax, summary[summary["metric"] == metric].set_index("suite").reindex(suites).reset_index())
        ax.set_title("\n".join(textwrap.wrap(metric_label(metric), 20)), fontsize=SMALL + 1)
        ax.set_yticks(range(len(suites)), [plain(suite, 20) for suite in suites] if ax in axes[:, 0] else [])
    fig.supxlabel("Line: 5th to 95th percentile; bar: 25th to 75th; dot: median", fontsize=7)
    return fig


def _panel(ax: Axes, rows: pd.DataFrame) -> None:
    for y, row in enumerate(each(rows)):
        if pd.isna(row.q50):
            absent(ax, rows["q05"].min() if rows["q05"].notna().any() else 0, y, "no value")
            continue
        ax.hlines(y, row.q05, row.q95, color=SERIES[3], linewidth=1.0)
        ax.hlines(y, row.q25, row.q75, color=SERIES[0], linewidth=4.0)
        ax.plot(row.q50, y, "o", color="white", markeredgecolor=INK, markersize=3.2, markeredgewidth=0.7)
    low, high = rows["q05"].min(), rows["q95"].max()
    if low > 0 and high > LONG_TAIL * low:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(numticks=4))
        ax.xaxis.set_minor_locator(NullLocator())
    else:
        ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(True, axis="x")
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=SMALL)
    ax.spines["left"].set_visible(False)
