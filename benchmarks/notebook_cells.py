"""The notebooks' cells in this process, without a kernel, and what they show: sentences, tables, figures, lines."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jupytext
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slmsafety.report.page import Page

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.py"))
UNDEFINED = re.compile(r"(?<![\w.-])(?:(?:nan|inf|None|NaT|<NA>)(?![\w-])|of 0(?![\w%]|[.,]\d))")
SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z])")
LEFT_OUT = re.compile(r"\*\*(\w+)\*\* is left out for study [^:]*: (.+)\.$")


class Shown:
    """What a notebook has shown."""

    def __init__(self) -> None:
        self.markdown: list[str] = []
        self.tables: dict[str, pd.DataFrame] = {}
        self.figures: dict[str, Figure] = {}
        self.printed = ""
        self.needed: set[str] = set()

    @property
    def left_out(self) -> dict[str, str]:
        """The reasons by artifact, as they were told."""
        return dict(match.groups() for text in self.markdown if (match := LEFT_OUT.match(text)))


def run_notebook(path: Path, study: dict[str, Any], **own: Any) -> Shown:
    """Run a notebook's code cells on a study with warnings as errors, and return what it shows.

    `own` are the notebook's own parameters; one that it does not have is left out.
    """
    shown = Shown()

    class Recorder(Page):
        """A page that keeps what it is given."""

        def __init__(self, *arguments: Any, **facts: Any) -> None:
            super().__init__(*arguments, **facts)
            shown.needed = set(self.contents)

        def figure(self, name: str, fig: Figure) -> None:
            shown.figures[name] = fig
            super().figure(name, fig)

        def table(self, name: str, frame: pd.DataFrame, formats: dict[str, str] | None = None) -> None:
            shown.tables[name] = frame
            super().table(name, frame, formats)

    printed, namespace = io.StringIO(), {"__name__": "notebook"}
    with (
        patch("slmsafety.report.page.Page", Recorder),
        patch("IPython.display.display", lambda it: shown.markdown.append(getattr(it, "data", None) or "")),
        contextlib.redirect_stdout(printed),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        for cell in jupytext.read(path).cells:
            if cell.cell_type != "code":
                continue
            # Rows that no CSV holds are in the store, and there is nothing to collect them from.
            source = (
                cell.source if study.get("judged_csv") == "judged.csv" else cell.source.replace("lab.collect()", "")
            )
            value = _execute(source, path.name, namespace)
            if "parameters" in cell.metadata.get("tags", []):
                namespace |= {"study": study} | {name: value for name, value in own.items() if name in namespace}
            if isinstance(value, pd.DataFrame):
                shown.tables["(shown)"] = value
    shown.markdown = [text for text in shown.markdown if isinstance(text, str)]
    shown.printed = printed.getvalue()
    return shown


def _execute(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last expression, which a notebook shows."""
    *body, last = ast.parse(source).body
    whole = not isinstance(last, ast.Expr)
    exec(compile(ast.Module([*body, last] if whole else body, []), name, "exec"), namespace)
    return None if whole else eval(compile(ast.Expression(last.value), name, "eval"), namespace)


def problems(shown: Shown) -> list[str]:
    """Return what a notebook shows that is undefined, empty or told twice, and what it leaves out without a word."""
    return [*_of_text(shown), *_of_tables(shown), *_of_figures(shown), *_of_contents(shown)]


def _of_text(shown: Shown) -> list[str]:
    told = [text for text in shown.markdown if not text.lstrip().startswith("<table")]
    sentences = Counter(sentence for text in told for sentence in SENTENCE_END.split(text) if sentence.strip())
    found = [f"says: {text}" for text in [*sentences, *shown.printed.splitlines()] if UNDEFINED.search(text)]
    return found + [f"says twice: {text}" for text, count in sentences.items() if count > 1]


def _of_tables(shown: Shown) -> list[str]:
    found = []
    for name, frame in shown.tables.items():
        if frame.empty:
            found.append(f"table {name} has no row")
        texts = [value for column in frame for value in frame[column] if isinstance(value, str)]
        found += [f"table {name} holds '{text}'" for text in texts if text in ("nan", "None", "NaT", "<NA>", "inf")]
        numbers = frame.select_dtypes("number").astype("float64")
        shares = frame.select_dtypes("float")
        if np.isinf(numbers.to_numpy()).any():
            found.append(f"table {name} holds an infinite number")
        blank = shares.isna().all(axis=1) & numbers.fillna(0).eq(0).all(axis=1)
        if len(shares.columns) and blank.any():
            found.append(
                f"table {name} has {int(blank.sum())} rows without any number: {frame[blank].iloc[0].tolist()}"
            )
    return found


def _of_figures(shown: Shown) -> list[str]:
    found = []
    for name, fig in shown.figures.items():
        if not any(ax.axison for ax in fig.axes):
            found.append(f"figure {name} has no panel")
        for ax in fig.axes:
            if ax.axison and not _has_data(ax):
                found.append(f"figure {name}: panel '{ax.get_title() or ax.get_title(loc='right')}' is empty")
        words = " ".join(text.get_text() for text in fig.findobj(match=lambda it: hasattr(it, "get_text")))
        if UNDEFINED.search(words):
            found.append(f"figure {name} says: {words}")
    return found


def _has_data(ax: Axes) -> bool:
    """Whether a mark in the panel stands for a number: a point, a bar or an interval, not a rule of the background."""
    points = [line.get_xydata() for line in ax.lines if line.get_marker() not in ("None", None, "")]
    points += [line.get_xydata() for line in ax.lines if len(line.get_xdata()) > 2]
    points += [collection.get_offsets() for collection in ax.collections if len(collection.get_offsets()) > 1]
    bars = [(patch.get_width(), patch.get_height()) for patch in ax.patches]
    if any(np.isfinite(bar).all() for bar in bars):
        return True
    return any(np.isfinite(np.ma.filled(np.ma.asarray(part, float), np.nan)).all(axis=-1).any() for part in points)


def _of_contents(shown: Shown) -> list[str]:
    told = [match.group(1) for text in shown.markdown if (match := LEFT_OUT.match(text))]
    found = [f"{name} is left out {count} times" for name, count in Counter(told).items() if count > 1]
    made = {*shown.tables, *shown.figures} - {"(shown)"}
    found += [f"{name} is shown and left out" for name in sorted(made & set(told))]
    silent = shown.needed - made - set(told)
    return found + [f"{name} is neither shown nor left out with a reason" for name in sorted(silent)]
