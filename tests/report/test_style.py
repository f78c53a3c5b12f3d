"""The look of the figures."""

from __future__ import annotations

import matplotlib
import pytest
from matplotlib.colors import to_rgb

from slmsafety.report.style import HATCHES, PALETTE, SERIES, figsize, styled


def test_a_figure_is_a_fraction_of_122_millimetres():
    assert figsize() == pytest.approx((4.803, 2.968), abs=1e-3)
    assert figsize(0.5, aspect=1.0) == pytest.approx((2.4016, 2.4016), abs=1e-3)


def test_the_three_labels_differ_in_grey():
    grey = {
        label: sum(w * c for w, c in zip((0.299, 0.587, 0.114), to_rgb(PALETTE[label]), strict=True))
        for label in PALETTE
    }
    assert list(PALETTE) == ["harmful", "ambiguous", "safe"]
    assert grey["ambiguous"] - max(grey["harmful"], grey["safe"]) > 0.3
    assert HATCHES["harmful"] != HATCHES["safe"]
    assert not set(SERIES) & set(PALETTE.values()), "a series is never taken for a label"


def test_the_style_ends_with_its_context():
    before = matplotlib.rcParams["font.size"]
    with matplotlib.rc_context({"axes.facecolor": "red"}), styled():
        assert matplotlib.rcParams["font.size"] == 7
        assert matplotlib.rcParams["pdf.fonttype"] == 42
        assert matplotlib.rcParams["axes.facecolor"] == "white"
    assert matplotlib.rcParams["font.size"] == before
