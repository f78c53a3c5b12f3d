"""Ids of the same settings never move unnoticed: a moved id would make finished work, and what was paid for it, again.

The values were recorded with transformers 5.24.0, before the package was laid out anew. Whoever moves one on purpose
says so in CHANGELOG.md.
"""

from __future__ import annotations

import importlib.metadata
import os

import pytest

from slmsafety.pipeline.judges import judge_ids
from slmsafety.pipeline.run import Run
from slmsafety.records.ids import content_id
from slmsafety.study import Study

LLM = {"endpoint": "http://127.0.0.1:9/v1", "served": "tiny"}
RUN = {"name": "mine", "kind": "run", "models": ["smollm2-360m-it"]}


@pytest.fixture(autouse=True)
def the_engine_of_then(monkeypatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "5.24.0" if name == "transformers" else real(name))


def test_the_ids_of_the_demo():
    study = Study.load("demo")
    run = Run(study.params, study.root)
    generations, judges = run.generation_ids, judge_ids(run)
    assert {model: generations["demo_direct", model] for model in study.params.model_ids} == {
        "smollm2-135m-it-q4": "969a0aa195ba",
        "smollm2-safe": "4e1d477952a4",
        "smollm2-raw": "c6b2a83cb3b4",
        "gemma3-270m-base-q4": "1b563f689b40",
        "gemma3-framed": "4fcc777f130b",
        "gemma3-framed-safe": "2c739355dc0a",
    }
    for suite in ("demo_direct", "demo_framed"):
        assert judges[suite, "refusal_rules"] == "aaf478c07e74"
        assert judges[suite, "offline"] == "cd7971c508cf"
        assert judges[suite, "smollm2_reads"] == "2719200051fa"
    assert run.metrics_id == "e73279893e6f"


def test_the_ids_of_the_paper():
    """All 26 models at once: their hub ids, revisions and settings."""
    study = Study.load("paper")
    ids = Run(study.params, study.root).generation_ids
    assert ids["harmbench", "gpt2-small"] == "175a169a619a"
    assert ids["salad", "gpt2-small"] == "5f4617f25525"
    assert content_id({" ".join(key): value for key, value in ids.items()}) == "146d09dc11b9"


# version 2 of the anchored parser: a verdict that the judged texts hold too decides nothing
@pytest.mark.parametrize(
    ("suite", "judge", "wanted"),
    [
        ("harmbench", {}, "7339a344cdcb"),
        ("sst", {}, "1bb45d76ac62"),
        ("xstest", {}, "a45606b0d006"),
        ("demo_direct", {}, "7339a344cdcb"),
        ("sst", {"rubric": "harmbench"}, "7339a344cdcb"),
        ("sst", {"parser": "helm", "revision": "r1", "request": {"seed": 3}}, "dae289a39f40"),
    ],
)
def test_the_ids_of_a_language_model_as_judge(suite, judge, wanted):
    study = Study.load({**RUN, "suites": [suite], "judges": [{"name": "gpt", **LLM, **judge}]})
    assert judge_ids(Run(study.params, study.root)) == {(suite, "gpt"): wanted}


@pytest.mark.parametrize(
    ("judge", "wanted"),
    [
        (
            {"adapter": "md_judge_v01", "template": "params/md_judge_task.txt", "mapping": "fixed_thirds"},
            "282926468da5",  # its prompt ends right after [/INST]
        ),
        # version 2 of its reading: in one line, and not what stands in the reply
        ({"adapter": "qwen3guard", "dtype": "bfloat16"}, "c77ba3636751"),
        # version 3 of its reading: n/a is no verdict
        ({"adapter": "wildguard", "template": "params/md_judge_task.txt"}, "98c051135932"),
    ],
)
@pytest.mark.parametrize("empty", ["missing"])
def test_the_ids_of_a_guard_model(judge, empty, wanted):
    model = {"id": "guard", "hub": "someone/guard", "revision": "main"}
    study = Study.load({**RUN, "suites": ["sst"], "empty": empty, "judges": [{"name": "g", "model": model, **judge}]})
    assert judge_ids(Run(study.params, study.root)) == {("sst", "g"): wanted}


def test_the_id_of_a_judge_that_is_sent_empty_replies():
    study = Study.load({**RUN, "suites": ["sst"], "empty": "judge", "judges": ["refusal_rules"]})
    assert judge_ids(Run(study.params, study.root)) == {("sst", "refusal_rules"): "46cad48503c6"}


@pytest.mark.skipif("SLMSAFETY_DATA" not in os.environ, reason="needs AirBench's judge prompts in SLMSAFETY_DATA")
@pytest.mark.parametrize(("source", "wanted"), [("own", "d74a751cb255"), ("helm", "60c8c065aae9")])
def test_the_ids_of_a_judge_of_airbench(source, wanted):
    judge = {"judge_prompts": "$SLMSAFETY_DATA/airbench/judge_prompts_314.csv", "polarity": "pre_swap"}
    judge |= {"name": "gpt", **LLM, "prompt_source": source}
    study = Study.load({**RUN, "suites": ["airbench"], "judges": [judge]})
    assert judge_ids(Run(study.params, study.root)) == {("airbench", "gpt"): wanted}
