"""What the figures share: the order of suites and models, the column of model names, and grids of panels."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slmsafety.errors import InputError
from slmsafety.report.style import INK, MUTED, SMALL, TEXT_HEIGHT, TEXT_WIDTH
from slmsafety.report.text import plain

ROW = 0.152
"""Height of one model's row, in inches."""
ALONE = "One model each"


def need(frame: pd.DataFrame, *columns: str) -> None:
    """Raise InputError when a column is missing or there is nothing to draw."""
    lacking = [column for column in columns if column not in frame.columns]
    if lacking:
        raise InputError(f"a figure's frame lacks the column '{lacking[0]}'; it needs {', '.join(columns)}")
    if frame.empty:
        raise InputError("a figure's frame has no row to draw; it needs at least one model with outcomes")


def by_suite(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield (title, rows) for each suite, in the order of their titles (a categorical keeps its own order)."""
    for title, rows in frame.groupby("suite_title", sort=True, observed=True):
        yield str(title), rows


def each(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows with their columns as attributes."""
    return iter(frame.itertuples(index=False))


def metric_label(metric: str) -> str:
    """Return what a metric's column is called in a figure."""
    return plain(metric.replace("_", " "), 46)


def signed(value: float, spec: str = "g") -> str:
    """Return the number with a minus sign in place of the hyphen."""
    return format(value, spec).replace("-", "\N{MINUS SIGN}")


def by_accuracy(rows: pd.DataFrame) -> bool:
    """Return whether the outcome of these rows is accuracy (a multiple-choice suite), not shares of labels."""
    return bool(rows["accuracy"].notna().any())


def with_labels(outcomes: pd.DataFrame, *values: str) -> tuple[pd.DataFrame, str]:
    """Return the rows of suites with one of the values for any model, and a note that names the others ("" if none)."""
    labelled = outcomes[list(values)].notna().any(axis=1).groupby(outcomes["suite_title"]).transform("any")
    others = sorted(outcomes.loc[~labelled, "suite_title"].unique())
    kept = outcomes[labelled]
    need(kept)
    return kept, f" (no labels: {', '.join(map(plain, others))})" if others else ""


def model_rows(outcomes: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the rows of a model column from top to bottom, as (model, "") or ("", heading of a group).

    Families of two or more models come first, each under its name, then the other models under one heading; within a
    group, from small to large. There is no heading when no family has two models.
    """
    models = outcomes.drop_duplicates("model").sort_values(["params_m", "model_name"])
    models["family"] = models["family"].fillna(models["model"])
    sizes = models["family"].value_counts()
    groups = {family: models[models["family"] == family] for family in sorted(sizes[sizes > 1].index, key=str.casefold)}
    alone = models[models["family"].map(sizes) == 1].sort_values("model_name", key=lambda names: names.str.casefold())
    if not groups:
        return [(model, "") for model in models["model"]]
    if len(alone):
        groups[ALONE] = alone
    return [row for name, group in groups.items() for row in [("", name), *((model, "") for model in group["model"])]]


def row_panels(outcomes: pd.DataFrame, margin: float = 0.75) -> tuple[Figure, list[Axes], dict[str, float]]:
    """Return a figure with one panel a suite that share a column of model names, its panels, and y by model."""
    rows = model_rows(outcomes)
    titles = [title for title, _ in by_suite(outcomes)]
    fig = Figure(figsize=(TEXT_WIDTH, len(rows) * ROW + margin), layout="constrained")
    axes = list(fig.subplots(1, len(titles), sharey=True, squeeze=False)[0])
    names = dict(zip(outcomes["model"], outcomes["model_name"], strict=True))
    for ax, title in zip(axes, titles, strict=True):
        panel_title(ax, title, len(titles))
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(rows)), [plain(names[model] if model else heading) for model, heading in rows])
    for (model, _), label in zip(rows, axes[0].get_yticklabels(), strict=True):
        if not model:
            label.set(fontweight="bold", color=MUTED)
    axes[0].set_ylim(len(rows) - 0.4, -0.6)
    return fig, axes, {model: float(y) for y, (model, _) in enumerate(rows) if model}


def grid(count: int, most: int, height: float, extra: float = 0.0) -> tuple[Figure, list[Axes], list[Axes]]:
    """Return a figure with `count` panels, at most `most` (2 or 3) beside each other; its panels, and the unused ones.

    A line of panels is `height` inches high, less where the page is full; `extra` inches are for a legend.
    """
    columns = 2 if count in (2, 4) else min(most, count)
    lines = -(-count // columns)
    fig = Figure(figsize=(TEXT_WIDTH, min(lines * height + extra, TEXT_HEIGHT)), layout="constrained")
    axes = list(fig.subplots(lines, columns, squeeze=False).flat)
    for ax in axes[count:]:
        ax.set_axis_off()
    return fig, axes[:count], axes[count:]


def panel_title(ax: Axes, title: str, panels: int, below: str = "") -> None:
    """Title one of `panels` beside each other, on more than one line where it needs to, and smaller above three."""
    narrow = panels > 3
    shown = textwrap.wrap(title, 12 if narrow else 54 // panels, break_on_hyphens=narrow)
    ax.set_title("\n".join([*map(plain, shown), *([below] if below else [])]), fontsize=SMALL + 0.5 if narrow else 8)


def unit_axis(ax: Axes, axis: Literal["x", "y"] = "x") -> None:
    """Give an axis of shares or scores the range 0 to 1, with a little room for marks at its ends."""
    ax.set(**{f"{axis}lim": (-0.03, 1.03), f"{axis}ticks": [0, 0.5, 1], f"{axis}ticklabels": ["0", "0.5", "1"]})


def whiskers(ax: Axes, rows: pd.DataFrame, rate: str, places: Any, **look: Any) -> bool:
    """Draw the interval of a rate as a thin line at each place; return whether any row has one.

    Rows without the columns `rate`_low and `rate`_high, or without a value there, have none. With `axis="y"` lines
    stand upright.
    """
    low, high = f"{rate}_low", f"{rate}_high"
    if low not in rows or high not in rows or not rows[[low, high]].notna().all(axis=1).any():
        return False
    line = ax.vlines if look.pop("axis", "x") == "y" else ax.hlines
    line(places, rows[low], rows[high], **{"color": INK, "linewidth": 0.7, "zorder": 2, **look})
    return True


def absent(ax: Axes, x: float, y: float, text: str) -> None:
    """Say in the panel why a mark is not there."""
    ax.text(x, y, text, fontsize=SMALL, fontstyle="italic", color=MUTED, va="center", ha="left")


def beside(ax: Axes, at: tuple[float, float], text: str, right: bool = True, color: str = INK) -> None:
    """Print a small text four points to the right (or left) of the mark at (x, y)."""
    ax.annotate(
        text,
        at,
        xytext=(4 if right else -4, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center_baseline",
        fontsize=SMALL,
        color=color,
    )


def spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions near the wanted ones, in their order, at least `gap` apart, and within the range if it fits."""
    order = np.argsort(wanted, kind="stable")
    placed = np.asarray(wanted, dtype=float)[order]
    for index in range(1, len(placed)):
        placed[index] = max(placed[index], placed[index - 1] + gap)
    if len(placed):
        placed[-1] = min(placed[-1], high)
    for index in range(len(placed) - 2, -1, -1):
        placed[index] = min(placed[index], placed[index + 1] - gap)
    placed += max(0.0, low - placed[0]) if len(placed) else 0.0
    result = np.empty_like(placed)
    result[order] = placed
    return [float(value) for value in result]
