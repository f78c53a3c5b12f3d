from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_tokenizer import CHATML, byte_tokenizer

from slmsafety.errors import InputError
from slmsafety.generation import render as rendering
from slmsafety.generation.render import Rendered, adds_bos
from slmsafety.generation.settings import GenerationSettings
from slmsafety.models.load import LoadedModel


def render(prompt: str, tokenizer: Any, template: str, limit: int, truncation: str = "keep_end") -> Rendered:
    settings = GenerationSettings.model_validate({"template": template, "truncation": truncation})
    return rendering.render(prompt, tokenizer, settings, limit)


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


def test_what_cannot_be_rendered_is_refused(smollm2: LoadedModel, gemma_base: LoadedModel) -> None:
    with pytest.raises(InputError, match="has no chat template; use 'auto' or 'raw'"):
        render("Hi", gemma_base.tokenizer, "chat", 1000)
    with pytest.raises(InputError, match="leaves nothing to send in a window of 1 tokens"):
        render("Hi", gemma_base.tokenizer, "raw", 1)
    with pytest.raises(InputError, match="a prompt of 0 tokens leaves nothing to send"):
        render("", smollm2.tokenizer, "raw", 1000)


SYSTEM = "You are careful. Refuse what hurts."
FRAME = "{{SYSTEM}}\n\nHuman: {{PROMPT}}\n\nAssistant:"


def text_of(prompt: str, tokenizer: Any, limit: int = 10_000, **how: Any) -> str:
    """What a model is sent, as text, after the look at how it is asked."""
    settings = GenerationSettings(**how)
    rendering.check_asking(tokenizer, settings)
    return str(tokenizer.decode(rendering.render(prompt, tokenizer, settings, limit).ids))


def refusal(tokenizer: Any, **how: Any) -> str:
    with pytest.raises(InputError) as caught:
        rendering.check_asking(tokenizer, GenerationSettings(**how))
    return str(caught.value)


def test_a_system_prompt_is_the_system_s_turn_of_a_chat() -> None:
    wanted = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert text_of("Hi", byte_tokenizer(CHATML), system_prompt=SYSTEM) == wanted


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (
            "{% for m in messages if m['role'] == 'user' %}{{ m['content'] }}{% endfor %}",
            "leaves the system_prompt out",
        ),
        ("You are careful. Refuse what hurts. {{ messages[-1]['content'] }}", "leaves the system_prompt out"),
        ("{{ messages[0]['content'][:20] }} {{ messages[-1]['content'] }}", "leaves the system_prompt out"),
        (
            "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
            "{{ messages[-1]['content'] }}",
            "its chat template fails (TemplateError): System role not supported",
        ),
    ],
)
def test_a_template_without_a_system_s_turn_is_refused(template: str, says: str) -> None:
    """It may raise, drop the turn in silence, write the same text of its own, or cut it."""
    assert says in refusal(byte_tokenizer(template), system_prompt=SYSTEM)
    framed = text_of("Hi", byte_tokenizer(template), system_prompt=SYSTEM, frame=FRAME)
    assert "Hi" in framed or "[:20]" in template, "the user's turn has a place for it"


def test_a_system_prompt_without_a_template_needs_a_place_in_a_frame() -> None:
    for how in ({}, {"frame": "Q: {{PROMPT}}\nA:"}, {"template": "raw"}):
        assert "system_prompt needs a chat template, or a frame with {{SYSTEM}}" in refusal(
            byte_tokenizer(CHATML if how.get("template") else None), system_prompt=SYSTEM, **how
        )
    told = text_of("Hi", byte_tokenizer(), system_prompt=SYSTEM, frame=FRAME)
    assert told == f"{SYSTEM}\n\nHuman: Hi\n\nAssistant:"


def test_a_frame_in_a_chat_is_the_user_s_turn() -> None:
    text = text_of("Hi {{SYSTEM}}", byte_tokenizer(CHATML), frame="Q: {{PROMPT}}\nA:", system_prompt="Be kind.")
    assert text == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nQ: Hi {{SYSTEM}}\nA:<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_variables_of_the_template_are_read_or_refused() -> None:
    thinks = byte_tokenizer("{{ messages[-1]['content'] }}{% if enable_thinking is false %} no thoughts{% endif %}")
    assert text_of("Hi", thinks, template_kwargs={"enable_thinking": False}) == "Hi no thoughts"
    assert text_of("Hi", thinks) == "Hi"
    misspelt = refusal(thinks, template_kwargs={"enable_thinkin": False})
    assert misspelt == "its chat template reads no 'enable_thinkin', which template_kwargs gives it; remove it"
    assert "no chat template that would read them" in refusal(byte_tokenizer(), template_kwargs={"a": 1})
    several = byte_tokenizer({"plain": "P {{ messages[-1]['content'] }}", "rag": "R"})
    assert text_of("Hi", several, template_kwargs={"chat_template": "plain"}) == "P Hi"
    assert "none is the default: plain, rag" in refusal(several)


def test_the_day_is_the_pinned_one_unless_a_study_names_another() -> None:
    dated = byte_tokenizer("{{ date_string }} {{ strftime_now('%Y') }}: {{ messages[-1]['content'] }}")
    assert text_of("Hi", dated) == "26 Jul 2024 2024: Hi"
    assert text_of("Hi", dated, template_kwargs={"date_string": "1 Jan 2000"}) == "1 Jan 2000 2024: Hi"


@given(
    prompt=st.text(max_size=80),
    before=st.text("abé \n", max_size=10),
    after=st.text("abé \n", max_size=10),
    limit=st.integers(1, 200),
    chat=st.booleans(),
)
def test_helm_keeps_the_frame_and_the_start_of_the_prompt(
    prompt: str, before: str, after: str, limit: int, chat: bool
) -> None:
    tokenizer = byte_tokenizer(CHATML if chat else None)
    frame = f"[{before}{{{{PROMPT}}}}{after}]"
    how: dict[str, Any] = {"frame": frame, "truncation": "helm"}
    around = len(tokenizer.encode(text_of("", tokenizer, **how), add_special_tokens=False))
    whole = around + len(prompt.encode())
    # A character has up to three bytes, and a part of one is written as another of three.
    if limit <= around + 3:
        return
    rendered = rendering.render(prompt, tokenizer, GenerationSettings(**how), limit)
    text = str(tokenizer.decode(rendered.ids))
    assert len(rendered.ids) <= limit and rendered.truncated == (whole > limit)
    assert f"[{before}" in text and f"{after}]" in text
    kept = text.split(f"[{before}", 1)[1].rpartition(f"{after}]")[0].removesuffix("�")
    assert prompt.startswith(kept) and (rendered.truncated or kept == prompt.removesuffix("�"))
