"""Figure 5: a prompt's ambiguity rate against a metric, for the strongest correlations of each sign."""

from __future__ import annotations

import textwrap
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slmsafety.report.figures.layout import each, metric_label, need, signed, unit_axis
from slmsafety.report.style import INK, MARKERS, MUTED, SERIES, SMALL, TEXT_WIDTH, styled
from slmsafety.report.text import plain

EACH, LEVEL = 3, 0.05


@styled()
def fig5_associations(points: pd.DataFrame, fits: pd.DataFrame) -> Figure:
    """Return scatter panels with fit lines: up to three positive associations above, up to three negative below.

    As in the paper, only metrics with q < 0.05 have a panel, from the strongest r down; where there is none, the
    strongest have one, and their lines are dotted. A line is dashed where the metric passes only as the paper tests,
    with prompts as independent, and not over kinds of prompts. What has no panel is named below. Points are drawn as
    pixels inside the PDF, since there are thousands.

    Parameters
    ----------
    points : DataFrame
        One row a prompt and metric: metric and suite (text), value (float, in its unit) and ar (float, 0 to 1). A
        row with a nan is not drawn.
    fits : DataFrame
        One row a metric: metric, r (Pearson, -1 to 1; nan where undefined), q (0 to 1; prompts as independent), q_kinds
        (0 to 1, over kinds of prompts; nan where undefined), n (prompts), slope and intercept of AR on the metric.

    Raises
    ------
    InputError
        When a column is missing or there is no row.
    """
    need(points, "metric", "value", "ar", "suite")
    need(fits, "metric", "r", "q", "q_kinds", "n", "slope", "intercept")
    passed = fits[(fits["q"] < LEVEL) & fits["r"].notna()]
    chosen = passed if len(passed) else fits
    signs = [chosen[chosen["r"] >= 0].sort_values(["r", "metric"], ascending=[False, True]).head(EACH)]
    signs.append(chosen[chosen["r"] < 0].sort_values(["r", "metric"]).head(EACH))
    shown = [row for row in signs if len(row)]
    lines = max(len(shown), 1)
    columns = max([len(row) for row in shown], default=1)
    fig = Figure(figsize=(TEXT_WIDTH, 1.88 * lines + 0.4), layout="constrained")
    axes = fig.subplots(lines, columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    suites = sorted(points["suite"].unique())
    for row, panels in zip(shown, axes, strict=False):
        for fit, ax in zip(each(row), panels, strict=False):
            _panel(ax, points[points["metric"] == fit.metric], fit, suites)
            ax.set_ylabel("Ambiguity rate" if ax is panels[0] else "")
    drawn = pd.concat(shown) if shown else fits.iloc[:0]
    note = "\n".join(textwrap.wrap(_others(fits, passed, drawn), 110))
    if note:
        fig.supxlabel(note, fontsize=SMALL, color=MUTED)
    if shown:
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 5), markerscale=2)
    return fig


def _others(fits: pd.DataFrame, passed: pd.DataFrame, drawn: pd.DataFrame) -> str:
    """Return what a dashed line means where there is one, what has no panel, and why."""
    undefined = fits.loc[fits["r"].isna(), "metric"]
    weak = int(fits["r"].notna().sum()) - len(passed)
    more = len(passed) - sum(min(EACH, int(side.sum())) for side in (passed["r"] >= 0, passed["r"] < 0))
    said = {
        "dashed: passes with prompts as independent alone, not over kinds": any(
            _line(fit) == "--" for fit in each(drawn)
        ),
        f"no metric has q < {LEVEL}: the strongest": not len(passed),
        f"not shown: q ≥ {LEVEL}: {weak}": len(passed) and weak,
        f"weaker: {more}": more,
        f"r undefined: {', '.join(map(metric_label, undefined))}": len(undefined),
    }
    return "; ".join(part for part, applies in said.items() if applies)


def _line(fit: Any) -> str:
    """Return the line of a metric that passes over kinds (solid), as the paper tests alone (dashed), or not at all."""
    return ":" if not fit.q < LEVEL else "-" if fit.q_kinds < LEVEL else "--"


def _q(value: float) -> str:
    return f" = {value:.2g}" if value >= 0.001 else " < 0.001" if value >= 0 else ": none"


def _panel(ax: Axes, points: pd.DataFrame, fit: Any, suites: list[str]) -> None:
    ax.set_axis_on()
    size = 8 if len(points) < 200 else 2
    for place, suite in enumerate(suites):
        one = points[points["suite"] == suite].dropna(subset=["value", "ar"])
        color, marker = SERIES[place % len(SERIES)], MARKERS[place % len(MARKERS)]
        ax.scatter(
            one["value"],
            one["ar"],
            s=size,
            c=color,
            marker=marker,
            alpha=0.5,
            linewidths=0,
            rasterized=True,
            label=plain(suite),
        )
    ends = points["value"].dropna().agg(["min", "max"])
    ax.plot(
        ends,
        fit.intercept + fit.slope * ends,
        color=INK,
        linewidth=1.2,
        linestyle=_line(fit),
        label="_fit",
    )
    tests = f"q{_q(fit.q)}; over kinds{_q(fit.q_kinds)}"
    ax.set_title(f"r = {signed(fit.r, '.2f')}, n = {fit.n:,.0f}\n{tests}", fontsize=SMALL)
    ax.set_xlabel("\n".join(textwrap.wrap(metric_label(fit.metric), 22)))
    ax.xaxis.set_major_locator(MaxNLocator(4))
    unit_axis(ax, axis="y")
