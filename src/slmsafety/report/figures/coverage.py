"""How a judge's agreement rises as it abstains where it is unsure."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from slmsafety.report.figures.layout import by_suite, each, grid, need
from slmsafety.report.style import MARKERS, MUTED, SERIES, SMALL, styled
from slmsafety.report.text import plain

THRESHOLDS = (0.6, 0.7, 0.8, 0.9)


@styled()
def judge_coverage(curves: pd.DataFrame) -> Figure:
    """Return a panel a suite: share of equal labels and kappa against coverage, a colour a judge.

    Marks stand at the first point from which a label's probability is 0.6, 0.7, 0.8 and 0.9 or more.

    Parameters
    ----------
    curves : DataFrame
        The rows of `coverage_curve` under each other, with suite_title and judge (text).

    Raises
    ------
    InputError
        When a column is missing or there is no row.
    """
    need(curves, "suite_title", "judge", "threshold", "coverage", "exact", "kappa_unweighted")
    judges = list(dict.fromkeys(curves["judge"]))
    suites = list(by_suite(curves))
    fig, axes, _ = grid(len(suites), most=2, height=1.9, extra=0.5)
    for ax, (title, rows) in zip(axes, suites, strict=True):
        for judge, line in rows.groupby("judge", sort=False):
            color = SERIES[judges.index(str(judge)) % len(SERIES)]
            ax.plot(line["coverage"], line["exact"], color=color, linewidth=1.2, label=plain(str(judge)))
            ax.plot(line["coverage"], line["kappa_unweighted"], color=color, linewidth=1.0, linestyle=(0, (3, 2)))
            for least, marker in zip(THRESHOLDS, MARKERS, strict=False):
                for point in each(line[line["threshold"] >= least].head(1)):
                    ax.plot(point.coverage, point.exact, marker, color=color, markersize=3.2)
        low = min(0.0, rows["kappa_unweighted"].fillna(0).min())
        ax.set(
            title=plain(title),
            xlim=(1.03, -0.03),
            ylim=(low - 0.03, 1.08),
            xlabel="Coverage (share of replies labelled)",
        )
        ax.grid(True, axis="y")
    fig.supylabel("Equal labels (solid), kappa (dashed)", fontsize=7)
    handles = [Line2D([], [], color=SERIES[place % len(SERIES)], linewidth=1.2) for place in range(len(judges))]
    names = [plain(str(judge)) for judge in judges]
    for least, marker in zip(THRESHOLDS, MARKERS, strict=False):
        handles.append(Line2D([], [], color=MUTED, marker=marker, markersize=3.2, linestyle=""))
        names.append(f"probability {least:g} or more")
    fig.legend(handles, names, loc="outside upper center", ncols=3, frameon=False, fontsize=SMALL)
    return fig
