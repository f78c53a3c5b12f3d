from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tiny_tokenizer import byte_tokenizer
from transformers import PreTrainedTokenizerBase

from slmsafety.models.answers import Completion
from slmsafety.models.input_read import input_cut, least_tokens
from slmsafety.models.load import LoadedModel

PROSE = Path("docs/judges.md").read_text("utf-8")
TEXTS = {
    "English": PROSE,
    "words alone": "the of and to in a is that it for " * 400,
    "Chinese": "\u9762\u5305\u5e97\u6bcf\u5929\u65e9\u4e0a\u70e4\u5236\u65b0\u9c9c\u7684\u9ea6\u9762\u5305\u3002" * 300,
    "code": Path("src/slmsafety/models/answers.py").read_text("utf-8") * 2,
    "white space": (" " * 40 + "\n" * 20 + "\t" * 9 + "\u3000" * 7) * 60,
    "words far apart": ("word" + " " * 64 + "\n" * 16) * 500,
    "letters": "a" * 20_000,
    "letters apart": "a " * 5000,
    "digits apart": "1 2 3 4 5 6 7 8 9 0 " * 300,
    "base64": base64.b64encode(bytes(range(256)) * 40).decode(),
    "marks": "--- *** ... !!! ??? === " * 500,
    "controls": "\x00 \x07 \u200b \ufeff a\u200bb " * 500,
    "emoji": "\U0001f600 \U0001f44d\U0001f3fd " * 500,
    "names": "U.S.A. e.g. i.e. a.b.c www.example.com don't state-of-the-art " * 200,
    "tags": "<td></td><b>x</b> " * 500,
    "code in one line": "a.b.c(x).append(self.y[0]){z};" * 300,
    "accents": "d\u00e9j\u00e0 \u00e9t\u00e9 pr\u00e9f\u00e9r\u00e9 " * 500,
    "Hindi": "\u0928\u092e\u0938\u094d\u0924\u0947 " * 900,
    "nothing": "",
}


def chat(text: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}]}


def counted(tokens: int | None, cached: int | None = None) -> Completion:
    return Completion("", "stop", tokens, 1, None, None, 1, cached_tokens=cached)


@pytest.fixture(scope="module")
def tokenizers(smollm2: LoadedModel) -> list[PreTrainedTokenizerBase]:
    return [smollm2.tokenizer, byte_tokenizer()]


@pytest.mark.parametrize("name", TEXTS)
def test_a_server_that_reads_all_is_never_doubted(name: str, tokenizers: list[PreTrainedTokenizerBase]) -> None:
    for tokenizer in tokenizers:
        tokens = len(tokenizer(TEXTS[name], add_special_tokens=False)["input_ids"])
        assert least_tokens(chat(TEXTS[name])) <= tokens
        assert not input_cut(chat(TEXTS[name]), counted(tokens))


def test_a_prompt_of_4000_tokens_cut_to_2048_is_seen(smollm2: LoadedModel) -> None:
    tokenizer = smollm2.tokenizer
    ids = tokenizer(PROSE * 3, add_special_tokens=False)["input_ids"][:4000]
    prompt = tokenizer.decode(ids)
    for body in (chat(prompt), {"prompt": prompt}):
        assert input_cut(body, counted(2048))
        assert not input_cut(body, counted(4000)) and not input_cut(body, counted(2800))


def test_a_count_that_cannot_be_of_a_window_says_nothing() -> None:
    body = chat("word " * 4000)
    assert not input_cut(body, counted(None)) and not input_cut(body, counted(0)) and not input_cut(body, counted(255))
    assert input_cut(body, counted(256)) and input_cut(body, counted(2799))
    assert not input_cut(chat("to be " * 4000), counted(5000))
    assert not input_cut(body, counted(2800)) and not input_cut(body, counted(300, 2500))
