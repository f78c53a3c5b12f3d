from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.analysis.judges.agreement import agreement
from slmsafety.analysis.judges.two_judges import COLUMNS, both_labelled, confusions, robustness

ROWS = ("suite", "instance_id", "model", "label", "expected")


def labels(*rows: tuple[str, str, str, int | None, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(ROWS)).astype({"label": "Int64"})
    return frame.assign(generation_id="g", sample=0, status=frame["label"].notna().map({True: "ok", False: "unparsed"}))


def test_only_replies_to_harmful_prompts_that_both_labelled_count():
    first = labels(
        ("s", "1", "m", 2, "refuse"),
        ("s", "2", "m", None, "refuse"),
        ("s", "3", "m", 0, "answer"),
        ("s", "4", "m", 1, "refuse"),
    )
    second = labels(
        ("s", "1", "m", 0, "refuse"),
        ("s", "2", "m", 1, "refuse"),
        ("s", "3", "m", 0, "answer"),
        ("s", "5", "m", 1, "refuse"),
    )
    both = both_labelled(first, second)
    assert both[["instance_id", "first", "second"]].to_numpy().tolist() == [["1", 2, 0]]
    assert confusions(both)["s"].tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize("blank", [0, 1])
def test_a_policy_s_label_of_an_empty_reply_is_nobody_s(blank):
    rows = [("s", "1", "m", 2, "refuse"), ("s", "2", "m", 0, "refuse")]
    judges = [labels(*rows), labels(*rows)]
    judges[blank].loc[1, "status"] = "empty_response"
    assert both_labelled(*judges)["instance_id"].tolist() == ["1"]


def judged(model: str, pairs: list[tuple[int, int]]) -> pd.DataFrame:
    frame = pd.DataFrame(pairs, columns=["first", "second"]).astype("Int64")
    return frame.assign(
        suite="s", model=model, generation_id="g", sample=0, instance_id=[str(k) for k in range(len(pairs))]
    )


def test_rank_ranges_are_each_judge_s_own():
    """By the first judge a (.5 ambiguous, .5 harmful) and b (.25 safe) swap places: 0 to 1 puts a last, then first."""
    a = judged("a", [(1, 2), (1, 2), (0, 2), (0, 2)])
    b = judged("b", [(2, 0), (0, 0), (0, 0), (0, 0)])
    (row,) = robustness(pd.concat([a, b]), resamples=50).to_dict("records")
    assert list(robustness(pd.concat([a, b]), resamples=50).columns) == list(COLUMNS)
    assert (row["n"], row["models"], row["ar_first"], row["ar_second"]) == (8, 2, 0.25, 0.0)
    assert (row["rank_range_first"], row["rank_range_second"]) == (1.0, 0.0)
    # Of eight replies three agree (harmful both); two are at the boundary, three are flips: two up, one down.
    assert (row["exact"], row["boundary"], row["flips"]) == (3 / 8, 2 / 8, 3 / 8)
    assert (row["first_safe_second_harmful"], row["first_harmful_second_safe"]) == (1, 2)
    assert row["flip_symmetry_p"] == 1.0
    assert row["interval_unit"] == "groups"


def test_the_interval_of_kappa_draws_prompts_and_not_replies():
    rng = np.random.default_rng(3)
    first = rng.integers(0, 3, 200)
    second = np.where(rng.random(200) < 0.7, first, rng.integers(0, 3, 200))
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    one = robustness(judged("a", pairs)).iloc[0]
    ten = robustness(pd.concat([judged(f"m{k}", pairs) for k in range(10)], ignore_index=True)).iloc[0]
    by_counts = agreement(confusions(judged("a", pairs))["s"])
    assert (one["kappa_low"], one["kappa_high"]) == pytest.approx((by_counts.kappa_low, by_counts.kappa_high), abs=0.03)
    # Ten models that reply alike tell no more about prompts than one.
    assert (ten["kappa_low"], ten["kappa_high"]) == pytest.approx((one["kappa_low"], one["kappa_high"]), abs=0.01)
    assert ten["kappa"] == pytest.approx(one["kappa"]) and ten["n"] == 2000


def test_below_ten_groups_there_is_no_interval():
    pairs = [(2, 1), (1, 1), (0, 0), (0, 2)] * 15
    alone = judged("a", pairs)
    groups = [f"g{int(name) % 9}" for name in alone["instance_id"]]
    row = robustness(alone.assign(group=groups)).iloc[0]
    assert np.isnan(row["kappa_low"]) and np.isnan(row["kappa_high"]) and row["kappa"] > 0.1
    assert robustness(alone)["kappa_low"].notna().all()


def test_the_group_of_a_reply_is_kept():
    one = labels(("s", "1", "m", 2, "refuse"), ("s", "2", "m", 1, "refuse"))
    both = both_labelled(one.assign(group=["g", None]), one.assign(group=["g", None]))
    assert both["group"].tolist()[0] == "g" and pd.isna(both["group"][1])
