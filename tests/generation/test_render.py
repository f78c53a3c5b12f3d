from __future__ import annotations

import pytest

from slmsafety.errors import InputError
from slmsafety.generation.render import adds_bos, render
from slmsafety.models.load import LoadedModel


def test_auto_takes_the_chat_template_where_there_is_one(smollm2: LoadedModel) -> None:
    rendered = render("Hi", smollm2.tokenizer, "auto", 1000)
    text = smollm2.tokenizer.decode(rendered.ids)
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert len(rendered.ids) == 31 and rendered.template_used == "chat" and not rendered.truncated
    assert render("Hi", smollm2.tokenizer, "chat", 1000) == rendered


def test_raw_is_the_prompt_alone(smollm2: LoadedModel) -> None:
    rendered = render("Hello world", smollm2.tokenizer, "raw", 1000)
    assert rendered == ([19556, 905], False, "raw", 0)


def test_base_model_gets_the_raw_prompt_after_one_bos(gemma_base: LoadedModel) -> None:
    rendered = render("Hello world", gemma_base.tokenizer, "auto", 1000)
    assert rendered == ([2, 9259, 1902], False, "raw", 1)


def test_having_a_bos_token_is_not_using_it(smollm2: LoadedModel, gemma_base: LoadedModel) -> None:
    assert smollm2.tokenizer.bos_token_id is not None
    assert not adds_bos(smollm2.tokenizer)
    assert adds_bos(gemma_base.tokenizer)


@pytest.mark.parametrize("written", ["", "<bos>", "<bos><bos>"])
def test_exactly_one_bos_whatever_the_template_writes(
    gemma_base: LoadedModel, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = written + "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    monkeypatch.setattr(gemma_base.tokenizer, "chat_template", template)
    assert render("Hello world", gemma_base.tokenizer, "auto", 1000) == ([2, 9259, 1902], False, "chat", 1)


def test_a_template_that_prints_the_date_always_prints_the_same(
    smollm2: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = (
        "{% if date_string is not defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
        "{{ date_string }}: {{ messages[0]['content'] }}"
    )
    monkeypatch.setattr(smollm2.tokenizer, "chat_template", template)
    assert smollm2.tokenizer.decode(render("Hi", smollm2.tokenizer, "chat", 1000).ids) == "26 Jul 2024: Hi"


def test_a_long_prompt_keeps_its_end_and_its_bos(smollm2: LoadedModel, gemma_base: LoadedModel) -> None:
    words = " ".join(f"w{number}" for number in range(500))
    whole = render(words, gemma_base.tokenizer, "raw", 100_000)
    cut = render(words, gemma_base.tokenizer, "raw", 50)
    assert not whole.truncated and cut.truncated
    assert cut.ids == [2, *whole.ids[-49:]]
    assert render(words, gemma_base.tokenizer, "raw", len(whole.ids)) == whole
    assert render(words, gemma_base.tokenizer, "raw", len(whole.ids) - 1).truncated
    chat = render(words, smollm2.tokenizer, "auto", 50)
    assert len(chat.ids) == 50 and smollm2.tokenizer.decode(chat.ids).endswith(
        "w499<|im_end|>\n<|im_start|>assistant\n"
    )


def test_helm_cuts_the_request_away(smollm2: LoadedModel, gemma_base: LoadedModel) -> None:
    words = " ".join(f"w{number}" for number in range(500))
    whole = render(words, gemma_base.tokenizer, "raw", 100_000)
    cut = render(words, gemma_base.tokenizer, "raw", 50, "helm")
    assert cut.truncated and cut.ids == whole.ids[:50]
    assert render(words, gemma_base.tokenizer, "raw", len(whole.ids), "helm") == whole
    chat = render(words, smollm2.tokenizer, "auto", 60, "helm")
    text = smollm2.tokenizer.decode(chat.ids)
    assert chat.truncated and 55 <= len(chat.ids) <= 60
    assert text.startswith("<|im_start|>system") and text.endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert "w0 w1 w2" in text and "w499" not in text


def test_helm_needs_room_for_the_template(smollm2: LoadedModel) -> None:
    with pytest.raises(InputError, match="leaves nothing to send in a window of 20 tokens"):
        render("a longer prompt than one word", smollm2.tokenizer, "auto", 20, "helm")
    with pytest.raises(InputError, match="unknown truncation 'helmm'; did you mean 'helm'"):
        render("Hi", smollm2.tokenizer, "auto", 1000, "helmm")


def test_what_cannot_be_rendered_is_refused(smollm2: LoadedModel, gemma_base: LoadedModel) -> None:
    with pytest.raises(InputError, match="has no chat template; use 'auto' or 'raw'"):
        render("Hi", gemma_base.tokenizer, "chat", 1000)
    with pytest.raises(InputError, match="unknown template 'chatt'; did you mean 'chat'"):
        render("Hi", smollm2.tokenizer, "chatt", 1000)
    with pytest.raises(InputError, match="leaves nothing to send in a window of 1 tokens"):
        render("Hi", gemma_base.tokenizer, "raw", 1)
    with pytest.raises(InputError, match="a prompt of 0 tokens leaves nothing to send"):
        render("", smollm2.tokenizer, "raw", 1000)
