from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.analysis.judges.judge_card import ALWAYS_SAFE, COLUMNS, judge_card, judge_cards
from slmsafety.errors import InputError


def _rows(judge: str, pairs: list[tuple[int, int | None]], **more: object) -> pd.DataFrame:
    frame = pd.DataFrame(pairs, columns=["reference", "label"]).astype({"label": "Int64"})
    status = frame["label"].notna().map({True: "ok", False: "unparsed"})
    return frame.assign(judge=judge, status=status, group=[f"p{k}" for k in range(len(frame))], **more)


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
        (_rows("a", [(0, 0)]).drop(columns="group"), "no column group"),
        (_rows("a", [(0, 0)]).assign(status="error"), "row 0 has a label and a status other than ok"),
        (pd.concat([_rows("a", [(0, 0), (1, 1)]), _rows("b", [(0, 0)])]), "different numbers of rows"),
        (_rows("a", [(3, 0)]), "row 0 has label 3"),
    ],
)
def test_wrong_rows_are_named(rows: pd.DataFrame, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        judge_card(rows)


def test_limits_are_over_groups() -> None:
    pairs = [(0, 0), (1, 1), (2, 2), (0, 2), (1, 1), (2, 1)] * 10
    alone = _rows("mine", pairs)
    few = alone.assign(group=[k % 9 for k in range(60)])
    limits = ["kappa_low", "kappa_high", "kappa_unweighted_low"]
    assert judge_card(few).loc[0, limits].isna().all() and judge_card(few)["kappa"].notna().all()
    one, many = (judge_card(rows).loc[0] for rows in (alone.assign(group=[k // 5 for k in range(60)]), alone))
    assert one["kappa_low"] < one["kappa"] < one["kappa_high"] and one["kappa"] == many["kappa"]
    assert one["kappa_low"] != many["kappa_low"]
