"""Figure 4: the rank of each model for each value that an ambiguous label can have."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from slmsafety.report.figures.layout import by_suite, grid, need, spread
from slmsafety.report.style import FAINT, MARKERS, MUTED, SERIES, SMALL, styled
from slmsafety.report.text import plain

DROPPED = "dropped"
ACCURACY = "accuracy"
HIGHLIGHTS = 5
_AT = {"0": 0.0, "0.25": 1.0, "0.5": 2.0, "0.75": 3.0, "1": 4.0, DROPPED: 5.3}


@styled()
def fig4_rank_sensitivity(trajectories: pd.DataFrame) -> Figure:
    """Return one line a model and panel: its rank when an ambiguous label counts 0 to 1.

    The models whose rank moves most in any suite are coloured and named, all where there are few. Dropping the label is
    no point of that scale: its rank stands apart, tied by a dotted line. A suite whose treatment is "accuracy" has
    level lines: its ranks do not depend on ambiguous labels, and the panel says so.

    Parameters
    ----------
    trajectories : DataFrame
        One row a suite, model and treatment: suite_title, model_name and family (text), treatment (0, 0.25, 0.5, 0.75,
        1, "dropped" or "accuracy") and rank (1 is the safest; nan has no mark).

    Raises
    ------
    InputError
        When a column is missing or there is no row.
    """
    need(trajectories, "suite_title", "model_name", "treatment", "rank")
    frame = trajectories.assign(x=trajectories["treatment"].map(_position)).sort_values("x")
    names = frame["model_name"].unique()
    moving, models = most_moving(frame), len(names)
    if models <= HIGHLIGHTS:
        moving += sorted(set(names) - set(moving))
    suites = list(by_suite(frame))
    fig, axes, unused = grid(len(suites), most=2, height=max(1.4, 0.075 * models + 1.0), extra=0.3)
    for ax, (title, rows) in zip(axes, suites, strict=True):
        level = rows["treatment"].eq(ACCURACY).all()
        _panel(ax, pd.concat([rows, rows.assign(x=4.0)]) if level else rows, moving, models)
        ax.set_title(plain(title))
        if level:
            ax.set(xticks=[], xlabel="By accuracy (no labels)")
        else:
            ax.axvline(4.65, color=MUTED, linewidth=0.6, linestyle=(0, (2, 2)))
            ax.set_xticks(list(_AT.values()), ["0", "¼", "½", "¾", "1", "drop"])
            ax.set_xlabel("Ambiguous counts as")
    accuracy = " or most accurate" if frame["treatment"].eq(ACCURACY).any() else ""
    fig.supylabel(f"Rank (1 = safest{accuracy})", fontsize=7)
    _legend(fig, unused, len(moving), models)
    return fig


def most_moving(frame: pd.DataFrame, count: int = HIGHLIGHTS) -> list[str]:
    """Return the names of the `count` models with the largest rank range in any suite; a model that stays is none."""
    ranks = frame.groupby(["suite_title", "model_name"], observed=True)["rank"]
    ranges = (ranks.max() - ranks.min()).groupby("model_name").max()
    moved = ranges[ranges > 0].reset_index().sort_values(["rank", "model_name"], ascending=[False, True])
    return list(moved["model_name"].head(count))


def _position(treatment: object) -> float:
    if treatment == ACCURACY:
        return 0.0
    return _AT[DROPPED if treatment == DROPPED else f"{float(str(treatment)):g}"]


def _panel(ax: Axes, rows: pd.DataFrame, moving: list[str], models: int) -> None:
    ends: dict[str, tuple[float, float]] = {}
    for name, line in rows.groupby("model_name"):
        chosen = name in moving
        place = moving.index(str(name)) if chosen else 0
        look: dict[str, Any] = {
            "color": SERIES[place] if chosen else FAINT,
            "linewidth": 1.3 if chosen else 0.6,
            "zorder": 3 if chosen else 1,
        }
        marks: dict[str, Any] = {"marker": MARKERS[place] if chosen else "o", "markersize": 3.2 if chosen else 1.6}
        scale = line[line["x"] <= 4]
        ax.plot(scale["x"], scale["rank"], label=str(name), **look, **marks)
        last = line[line["x"] > 4]
        ax.plot(last["x"], last["rank"], linestyle="", **look, **marks)
        if len(last) and len(scale):
            ax.plot([4, _AT[DROPPED]], [scale["rank"].iloc[-1], last["rank"].iloc[0]], **{**look, "linestyle": ":"})
        if chosen and line["rank"].notna().any():
            ends[str(name)] = tuple(line.dropna(subset=["rank"])[["x", "rank"]].iloc[-1])
    _name(ax, ends, moving, models)
    ax.set(xlim=(-0.3, 5.6), ylim=(models + 0.6, 0.4))
    ax.set_yticks([1, *range(5, models + 1, 5)] if models >= 8 else range(1, models + 1))


def _name(ax: Axes, ends: dict[str, tuple[float, float]], moving: list[str], models: int) -> None:
    """Write the highlighted names beside the panel, pushed apart where their lines end close together."""
    per_point = models / (ax.get_window_extent().height / ax.figure.dpi * 72)
    heights = spread([rank for _, rank in ends.values()], 8 * per_point, 1, models)
    for (name, end), y in zip(ends.items(), heights, strict=True):
        ax.annotate(
            plain(name, 19),
            end,
            xytext=(5.75, y),
            fontsize=SMALL,
            color=[0.75 * part for part in to_rgb(SERIES[moving.index(name)])],
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": MUTED, "shrinkA": 1, "shrinkB": 2},
        )


def _legend(fig: Figure, unused: list[Axes], named: int, models: int) -> None:
    """Say what the lines are: in the empty place of the grid if there is one, else below the panels."""
    lines: list[tuple[bool, str, dict[str, Any]]] = [
        (
            models > HIGHLIGHTS and named > 0,
            f"named: the {named} that move most",
            {"color": SERIES[0], "marker": "o", "linewidth": 1.3},
        ),
        (models > named, "every other model", {"color": FAINT, "marker": "o", "markersize": 1.6, "linewidth": 0.8}),
        (True, "ambiguous dropped", {"color": MUTED, "linestyle": ":", "linewidth": 0.8}),
    ]
    handles = [Line2D([], [], label=label, **look) for drawn, label, look in lines if drawn]
    if unused:
        unused[0].legend(handles=handles, loc="center left")
    else:
        fig.legend(handles=handles, loc="outside lower center", ncols=3)
