from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from slmsafety.analysis.judges.agreement import agreement, confusion
from slmsafety.analysis.judges.judge_card import (
    ALWAYS_SAFE,
    COLUMNS,
    calibration_error,
    judge_card,
    judge_cards,
    kappa_intervals,
    kappas,
)
from slmsafety.errors import InputError

LABEL = st.integers(0, 2)


def _rows(judge: str, pairs: list[tuple[int, int | None]], **more: object) -> pd.DataFrame:
    frame = pd.DataFrame(pairs, columns=["reference", "label"]).astype({"label": "Int64"})
    status = frame["label"].notna().map({True: "ok", False: "unparsed"})
    return frame.assign(judge=judge, status=status, prompt=[f"p{k}" for k in range(len(frame))], **more)


def test_a_row_says_what_a_judge_did() -> None:
    pairs = [(2, 2), (2, 2), (2, 0), (1, 1), (1, 2), (0, 0), (0, 2), (0, None)]
    card = judge_card(_rows("mine", pairs, seconds=0.5, price=0.001))
    assert list(card.columns) == list(COLUMNS)
    assert card["judge"].tolist() == ["mine", ALWAYS_SAFE]
    mine, safe = card.to_dict("records")
    assert (mine["rows"], mine["n"], mine["coverage"], mine["n_ok"], mine["n_unparsed"]) == (8, 7, 0.875, 7, 1)
    assert mine["exact"] == pytest.approx(4 / 7)
    assert (mine["safe_as_safe"], mine["safe_as_harmful"], mine["harmful_as_safe"], mine["ambiguous_as_safe"]) == (
        *(2, 1, 1),
        1,
    )
    assert mine["recall_safe"] == pytest.approx(2 / 3)
    assert (mine["recall_ambiguous"], mine["recall_harmful"]) == (0.5, 0.5)
    assert (mine["boundary"], mine["flips"]) == (pytest.approx(1 / 7), pytest.approx(2 / 7))
    assert (mine["safe_as_harmful_share"], mine["harmful_as_safe_share"]) == (pytest.approx(1 / 7),) * 2
    assert (mine["price_per_1000"], mine["seconds_per_1000"]) == (pytest.approx(1), pytest.approx(500))
    # The trivial judge labels every row: three of eight are right, and chance explains it all.
    assert (safe["n"], safe["n_ok"], safe["coverage"], safe["exact"], safe["kappa"]) == (8, 8, 1, 0.375, 0)
    assert (safe["recall_safe"], safe["recall_harmful"], safe["ar_judge"]) == (1, 0, 0)
    assert np.isnan(safe["seconds_per_1000"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(LABEL, LABEL), min_size=1, max_size=40))
def test_kappas_are_those_of_others(pairs: list[tuple[int, int]]) -> None:
    reference, label = np.array(pairs).T
    found = kappas(confusion(reference, label))
    linear = agreement(confusion(reference, label)).kappa
    assert found["kappa"] == pytest.approx(linear, nan_ok=True)
    if len(set(reference) | set(label)) > 1:
        plain = cohen_kappa_score(reference, label, labels=[0, 1, 2])
        assert found["kappa_unweighted"] == pytest.approx(plain)
    else:
        assert np.isnan(found["kappa_unweighted"])


def test_the_interval_draws_whole_prompts() -> None:
    rng = np.random.default_rng(1)
    reference = rng.integers(0, 3, 300)
    label = np.where(rng.random(300) < 0.7, reference, rng.integers(0, 3, 300))
    alone = kappa_intervals(reference, label, np.arange(300))["kappa"]
    exact = agreement(confusion(reference, label))
    assert alone == pytest.approx((exact.kappa_low, exact.kappa_high), abs=0.02)
    # Every reply ten times under its own prompt tells nothing new; as prompts of their own they would.
    ten = [np.repeat(values, 10) for values in (reference, label, np.arange(300))]
    assert kappa_intervals(*ten)["kappa"] == pytest.approx(alone, abs=0.01)
    apart = kappa_intervals(ten[0], ten[1], np.arange(3000))["kappa"]
    assert apart[1] - apart[0] < 0.5 * (alone[1] - alone[0])
    assert kappa_intervals(reference, label, np.arange(300)) == kappa_intervals(reference, label, np.arange(300))
    assert all(np.isnan(kappa_intervals([0, 2], [0, 2], ["p", "p"])["kappa"]))


def test_each_suite_has_its_own_card() -> None:
    rows = pd.concat([_rows("a", [(0, 0), (2, 2)]).assign(suite="s"), _rows("a", [(0, 2)]).assign(suite="t")])
    cards = judge_cards(rows)
    assert cards[["suite", "judge", "n", "exact"]].to_numpy().tolist() == [
        ["s", "a", 2, 1.0],
        ["s", ALWAYS_SAFE, 2, 0.5],
        ["t", "a", 1, 0.0],
        ["t", ALWAYS_SAFE, 1, 0.0],
    ]
    assert judge_cards(rows.head(0)).empty


def test_a_judge_without_labels_has_nan_and_not_zero() -> None:
    card = judge_card(_rows("mute", [(0, None), (2, None)]))
    assert card.loc[0, ["n", "coverage"]].tolist() == [0, 0]
    assert card.loc[0, ["exact", "kappa", "kappa_low", "recall_safe", "flips", "ar_judge"]].isna().all()
    assert len(judge_card(_rows("none", []))) == 0


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (_rows("a", [(0, 0)]).drop(columns="prompt"), "no column prompt"),
        (_rows("a", [(0, 0)]).assign(status="error"), "row 0 has a label and a status other than ok"),
        (pd.concat([_rows("a", [(0, 0), (1, 1)]), _rows("b", [(0, 0)])]), "different numbers of rows"),
        (_rows("a", [(3, 0)]), "row 0 has label 3"),
    ],
)
def test_wrong_rows_are_named(rows: pd.DataFrame, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        judge_card(rows)


def test_calibration_error() -> None:
    sure = [[1, 0, 0]] * 4
    assert calibration_error(sure, [0, 0, 0, 0]) == 0
    assert calibration_error(sure, [0, 0, 0, 1]) == pytest.approx(0.25)
    half = [[0.5, 0.3, 0.2]] * 2 + [[0.1, 0.1, 0.8]] * 2
    # Bin of 0.5: one of two right, no gap; bin of 0.8: none right, a gap of 0.8 over half of the rows.
    assert calibration_error(half, [0, 1, 0, 1]) == pytest.approx(0.4)
    assert np.isnan(calibration_error(np.zeros((0, 3)), []))
