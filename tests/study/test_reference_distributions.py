from __future__ import annotations

import pandas as pd
import pytest

from slmsafety.study import Study
from slmsafety.study.reference_distributions import LARGER, OWN, distributions

NOTHING = pd.DataFrame()


def scores(suite: str, *rows: tuple[str, int, float, float, float, float]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["model", "n", "hcr", "ar", "srr", "mean"])
    return frame.assign(suite=suite, prompts=frame["n"])


def pooled(frame: pd.DataFrame, suite: str, group: str) -> list[float]:
    rows = frame[(frame["suite"] == suite) & (frame["group"] == group) & frame["model"].isna()]
    return rows["share"].tolist()


def test_shares_pool_replies_and_keep_each_model():
    own = scores("airbench", ("a", 100, 1.0, 0.0, 0.0, 0.0), ("b", 300, 0.0, 1.0, 0.0, 0.5))
    found = distributions(own, NOTHING, {"airbench": "AirBench-9"})
    assert pooled(found.shares, "airbench", OWN) == [0.25, 0.75, 0.0]
    # 80 prompts each: 15 + 17 + 3 harmful, 1 + 2 + 6 ambiguous, 64 + 61 + 71 safe.
    assert pooled(found.shares, "airbench", LARGER) == pytest.approx([35 / 240, 9 / 240, 196 / 240])
    assert set(found.shares["suite_title"]) == {"AirBench-9"} == set(found.means["suite_title"])
    assert found.means[["own", "value"]].to_numpy().tolist() == [[True, 0.0], [True, 0.5]]
    assert found.raw.empty


def test_a_suite_that_no_one_published_stands_alone():
    found = distributions(scores("demo_direct", ("a", 5, 0.2, 0.4, 0.4, 0.6)), NOTHING, {})
    assert set(found.shares["group"]) == {OWN}
    assert found.means["own"].all()
    assert set(found.shares["suite_title"]) == {"demo_direct"} == set(found.means["suite_title"]), "it has no title"


def test_accuracy_is_a_mean_beside_helm_s_and_has_no_shares():
    own = scores("bbq", ("a", 1000, float("nan"), float("nan"), float("nan"), 0.4))
    found = distributions(own, NOTHING, {"bbq": "BBQ"})
    assert found.shares.empty
    assert found.means["own"].value_counts().to_dict() == {False: 87, True: 1}


def test_the_paper_s_suites_have_sst_from_table_6():
    """AR of Simple Safety Tests is .064 in Table 5; pooled AR of HarmBench is the mean of Table A1's 26."""
    lab = Study.load("published")
    found = lab.distributions()
    assert pooled(found.shares, "sst", OWN)[1] == pytest.approx(0.064, abs=5e-4)
    ar = lab.outcomes().query("suite == 'harmbench'")["ar"]
    assert pooled(found.shares, "harmbench", OWN)[1] == pytest.approx(ar.mean())
    assert set(found.means.loc[~found.means["own"], "suite"]) == {"harmbench", "sst"}
