from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from reply_tables import planted_rows, tables

from slmsafety.analysis.drivers.ambiguity_effects import metric_changes, odds_ratios
from slmsafety.analysis.drivers.ambiguity_model import ambiguity_model
from slmsafety.analysis.drivers.association_checks import association_checks
from slmsafety.analysis.drivers.associations import correlations, metric_points, prompt_means
from slmsafety.analysis.drivers.metric_rows import metric_names, metric_summary, reply_rows
from slmsafety.errors import InputError

OWN = pd.DataFrame(
    [
        ("s", "a", "", "questions", 2.0),
        ("s", "x", "", "questions", 5.0),
        ("s", "a", "m0", "toxicity", 0.5),
        ("s", "b", "m1", "toxicity", 0.25),
        ("s", "b", "m9", "toxicity", 1.0),
    ],
    columns=["suite", "instance_id", "model", "metric", "value"],
)


def test_reply_rows_hold_every_reply_to_refuse_with_its_metrics():
    rows = reply_rows(*tables())
    assert metric_names(rows) == ["prompt tokens", "reply tokens", "reply similarity"]
    got = rows.set_index(["instance_id", "model"])
    assert sorted(got.index) == [("a", "m0"), ("a", "m1"), ("b", "m0"), ("b", "m1")]
    assert got["ambiguous"].to_dict() == pytest.approx(
        {("a", "m0"): 1, ("a", "m1"): 0, ("b", "m0"): 0, ("b", "m1"): np.nan}, nan_ok=True
    )
    assert got.loc[("a", "m1"), "reply tokens"] == 4, "a reply is matched by its generation"
    assert got.loc["a", "prompt tokens"].tolist() == [3, 3] and got.loc["b", "prompt tokens"].isna().all()
    assert got["prompt"].groupby("instance_id", observed=True).nunique().tolist() == [1, 1]
    assert got["prompt"].nunique() == 2


def test_metric_summary_has_the_quantiles_of_each_suite():
    _, prompts, replies = tables()
    got = metric_summary(prompts, pd.concat([replies, replies.assign(suite="t", tokens=2)])).set_index(
        ["metric", "suite"]
    )
    assert got["n"].to_dict() == {
        ("prompt tokens", "s"): 2,
        ("reply tokens", "s"): 5,
        ("reply tokens", "t"): 5,
        ("reply similarity", "s"): 2,
        ("reply similarity", "t"): 2,
    }
    assert got.loc[("reply similarity", "s"), "missing"] == 3
    assert got.loc[("reply tokens", "s"), ["q05", "q25", "q50", "q75", "q95"]].tolist() == pytest.approx(
        [3.2, 4, 5, 7, 321.4]  # of 3, 4, 5, 7, 400
    )
    assert got.loc[("reply tokens", "t"), ["q05", "q95"]].tolist() == [2, 2]


def test_own_metrics_of_prompts_and_replies_are_columns_like_all_others():
    rows = reply_rows(*tables(), OWN)
    assert metric_names(rows, "prompt") == ["prompt tokens", "prompt questions"]
    assert metric_names(rows, "reply") == ["reply tokens", "reply similarity", "reply toxicity"]
    got = rows.set_index(["instance_id", "model"])
    assert len(got) == 4, "a value without a reply adds no row"
    assert got.loc["a", "prompt questions"].tolist() == [2, 2] and got.loc["b", "prompt questions"].isna().all()
    assert got["reply toxicity"].dropna().to_dict() == {("a", "m0"): 0.5, ("b", "m1"): 0.25}
    pd.testing.assert_frame_equal(reply_rows(*tables(), OWN.iloc[:0]), reply_rows(*tables()))


def test_own_metrics_have_a_summary_over_all_their_values():
    got = metric_summary(*tables()[1:], OWN).set_index(["metric", "suite"])
    assert got.loc[("prompt questions", "s"), ["n", "q50"]].tolist() == [2, 3.5]
    assert got.loc[("reply toxicity", "s"), ["n", "q50"]].tolist() == [3, 0.5]


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        (OWN.replace({"metric": {"toxicity": "tokens"}}), "own metric 'reply tokens': there is a metric of that name"),
        (pd.concat([OWN, OWN.head(1)]), "'metric': 'questions'} has two values"),
    ],
)
def test_wrong_own_metrics_are_named(own, problem):
    with pytest.raises(InputError, match=problem):
        reply_rows(*tables(), own)


def test_an_own_metric_takes_part_in_every_analysis():
    """A planted cause under a name that the package does not know, and a prompt metric without a step."""
    rows = planted_rows(200).rename(
        columns={"reply lexical_density": "reply toxicity", "prompt gunning_fog": "prompt own"}
    )
    means = prompt_means(rows)
    assert correlations(metric_points(means))["metric"].iloc[0] == "reply toxicity"
    assert association_checks(means, np.random.default_rng(0)).set_index("metric").loc["reply toxicity", "low"] > 0
    assert odds_ratios(ambiguity_model(rows)).set_index("metric").loc["reply toxicity", "low"] > 1
    steps = metric_changes(ambiguity_model(rows, metric_names(rows, "prompt"))).set_index("metric")
    assert steps.loc["prompt tokens", ["change_sd", "change", "q"]].notna().all()
    assert steps.loc["prompt own", ["step", "change"]].isna().all()
    assert steps.loc["prompt own", ["change_sd", "p", "q"]].notna().all()
