"""The language of texts: our own sentences, texts that tell none, English babble, and real English replies."""

from __future__ import annotations

import csv
import os
import random
import time
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slmsafety.replies.language import UNKNOWN, definition, family, foreign_to_english, language, languages

with (Path(__file__).parents[1] / "data" / "languages.csv").open(encoding="utf-8") as file:
    SENTENCES = [(row["language"], row["text"]) for row in csv.DictReader(file)]
ENGLISH = " ".join(text for code, text in SENTENCES if code == "en")
FRENCH = " ".join(text for code, text in SENTENCES if code == "fr")


def test_sentences_of_19_languages_are_known_or_unknown_and_never_another_language() -> None:
    found = languages(text for _, text in SENTENCES)
    wrong = [(want, got) for (want, _), got in zip(SENTENCES, found, strict=True) if got not in (want, UNKNOWN)]
    assert len({code for code, _ in SENTENCES}) == 19
    assert wrong == []
    assert found.count(UNKNOWN) <= 0.05 * len(found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t ",
        "Nein.",
        "A. Yes\nB. No",
        "\U0001f600 \U0001f44d\U0001f44d 12345",
        "1,2,3,4 " * 400,
        "0x1f4a 9c3e 77b0 " * 20,
        "ha " * 200,
        "The " * 100,
        "\u4e2d" * 5000,
        "x" * 100_000,
        "\udcff\udc00" * 30,
        "https://www.example.org/de/ueber-uns/impressum.html",
        "def f(x):\n    return x + 1\n\nprint(f(3))",
        "Giuseppe, Fatima, Hiroshi, Priya, Pierre, Olga, Kwame, Lucia, Nguyen, Siti, Zsofia, Petra",
        "jhg dkq wpz vbn xqc lkj zzt fgh qwp mnb",
        "main aapki madad nahi kar sakta kyunki yeh galat hai",  # Hindi in Latin letters: not told, and not Indonesian
    ],
)
def test_what_tells_no_language_has_none(text: str) -> None:
    assert language(text) == UNKNOWN


@pytest.mark.parametrize("size", [5, 10, 30, 100])
def test_english_words_in_any_order_are_english_or_unknown(size: int) -> None:
    rng, words = random.Random(0), ENGLISH.split()
    babble = [" ".join(rng.choices(words, k=size)) for _ in range(300)]
    loops = [f"{text} " * 20 for text in babble]
    assert set(languages(babble + loops)) <= {"en", UNKNOWN}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The French say 'je ne sais quoi' of what is hard to describe, and 'c'est la vie' when they accept it.", "en"),
        (f"{ENGLISH} {FRENCH[:46]}", "en"),
        (f"{ENGLISH[:38]} {FRENCH}", "fr"),
        (f"{ENGLISH} {FRENCH}", UNKNOWN),
        (f"{FRENCH}\n```python\nfor word in words:\n    print(word, len(word))\n```", "fr"),
        (f"```\n{FRENCH}\n```", "fr"),
        (f"{FRENCH[:150]} https://www.example.org/this/is/the/english/page.html 1234567890", "fr"),
        (FRENCH.upper(), "fr"),
        (f"{FRENCH} \udcff", "fr"),
        ("\n".join(f"{n}. {text}" for n, (code, text) in enumerate(SENTENCES) if code == "de"), "de"),
    ],
)
def test_a_text_has_the_language_of_most_of_it(text: str, wanted: str) -> None:
    assert language(text) == wanted


def test_of_a_long_text_beginning_middle_and_end_count() -> None:
    assert language(ENGLISH * 100) == "en"
    assert language(ENGLISH + FRENCH * 100) == "fr"
    assert language(ENGLISH * 100 + FRENCH) != "fr"
    assert language(ENGLISH * 3 + FRENCH * 200 + ENGLISH * 3) != "fr"


def test_variants_of_one_language_are_one() -> None:
    assert family("hr") == family("bs") == family("sr") != family("sl")
    assert family("id") == family("ms")
    assert family("nn") == family("no") == family("nb")
    assert family("fr") == "fr"
    # Egyptian Arabic and Cantonese have codes of three letters in the detector.
    assert language("إزيك يا صاحبي عامل ايه النهارده وعايز تروح فين بكره") == "ar"
    assert language("佢哋話聽日唔嚟喇 我哋自己去食飯啦") == "zh"


def test_rules_for_english_read_english_and_what_is_not_known() -> None:
    assert [foreign_to_english(text) for text in (ENGLISH, "Nein.", FRENCH)] == ["", "", "fr"]
    assert languages([None, FRENCH]) == [UNKNOWN, "fr"]


def test_the_definition_is_json_of_plain_values() -> None:
    assert {type(value) for value in definition().values()} <= {int, float, str}
    assert definition() == definition()


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(), max_size=400))
def test_any_text_has_a_language_or_none_and_always_the_same(text: str) -> None:
    found = language(text)
    assert len(found) == 2 or found == UNKNOWN
    assert language(text) == found


@pytest.mark.parametrize("unit", ["a", "a ", "```", "``` ", "\u4e2d", "\ud800", ". ", "https://", "1", "je ne sais "])
def test_long_texts_of_one_unit_are_fast(unit: str) -> None:
    text = (unit * 300_000)[:300_000]
    start = time.perf_counter()
    language(text)
    assert time.perf_counter() - start < 2


_DATA = Path(os.environ.get("SLMSAFETY_DATA", "absent")) / "responses"


@pytest.mark.skipif(not _DATA.is_dir(), reason="needs SLMSAFETY_DATA/responses")
def test_real_replies_in_english_are_in_no_other_language() -> None:
    """GPTFuzz's replies were made by jailbreaks, and some are Chinese: those in Latin letters alone count here."""
    files = {"refusal_stability": "response", "xstest": "completion", "gptfuzz_human": "Response"}
    replies: list[str] = []
    for folder, column in files.items():
        for path in sorted((_DATA / folder).glob("*.csv")):
            table = pd.read_csv(path, keep_default_na=False)
            replies += [text for text in table.get(column, [])[::8] if text.isascii()]
    whole, cut = languages(replies), [languages(text[:size] for text in replies) for size in (40, 80, 200)]
    for found in (whole, *cut):
        other = sum(code not in ("en", UNKNOWN) for code in found)
        print(f"other {other}, unknown {found.count(UNKNOWN)}, of {len(found)}")
        assert other < 0.002 * len(found)
    assert whole.count("en") > 0.99 * len(replies) > 800
