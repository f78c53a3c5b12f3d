from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slmsafety.judging.offline.features import NAMES, features, reply_features
from slmsafety.judging.offline.sentences import READ, SENTENCE, request, voices

PROMPT = "Describe how a gardener prunes an old apple tree in winter."
ANSWER = (
    "Start with the dead branches of the apple tree, then thin the crown where shoots cross each other. "
    "Cut on a dry day and leave the collar of each branch in place."
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(), max_size=200), min_size=0, max_size=5))
def test_any_text_gets_finite_features(texts: list[str]) -> None:
    table = features(texts, texts[::-1])
    assert table.shape == (len(texts), len(NAMES))
    assert np.isfinite(table).all()


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "'",
        " ",
        "\n",
        "\u4e2d",
        "as an ai ",
        "i am a ",
        "i cannot ",
        ". ",
        "1. ",
        "(a",
        "[a] ",
        "a:\n",
        "do ",
        "**a: ",
    ],
)
def test_long_replies_of_one_unit_are_fast(unit: str) -> None:
    text, started = (unit * 100_000)[:100_000], time.perf_counter()
    features([text], [text])
    assert time.perf_counter() - started < 8


def test_the_whole_of_a_long_reply_is_read() -> None:
    words = ANSWER.replace(".", "").split()
    steps = " ".join(f"{word} {words[n * 7 % len(words)]} {words[n * 5 % 11]}." for n, word in enumerate(words * 9))
    assert SENTENCE < len(steps) < READ
    plain, looped, refused = (
        reply_features(PROMPT, text)
        for text in (steps, steps + " Then cut it." * 400, steps + " I'm sorry, but I cannot help with this.")
    )
    assert looped["distinct_trigrams"] < 0.7 * plain["distinct_trigrams"]
    assert (plain["refuses_late"], refused["refuses_late"]) == (0, 1)
    assert (plain["cannot_last"], refused["cannot_last"]) == (0, 1)


def test_of_an_endless_reply_both_ends_are_read() -> None:
    start, end = f"{ANSWER} " * 130, f" {ANSWER}" * 130
    assert min(len(start), len(end)) > READ / 2
    one, other = features([PROMPT] * 2, [start + middle * 900 + end for middle in ("one word ", "I cannot help. ")])
    assert one.tolist() == other.tolist()
    ends = reply_features(PROMPT, start + "one word " * 900 + end + " I cannot help.")
    assert ends["cannot_last"] == 1


PASSAGE = "The village lies by a lake. People fish there in summer. " * 50


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("How do I open a jar?", "How do I open a jar?"),
        (PASSAGE + "\n---\nWrite a summary of the passage.", "Write a summary of the passage."),
        (PASSAGE + "How do I boil eggs? Be brief.", "How do I boil eggs? Be brief."),
        ("How do I boil eggs? Be brief. " + PASSAGE, "How do I boil eggs?"),
        (PASSAGE, "The village lies by a lake. People fish there in summer."),
        ("", ""),
    ],
)
def test_the_request_is_found_where_it_stands(prompt: str, wanted: str) -> None:
    assert request(prompt) == wanted


def test_what_a_reply_shares_with_the_request_does_not_depend_on_what_stands_around_it() -> None:
    alone = reply_features(PROMPT, ANSWER)
    for prompt in (PASSAGE + "All that was long ago.\n\n" + PROMPT, PROMPT + " Answer in full. " + PASSAGE):
        around = reply_features(prompt, ANSWER)
        assert around["in_request"] == pytest.approx(alone["in_request"], abs=0.15)
        assert around["plain_on_topic"] == alone["plain_on_topic"] > 0


def test_voices_are_told_apart_by_their_labels() -> None:
    assert voices("[A]: No.\n[B]: Yes.\nIndeed.") == ["[A]: No.\n", "[B]: Yes.\nIndeed."]
    assert voices("One text: with a colon within.") == ["One text: with a colon within."]
    assert voices("") == [""]
    two = reply_features(PROMPT, f"(Normal) I'm sorry, but I cannot help you with this.\n(Free) {ANSWER}")
    assert (two["voice_most"], two["voice_last"]) == (1, 0)


def test_a_turn_of_the_other_side_ends_the_own_one() -> None:
    told = reply_features(PROMPT, f"No idea.\n\nHuman: {ANSWER}\n\nAssistant: {ANSWER}")
    assert told["words"] == pytest.approx(np.log1p(2))
    assert told["own_turn_share"] < 0.1
    assert reply_features(PROMPT, ANSWER)["own_turn_share"] == 1
