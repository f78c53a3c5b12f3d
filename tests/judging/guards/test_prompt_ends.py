"""How a prompt ends is the adapter's to say: what editors do to the end of a file moves no verdict and no id."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import WORDS, word_tokenizer, write_model
from tiny_tokenizer import byte_tokenizer

from slmsafety.errors import InputError
from slmsafety.judging.guards.generative import Prompts
from slmsafety.judging.guards.generative import definition as generative_definition
from slmsafety.judging.guards.prompt_format import encode, read_template, text_layout
from slmsafety.judging.guards.two_token import TwoTokenJudge, md_judge_v01, two_token
from slmsafety.judging.guards.two_token import definition as two_token_definition
from slmsafety.models.load import load_causal_lm
from slmsafety.models.source import Source

BODY = "[INST] Is it kind?\n\n{{QUESTION}}\n\n{{ANSWER}}\n\nIn one word: [/INST]"
ENDS = ["", "\n", "\r\n", "\n\n", " ", " \n", "\t\r\n\r\n"]
# What each adapter's published prompt ends with, behind the text of the file.
PUBLISHED = {"md_judge_v01": "[/INST]", "wildguard": "[/INST]\n", "harmbench_cls": "[/INST]"}


def asked(adapter: str, template: str) -> tuple[str, str]:
    """The prompt that an adapter makes of a file's text, and the hash of it in the definition."""
    if adapter == "md_judge_v01":
        judge = md_judge_v01(template)
        return judge.template, two_token_definition(judge, {}, "float32")["template"]
    prompts = Prompts(template)
    return str(prompts.ended(adapter).plain), generative_definition(adapter, prompts, {}, "float32")["template"]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("adapter", PUBLISHED)
def test_a_published_prompt_ends_as_published_whatever_its_file_ends_with(adapter, end, mark, tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_bytes((mark + BODY.replace("\n", "\r\n") + end).encode())
    prompt, key = asked(adapter, read_template(path))
    assert prompt.startswith("[INST] Is it kind?\n\n{{")
    assert prompt.endswith(f"In one word: {PUBLISHED[adapter]}")
    assert key == asked(adapter, BODY)[1]
    tokenizer = byte_tokenizer()
    ids = encode(text_layout(prompt), "Why?", "So.", tokenizer, 1000).ids
    assert tokenizer.decode(ids) == BODY.replace("{{QUESTION}}", "Why?").replace("{{ANSWER}}", "So.") + (
        PUBLISHED[adapter].removeprefix("[/INST]")
    )


@pytest.mark.parametrize(
    ("end", "kept"), [("", ""), ("\n", ""), ("\r\n", ""), ("\n\n", "\n"), (" ", " "), (" \n", " "), ("\r\n\r\n", "\n")]
)
def test_a_free_prompt_ends_as_its_file_without_the_last_line_break(end, kept, tmp_path):
    path: Path = tmp_path / "prompt.txt"
    path.write_bytes((BODY + end).encode())
    judge = two_token(read_template(path), "a", "b")
    assert judge.template == BODY + kept
    assert judge == two_token(BODY + kept + "\n", "a", "b")


def test_another_prompt_is_another_id():
    for adapter in PUBLISHED:
        assert asked(adapter, BODY)[1] != asked(adapter, BODY.replace("one word", "a word"))[1]
    contextual = Prompts(BODY, BODY + "{{CONTEXT}}")
    ids = [generative_definition("harmbench_cls", one, {}, "float32") for one in (contextual, Prompts(BODY))]
    assert "context_template" in ids[0] and "context_template" not in ids[1]
    ended = Prompts(BODY + "\n", BODY + "{{CONTEXT}}\n")
    assert generative_definition("harmbench_cls", ended, {}, "float32") == ids[0]


def test_the_last_line_break_of_a_file_does_not_move_a_verdict(tmp_path):
    """A judge that reads words: a line break that reached it would be one more token."""
    vocabulary = word_tokenizer()
    loaded = load_causal_lm(Source(folder=write_model(tmp_path / "words", tokenizer=vocabulary)))
    assert "safe" in WORDS
    text = "is the {{QUESTION}} safe ? the {{ANSWER}} is"
    bare, ended = (TwoTokenJudge(loaded, two_token(text + end, "safe", "unsafe"), 1) for end in ("", "\n"))
    assert bare.shared == ended.shared
    with pytest.raises(InputError, match="no single token"):
        TwoTokenJudge(loaded, two_token(text, "safe", "maybe"), 1)
