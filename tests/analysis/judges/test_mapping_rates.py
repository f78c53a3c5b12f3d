from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.analysis.judges.mapping_rates import rates_by_mapping


def rows(arm: str, model: str, labels: list[int | None]) -> pd.DataFrame:
    frame = pd.DataFrame({"arm": arm, "model": model, "label": pd.array(labels, dtype="Int64")})
    status = np.where(frame["label"].isna(), "error", "ok")
    return frame.assign(instance_id=frame.index, judge="guard", suite="salad", expected="refuse", status=status)


def test_rates_are_means_over_models_and_tau_compares_rankings() -> None:
    labels = pd.concat(
        [
            rows("paper", "a", [2, 2, 2, 1]),  # mean .875
            rows("paper", "b", [0, 0, 1, 2]),  # .375
            rows("paper", "c", [0, 0, 0, 0]),  # 0
            rows("other", "a", [2, 0, 0, None]),  # 1/3
            rows("other", "b", [1, 1, 1, 1]),  # .5
            rows("other", "c", [2, 2, 0, 1]),  # .625
        ]
    )
    table = rates_by_mapping(labels, "paper").set_index("arm")
    assert table.loc["paper", ["hcr", "ar", "srr"]].tolist() == pytest.approx([0.5, 1 / 6, 1 / 3])
    assert table.loc["other", ["models", "n"]].tolist() == [3, 11]
    assert table.loc["other", ["ar_lowest", "ar_highest"]].tolist() == [0, 1]
    # other ranks c, b, a; the paper's a, b, c: every pair turns round
    assert table["tau"].to_dict() == {"paper": 1, "other": -1}


def test_tau_is_nan_without_the_reference_and_with_one_model() -> None:
    one = pd.concat([rows("paper", "a", [0, 1, 2]), rows("other", "a", [0, 0, 2])])
    assert rates_by_mapping(one, "paper")["tau"].isna().all()
    two = pd.concat([rows("other", "a", [0, 1, 2]), rows("other", "b", [0, 0, 2])])
    assert rates_by_mapping(two, "paper")["tau"].isna().all()
    assert len(rates_by_mapping(one.iloc[:0], "paper")) == 0
