"""Parameters: what a misspelt or impossible one gets is one line that names the key and the nearest valid one."""

from __future__ import annotations

import pytest
import yaml

from slmsafety.errors import InputError
from slmsafety.models.source import Source
from slmsafety.naming import named_cards
from slmsafety.params import load_params, study_names

RUN = {
    "name": "mine",
    "kind": "run",
    "suites": ["demo_direct"],
    "models": ["smollm2-135m-it-q4"],
    "judges": ["refusal_rules"],
}


LLM = {"name": "gpt", "endpoint": "http://localhost:8000/v1", "served": "some-model"}


def problem(mapping: object, tmp_path=None) -> str:
    """The one line that a bad study gets."""
    with pytest.raises(InputError) as caught:
        load_params(mapping)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_study_of_the_project_is_valid(monkeypatch, tmp_path):
    data = tmp_path / "data"
    files = ("harmbench/harmbench_behaviors_text_all.csv", "sst/SimpleSafetyTests_test_cases.csv", "bbq/data")
    for file in files:
        (data / file).parent.mkdir(parents=True)
        (data / file).touch()
    monkeypatch.setenv("SLMSAFETY_DATA", str(data))
    assert {"published", "demo", "paper"} <= set(study_names())
    for name in study_names():
        params, source = load_params(name)
        assert params.name == name
        assert source.endswith(f"params/{name}.yaml")


def test_the_paper_study_names_the_26_models():
    params, _ = load_params("paper")
    assert len(set(params.model_ids)) == 26
    assert params.generation.max_new_tokens == 512


def test_a_suite_may_be_a_name_or_a_mapping():
    params, _ = load_params({**RUN, "suites": ["demo_direct", {"name": "demo_framed", "limit": 3}]})
    assert [(suite.name, suite.limit) for suite in params.suites] == [("demo_direct", None), ("demo_framed", 3)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"suits": []}, "unknown key 'suits' in parameter study; did you mean 'suites'?"),
        (
            {"generation": {"max_tokens": 5}},
            "unknown key 'max_tokens' in parameter study; did you mean 'max_new_tokens'?",
        ),
        (
            {"suites": [{"name": "demo_direct", "pth": "x"}]},
            "unknown key 'pth' in parameter study; did you mean 'path'?",
        ),
        ({"suites": ["harmbnch"]}, "unknown suite 'harmbnch'; did you mean 'harmbench'?"),
        ({"models": ["gpt2-smal"]}, "unknown model 'gpt2-smal'; did you mean 'gpt2-small'?"),
        ({"judges": ["refusal_rule"]}, "unknown judge 'refusal_rule'; did you mean 'refusal_rules'?"),
        ({"kind": "runn"}, "'published', 'run' or 'imported'"),
        ({"empty": "drop"}, "'missing', 'judge', 'safe', 'ambiguous' or 'harmful'"),
        ({"suites": ["bbq"]}, "suite 'bbq' has no judge; add bbq_letter to 'judges'"),
        ({"judges": ["bbq_letter"]}, "suite 'demo_direct' has no judge; add a judge of labels to 'judges'"),
        ({"models": [{"id": "mine"}]}, "unknown model 'mine'"),
        ({"models": [{"id": "mine", "hubb": "a/b"}]}, "unknown key 'hubb' in parameter study; did you mean 'hub'?"),
        ({"models": [{"id": "mine", "hub": "a/b", "gguf": "x.gguf"}]}, "path 'x.gguf' does not exist"),
        ({"models": [{"id": "mine", "hub": "a/b", "endpoint": "http://x/v1"}]}, "got hub, endpoint"),
        ({"models": [{"id": "mine", "endpoint": "http://x/v1"}]}, "needs 'served'"),
        ({"models": [{"id": "mine", "folder": "no/such"}]}, "path 'no/such' does not exist"),
        ({"models": [{"id": "../mine", "hub": "a/b"}]}, "key 'models.0.id' is '../mine'"),
        ({"models": [{"id": "smollm2-135m-it-q4", "weights": "bin"}]}, "key 'weights' belongs to hub or folder"),
        ({"models": ["gpt2-small", {"id": "gpt2-small", "hub": "a/b"}]}, "model 'gpt2-small' is listed twice"),
        (
            {"models": [{"id": "gpt2-small", "endpoint": "http://x/v1", "served": "gpt2"}]},
            "model 'gpt2-small' is a base model behind an endpoint; give it template: raw (or chat)",
        ),
        ({"judges": [{"name": "mine"}]}, "unknown judge 'mine'"),
        ({"judges": [{"name": "gpt", "endpoint": "http://x/v1"}]}, "judge 'gpt' needs 'served'"),
        ({"judges": [{"name": "gpt", "endpoint": "x", "served": "m"}]}, "must look like http://HOST:PORT/v1"),
        (
            {"judges": [{"name": "refusal_rules", "price": {"input": 1, "output": 1, "date": "2026-11-01"}}]},
            "key 'price'",
        ),
        ({"judges": [{"name": "refusal_rules", "endpoint": "http://x/v1", "served": "m"}]}, "call this one otherwise"),
        ({"judges": [{**LLM, "max_cost": 5}]}, "has max_cost but no price"),
        (
            {"judges": [{**LLM, "price": {"input": 1, "outputs": 1}}]},
            "unknown key 'outputs' in parameter study; did you",
        ),
        ({"judges": [{**LLM, "suites": ["sst"]}]}, "unknown suite 'sst' in judge 'gpt'"),
        ({"judges": [{**LLM, "models": ["gpt2-xl"]}]}, "unknown model 'gpt2-xl' in judge 'gpt'"),
        ({"judges": [{**LLM, "rubric": "harm"}]}, "'harmbench', 'sst', 'xstest' or 'airbench'"),
        ({"judges": [{**LLM, "helm": "x"}]}, "it belongs to prompt_source: helm"),
        ({"suites": ["salad"], "judges": [LLM]}, "suite 'salad' has no judge; add a judge of labels to 'judges'"),
        ({"suites": ["salad"], "judges": [{**LLM, "suites": ["salad"]}]}, "suite 'salad' has no rubric of its own"),
        ({"generation": {"workers": 0}}, "key 'generation.workers' is 0"),
        ({"generation": {"memory_gb": 0}}, "key 'generation.memory_gb' is 0"),
        ({"generation": {"truncation": "left"}}, "'keep_end' or 'helm'"),
        ({"models": []}, "key 'models' is missing or empty; a study of kind 'run' needs it"),
        ({"generation": {"max_new_tokens": 0}}, "key 'generation.max_new_tokens' is 0"),
        ({"generation": {"batch_size": "many"}}, "key 'generation.batch_size' is 'many'"),
        ({"models": ["gpt2-small", "gpt2-small"]}, "model 'gpt2-small' is listed twice"),
        ({"name": "../evil"}, "key 'name' is '../evil'"),
        ({"name": "my.study"}, "key 'name' is 'my.study'"),
        ({"name": "published"}, "the name 'published' and the kind 'published' belong together"),
        ({"judges": ["refusal_rules", "refusal_rules"]}, "judge 'refusal_rules' is listed twice"),
        ({"judged_csv": "x.csv"}, "key 'judged_csv' means nothing in a study of kind 'run'; remove it"),
        ({"human_labels": "no/such.csv"}, "path 'no/such.csv' does not exist"),
        (
            {"suites": [{"name": "sst", "path": "$NOT_SET_ANYWHERE/x.csv"}]},
            "names an environment variable that is not set",
        ),
    ],
)
def test_a_bad_parameter_gets_one_line(change, says):
    assert says in problem({**RUN, **change})


def test_a_model_may_be_a_card_s_or_the_study_s_own(tmp_path):
    (tmp_path / "mine.gguf").touch()
    models = [
        "gpt2-small",
        {"id": "opt-125m", "revision": "v1"},
        {"id": "mobilellm-1b", "trust_remote_code": True},
        {"id": "smollm2-135m-it", "endpoint": "http://localhost:8000/v1", "served": "smol", "api_key_env": "KEY"},
        {"id": "mine", "gguf": str(tmp_path / "mine.gguf"), "name": "Mine", "family": "Own", "params_m": 5},
        {"id": "theirs", "hub": "some/one", "weights": "bin"},
    ]
    params, _ = load_params({**RUN, "models": models})
    sources = [model.source(tmp_path) for model in params.models]
    assert sources == [
        Source(hub="openai-community/gpt2"),
        Source(hub="facebook/opt-125m", revision="v1", weights="bin"),
        Source(hub="facebook/MobileLLM-1B", trust_remote_code=True),
        Source(endpoint="http://localhost:8000/v1", served="smol", api_key_env="KEY"),
        Source(gguf=tmp_path / "mine.gguf"),
        Source(hub="some/one", weights="bin"),
    ]
    cards = named_cards(params.models)
    assert cards.loc["mine", ["name", "family", "params_m"]].tolist() == ["Mine", "Own", 5]
    assert cards.loc["theirs", "name"] == "theirs"
    assert cards.loc["smollm2-135m-it", "family"] == "SmolLM2"


def test_a_judge_reads_what_its_entry_says():
    judges = [
        "refusal_rules",
        LLM,
        {**LLM, "name": "crossed", "rubric": "sst", "suites": ["demo_framed"]},
        "bbq_letter",
    ]
    params, _ = load_params({**RUN, "suites": ["demo_direct", "demo_framed", "salad", "bbq"], "judges": judges})
    read = {suite.name: [judge.name for judge in params.judges_of(suite.name)] for suite in params.suites}
    assert read == {
        "demo_direct": ["refusal_rules", "gpt"],
        "demo_framed": ["refusal_rules", "gpt", "crossed"],
        "salad": ["refusal_rules"],
        "bbq": ["bbq_letter"],
    }


def test_a_missing_key_is_named():
    assert "key 'kind' is missing" in problem({"name": "x"})


def test_an_unknown_study_gets_the_nearest_name():
    assert "unknown study 'publishd' in params/; did you mean 'published'?" in problem("publishd")


def test_a_params_file_that_does_not_exist_is_named():
    assert problem("params/none.yaml") == "params file 'params/none.yaml' does not exist"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("study: [1", "not readable as YAML"),
        ("models: [a]", "needs one top-level key 'study'"),
        ("", "needs one top-level key 'study'"),
        (yaml.safe_dump({"study": RUN, "studdy": 1}), "unknown top-level key 'studdy'"),
        ("study: {name: a, kind: run, kind: imported}", "key 'kind' stands twice"),
    ],
)
def test_a_bad_file_is_named(tmp_path, text, says):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    message = problem(str(path))
    assert says in message
    assert "mine.yaml" in message


def test_relative_paths_start_at_the_root(tmp_path, monkeypatch):
    (tmp_path / "params").mkdir()
    (tmp_path / "labels.csv").write_text("suite,instance_id,model,human,reply_id\n")
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    params, _ = load_params({**RUN, "human_labels": "labels.csv"})
    assert params.human_labels == "labels.csv"


def test_a_root_without_params_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    assert "holds no folder 'params'" in problem("published")
