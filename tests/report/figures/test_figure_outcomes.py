"""The figures of outcomes: rankings, proportions, bounds and size."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from slmsafety.errors import InputError
from slmsafety.report.figures import bounds, fig1_rankings, fig2_proportions, size_within_family
from slmsafety.report.figures.layout import ALONE, model_rows
from slmsafety.report.style import PALETTE


def ranks_of(outcomes: pd.DataFrame) -> pd.DataFrame:
    return outcomes.assign(rank=outcomes.groupby("suite")["mean"].rank(ascending=False))[["suite", "model", "rank"]]


@pytest.mark.parametrize("outcomes", [(2, 2), (26, 5)], ids=["2x2", "26x5"], indirect=True)
def test_every_figure_fits_the_page(outcomes, fits):
    for fig in (
        fig1_rankings(outcomes, ranks_of(outcomes)),
        fig2_proportions(outcomes),
        bounds(outcomes),
        size_within_family(outcomes),
    ):
        fits(fig)
        assert len([ax for ax in fig.axes if ax.axison]) == outcomes["suite"].nunique()


def test_rows_are_grouped_by_family_then_size(full):
    rows = model_rows(full)
    headings = [heading for _, heading in rows if heading]
    assert headings == ["Alder", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Larch", ALONE]
    assert [model for model, _ in rows[:5]] == ["", "m3", "m2", "m1", "m0"]
    assert len(rows) == 26 + 8


def test_rows_have_no_heading_when_no_family_has_two_models():
    frame = pd.DataFrame({"model": ["b", "a"], "model_name": ["B", "A"], "family": ["x", None], "params_m": [2.0, 1.0]})
    assert model_rows(frame) == [("a", ""), ("b", "")]


def test_rankings_put_each_dot_at_its_mean_with_its_rank(full, words):
    ranks = ranks_of(full)
    fig = fig1_rankings(full, ranks)
    for ax, title in zip(fig.axes, ["AirBench", "HarmBench", "SALAD-Bench"], strict=True):
        suite = full[full["suite_title"] == title]
        (dots,) = ax.lines
        assert sorted(dots.get_xdata()) == pytest.approx(sorted(suite["mean"]))
        beside = {text.xy[1]: text.get_text() for text in ax.texts}
        names = dict(enumerate(label.get_text() for label in fig.axes[0].get_yticklabels()))
        drawn = {names[int(y)]: text for y, text in beside.items()}
        merged = suite.merge(ranks, on=["suite", "model"])
        assert drawn == {row.model_name: f"{row.rank:g}" for row in merged.itertuples()}


def test_a_half_rank_and_a_missing_score_are_printed(tiny, words, fits):
    tiny.loc[tiny["suite"] == "suite0", "mean"] = [0.5, np.nan]
    ranks = tiny[["suite", "model"]].assign(rank=1.5)
    fig = fig1_rankings(tiny, ranks)
    fits(fig)
    assert words(fig).count("1.5") == 3
    assert words(fig).count("no score") == 1


def test_a_rank_never_leaves_its_panel(tiny):
    tiny["mean"] = [0.0, 0.02, 0.98, 1.0]
    fig = fig1_rankings(tiny, ranks_of(tiny).assign(rank=12.5))
    FigureCanvasAgg(fig).draw()
    for ax in fig.axes:
        panel = ax.get_window_extent()
        for text in ax.texts:
            box = text.get_window_extent()
            assert panel.x0 <= box.x0 and box.x1 <= panel.x1


def test_the_order_of_the_rows_changes_nothing(full):
    some = full[full["model"].isin([f"m{i}" for i in range(9)]) & (full["suite"] != "suite2")]
    again = some.sample(frac=1, random_state=99)
    for draw in (fig2_proportions, bounds, size_within_family):
        one, two = (FigureCanvasAgg(draw(frame)) for frame in (some, again))
        one.draw()
        two.draw()
        assert np.array_equal(np.asarray(one.buffer_rgba()), np.asarray(two.buffer_rgba())), draw.__name__


def test_bars_have_the_widths_of_the_rates(full):
    fig = fig2_proportions(full)
    ax = fig.axes[1]
    suite = full[full["suite_title"] == "HarmBench"]
    bars = dict(zip(PALETTE, ax.containers, strict=True))
    for label, rate in {"harmful": "hcr", "ambiguous": "ar", "safe": "srr"}.items():
        assert sorted(bar.get_width() for bar in bars[label]) == pytest.approx(sorted(suite[rate]))
    ends = [bar.get_x() + bar.get_width() for bar in bars["safe"]]
    assert ends == pytest.approx([1.0] * 26)
    (dots,) = ax.lines
    assert sorted(dots.get_xdata()) == pytest.approx(sorted(suite["mean"]))
    assert ax.get_title() == "HarmBench\nn = 200"


def test_harmful_differs_from_safe_without_colour(tiny):
    ax = fig2_proportions(tiny).axes[0]
    hatches = [container[0].get_hatch() for container in ax.containers]
    assert hatches[0] and not hatches[2]


def test_counts_that_differ_stand_beside_the_bars(tiny, words, fits):
    tiny.loc[tiny["suite"] == "suite0", "n"] = [1234, 77]
    fig = fig2_proportions(tiny)
    fits(fig)
    assert {"1,234", "77"} <= set(words(fig))


def test_a_suite_without_labels_is_named_and_a_model_without_is_marked(full, words, fits):
    rates = ["hcr", "ar", "srr"]
    full.loc[full["suite"] == "suite2", rates] = np.nan
    full.loc[(full["suite"] == "suite0") & (full["model"] == "m3"), [*rates, "mean"]] = np.nan
    for draw in (fig2_proportions, bounds):
        fig = draw(full)
        fits(fig)
        said = words(fig)
        assert any("(no labels: SALAD-Bench)" in text for text in said)
        assert said.count("no labels") == 1


@pytest.mark.parametrize("with_choice", [(2, 3), (26, 5)], ids=["2x3", "26x5"], indirect=True)
def test_multiple_choice_stands_beside_the_others_with_its_accuracy(with_choice, fits, words):
    ranked = fig1_rankings(with_choice, ranks_of(with_choice))
    fits(ranked)
    place = sorted(with_choice["suite_title"].unique()).index("BBQ-6 (60 items)")
    titles = [ax.get_title().replace("\n", " ") for ax in ranked.axes]
    assert titles[place] == "BBQ-6 (60 items) accuracy"
    assert not any("accuracy" in title for title in titles[:place] + titles[place + 1 :])
    assert any("or accuracy (1 = all right)" in text for text in words(ranked))
    proportions = fig2_proportions(with_choice)
    fits(proportions)
    assert len(proportions.axes) == with_choice["suite"].nunique()
    ax = proportions.axes[place]
    bars = [bar for bars in ax.containers for bar in bars]
    accuracy = with_choice["accuracy"].dropna()
    assert sorted(bar.get_width() for bar in bars) == pytest.approx(sorted(accuracy))
    assert ax.get_title().replace("\n", " ").startswith("BBQ-6 (60 items) n = ")
    assert not ax.lines
    assert {"right letter", "Share of labelled replies; right letters: share of n"} <= set(words(proportions))


def test_a_long_title_of_a_part_stays_on_the_page(with_choice, fits):
    with_choice["suite_title"] = with_choice["suite_title"].replace("HarmBench", "Simple Safety Tests-80")
    with_choice["n"] = range(1000, 1000 + len(with_choice))
    for fig in (fig1_rankings(with_choice, ranks_of(with_choice)), fig2_proportions(with_choice)):
        fits(fig)
        assert any(ax.get_title().startswith("Simple Safety\nTests-80") for ax in fig.axes)


def test_a_model_without_a_reply_to_multiple_choice_is_marked(with_choice, words, fits):
    with_choice.loc[(with_choice["model"] == "m1") & with_choice["accuracy"].notna(), ["accuracy", "mean"]] = np.nan
    fig = fig2_proportions(with_choice)
    fits(fig)
    said = words(fig)
    assert said.count("no replies") == 1
    assert said.count("no labels") == 0
    assert words(fig1_rankings(with_choice, ranks_of(with_choice))).count("no score") == 1


def test_without_multiple_choice_no_figure_speaks_of_letters(tiny, words):
    for fig in (fig1_rankings(tiny, ranks_of(tiny)), fig2_proportions(tiny)):
        assert not [text for text in words(fig) if "letter" in text or "accuracy" in text]


def test_bounds_are_sorted_by_midpoint_and_span_the_ambiguous_share(full):
    ax = bounds(full).axes[0]
    suite = full[full["suite_title"] == "AirBench"].sort_values("mean", ascending=False)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(suite["model_name"])
    spans = ax.collections[1].get_segments()
    assert [span[0, 0] for span in spans] == pytest.approx(list(suite["srr"]))
    assert [span[1, 0] - span[0, 0] for span in spans] == pytest.approx(list(suite["ar"]))


def test_size_has_a_line_for_each_family_of_two(full, words):
    fig = size_within_family(full)
    lines = {line.get_label(): line for line in fig.axes[0].lines}
    assert set(lines) == {"Alder", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Larch", "families of one"}
    suite = full[(full["suite_title"] == "AirBench") & (full["family"] == "Alder")].sort_values("params_m")
    assert list(lines["Alder"].get_xdata()) == list(suite["params_m"])
    assert list(lines["Alder"].get_ydata()) == list(suite["mean"])
    assert len(lines["families of one"].get_xdata()) == 26 - 18


def test_models_of_unknown_size_are_counted(full, words):
    full.loc[full["model"].isin(["m20", "m21"]), "params_m"] = np.nan
    assert "Parameters (size unknown: 2)" in words(size_within_family(full))


def test_a_hostile_or_long_name_is_drawn_as_plain_text(tiny, fits, words):
    tiny["model_name"] = tiny["model"].map({"m0": r"$\frac{$ \x1b[31m", "m1": "a-name-that-is-far-too-long/" * 3})
    for fig in (fig1_rankings(tiny, ranks_of(tiny)), fig2_proportions(tiny), bounds(tiny)):
        fits(fig)


def test_a_frame_without_a_column_or_a_row_is_named(tiny):
    with pytest.raises(InputError, match="lacks the column 'srr'"):
        bounds(tiny.drop(columns="srr"))
    with pytest.raises(InputError, match="no row"):
        fig2_proportions(tiny.head(0))
