"""LaTeX tables: headings in words, limits in one cell, and a width that fits the page."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.report.headers import headers, titles
from slmsafety.report.tabular import SIZES, TEXT_WIDTH, Column, tabular, width


def head(frame: pd.DataFrame, **formats: str) -> list[str]:
    """The headings of a tabular."""
    lines = tabular(frame, formats).splitlines()
    return lines[lines.index(r"\toprule") + 1].removesuffix(r" \\").split(" & ")


def rows(frame: pd.DataFrame, **formats: str) -> list[str]:
    """The rows of a tabular, without what ends them."""
    lines = tabular(frame, formats).splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    return [line.removesuffix(r" \\") for line in body]


def test_headings_are_words_and_no_two_are_alike():
    assert titles(["suite_title", "s_adj", "safe_as_harmful", "ar_reference", "GPT-4o"]) == [
        "Suite",
        r"$S_{\mathrm{adj}}$",
        "Safe as harmful",
        "AR reference",
        "GPT-4o",
    ]
    # What would have one heading keeps its names; names that LaTeX would write alike get a number.
    assert titles(["a_b", "a b", "n"]) == [r"a\_b", "a b", "$n$"]
    assert titles(["$n$", "n"]) == [r"\$n\$", "$n$"]
    assert titles(["\u2019x", "'x"]) == ["'x", "'x (2)"]
    assert titles(["", "_", 3]) == ["", r"\_", "3"]


def test_a_column_of_a_user_s_own_is_escaped():
    (found,) = titles([r"50%_of {all} & \input{x} $y$"])
    assert found == r"50\% of \{all\} \& \textbackslash{}input\{x\} \$y\$"


def test_every_line_of_the_list_of_headings_is_sound():
    for column, header in headers().items():
        assert header.words.count("$") % 2 == 0 and header.words.count("{") == header.words.count("}"), column
        outside = re.sub(r"\$[^$]*\$|\\%", "", header.words)
        assert not set(outside) & set("%&#_^{}\\"), column
        format(12345.5, header.format or "g")


def test_limits_stand_in_the_cell_of_their_value():
    frame = pd.DataFrame({"ar": [0.66, -0.5], "ar_low": [0.61, np.nan], "ar_high": [0.7, np.nan], "x_low": [1, 2]})
    assert rows(frame, ar=".2f") == ["0.66 [0.61, 0.70] & 1", "$-$0.50 & 2"]
    assert head(frame) == ["AR {[}low,~high]", "X low"]
    one_end = frame.drop(columns="ar_high")
    assert head(one_end) == ["AR", "AR low", "X low"]
    none = frame.assign(ar_low=np.nan)[["ar", "ar_low", "ar_high"]].assign(ar_high=np.nan)
    assert head(none) == ["AR"] and rows(none) == ["0.660", "$-$0.500"]
    missing = frame.assign(ar=np.nan, ar_high=[0.7, -0.1])[["ar", "ar_low", "ar_high"]]
    assert rows(missing, ar=".2f") == ["-- [0.61, 0.70]", "-- [--, $-$0.10]"]


def test_counts_have_commas_and_years_have_none():
    frame = pd.DataFrame({"n": [1234, 5], "year": [2019, 2020], "rows": [9999, 1], "vocab": [50257, 512]})
    assert rows(frame) == ["1,234 & 2019 & 9999 & 50,257", "5 & 2020 & 1 & 512"]
    some = pd.DataFrame({"n": [1234.0, np.nan], "k": pd.array([12000, None], "Int64")})
    assert rows(some) == ["1,234 & 12,000", "-- & --"]


def test_truth_is_yes_or_no_whatever_the_type_of_its_column():
    some = pd.DataFrame({"a": [True, False], "b": pd.array([True, None], "boolean"), "c": [True, None], "d": "True"})
    assert rows(some) == ["yes & yes & yes & True", "no & -- & -- & True"]


def test_what_is_not_there_has_its_column_all_the_same():
    frame = pd.DataFrame({"ar": [np.nan], "note": [None]})
    assert rows(frame) == ["-- & --"] and r"\begin{tabular}{rl}" in tabular(frame, {})
    assert rows(frame.head(0)) == [] and head(frame.head(0)) == ["AR", "Note"]
    with pytest.raises(InputError, match="did you mean 'note'"):
        tabular(frame, {"notes": ".2f"})


def test_numbers_stand_right_and_text_left_whatever_the_type_of_their_column():
    frame = pd.DataFrame({"a": pd.Series([1, None], dtype=object), "b": ["1", "2"], "c": pd.Series([0.5, "x"]), "d": 1})
    assert tabular(frame, {}).startswith(r"\begin{tabular}{rllr}")


def wide(columns: int) -> pd.DataFrame:
    return pd.DataFrame({f"some long words {chr(97 + place)}": [0.5, 0.25] for place in range(columns)})


@pytest.mark.parametrize(
    ("columns", "size"), [(2, ""), (7, ""), (9, r"\small"), (10, r"\footnotesize"), (11, r"\scriptsize")]
)
def test_a_wide_table_has_stacked_headings_and_then_smaller_type(columns, size):
    found = tabular(wide(columns), {})
    assert re.findall(r"\\(?:small|footnotesize|scriptsize)", found) == ([size] if size else [])
    assert ("[b]" in found) == (columns > 2), "headings are broken before type shrinks"
    assert "resizebox" not in found and found.count("{") == found.count("}")


def test_a_table_that_fits_in_no_size_is_scaled_as_a_whole():
    found = tabular(wide(30), {})
    assert found.splitlines()[:2] == [r"{\scriptsize\setlength{\tabcolsep}{2pt}%", r"\resizebox{\textwidth}{!}{%"]
    assert found.count("{") == found.count("}")


def test_a_broken_heading_keeps_mathematics_and_a_users_bracket_whole():
    frame = wide(8).rename(columns={"some long words a": "s_adj_gap", "some long words b": "very long [low] name"})
    first, second, *_ = head(frame)
    assert first == r"$\Delta S_{\mathrm{adj}}$"
    assert second == r"\begin{tabular}[b]{@{}r@{}}Very\\long\\{[}low]\\name\end{tabular}"


# Widths of Computer Modern at ten points, from its metrics (cmr10.tfm): digits 5.0, M 9.17, a word.
@pytest.mark.parametrize(
    ("text", "points"), [("0.55", 17.8), ("MMMM", 36.7), ("Balanced accuracy", 78.0), (r"$\tau$", 4.4)]
)
def test_the_estimate_of_a_width_is_never_too_small_and_not_far_off(text, points):
    column = Column(text, [], number=True)
    found = width([column]) - 2 * SIZES[0].gap
    assert points <= found <= 1.4 * points + 6
    assert pytest.approx(347.1, abs=0.1) == TEXT_WIDTH
