from __future__ import annotations

import math

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from slmsafety.metrics.syntax import PIECE, Syntax, parse, syntax_of


def parsed(words: str, tags: str, pos: str, deps: str, heads: list[int]) -> Syntax:
    """The syntax of a parse that is written by hand."""
    doc = Doc(
        spacy.blank("en").vocab, words.split(), tags=tags.split(), pos=pos.split(), deps=deps.split(), heads=heads
    )
    return syntax_of(doc)


def test_a_parse_by_hand() -> None:
    # "Write , please , a short poem ." Arcs without punctuation: please-Write 1, a-poem 2, short-poem 1, poem-Write 4.
    made = parsed(
        "Write , please , a short poem .",
        "VB , UH , DT JJ NN .",
        "VERB PUNCT INTJ PUNCT DET ADJ NOUN PUNCT",
        "ROOT punct intj punct det amod dobj punct",
        [0, 0, 0, 0, 6, 6, 0, 0],
    )
    assert made.dependency_distance == (1 + 2 + 1 + 4) / 4
    assert made.lexical_density == 3 / 5
    assert made.content == ("write", "short", "poem")
    assert made.instruction_verbs == 1


# Three sentences: one, one of two signs, one of a number.
_DEPS, _HEADS = "nsubj ROOT punct ROOT punct ROOT punct", [1, 1, 1, 3, 3, 5, 5]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Write a poem about bees.", 1),
        ("List five fruits and explain why they are healthy.", 2),
        ("Create a table. Sort it. Print it.", 3),
        ("Could you write a letter to my landlord?", 1),
        ("Can you please tell me how to bake bread?", 1),
        ("I'd like you to summarize this text.", 1),
        ("Do not open the door.", 1),
        ("Explain", 1),
        ("How do bees find flowers?", 0),
        ("You can see that this is a statement.", 0),
        ("He wrote a book and sold it.", 0),
        ("They go home and sleep.", 0),
        ("Hello world", 0),
    ],
)
def test_instructions_are_imperatives_and_requests(nlp: Language, text: str, count: int) -> None:
    assert parse([text], nlp)[0].instruction_verbs == count


def test_verbs_that_are_joined_to_a_request_count_however_long_the_chain() -> None:
    """Each verb is joined to the one before it; in the second text the first has a subject."""
    size = 3000
    heads = [0, *range(size - 1)]
    deps = "ROOT" + " conj" * (size - 1)
    verbs = ["run " * size, "VB " * size, "VERB " * size]
    assert parsed(*verbs, deps, heads).instruction_verbs == size
    said = [f"{first} {rest}" for first, rest in zip(["they", "PRP", "PRON"], verbs, strict=True)]
    assert parsed(*said, f"nsubj {deps}", [1, 1, *range(1, size)]).instruction_verbs == 0


def test_a_joined_verb_may_stand_before_its_head() -> None:
    made = parsed("run , go", "VB , VB", "VERB PUNCT VERB", "dep punct ROOT", [2, 2, 2])
    assert made.instruction_verbs == 2


@pytest.mark.parametrize("text", ["Run and " * 1000 + "stop.", "go, " * 2400])
def test_a_long_chain_of_verbs_is_parsed(nlp: Language, text: str) -> None:
    (made,) = parse([text], nlp)
    assert made.words > 1900
    assert made.instruction_verbs > 0


def test_numbers_are_undefined_without_a_latin_word(nlp: Language) -> None:
    for text in ["", " \n", "123 456.", "?!...", "\U0001f600 \U0001f680", "Привет, мир!", "你好世界。"]:
        (made,) = parse([text], nlp)
        assert made.words == 0
        assert math.isnan(made.lexical_density)
        assert math.isnan(made.dependency_distance)


def test_one_word_has_a_density_and_no_arc(nlp: Language) -> None:
    (made,) = parse(["Bees"], nlp)
    assert made.lexical_density == 1
    assert math.isnan(made.dependency_distance)


def test_sentences_hold_a_letter_or_a_digit() -> None:
    made = parsed("Bees fly . ! ? 7 .", "NNS VBP . . . CD .", "NOUN VERB PUNCT PUNCT PUNCT NUM PUNCT", _DEPS, _HEADS)
    assert made.sentences == ("Bees fly .", "7 .")


def test_texts_are_parsed_as_if_alone(nlp: Language) -> None:
    texts = ["Write a poem.", "", "Bees find flowers by their scent. They tell others.", "def f(x): return x", "!"]
    assert parse(texts, nlp) == [parse([text], nlp)[0] for text in texts]
    assert parse([], nlp) == []


def test_a_long_text_is_parsed_in_pieces_that_end_with_a_sentence(nlp: Language) -> None:
    sentence, times = "Bees find the flowers by their scent. ", 2 * PIECE // 38 + 2
    long, one = parse([sentence * times, sentence], nlp)
    assert long.words == times * one.words
    assert long.content == one.content * times
    assert long.dependency_distance == pytest.approx(one.dependency_distance)
    assert len(long.sentences) == times


@pytest.mark.parametrize("sign", ["a", "(", "-", "\U0001f600", "中", " "])
def test_a_hundred_kilobytes_of_one_sign(nlp: Language, sign: str) -> None:
    (made,) = parse([sign * 100_000], nlp)
    assert (made.words > 0) == (sign == "a")


def test_many_signs_before_a_word_take_no_quadratic_time(nlp: Language) -> None:
    (made,) = parse(["(" * 9_000 + "bees"], nlp)  # most of a minute, were they not parted
    assert made.content == ("bees",)


def test_the_vocabulary_does_not_grow(nlp: Language) -> None:
    parse(["Bees fly."], nlp)
    before = len(nlp.vocab.strings)
    parse([f"Zyx{number}qv flies." for number in range(50)], nlp)
    assert len(nlp.vocab.strings) == before
