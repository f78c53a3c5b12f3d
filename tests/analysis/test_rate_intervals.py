"""Rates with their intervals: the rates are the outcomes', missing labels open them, and how often they cover."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.analysis.mean_intervals import interval, score_interval
from slmsafety.analysis.outcomes import RATES, outcomes
from slmsafety.analysis.proportions import wilson_interval
from slmsafety.analysis.rate_intervals import (
    LIMITS,
    binomial_intervals,
    card_limits,
    decisive_intervals,
    decisive_limits,
    rate_intervals,
    with_limits,
)
from slmsafety.analysis.treatments import adjusted_score


def _labels(labels: list[int | None], groups: list[str] | None = None) -> pd.DataFrame:
    frame = pd.DataFrame({"label": pd.array(labels, "Int64")})
    frame["instance_id"] = [f"p{number}" for number in range(len(frame))]
    return frame.assign(suite="s", model="m", expected="refuse", status="ok", group=groups or frame["instance_id"])


def test_rates_are_those_of_the_outcomes() -> None:
    rng = np.random.default_rng(1)
    labels = _labels(
        [None if draw > 2 else int(draw) for draw in rng.integers(0, 4, 90)], [f"g{n // 3}" for n in range(90)]
    )
    several = pd.concat([labels, labels.assign(label=pd.array(rng.integers(0, 3, 90), "Int64"))], ignore_index=True)
    benign = several.assign(expected="answer", model="m")
    found = rate_intervals(pd.concat([several, benign], ignore_index=True))
    plain = outcomes(several)
    assert len(found) == 1
    assert found[["n", "prompts"]].to_numpy().tolist() == plain[["n", "prompts"]].to_numpy().tolist()
    assert found.loc[0, list(RATES)].astype(float).tolist() == pytest.approx(
        plain.loc[0, list(RATES)].astype(float).tolist()
    )
    assert found.loc[0, "groups"] == 30


def test_shuffled_rows_and_a_missing_group_change_nothing_else() -> None:
    rng = np.random.default_rng(2)
    labels = _labels(rng.integers(0, 3, 60).tolist(), [f"g{n // 2}" for n in range(60)])
    twice = pd.concat([labels, labels], ignore_index=True)
    shuffled = twice.sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(rate_intervals(twice), rate_intervals(shuffled))
    alone = rate_intervals(labels.drop(columns="group"))
    assert alone.loc[0, "groups"] == 60
    assert alone.loc[0, "hcr_low"] == interval(labels["label"].eq(0).astype(float), range(60))[0]


def test_no_label_no_row() -> None:
    assert rate_intervals(_labels([None] * 20)).empty


def _drawn(rng: np.random.Generator, groups: int, size: int, models: int = 1) -> pd.DataFrame:
    """Labels of models on groups of prompts: half of the prompts of a group share the group's draw, for all models."""
    frames = []
    common = np.repeat(rng.random(groups), size)
    for model in range(models):
        draw = np.where(rng.random(groups * size) < np.sqrt(0.5), common, rng.random(groups * size))
        label = (draw > 0.3).astype(int) + (draw > 0.7)  # .3 harmful, .4 ambiguous, .3 safe
        frame = _labels(label.tolist(), [f"g{place // size}" for place in range(groups * size)])
        frames.append(frame.assign(model=f"m{model}"))
    return pd.concat(frames, ignore_index=True)


def test_the_adjusted_score_is_the_treatment_s_and_its_interval_covers() -> None:
    rng, held = np.random.default_rng(8), 0
    for _ in range(150):
        found = rate_intervals(_drawn(rng, 60, 3)).iloc[0]
        held += found["s_adj_low"] <= 0.5 * 0.6 <= found["s_adj_high"]
    assert 0.9 <= held / 150 <= 0.99
    assert found["s_adj"] == pytest.approx(float(adjusted_score(pd.DataFrame([found]))[found.name]))


@pytest.mark.parametrize(("label", "value"), [(0, 0.0), (1, 0.0), (2, 1.0)])
def test_an_adjusted_score_of_labels_that_are_all_alike_leaves_room(label: int, value: float) -> None:
    found = rate_intervals(_labels([label] * 40)).iloc[0]
    assert found["s_adj"] == value
    assert found["s_adj_low"] <= value <= found["s_adj_high"]
    assert 0.05 < found["s_adj_high"] - found["s_adj_low"] < 0.3


def test_missing_labels_are_left_out_or_may_be_anything() -> None:
    labels = _labels([0] * 10 + [1] * 10 + [2] * 20 + [None] * 20)
    ignorable, worst = (rate_intervals(labels, missing).iloc[0] for missing in ("ignorable", "worst"))
    assert (ignorable["n"], worst["n"]) == (40, 60)
    assert worst["srr"] == ignorable["srr"] == 0.5
    ends = (np.repeat([0, 1, 0], [20, 20, 20]), np.repeat([0, 1, 1], [20, 20, 20]))
    assert (worst["srr_low"], worst["srr_high"]) == score_interval(*ends, range(60))
    assert worst["srr_low"] < 20 / 60 < 40 / 60 < worst["srr_high"]
    for rate in (*RATES, "s_adj", "score"):
        assert worst[f"{rate}_low"] < ignorable[f"{rate}_low"] < ignorable[f"{rate}_high"] < worst[f"{rate}_high"], rate


def test_worst_case_covers_the_rate_of_all_replies_where_labels_are_not_missing_by_chance() -> None:
    """The judge gives no label to 7 of 10 harmful replies: left out, AR is .4 / .79; of all replies it is .4."""
    rng, held = np.random.default_rng(9), {"ignorable": 0, "worst": 0}
    for _ in range(80):
        labels = _drawn(rng, 80, 2)
        lost = labels["label"].eq(0) & (rng.random(len(labels)) < 0.7)
        labels.loc[lost, "label"] = pd.NA
        for missing in held:
            found = rate_intervals(labels, missing).iloc[0]
            held[missing] += found["ar_low"] <= 0.4 <= found["ar_high"]
    assert held["worst"] / 80 >= 0.9
    assert held["ignorable"] / 80 < 0.6


def test_rates_without_rows_get_binomial_intervals() -> None:
    rates = pd.DataFrame(
        {
            "suite": ["s", "s"],
            "model": ["a", "b"],
            "n": [200, 0],
            "hcr": [0.2, np.nan],
            "ar": [0.3, np.nan],
            "srr": [0.5, np.nan],
            "mean": [0.65, np.nan],
        }
    )
    found = binomial_intervals(rates)
    assert (found.loc[0, "hcr_low"], found.loc[0, "hcr_high"]) == wilson_interval(40, 200)
    rows = rate_intervals(_labels([0] * 40 + [1] * 60 + [2] * 100))
    assert found.loc[0, list(LIMITS)].astype(float).tolist() == pytest.approx(
        rows.loc[0, list(LIMITS)].astype(float).tolist(), abs=2e-3
    )
    assert found.loc[1, list(LIMITS)].isna().all()
    assert with_limits(rates, found.drop(index=1)).loc[1, list(LIMITS)].isna().all()


def test_a_decisive_share_has_an_interval_over_the_prompts_that_all_models_share() -> None:
    rng, held, widths = np.random.default_rng(10), 0, []
    for _ in range(100):
        labels = _drawn(rng, 50, 2, models=4)
        row = decisive_intervals(labels).iloc[0]
        held += row["decisive_low"] <= 0.6 <= row["decisive_high"]
        widths.append(row["decisive_high"] - row["decisive_low"])
    assert 0.9 <= held / 100 <= 0.99


def test_rates_alone_are_no_narrower_than_replies_that_go_together() -> None:
    """Prompts of a group and models are all alike: the worst case is what happens."""
    label = np.repeat(np.random.default_rng(13).integers(0, 3, 100), 3)
    one = _labels(label.tolist(), [f"g{place // 3}" for place in range(300)])
    labels = pd.concat([one, one.assign(model="n")], ignore_index=True)
    row, apart = decisive_intervals(labels).iloc[0], decisive_limits(outcomes(labels).assign(groups=100)).iloc[0]
    assert (apart["decisive_low"], apart["decisive_high"]) == pytest.approx(
        (row["decisive_low"], row["decisive_high"]), abs=2e-3
    )
    assert decisive_limits(outcomes(labels).assign(groups=9)).iloc[0].isna()["decisive_low"]


def test_a_model_with_few_labels_leaves_a_mean_over_models_without_an_interval() -> None:
    labels = _drawn(np.random.default_rng(14), 30, 1)
    few = labels.head(9).assign(model="few")
    both = pd.concat([labels, few], ignore_index=True)
    assert decisive_intervals(both)[["decisive_low", "decisive_high"]].isna().all(axis=None)
    assert card_limits(both, pd.Series({"m0": "c", "few": "c"}))[["mean_low", "mean_high"]].isna().all(axis=None)
    unlabelled = pd.concat([labels, few.assign(label=pd.array([pd.NA] * 9, "Int64"))], ignore_index=True)
    assert decisive_intervals(unlabelled).equals(decisive_intervals(labels))


def test_a_model_that_is_always_alike_has_an_error_too() -> None:
    labels = _drawn(np.random.default_rng(15), 30, 1)
    wide = decisive_intervals(pd.concat([labels, labels.assign(model="n", label=1)], ignore_index=True)).iloc[0]
    one = decisive_intervals(labels).iloc[0]
    assert wide["decisive_high"] - wide["decisive_low"] > 0.55 * (one["decisive_high"] - one["decisive_low"])
    alone = decisive_intervals(labels.assign(label=1)).iloc[0]
    assert alone["decisive_low"] == 0 < alone["decisive_high"]


def test_three_replies_with_each_label_once_leave_room() -> None:
    labels = pd.concat([_labels([label] * 30) for label in (0, 1, 2)], ignore_index=True)
    found = rate_intervals(labels).iloc[0]
    for rate in ("hcr", "ar", "srr"):
        assert found[f"{rate}_low"] < 1 / 3 - 0.03 < 1 / 3 + 0.03 < found[f"{rate}_high"]


def test_the_worst_case_of_nothing_missing_is_the_interval_itself() -> None:
    labels = _drawn(np.random.default_rng(16), 20, 2)
    pd.testing.assert_frame_equal(rate_intervals(labels), rate_intervals(labels, "worst"))


def test_a_decisive_share_of_one_model_is_that_of_its_ambiguity_rate() -> None:
    labels = _drawn(np.random.default_rng(11), 30, 2)
    one, row = decisive_intervals(labels).iloc[0], rate_intervals(labels).iloc[0]
    assert (one["decisive_low"], one["decisive_high"]) == pytest.approx((1 - row["ar_high"], 1 - row["ar_low"]))


def test_systems_of_one_card_have_the_interval_of_their_mean() -> None:
    labels = _drawn(np.random.default_rng(12), 40, 2, models=3)
    cards = pd.Series({"m0": "c", "m1": "c", "m2": "m2"})
    found = card_limits(labels, cards)
    assert found[["suite", "model"]].to_numpy().tolist() == [["s", "c"]]
    pair = labels[labels["model"] != "m2"].groupby("instance_id", sort=False)["label"].mean().astype(float) / 2
    limits = interval(pair, np.arange(80) // 2)
    assert (found.loc[0, "mean_low"], found.loc[0, "mean_high"]) == pytest.approx(limits)


@pytest.mark.parametrize("missing", ["ignorable", "worst"])
def test_few_groups_and_no_labels_have_no_limits(missing: str) -> None:
    few = _labels([0, 1, 2] * 3)
    assert rate_intervals(few, missing)[list(LIMITS)].isna().all(axis=None)
    assert len(rate_intervals(few, missing)) == 1
    assert decisive_intervals(few)[["decisive_low", "decisive_high"]].isna().all(axis=None)
    assert rate_intervals(_labels([None] * 20), missing).empty
    assert decisive_intervals(_labels([None] * 20))[["decisive_low", "decisive_high"]].isna().all(axis=None)
