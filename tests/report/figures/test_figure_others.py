"""The other figures: agreement of suites, rank sensitivity, associations and distributions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.report.figures import (
    fig3_distributions,
    fig4_rank_sensitivity,
    fig5_associations,
    judge_coverage,
    rank_agreement,
)
from slmsafety.report.figures.layout import spread
from slmsafety.report.figures.sensitivity import most_moving

TREATMENTS = ("0", "0.25", "0.5", "0.75", "1", "dropped")


def trajectories(outcomes: pd.DataFrame) -> pd.DataFrame:
    frames = []
    for treatment in TREATMENTS:
        kept = outcomes["srr"] / (outcomes["srr"] + outcomes["hcr"])
        score = kept if treatment == "dropped" else outcomes["srr"] + float(treatment) * outcomes["ar"]
        frames.append(outcomes.assign(treatment=treatment, rank=score.groupby(outcomes["suite"]).rank(ascending=False)))
    return pd.concat(frames)[["suite_title", "model_name", "family", "treatment", "rank"]]


def test_sensitivity_draws_a_line_a_model_and_names_the_moving_ones(outcomes, fits, words):
    frame = trajectories(outcomes)
    fig = fig4_rank_sensitivity(frame)
    fits(fig)
    models, suites = outcomes["model"].nunique(), outcomes["suite"].nunique()
    moving = most_moving(frame)
    assert len(moving) == (5 if models == 26 else 0), "no rank of the small frame moves"
    assert any(text.startswith("named:") for text in words(fig)) == bool(moving)
    named = moving or frame["model_name"].unique()  # a few models are all named
    for ax in fig.axes[:suites]:
        solid = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
        assert len(solid) == models
        name = frame["model_name"].iloc[0]
        suite = frame[(frame["suite_title"] == ax.get_title()) & (frame["model_name"] == name)]
        assert list(solid[name].get_ydata()) == list(suite["rank"])[:5]
        assert sorted(text.get_text() for text in ax.texts) == sorted(named)
        top, bottom = ax.get_ylim()
        assert top > bottom, "rank 1 is on top"


def test_multiple_choice_has_level_lines_and_no_scale(with_choice, fits, words):
    choice = with_choice["accuracy"].notna()
    ranks = with_choice[choice].assign(treatment="accuracy", rank=with_choice["accuracy"].rank(ascending=False))
    labelled = trajectories(with_choice[~choice])
    fig = fig4_rank_sensitivity(pd.concat([labelled, ranks[labelled.columns]]))
    fits(fig)
    (ax,) = (ax for ax in fig.axes if ax.get_title() == "BBQ-6 (60 items)")
    assert ax.get_xlabel() == "By accuracy (no labels)"
    assert not len(ax.get_xticks())
    drawn = {line.get_label(): set(line.get_ydata()) for line in ax.lines if not line.get_label().startswith("_")}
    assert drawn == {row.model_name: {row.rank} for row in ranks.itertuples()}
    assert {line.get_linestyle() for line in ax.lines if len(line.get_xdata())} == {"-"}, "nothing is dropped"
    assert "Rank (1 = safest or most accurate)" in words(fig)
    assert "Rank (1 = safest)" in words(fig4_rank_sensitivity(labelled))
    others = [other for other in fig.axes if other.axison and other is not ax]
    assert {other.get_xlabel() for other in others} == {"Ambiguous counts as"}


def test_dropped_is_not_a_point_of_the_scale(tiny):
    ax = fig4_rank_sensitivity(trajectories(tiny)).axes[0]
    assert max(max(line.get_xdata()) for line in ax.lines if not line.get_label().startswith("_")) == 4
    assert {line.get_linestyle() for line in ax.lines if max(line.get_xdata()) > 5} == {"None", ":"}


def test_the_models_that_move_most_come_first():
    ranks = {"still": [1, 1], "little": [2, 3], "much": [9, 2]}
    frame = pd.DataFrame(
        [
            ("S", name, treatment, rank)
            for name, pair in ranks.items()
            for treatment, rank in zip("01", pair, strict=True)
        ],
        columns=["suite_title", "model_name", "treatment", "rank"],
    )
    assert most_moving(frame) == ["much", "little"]
    assert most_moving(frame, count=1) == ["much"]


def test_names_of_lines_that_end_together_do_not_overlap(full, fits):
    frame = trajectories(full)
    moving = most_moving(frame)
    frame.loc[frame["model_name"].isin(moving) & (frame["treatment"] == "dropped"), "rank"] = 25.0
    fits(fig4_rank_sensitivity(frame))


def test_an_undefined_dropped_rank_has_no_mark(tiny, fits):
    frame = trajectories(tiny)
    frame.loc[frame["treatment"] == "dropped", "rank"] = np.nan
    fig = fig4_rank_sensitivity(frame)
    fits(fig)
    marks = [line for line in fig.axes[0].lines if len(line.get_xdata()) == 1]
    assert marks and all(np.isnan(line.get_ydata()).all() for line in marks)


def test_spread_keeps_order_and_gap():
    placed = spread([5.0, 5.1, 1.0, 9.9, 10.0], 1.0, 1.0, 10.0)
    assert placed == pytest.approx([5.0, 6.0, 1.0, 9.0, 10.0])
    assert spread([], 1.0, 0.0, 1.0) == []


def pairs(rows: list[tuple[float, float, float]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["tau", "low", "high"])
    return frame.assign(suite_a="AirBench", suite_b=[f"HarmBench-{80 + i}" for i in range(len(rows))], n=26)


def test_agreement_draws_dot_and_interval_or_says_what_is_undefined(fits, words):
    fig = rank_agreement(pairs([(0.4, 0.2, 0.6), (1.0, np.nan, np.nan), (np.nan, np.nan, np.nan)]))
    fits(fig)
    (ax,) = fig.axes
    assert [line.get_xdata()[0] for line in ax.lines[1:]] == [0.4, 1.0]
    (interval,) = ax.collections[0].get_segments()
    assert list(interval[:, 0]) == [0.2, 0.6]
    assert words(fig).count("interval undefined") == 1
    assert words(fig).count("tau undefined") == 1
    assert "AirBench and HarmBench-80 (n = 26)" in words(fig)


def test_agreement_of_ten_pairs_fits(fits):
    fits(rank_agreement(pairs([(0.1 * i, 0.1 * i - 0.2, 0.1 * i + 0.1) for i in range(10)])))


def associations(count: int, rs: list[float]) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(3)
    names = [f"Metric number {i}" for i in range(len(rs))]
    points = pd.concat(
        pd.DataFrame({"metric": name, "value": rng.normal(size=count), "ar": rng.random(count), "suite": "AirBench"})
        for name in names
    )
    fit = pd.DataFrame({"metric": names, "r": rs, "p": 0.01, "q": 0.0001, "n": count, "slope": rs, "intercept": 0.5})
    return points, fit.assign(q_kinds=0.02)


def test_associations_show_three_of_each_sign_strongest_first(fits):
    points, fit = associations(60, [0.1, 0.4, -0.3, 0.2, 0.3, -0.2])
    fig = fig5_associations(points, fit)
    fits(fig)
    shown = [ax.get_xlabel() for ax in fig.axes if ax.axison]
    assert shown == [f"Metric number {i}" for i in (1, 4, 3, 2, 5)]
    assert fig.axes[0].get_title() == "r = 0.40, n = 60\nq < 0.001; over kinds = 0.02"
    ends = points.loc[points["metric"] == "Metric number 1", "value"].agg(["min", "max"])
    assert list(fig.axes[0].lines[0].get_ydata()) == pytest.approx([0.5 + 0.4 * end for end in ends])


def test_associations_of_metrics_with_long_names_fit(fits):
    points, fit = associations(30, [0.5, 0.4, 0.3, -0.3])
    names = [
        "reply_lexical_sophistication",
        "prompt_instruction_verbs",
        "prompt_dependency_distance",
        "reply_similarity",
    ]
    renamed = dict(zip(fit["metric"], (name.replace("_", " ", 1) for name in names), strict=True))
    fits(fig5_associations(points.replace({"metric": renamed}), fit.replace({"metric": renamed})))


def test_associations_leave_out_nan_points_and_name_undefined_metrics(fits, words):
    points, fit = associations(20, [0.5, np.nan])
    points.iloc[:5, 1] = np.nan
    fig = fig5_associations(points, fit)
    fits(fig)
    assert len(fig.axes[0].collections[0].get_offsets()) == 15
    assert "r undefined: Metric number 1" in words(fig)


def test_associations_without_any_defined_fit_say_so(words):
    points, fit = associations(5, [np.nan])
    assert "no metric has q < 0.05: the strongest; r undefined: Metric number 0" in words(
        fig5_associations(points, fit.assign(q=np.nan))
    )


def test_associations_of_which_none_passes_are_dotted(fits, words):
    points, fit = associations(60, [0.1, -0.2])
    fig = fig5_associations(points, fit.assign(q=0.3))
    fits(fig)
    assert [ax.get_xlabel() for ax in fig.axes if ax.axison] == ["Metric number 0", "Metric number 1"]
    assert [ax.lines[0].get_linestyle() for ax in fig.axes] == [":", ":"]
    assert "no metric has q < 0.05: the strongest" in words(fig)


def test_what_passes_only_with_prompts_as_independent_is_told_apart(fits, words):
    points, fit = associations(60, [0.4, 0.3, 0.2, -0.3])
    fig = fig5_associations(points, fit.assign(q_kinds=[0.01, 0.2, np.nan, 0.04]))
    fits(fig)
    lines = {ax.get_xlabel()[-1]: ax.lines[0].get_linestyle() for ax in fig.axes if ax.axison}
    assert lines == {"0": "-", "1": "--", "2": "--", "3": "-"}
    dashed = "dashed: passes with prompts as independent alone, not over kinds"
    assert dashed in words(fig) and "over kinds: none" in fig.axes[2].get_title()
    assert dashed not in words(fig5_associations(points, fit))


def test_associations_that_do_not_pass_have_no_panel_and_are_counted(fits, words):
    points, fit = associations(60, [0.1, 0.5, 0.4, 0.3, 0.2, -0.3])
    fit.loc[[1, 5], "q"] = [0.05, 0.2]
    fig = fig5_associations(points, fit)
    fits(fig)
    assert [ax.get_xlabel() for ax in fig.axes if ax.axison] == [f"Metric number {i}" for i in (2, 3, 4)]
    assert "not shown: q ≥ 0.05: 2; weaker: 1" in words(fig)


def shares(suites: list[str], groups: list[str], models: int = 2) -> pd.DataFrame:
    """Shares of all models together, and the same of each."""
    rows = [
        (s, g, model, score, share, 5694)
        for s in suites
        for g in groups
        for model in (None, *(f"m{k}" for k in range(models)))
        for score, share in ((0, 0.2), (0.5, 0.7), (1, 0.1))
    ]
    return pd.DataFrame(rows, columns=["suite_title", "group", "model", "score", "share", "n"])


def means(suites: list[str], others: list[float]) -> pd.DataFrame:
    rows = [
        (suite, own, value) for suite in suites for own, values in ((True, [0.31]), (False, others)) for value in values
    ]
    return pd.DataFrame(rows, columns=["suite_title", "own", "value"])


NO_RAW = pd.DataFrame({"suite_title": [], "label": [], "value": []})


@pytest.mark.parametrize("groups", [["SLMs"], ["this study", "LLMs, public samples"]])
@pytest.mark.parametrize("suites", [["A", "B"], ["AirBench", "BBQ", "HarmBench", "SALAD-Bench", "SimpleSafetyTests"]])
def test_distributions_have_bars_as_high_as_the_shares_and_a_dot_a_model(suites, groups, fits, words):
    fig = fig3_distributions(shares(suites, groups, models=26), means(suites, []), NO_RAW)
    fits(fig)
    assert len(fig.axes) == len(suites) * len(groups)
    for ax in fig.axes:
        assert [bar.get_height() for bar in ax.patches] == [0.2, 0.7, 0.1]
        assert [len(line.get_xdata()) for line in ax.lines] == [26] * 3
        for line, score in zip(ax.lines, (0, 0.5, 1), strict=True):
            assert abs(line.get_xdata() - score).max() < 0.19, "a dot leaves its bar"
    assert words(fig).count("n = 5,694") == len(fig.axes)


def test_the_means_of_others_are_bars_and_one_s_own_are_ticks(fits, words):
    fig = fig3_distributions(shares(["A", "B"], ["SLMs"]), means(["A"], [0.05, 0.95, 1.0, 1.0]), NO_RAW)
    fits(fig)
    (ax, other) = fig.axes[2:]
    assert [bar.get_height() for bar in ax.patches] == [0.25, *[0.0] * 8, 0.75]
    assert [list(line.get_xdata()) for line in ax.lines] == [[0.31]]
    assert "4 LLMs" in words(fig) and "no LLM means" in words(fig)
    assert not other.patches


def test_means_alone_are_drawn_and_nothing_at_all_is_an_error(fits, words):
    """A study of multiple choice has accuracies and no labels."""
    nothing = shares([], [])
    fig = fig3_distributions(nothing, means(["BBQ"], [0.05, 0.95]), NO_RAW)
    fits(fig)
    (ax,) = fig.axes
    assert [bar.get_height() for bar in ax.patches] == [0.5, *[0.0] * 8, 0.5]
    assert [list(line.get_xdata()) for line in ax.lines] == [[0.31]]
    assert "Mean score (1 is best)" in words(fig) and not {"harmful", "ambiguous", "safe"} & set(words(fig))
    own = fig3_distributions(nothing, means(["BBQ"], []), NO_RAW)
    assert "no LLM means" in words(own) and len(own.axes[0].lines) == 1
    with pytest.raises(InputError, match="no row to draw"):
        fig3_distributions(nothing, means([], []), NO_RAW)


def test_raw_values_stand_beside_their_labels_in_their_colours(fits, words):
    raw = pd.DataFrame({"suite_title": "A", "label": [0, 0, 1, 2], "value": [1.0, 0.85, 0.85, 0.0]})
    fig = fig3_distributions(shares(["A", "B"], ["SLMs"]), means([], []), raw)
    fits(fig)
    assert [" ".join(ax.get_title().split()) for ax in fig.axes] == ["A", "the same: raw value", "B"]
    bars = fig.axes[1].patches
    harmful, ambiguous, safe = (bars[start : start + 10] for start in (0, 10, 20))
    assert [bar.get_height() for bar in harmful] == [*[0] * 8, 0.25, 0.25]
    assert (ambiguous[8].get_height(), ambiguous[8].get_y()) == (0.25, 0.25)
    assert (safe[0].get_height(), safe[0].get_x()) == (0.25, 0.0)
    assert harmful[0].get_facecolor() == fig.axes[0].patches[0].get_facecolor()
    assert "Score (1 is safe); raw value (1 is harmful)" in words(fig)


def test_a_group_without_a_suite_says_so(words, fits):
    frame = shares(["A", "B"], ["LLMs", "SLMs"])
    frame = frame[~((frame["suite_title"] == "B") & (frame["group"] == "LLMs"))]
    fig = fig3_distributions(frame, means([], []), NO_RAW)
    fits(fig)
    assert words(fig).count("no labels") == 1


def coverage_curves() -> pd.DataFrame:
    frame = pd.DataFrame({"threshold": [0.4, 0.65, 0.95], "coverage": [1.0, 0.6, 0.2], "exact": [0.7, 0.85, 1.0]})
    frame["kappa_unweighted"] = [0.4, 0.6, np.nan]
    parts = [frame.assign(suite_title=title, judge=judge) for title in ("A", "B") for judge in ("one", "two")]
    return pd.concat(parts, ignore_index=True)


def test_coverage_has_a_panel_a_suite_and_two_lines_a_judge(fits, words):
    frame = coverage_curves()
    fig = judge_coverage(frame)
    fits(fig)
    panels = [ax for ax in fig.axes if ax.axison]
    assert [ax.get_title() for ax in panels] == ["A", "B"]
    for ax in panels:
        lines = [line for line in ax.lines if len(line.get_xdata()) == 3]
        assert [list(line.get_ydata()) for line in lines[::2]] == [[0.7, 0.85, 1.0]] * 2
        assert lines[0].get_color() == lines[1].get_color() != lines[2].get_color()
        # The first point at or above each threshold: 0.65 for .6, 0.95 for .7, .8 and .9.
        marks = [(float(line.get_xdata()[0]), line.get_marker()) for line in ax.lines if len(line.get_xdata()) == 1]
        assert [place for place, _ in marks] == [0.6, 0.2, 0.2, 0.2] * 2
        assert len({marker for _, marker in marks}) == 4
        left, right = ax.get_xlim()
        assert left > right, "coverage falls from left to right"
    assert {"one", "two", "probability 0.6 or more"} <= set(words(fig))
    later = judge_coverage(frame[(frame["suite_title"] == "B") | (frame["judge"] == "one")])
    assert {"one", "two"} <= set(words(later)), "a judge without a curve in the first panel is named too"
    with pytest.raises(InputError, match="no row"):
        judge_coverage(frame.head(0))
