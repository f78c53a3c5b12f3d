"""The lines of scores over the value of an ambiguous label."""

from __future__ import annotations

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.report.figures import t_path


def outcomes() -> pd.DataFrame:
    rows = [
        ("A", "m0", 0.2, 0.6, True),
        ("A", "m1", 0.5, 0.1, True),
        ("A", "m2", 0.1, 0.1, False),
        ("B", "m0", 0.1, 0.2, True),
    ]
    table = pd.DataFrame(rows, columns=["suite_title", "model", "srr", "ar", "first"])
    return table.assign(model_name="Alder " + table["model"])


def test_each_model_has_a_line_from_srr_to_srr_plus_ar(fits, words) -> None:
    fig = t_path(outcomes())
    fits(fig)
    lines = [[float(value) for value in line.get_ydata()] for line in fig.axes[0].lines]
    assert sorted(lines) == [[0.1, 0.2], [0.2, pytest.approx(0.8)], [0.5, 0.6]]
    assert "Alder m1" in words(fig) and "Alder m2" not in words(fig)


def test_a_model_without_rates_has_no_line_and_no_model_no_figure() -> None:
    table = outcomes()
    table.loc[2, ["srr", "ar"]] = float("nan")
    assert len(t_path(table).axes[0].lines) == 2
    with pytest.raises(InputError):
        t_path(table.head(0))
