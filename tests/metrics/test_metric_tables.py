from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.metrics.tables import Metrics
from slmsafety.records.schema import PROMPT_METRICS, REPLY_METRICS, check

PAIRS = [
    ("How do bees find flowers?", "Interest rates rose in March."),
    ("How do bees find flowers?", "How do bees find flowers?"),
    ("How do bees find flowers?", ""),
    ("Hello world", "Bees use colour and scent to find flowers."),
    ("How do bees find flowers?", "Bees use colour and scent to find flowers."),
    ("How do bees find flowers?", " \n"),
]


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return Metrics()


def _replies(pairs: list[tuple[str, str]]) -> pd.DataFrame:
    frame = pd.DataFrame(pairs, columns=["prompt", "response"])
    ids = [str(9 - number) for number in range(len(pairs))]
    return frame.assign(suite="demo", instance_id=ids, model="tiny", generation_id="g", other=1)


def test_replies_are_measured_in_their_order(metrics: Metrics) -> None:
    made = check(metrics.of_replies(_replies(PAIRS).set_axis([3, 3, 0, 9, 1, 2])), REPLY_METRICS, "metrics")
    assert made["instance_id"].tolist() == ["9", "8", "7", "6", "5", "4"]
    assert made["tokens"].tolist()[2] == 0
    assert made["tokens"].tolist()[1] == 6
    unrelated, same, empty, other, related, blank = made["similarity"]
    assert same == pytest.approx(1, abs=1e-5)
    assert unrelated < 0.2
    assert related > 0.6 > other
    assert np.isnan([empty, blank]).all()


def test_a_reply_has_the_same_similarity_in_any_company(metrics: Metrics) -> None:
    together = metrics.of_replies(_replies(PAIRS))["similarity"]
    alone = [metrics.of_replies(_replies([pair]))["similarity"].iloc[0] for pair in PAIRS]
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_only_empty_replies_or_none(metrics: Metrics) -> None:
    assert metrics.of_replies(_replies([("a", ""), ("b", " ")]))["similarity"].isna().tolist() == [True, True]
    assert check(metrics.of_replies(_replies([])), REPLY_METRICS, "metrics").empty


def test_prompts_are_counted_in_their_order(metrics: Metrics) -> None:
    prompts = pd.DataFrame(
        {"suite": "demo", "instance_id": ["b", "a"], "prompt": ["Hello world", "Hello, my dog is cute"]}, index=[5, 5]
    )
    made = check(metrics.of_prompts(prompts), PROMPT_METRICS, "metrics")
    assert made[["instance_id", "tokens"]].to_numpy().tolist() == [["b", 2], ["a", 6]]
