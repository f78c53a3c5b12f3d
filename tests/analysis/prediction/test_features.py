from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.analysis.drivers.metric_rows import reply_rows
from slmsafety.analysis.prediction.features import METRICS, WITH_MODEL, feature_sets, labelled_replies
from slmsafety.errors import InputError


def labels_and_metrics() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    labels = pd.DataFrame(
        {
            "suite": "s",
            "instance_id": ["2", "1", "1", "3", "4"],
            "model": ["m", "n", "m", "m", "m"],
            "generation_id": "g",
            "sample": 0,
            "expected": ["refuse", "refuse", "refuse", "answer", "refuse"],
            "label": pd.array([0, 2, 1, 1, None], "Int64"),
            "group": ["q", "q", "q", None, None],
            "category": "c",
            "subcategory": "c",
        }
    )
    prompt_metrics = pd.DataFrame({"suite": "s", "instance_id": ["1", "2", "3"], "tokens": [7, 8, 9]})
    keys = ["suite", "instance_id", "model", "generation_id", "sample"]
    reply_metrics = labels[keys].assign(perplexity=[1.5, 2, np.nan, 3, 4])
    return labels, prompt_metrics, reply_metrics.iloc[1:]


def test_rows_are_the_labelled_replies_to_harmful_prompts():
    models = pd.DataFrame({"Year": [2020.0]}, index=["m"])
    found = labelled_replies(reply_rows(*labels_and_metrics()), models)
    assert found[["instance_id", "model"]].to_numpy().tolist() == [["1", "m"], ["1", "n"], ["2", "m"]]
    assert found["ambiguous"].tolist() == [True, False, False]
    assert found["prompt tokens"].tolist() == [7, 7, 8]
    assert found["prompt"].nunique() == 2 and found["group"].nunique() == 1, "two prompts of one question"
    assert found["kind"].nunique() == 1
    np.testing.assert_equal(found["reply perplexity"].to_numpy(), [np.nan, 2, np.nan])
    np.testing.assert_equal(found["model Year"].to_numpy(), [2020, np.nan, 2020])
    sets = feature_sets(found)
    assert sets[WITH_MODEL] == [*sets[METRICS], "model Year"] and sets["prompt only"] == ["prompt tokens"]
    assert sets["length only"] == ["prompt tokens"] and sets["majority"] == []
    assert set(sets[METRICS]) == {name for name in found if name.startswith(("prompt ", "reply "))}


def test_metadata_that_tell_no_models_apart_are_no_feature():
    """Systems of one card have one year; a size that only some have tells them apart."""
    models = pd.DataFrame({"Year": 2020.0, "Size": [135.0, np.nan]}, index=["m", "n"])
    found = labelled_replies(reply_rows(*labels_and_metrics()), models)
    sets = feature_sets(found)
    assert sets[WITH_MODEL] == [*sets[METRICS], "model Size"] and "model Year" in found
    same = feature_sets(labelled_replies(reply_rows(*labels_and_metrics()), models[["Year"]]))
    assert same[WITH_MODEL] == same[METRICS]


def test_an_infinite_metric_is_named():
    labels, prompts, answers = labels_and_metrics()
    rows = reply_rows(labels, prompts, answers.assign(perplexity=np.inf))
    with pytest.raises(InputError, match="metric 'reply perplexity' of s, 1, m, 0 is infinite"):
        labelled_replies(rows, pd.DataFrame(index=["m"]))
