"""Prices, the tokens of a text by our own count, and what an attempt is counted at, however it has ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.judging.llm.cost import Price, Size, Taken, count_tokens, request_size, taken
from slmsafety.metrics.tokens import count_tokens as tokens_by
from slmsafety.models.answers import Again, Completion, Failure, Halt
from slmsafety.models.encoder import gpt2_tokenizer

SIZE = Size(input=100, most_input=500, most_output=256)
# Mild texts of our own, as replies and prompts are: prose, a list, code, numbers, markup, another language.
PROSE = (
    "The harbour was quiet this morning. Two boats came in before seven, and nobody had much to say about the weather, "
    "which was neither good nor bad. We'd planned to walk along the shore, but it's a long way."
)
TEXTS = {
    "prose": PROSE,
    "list": "1. Wash the apples.\n2. Cut them in quarters.\n3. Boil for 15 minutes.\n\nServe warm, with cream.",
    "code": 'def greet(name: str) -> str:\n    """Say hello."""\n    return f"Hello, {name}!"\n\nprint(greet("Ada"))\n',
    "numbers": "In 1998 there were 12,407 of them, 3.5 % more than in 1997; by 2004 it was 15,000.",
    "markup": "> <reasoning>The reply says no.</reasoning>\n> <score>1</score>\n> **Note**: &amp; and &lt; are quoted.",
    "German": "Der Hafen war heute Morgen ruhig. Zwei Boote kamen herein, und niemand sprach über das Wetter.",
}


def reply(input_tokens, output_tokens, text="No.", **more):
    return Completion(text, "stop", input_tokens, output_tokens, "tiny", None, 1, **more)


@pytest.mark.parametrize("name", TEXTS)
def test_our_count_is_near_a_real_tokenizer_s_and_rarely_above_it(name):
    """So that it never outweighs an honest server's, and makes no call free."""
    (real,) = tokens_by([TEXTS[name]], gpt2_tokenizer().tokenizer)
    assert 0.55 * real <= count_tokens(TEXTS[name]) <= 1.15 * real


def test_what_characters_miscount_is_counted():
    assert count_tokens("") == 0
    assert count_tokens("7 " * 100) >= 100 > len("7 " * 100) / 4
    assert count_tokens("字" * 100) == 50 > 100 / 4
    assert count_tokens("\n".join("abc")) == 5
    assert count_tokens("\ud800") == 1


@given(st.text())
def test_a_text_has_no_more_tokens_than_bytes(text):
    assert (text != "" and text.strip(" ") != "") <= count_tokens(text) <= len(text.encode("utf-8", "surrogatepass"))


def test_a_request_is_bounded_by_its_bytes_and_the_most_that_may_be_written():
    size = request_size(
        {"messages": [{"role": "user", "content": "字" * 10}], "max_completion_tokens": 300, "top_p": 1}
    )
    assert size.input == 5 and size.most_output == 300
    assert size.most_input > len("字" * 10) * 3 + 60
    with pytest.raises(ValueError, match="empty"):
        request_size({"messages": []})


@pytest.mark.parametrize(
    ("heard", "counted"),
    [
        (reply(120, 40), Taken(120, 40)),
        (reply(0, 0), Taken(100, 2)),  # says that it was for nothing
        (reply(3, 1, PROSE), Taken(100, count_tokens(PROSE))),
        (reply(120, 2, reasoning=PROSE), Taken(120, count_tokens(PROSE) + 2)),
        (reply(None, None), Taken(500, 256)),
        (reply(120, None), Taken(120, 256)),
        (reply(10, 5, cached_tokens=115), Taken(125, 5)),  # leaves out what it had read before
        (reply(120, 5, cached_tokens=115), Taken(120, 5)),
        (reply(95, 5, cached_tokens=80), Taken(100, 5)),  # counts them, and is a little below our count
        (reply(20, 5, cached_tokens=80), Taken(100, 5)),
        (reply(120, 5010, reasoning=""), Taken(120, 5010)),  # reasons where no one sees it, beyond any limit
        (reply(20_000, 5), Taken(20_000, 5)),  # has a prompt of its own
        (reply(-5, 5), Taken(500, 5, True)),
        (reply(10**12, 5), Taken(500, 5, True)),
        (reply(120, 2**63), Taken(120, 256, True)),
        (reply(600, 300), Taken(600, 300)),  # more than we thought that there can be, and still a count
        (None, Taken(500, 256)),
        (Again("unsent"), Taken(0, 0)),
        (Again("rate_limit", None, 3.0), Taken(0, 0)),
        (Again("malformed"), Taken(500, 256)),
        (Again("http_500"), Taken(500, 256)),
        (Again("http_503"), Taken(500, 256)),
        (Again("http_408"), Taken(500, 256)),
        (Again("http_409"), Taken(0, 0)),
        (Failure("blocked", 1), Taken(500, 256)),
        (Failure("finish_none", 1), Taken(500, 256)),
        (Failure("timeout", 1), Taken(500, 256)),
        (Failure("connection", 1), Taken(500, 256)),
        (Failure("prompt_too_long", 1), Taken(500, 0)),
        (Failure("http_400", 1), Taken(0, 0)),
        (Failure("http_422", 1), Taken(0, 0)),
        (Failure("batch_expired", 1), Taken(0, 0)),
        (Halt("wrong_key"), Taken(0, 0)),
        (Halt("refused_parameter"), Taken(0, 0)),
    ],
)
def test_what_an_attempt_is_counted_at(heard, counted):
    assert taken(SIZE, heard) == counted


def test_a_price_reads_as_its_page_says():
    price = Price.model_validate({"input": 2.5, "output": 10, "date": "2026-11-01"})
    assert price.cost(1_000_000, 0) == 2.5 and price.cost(0, 100_000) == 1.0
    assert str(price) == "$2.5 in, $10 out a million tokens (2026-11-01)"
