"""Mean score against the number of parameters, one line a family."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from slmsafety.report.figures.layout import by_suite, grid, need, unit_axis, whiskers
from slmsafety.report.style import FAINT, MARKERS, MUTED, SERIES, styled
from slmsafety.report.text import plain


@styled()
def size_within_family(outcomes: pd.DataFrame) -> Figure:
    """Return the mean score against the number of parameters (log scale), one panel a suite.

    Families of two or more models are lines, the others grey dots. Models without a size are counted below the panels.

    Parameters
    ----------
    outcomes : DataFrame
        One row a suite and model: suite_title, model and family (text), params_m (millions of parameters) and mean
        (float, 0 to 1, 1 is safe; nan leaves a gap), with mean_low and mean_high where there are intervals.

    Raises
    ------
    InputError
        When a column is missing or there is no row.
    """
    need(outcomes, "suite_title", "model", "family", "params_m", "mean")
    counts = outcomes.drop_duplicates("model")["family"].value_counts()
    families = sorted(counts[counts > 1].index, key=str.casefold)
    suites = list(by_suite(outcomes))
    steps = (1, 2, 5) if outcomes["params_m"].max() < 10 * outcomes["params_m"].min() else (1, 3)
    ticks = [step * 10.0**power for power in range(7) for step in steps]
    sure = False
    fig, axes, _ = grid(len(suites), most=3, height=1.8, extra=0.3 + 0.16 * (len(families) // 4))
    for ax, (title, rows) in zip(axes, suites, strict=True):
        rows = rows.sort_values(["params_m", "model"])
        alone = rows[~rows["family"].isin(families)]
        sure |= whiskers(ax, rows, "mean", rows["params_m"], axis="y", color=MUTED, zorder=1)
        if len(alone):
            ax.plot(alone["params_m"], alone["mean"], "o", color=FAINT, label="families of one", zorder=1)
        for place, family in enumerate(families):
            line = rows[rows["family"] == family]
            look: dict[str, Any] = {
                "color": SERIES[place % len(SERIES)],
                "marker": MARKERS[(place // len(SERIES) + place) % len(MARKERS)],
            }
            ax.plot(line["params_m"], line["mean"], label=plain(family), zorder=2, **look)
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(FixedLocator(ticks))
        ax.xaxis.set_major_formatter(
            FuncFormatter(lambda size, _: f"{size / 1000:g}B" if size >= 1000 else f"{size:g}M")
        )
        ax.xaxis.set_minor_locator(NullLocator())
        ax.grid(True)
        ax.set_title(plain(title))
        unit_axis(ax, axis="y")
    unsized = int(outcomes.drop_duplicates("model")["params_m"].isna().sum())
    notes = [*([f"size unknown: {unsized}"] if unsized else []), *(["lines: 95% intervals"] if sure else [])]
    fig.supxlabel(f"Parameters ({'; '.join(notes)})" if notes else "Parameters", fontsize=7)
    fig.supylabel("Mean score", fontsize=7)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=4)
    return fig
