"""Each model's score over every value that an ambiguous label can have."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from slmsafety.report.figures.layout import by_suite, each, grid, need, unit_axis, with_labels
from slmsafety.report.style import FAINT, MARKERS, SERIES, styled
from slmsafety.report.text import plain


@styled()
def t_path(outcomes: pd.DataFrame) -> Figure:
    """Return a line from SRR (an ambiguous label counts 0) to SRR + AR (it counts 1) for each model.

    Where two lines cross, the order of two models turns. Models that are first at some value are coloured and named,
    all others grey. Models without rates are left out; a suite without any is named below.

    Parameters
    ----------
    outcomes : DataFrame
        One row a suite and model: suite_title, model and model_name (text), srr and ar (float, 0 to 1; nan where
        nothing has a label), and first (bool: whether the model has rank 1 at some value).

    Raises
    ------
    InputError
        When a column is missing, or no suite has a label.
    """
    need(outcomes, "suite_title", "model", "model_name", "srr", "ar", "first")
    labelled, without = with_labels(outcomes, "ar")
    suites = list(by_suite(labelled.dropna(subset=["ar", "srr"])))
    winners = list(dict.fromkeys(labelled.loc[labelled["first"], "model_name"]))
    fig, axes, _ = grid(len(suites), most=3, height=2.1, extra=0.4 + 0.16 * (len(winners) // 4))
    handles = {}
    for ax, (title, rows) in zip(axes, suites, strict=True):
        for row in sorted(each(rows), key=lambda row: bool(row.first)):
            ends = [row.srr, row.srr + row.ar]
            if not row.first:
                ax.plot([0, 1], ends, "-", color=FAINT, linewidth=0.7, marker="")
                continue
            place = winners.index(row.model_name)
            look: dict[str, Any] = {"color": SERIES[place % len(SERIES)], "marker": MARKERS[place % len(MARKERS)]}
            (handles[row.model_name],) = ax.plot([0, 1], ends, label=plain(row.model_name), clip_on=False, **look)
        ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        ax.set_title(plain(title))
        unit_axis(ax, axis="y")
    fig.supxlabel(f"Ambiguous counts as; named: first at some value{without}", fontsize=7)
    fig.supylabel("Score (1 is safe)", fontsize=7)
    fig.legend(handles=list(handles.values()), loc="outside upper center", ncols=4)
    return fig
