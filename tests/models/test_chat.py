from __future__ import annotations

from pathlib import Path

import pytest
from tiny_tokenizer import CHATML, byte_tokenizer
from transformers import AutoTokenizer
from transformers.utils import chat_template_utils

from slmsafety.errors import InputError
from slmsafety.models.chat import chat_template, chat_text

HI = [{"role": "user", "content": "Hi"}]
# As SmolLM3's and Llama 3.2's templates ask for the day, one of them in a macro.
ASKS = "{% set today = strftime_now('%d %B %Y') %}{{ today }}: {{ messages[0]['content'] }}"
ASKS_IN_A_MACRO = (
    "{% macro day() %}{{ strftime_now('%d %b %Y') }}{% endmacro %}{{ day() }}: {{ messages[0]['content'] }}"
)


class NextYear(chat_template_utils.datetime):  # type: ignore[misc, name-defined]
    """A clock on another day."""

    @classmethod
    def now(cls, tz: object = None) -> NextYear:
        return cls(2031, 3, 4)


@pytest.mark.parametrize("day", ["today", "another day"])
@pytest.mark.parametrize(("template", "wanted"), [(ASKS, "26 July 2024: Hi"), (ASKS_IN_A_MACRO, "26 Jul 2024: Hi")])
def test_a_template_that_asks_for_the_day_gets_one_day_for_ever(
    template: str, wanted: str, day: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = byte_tokenizer(template)
    if day == "another day":
        monkeypatch.setattr(chat_template_utils, "datetime", NextYear)
        plain = tokenizer.apply_chat_template(HI, tokenize=False)
        assert "Mar" in plain and "2031" in plain, "the clock that the template asks has another day"
    assert chat_text(tokenizer, HI) == wanted
    assert chat_template_utils.datetime is (NextYear if day == "another day" else __import__("datetime").datetime)


def test_variables_reach_the_template() -> None:
    tokenizer = byte_tokenizer("{{ messages[0]['content'] }} {{ 'thinks' if enable_thinking else 'answers' }}")
    assert chat_text(tokenizer, HI, enable_thinking=True) == "Hi thinks"
    assert chat_text(tokenizer, HI, enable_thinking=False) == "Hi answers"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ raise_exception('Only turns of tools here') }}", "its chat template fails (TemplateError): Only turns of"),
        ("{{ messages[0]['content'] + 1 }}", "its chat template fails (TypeError): can only concatenate str"),
        ("{% for m in messages %}", "its chat template fails (TemplateSyntaxError): Unexpected end of template"),
        ("{{ nothing.at.all }}", "its chat template fails (UndefinedError): 'nothing' is undefined"),
    ],
)
def test_a_template_that_fails_gets_one_line(template: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        chat_text(byte_tokenizer(template), HI)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_several_templates() -> None:
    several = byte_tokenizer({"tool_use": "T {{ messages[0]['content'] }}", "rag": "R {{ messages[0]['content'] }}"})
    with pytest.raises(InputError, match=r"none is the default: rag, tool_use; choose one by template_kwargs: \{chat_"):
        chat_text(several, HI)
    assert chat_text(several, HI, chat_template="rag") == "R Hi"
    with pytest.raises(InputError, match="unknown chat template 'rags'; did you mean 'rag'"):
        chat_text(several, HI, chat_template="rags")
    several.chat_template = {"default": "D {{ messages[0]['content'] }}", "rag": "R"}
    assert chat_text(several, HI) == "D Hi"
    with pytest.raises(InputError, match=r"has one chat template; remove template_kwargs\.chat_template"):
        chat_text(byte_tokenizer(CHATML), HI, chat_template="rag")
    assert chat_template(byte_tokenizer()) == ""


def test_templates_in_files_of_their_own(tmp_path: Path) -> None:
    """As newer folders have them: chat_template.jinja, and additional_chat_templates/NAME.jinja."""
    byte_tokenizer({"default": CHATML, "rag": "R {{ messages[0]['content'] }}"}).save_pretrained(tmp_path)
    assert (tmp_path / "chat_template.jinja").read_text() == CHATML
    assert (tmp_path / "additional_chat_templates" / "rag.jinja").exists()
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert chat_text(again, HI) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert chat_text(again, HI, chat_template="rag") == "R Hi"
    (tmp_path / "additional_chat_templates" / "rag.jinja").unlink()
    assert chat_text(AutoTokenizer.from_pretrained(tmp_path), HI) == chat_text(again, HI)
