"""Metrics of a dependency parse: instruction verbs, dependency distance, content words and sentences.

The parser reads English. Words are its tokens with a Latin letter, so that "don't" is two of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Token

CONTENT = frozenset({"NOUN", "PROPN", "VERB", "ADJ", "ADV"})
"""The parts of speech of content words; auxiliaries are none."""
PIECE = 10_000
"""The most characters that are parsed at once, as a parse takes memory for each token."""
# spaCy's tokenizer takes quadratic time in signs without a space: "(" 10,000 times takes ten seconds.
_SIGNS = re.compile(r"((?:[^\w\s]|_){100})(?=\S)")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_SUBJECTS = frozenset({"nsubj", "nsubjpass", "csubj", "expl"})
_VERBS, _JOINED = ("VB", "VBP"), ("conj", "dep")
_REQUESTS = frozenset({"can", "could", "will", "would"})


class Syntax(NamedTuple):
    """A text's words, its content words in lower case, its sentences, arcs and instruction verbs."""

    words: int
    content: tuple[str, ...]
    sentences: tuple[str, ...]
    instruction_verbs: int
    arcs: int
    arc_length: int

    @property
    def lexical_density(self) -> float:
        """Content words / words, 0..1; nan without a word. Ure 1971; Johansson 2008."""
        return len(self.content) / self.words if self.words else float("nan")

    @property
    def dependency_distance(self) -> float:
        """The mean distance of a token to its head, from 1; nan without an arc. Liu 2008, equation 2.

        Over all arcs of the text, in tokens, punctuation left out; the root of a sentence has no arc.
        """
        return self.arc_length / self.arcs if self.arcs and self.words else float("nan")


def parse(texts: Sequence[str], nlp: Language) -> list[Syntax]:
    """Return the syntax of each text; a text of more than PIECE characters is split at line or sentence ends first."""
    pieces = [list(_pieces(_SIGNS.sub(r"\1 ", text))) for text in texts]
    with nlp.memory_zone():  # else each new word stays in the vocabulary for good
        read = (syntax_of(doc) for doc in nlp.pipe([piece for text in pieces for piece in text], batch_size=64))
        return [_sum([next(read) for _ in text]) for text in pieces]


def _pieces(text: str) -> Iterator[str]:
    """Yield the pieces of a text, except those without a letter or a digit."""
    while text:
        ends = (text.rfind(mark, PIECE // 2, PIECE - 1) + len(mark) for mark in ("\n", ". ", " "))
        cut = PIECE if len(text) <= PIECE else next((end for end in ends if end > PIECE // 2), PIECE)
        if any(map(str.isalnum, text[:cut])):
            yield text[:cut]
        text = text[cut:]


def _sum(parts: list[Syntax]) -> Syntax:
    if not parts:
        return Syntax(0, (), (), 0, 0, 0)
    words, content, sentences, *counts = zip(*parts, strict=True)
    texts = (tuple(word for part in several for word in part) for several in (content, sentences))
    return Syntax(sum(words), next(texts), next(texts), *map(sum, counts))


def syntax_of(doc: Doc) -> Syntax:
    """Return the syntax of one parsed text; its tokens have tag, part of speech, head and dependency."""
    words, asking = [token for token in doc if _LATIN.search(token.text)], instructions(doc)
    positions = list(accumulate(not (token.is_punct or token.is_space) for token in doc))
    arcs = [token for token in doc if token.head.i != token.i and not (token.is_punct or token.is_space)]
    return Syntax(
        len(words),
        tuple(token.lower_ for token in words if token.pos_ in CONTENT),
        tuple(text for sent in doc.sents if any(map(str.isalnum, text := sent.text.strip()))),
        sum(token.i in asking for token in words),
        len(arcs),
        sum(abs(positions[token.i] - positions[token.head.i]) for token in arcs),
    )


def instructions(doc: Doc) -> set[int]:
    """Return the indices of the verbs that ask for an action: imperatives, requests, wishes, and verbs joined to them.

    "Write ...", "could you write ...", "I want you to write ..., and explain ...". These are the direct and the
    conventionally indirect requests of Blum-Kulka, House and Kasper 1989, read off the parse, in linear time.
    """
    children: list[list[Token]] = [[] for _ in doc]
    for token in doc:
        if token.head.i != token.i:
            children[token.head.i].append(token)
    found = [token.i for token in doc if _asks(token, children)]
    for index in found:  # it grows: a joined verb has others joined to it, and each has one head
        found += [child.i for child in children[index] if child.dep_ in _JOINED and _is_bare(child, children)]
    return set(found)


def _asks(token: Token, children: list[list[Token]]) -> bool:
    """Return whether a token asks for an action by itself; `children` are those of each token of its text."""
    own = children[token.i]
    if token.tag_ not in _VERBS:
        # Nouns have no direct object: "List three ..." is tagged as one and parsed as a verb.
        return token.tag_ in ("NN", "NNP") and token.dep_ == "ROOT" and any(child.dep_ == "dobj" for child in own)
    if _is_bare(token, children):
        return token.dep_ in ("ROOT", "parataxis")
    subjects = [child for child in own if child.dep_ in _SUBJECTS]
    if [child.lower_ for child in subjects] != ["you"]:
        return False
    asked = any(child.tag_ == "MD" and child.lower_ in _REQUESTS and child.i < subjects[0].i for child in own)
    beside = children[token.head.i] if any(child.tag_ == "TO" for child in own) else []
    return asked or any(child.dep_ == "nsubj" and child.lower_ in ("i", "we") for child in beside)


def _is_bare(token: Token, children: list[list[Token]]) -> bool:
    """Return whether a token is a verb in its base form without a subject, a modal verb or "to"."""
    own = children[token.i]
    return token.tag_ in _VERBS and not any(child.dep_ in _SUBJECTS or child.tag_ in ("MD", "TO") for child in own)
