"""The figures of RQ4 besides Figure 5: everything fits the page, and marks stand where the numbers are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.report.figures import association_checks, common_quality, metadata_ranges, metric_distributions

PROMPT = ["tokens", "flesch_kincaid", "gunning_fog", "perplexity", "instruction_verbs", "dependency_distance"]
REPLY = ["tokens", "perplexity", "similarity", "self_coherence", "lexical_sophistication", "lexical_density"]
METRICS = [*(f"prompt {name}" for name in PROMPT), *(f"reply {name}" for name in REPLY)]
SUITES = ["AirBench", "BBQ-6 (60 items)", "HarmBench", "SALAD-Bench", "SimpleSafetyTests"]


def summary(metrics: list[str], suites: list[str]) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = []
    for metric in metrics:
        for suite in suites:
            values = rng.lognormal(3, 1, 200) if "tokens" in metric else rng.normal(0, 1, 200)
            rows.append((metric, suite, 200, 0, *np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])))
    return pd.DataFrame(rows, columns=["metric", "suite", "n", "missing", "q05", "q25", "q50", "q75", "q95"])


@pytest.mark.parametrize("metrics", [METRICS, METRICS[:1], [METRICS[0], METRICS[6], METRICS[8]]])
@pytest.mark.parametrize("suites", [SUITES, SUITES[:1]])
def test_distributions_fit_and_show_the_medians(metrics, suites, fits):
    frame = summary(metrics, suites)
    fig = metric_distributions(frame)
    fits(fig)
    panels = [ax for ax in fig.axes if ax.axison]
    assert [ax.get_title().replace("\n", " ") for ax in panels] == [metric.replace("_", " ") for metric in metrics]
    for ax, metric in zip(panels, metrics, strict=True):
        medians = frame.loc[frame["metric"] == metric, "q50"].tolist()
        assert [line.get_xdata()[0] for line in ax.lines] == medians


def test_a_suite_without_values_says_so(fits, words):
    frame = summary(METRICS[:2], SUITES[:2])
    frame.loc[0, ["q05", "q25", "q50", "q75", "q95"]] = np.nan
    fig = metric_distributions(frame)
    fits(fig)
    assert words(fig).count("no value") == 1
    frame.loc[frame["metric"] == METRICS[0], ["q05", "q25", "q50", "q75", "q95"]] = np.nan
    assert len([ax for ax in metric_distributions(frame).axes if ax.axison]) == 1, (
        "a metric without values has no panel"
    )


def checks(scale: float) -> pd.DataFrame:
    r = scale * np.linspace(0.9, -0.9, len(METRICS))
    frame = pd.DataFrame({"metric": METRICS, "r": r, "low": r - 0.1 * scale, "high": r + 0.1 * scale})
    return frame.assign(rho=r + 0.05 * scale, within=r / 2, partial=-r)


@pytest.mark.parametrize("scale", [0.15, 0.4, 1.0])
def test_checks_have_four_marks_and_an_interval(scale, fits):
    frame = checks(scale)
    fig = association_checks(frame)
    fits(fig)
    (ax,) = fig.axes
    marks = {line.get_marker(): list(line.get_xdata()) for line in ax.lines if len(line.get_xdata()) == len(METRICS)}
    assert marks == {
        column: list(frame[name]) for column, name in zip("oD^s", ["r", "rho", "within", "partial"], strict=True)
    }
    assert ax.get_xlim()[1] >= min(1, 0.9 * scale)


def test_an_undefined_check_has_no_line(fits, words):
    frame = checks(1.0)
    frame.loc[2, "r":] = np.nan
    fig = association_checks(frame)
    fits(fig)
    assert len(fig.axes[0].get_yticks()) == len(METRICS) - 1


def rates(models: int) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    ar, common = rng.random(models), rng.random(models)
    frame = pd.DataFrame({"model_name": [f"Alder {n}.5b chat" for n in range(models)], "own": ar, "common": common})
    ranks = {"rank": frame["own"].rank(), "rank_common": frame["common"].rank()}
    return frame.assign(common_low=common - 0.05, common_high=common + 0.05, **ranks)


@pytest.mark.parametrize("models", [2, 26])
def test_common_quality_shows_both_rates_and_ranks(models, fits, words):
    frame = rates(models)
    fig = common_quality(frame.sample(frac=1, random_state=1))
    fits(fig)
    ordered = frame.sort_values("own")
    own, common = fig.axes[0].lines[:2]
    assert list(own.get_xdata()) == ordered["own"].tolist()
    assert list(common.get_xdata()) == ordered["common"].tolist()
    first = ordered.iloc[0]
    assert f"{first['rank']:g} → {first['rank_common']:g}" in words(fig)


def test_a_model_without_a_rate_at_a_common_quality_has_no_line(fits, words):
    frame = rates(3)
    frame.loc[1, ["common", "common_low", "common_high", "rank", "rank_common"]] = np.nan
    fig = common_quality(frame)
    fits(fig)
    assert len(fig.axes[0].get_yticks()) == 2


def ranges(features: int) -> pd.DataFrame:
    r = np.linspace(-0.8, 0.8, features)
    frame = pd.DataFrame({"feature": [f"Feature {n}" for n in range(features)], "r_ar": r, "r_score": -r})
    for side in ("ar", "score"):
        frame[f"low_{side}"], frame[f"high_{side}"] = frame[f"r_{side}"] - 0.1, frame[f"r_{side}"] + 0.1
    return frame


def test_metadata_has_a_line_of_panels_for_each_encoding(fits, words):
    frame = pd.concat([ranges(13).assign(encoding="as reported"), ranges(14).assign(encoding="true architecture")])
    fig = metadata_ranges(frame)
    fits(fig)
    assert len(fig.axes) == 4
    assert list(fig.axes[0].lines[-1].get_xdata()) == ranges(13)["r_ar"].tolist()
    assert list(fig.axes[3].lines[-1].get_xdata()) == ranges(14)["r_score"].tolist()
    lone = ranges(4).assign(encoding="true architecture")
    lone.loc[1, ["r_ar", "low_ar", "high_ar"]] = np.nan
    fig = metadata_ranges(lone)
    fits(fig)
    assert words(fig).count("undefined") == 1


def test_a_figure_without_rows_says_what_it_needs():
    with pytest.raises(InputError, match="no row to draw"):
        metric_distributions(summary([], []))
