"""Scores of models whose family is left out, and their interval over families."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from prediction_rows import ONE_THREAD, paper_models, replies

from slmsafety.analysis.prediction.checks import leakage
from slmsafety.analysis.prediction.classifiers import CLASSIFIERS
from slmsafety.analysis.prediction.evaluation import prediction_table
from slmsafety.analysis.prediction.families import family_values, over_families, summary
from slmsafety.analysis.prediction.splits import GROUPS, unseen_families, unseen_models, within_suite

LOGISTIC = dict.fromkeys("ab", "Logistic regression")


def with_models(rows: pd.DataFrame, card: dict[str, str], family: dict[str, str]) -> pd.DataFrame:
    """The rows with the card and the family of each model."""
    return rows.assign(card=rows["model"].map(card), family=rows["model"].map(family))


def test_the_intervals_by_hand():
    """Nine families of one model with .7 and one of two with .7 and .9: the means are nine times .7 and once .8."""
    values, families = [0.7] * 10 + [0.9], [*range(10), 9]
    found = over_families(values, families)
    assert (found.families, found.models, found.mean) == (10, 11, pytest.approx(0.71))
    error = (9 * 0.01**2 + 0.09**2) / 9 / 10
    own = (9 * 0.01**2 + (0.01**2 + 0.19**2) / 2) / 9
    assert found.low == pytest.approx(0.71 - 2.262157 * np.sqrt(error)), "t with nine degrees of freedom"
    assert found.new_low == pytest.approx(0.71 - 2.262157 * np.sqrt(error + own))
    assert found.new_high == pytest.approx(0.71 + 2.262157 * np.sqrt(error + own))
    without = over_families([*values, np.nan], [*families, "other"])
    assert without == found, "a model without a score does not count"


@pytest.mark.parametrize(("of_family", "of_model"), [(0.06, 0.03), (0.0, 0.06), (0.06, 0.0)])
def test_the_intervals_cover_when_models_differ(of_family, of_model):
    """Families as large as the paper's, 1,500 times: the mean of families in general, and one further model."""
    rng = np.random.default_rng(8)
    families = pd.factorize(paper_models()["family"])[0]
    assert families.max() + 1 >= 10
    held, new, over_models = [], [], []
    for _ in range(1500):
        effect = rng.normal(0, of_family, families.max() + 1)
        values = 0.7 + effect[families] + rng.normal(0, of_model, len(families))
        found = over_families(values, families)
        held.append(found.low <= 0.7 <= found.high)
        new.append(found.new_low <= 0.7 + rng.normal(0, np.hypot(of_family, of_model)) <= found.new_high)
        plain = over_families(values, np.arange(len(values)))
        over_models.append(plain.low <= 0.7 <= plain.high)
    assert 0.935 < np.mean(held) < 0.968
    assert 0.935 < np.mean(new) < 0.975
    assert of_family == 0 or np.mean(over_models) < 0.93, "models of a family are no independent draws"


def test_limits_are_nan_where_they_say_nothing():
    nine = over_families([0.5, 0.6, 0.7] * 3, range(9))
    assert nine.mean == pytest.approx(0.6) and np.isnan(nine[3:]).all() and nine.families == 9
    level = over_families([0.5] * 12, range(12))
    assert level.mean == 0.5 and np.isnan(level[3:]).all()
    none = over_families([np.nan], ["f"])
    assert (none.families, none.models) == (0, 0) and np.isnan(none[2:]).all()
    wide = over_families([0.0, 1.0] * 6, range(12))
    assert (wide.new_low, wide.new_high) == (0, 1)


def test_a_model_has_one_value_from_the_rows_of_other_families():
    rows = with_models(replies(prompts=40), {"m1": "c", "m2": "c", "m3": "d"}, {"m1": "f", "m2": "f", "m3": "g"})
    rows["model_name"] = rows["model"].str.upper()
    values = family_values(rows, unseen_families(rows, [], 0), LOGISTIC, ONE_THREAD)
    assert values[["suite", "family", "card", "model_name", "systems"]].to_numpy().tolist() == [
        [suite, *rest] for suite in "ab" for rest in (["f", "c", "M1", 2], ["g", "d", "M3", 1])
    ]
    assert values["train_rows"].tolist() == [40, 80] * 2 and values["test_rows"].tolist() == [80, 40] * 2
    assert values["balanced_accuracy"].between(0.6, 1).all() and (values["note"] == "").all()
    # Labels that are turned round in the family that is left out: its value is turned round with them.
    turned = rows.assign(ambiguous=rows["ambiguous"] ^ (rows["card"] == "d"))
    other = family_values(turned, unseen_families(rows, [], 0), LOGISTIC, ONE_THREAD)
    same = values["card"] == "d"
    assert other["balanced_accuracy"][same].to_numpy() == pytest.approx(
        1 - values["balanced_accuracy"][same].to_numpy()
    )
    over = summary(values)
    assert over["families"].tolist() == over["models"].tolist() == [2, 2] and over["low"].isna().all()
    assert over["balanced_accuracy"][0] == pytest.approx(values["balanced_accuracy"][:2].mean())
    assert over["train_rows"].tolist() == [80, 80]


def shapes() -> dict[str, pd.DataFrame]:
    """Studies that leave much undefined."""
    rows = replies(prompts=20)
    apart = {"m1": "c", "m2": "d", "m3": "e"}
    full = with_models(rows, apart, apart)
    again = pd.concat([full, full.assign(**{"reply perplexity": full["reply perplexity"] + 0.1})], ignore_index=True)
    return {
        "one suite": full[full["suite"] == "a"].reset_index(drop=True),
        "one model": full[full["model"] == "m1"].reset_index(drop=True),
        "one family": full.assign(family="f"),
        "systems of one card": full.assign(card="c", family="f"),
        "one group": full.assign(group=full["group"].where(full["suite"] == "b", 0)),
        "one class": full.assign(ambiguous=full["ambiguous"] & (full["suite"] == "b")),
        "several replies": again,
    }


@pytest.mark.parametrize("name", shapes())
def test_a_study_of_any_shape_gives_values_or_reasons(name, monkeypatch):
    for slow in ("Random forest", "CatBoost"):
        monkeypatch.setitem(CLASSIFIERS, slow, CLASSIFIERS["Logistic regression"])
    rows = shapes()[name]
    plan = [*within_suite(rows, 0), *within_suite(rows, 0, unit=GROUPS), *unseen_models(rows, ["m3"])]
    table = prediction_table(rows, plan, ONE_THREAD, nested=True)
    metrics = table[table["features"] == "metrics"]
    assert (metrics["balanced_accuracy"].isna() == (metrics["note"] != "")).all()
    assert metrics["nested_balanced_accuracy"].notna().any() and (metrics["optimism"].dropna() >= 0).all()
    assert (table["interval"].eq("") == table["low"].isna()).all()
    assert (table.loc[table["low"].notna(), "test_groups"] >= 10).all()
    leaks = leakage(rows, plan, LOGISTIC, ONE_THREAD)
    assert not (leaks["clean"].fillna(False) & (leaks[["shared_groups", "shared_models"]].min(axis=1) > 0)).any()
    values = family_values(rows, unseen_families(rows, [], 0), LOGISTIC, ONE_THREAD)
    over = summary(values)
    assert (values["balanced_accuracy"].isna() == (values["note"] != "")).all() and over["low"].isna().all()
    assert values.empty == (name in ("one model", "one family", "systems of one card"))
    assert over["models"].add(over["undefined"]).sum() == len(values)
