from __future__ import annotations

import pytest
from pydantic import ValidationError

from slmsafety.generation.settings import GenerationSettings, generation_id
from slmsafety.models.cards import card
from slmsafety.models.source import Source

SMOLLM2 = card("smollm2-135m-it-q4").source


@pytest.mark.parametrize(
    "change",
    [
        {"max_new_tokens": 64},
        {"truncation": "helm"},
        {"template": "raw"},
        {"dtype": "bfloat16"},
        {"engine": "transformers 4.0.0"},
        {"system_prompt": "Be kind."},
        {"frame": "Q: {{PROMPT}}"},
        {"template_kwargs": {"enable_thinking": False}},
        {"temperature": 1},
    ],
)
def test_each_setting_defines_the_work(change: dict[str, object]) -> None:
    assert generation_id(SMOLLM2, GenerationSettings()) != generation_id(SMOLLM2, GenerationSettings(**change))


def test_the_weights_define_the_work() -> None:
    settings = GenerationSettings()
    sources = [SMOLLM2, Source(hub="someone/tiny"), Source(hub="someone/tiny", revision="v1"), card("gpt2-xl").source]
    assert len({generation_id(source, settings) for source in sources}) == 4


def test_what_an_endpoint_s_server_decides_is_no_part_of_the_id() -> None:
    source = Source(endpoint="http://there/v1", served="tiny")
    plain = generation_id(source, GenerationSettings())
    assert plain == generation_id(source, GenerationSettings(dtype="bfloat16", engine="transformers 4.0.0"))
    assert plain == generation_id(source, GenerationSettings(template="chat"))
    assert plain != generation_id(source, GenerationSettings(template="raw"))
    assert plain != generation_id(Source(hub="tiny"), GenerationSettings())


@pytest.mark.parametrize(
    "change",
    [{"system_prompt": "Be kind."}, {"frame": "Q: {{PROMPT}}"}, {"template_kwargs": {"a": 1}}, {"request": {"a": 1}}],
)
def test_how_an_endpoint_is_asked_is_a_part_of_its_id(change: dict[str, object]) -> None:
    source = Source(endpoint="http://there/v1", served="tiny")
    assert generation_id(source, GenerationSettings()) != generation_id(source, GenerationSettings(**change))


def test_a_key_that_came_later_is_no_part_of_an_id_at_its_old_value() -> None:
    old = GenerationSettings(
        system_prompt=None, frame=None, template_kwargs={}, request={}, engine="transformers 5.24.0"
    )
    assert generation_id(SMOLLM2, old) == "ed52695ab602"


def test_an_id_never_changes_unnoticed() -> None:
    """A study's stored rows carry this id: if this fails, every user's finished generations are lost to a rerun."""
    assert generation_id(SMOLLM2, GenerationSettings(engine="transformers 5.24.0")) == "ed52695ab602"


def test_what_draws_tokens_counts_only_where_they_are_drawn() -> None:
    for source in (SMOLLM2, Source(endpoint="http://there/v1", served="tiny")):
        greedy = generation_id(source, GenerationSettings())
        assert greedy == generation_id(source, GenerationSettings(temperature=0, top_p=0.5, seed=7))
        drawn = [{"temperature": 0.7}, {"temperature": 1.0}, {"temperature": 0.7, "top_p": 0.9}]
        drawn.append({"temperature": 0.7, "seed": 7})
        assert len({greedy, *(generation_id(source, GenerationSettings(**each)) for each in drawn)}) == 5


def test_settings_are_checked() -> None:
    with pytest.raises(ValidationError, match="max_new_tokens"):
        GenerationSettings(max_new_tokens=0)
    with pytest.raises(ValidationError, match="'keep_end'"):
        GenerationSettings.model_validate({"truncation": "keep_start"})
    with pytest.raises(ValidationError, match="Extra inputs"):
        GenerationSettings.model_validate({"top_k": 50})
    for value in (-1, 0.001, 101, float("nan"), float("inf")):
        with pytest.raises(ValidationError, match=r"temperature' is .*valid: 0 \(the likeliest .* or 0\.01 to 100"):
            GenerationSettings(temperature=value)
    for value in (0, 1.01, -0.5, float("nan")):
        with pytest.raises(ValidationError, match="top_p"):
            GenerationSettings(temperature=1, top_p=value)
