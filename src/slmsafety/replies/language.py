"""The language of a text: an ISO 639-1 code, or `und` where a text does not tell.

The detector is py3langid: naive Bayes over byte n-grams, 4.5 MB, no network, the same answer every time. A wrong "other
language" takes a reply from the rules that read English, so a language is named only where it is all but certain;
benchmarks/language.py measures how often that is wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from slmsafety.records.ids import file_sha256
from slmsafety.records.schema import UNKNOWN_LANGUAGE
from slmsafety.replies.parts import answers

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

VERSION = 1
UNKNOWN = UNKNOWN_LANGUAGE
ENGLISH = "en"
SURE, MOST, ENOUGH, PIECE = 0.8, 2 / 3, 14, 300

# Varieties that the detector tells apart and no count should: each stands beside the code that is reported for it.
_REPORTED = {"arz": "ar", "ary": "ar", "wuu": "zh", "yue": "zh", "sdh": "ku"}
# Languages that a short text cannot be told apart in: confidence is that of all of them together.
_ALIKE = [("ar", "arz", "ary"), ("zh", "wuu", "yue"), ("bs", "hr", "sr"), ("id", "ms"), ("nb", "nn", "no")]
_FAMILY = {code: family[0] for family in _ALIKE for code in family}
# Nobody answers in Volapük; the detector takes lists of numbers for it.
_NEVER = frozenset({"vo"})
_NOT_LANGUAGE = "zxx"

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NOISE = re.compile(r"https?://\S+|[\d\ud800-\udfff]+")
_NO_LETTERS = re.compile(r"[\W\d_]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[\u3002\uff01\uff1f\u0964])")


def definition() -> dict[str, Any]:
    """Return what decides the language of a text: it is part of the id of a judge that asks for it."""
    from py3langid.langid import MODEL_DIR, MODEL_FILE

    limits = {"sure": SURE, "most": MOST, "enough": ENOUGH, "piece": PIECE}
    return {"version": VERSION, "detector": file_sha256(Path(MODEL_DIR) / MODEL_FILE), **limits}


def language(text: str) -> str:
    """Return the language that most of a text is written in.

    Parameters
    ----------
    text : str
        Any text. Of a long one the beginning, the middle and the end are read, PIECE characters each. Fenced code, URLs
        and numbers do not count, unless there is nothing else.

    Returns
    -------
    str
        ISO 639-1, or UNKNOWN for a text that does not tell: too short (16 letters are the least, of Chinese 6), a loop
        of a word or two, code, numbers, a list of names, two languages of which neither has MOST of the letters, or a
        language that is not probable by SURE (0 to 1, as the detector normalises it).
    """
    prose = _prose(text)
    found = _detected(prose)
    # English has no letters of its own: a text that is half English is taken for its other half.
    return found if found in (UNKNOWN, ENGLISH) else _of_most(prose, found)


def languages(texts: Iterable[str | None]) -> list[str]:
    """Return the language of each text, in their order; UNKNOWN for a text that is missing."""
    return [language(text) if isinstance(text, str) else UNKNOWN for text in texts]


def reply_languages(replies: pd.DataFrame) -> list[str]:
    """Return the language of the part of each reply that answers.

    `replies` has response, and answer_start and answer_end where it is known which part that is: without them, or where
    they are missing, the whole reply answers.
    """
    known = {"answer_start", "answer_end"} <= set(replies.columns)
    return languages(answers(replies) if known else replies["response"])


def family(code: str) -> str:
    """Return a code that languages share which a short text cannot be told apart in, as Croatian and Bosnian."""
    return _FAMILY.get(code, code)


def foreign_to_english(text: str) -> str:
    """Return the language of a text that rules for English cannot read; "" where they can, or may as well try."""
    found = language(text)
    return "" if found in (ENGLISH, UNKNOWN) else found


def _prose(text: str) -> str:
    prose = _parts(_NOISE.sub(" ", _FENCED.sub(" ", text)))
    return prose if _tells(prose) >= ENOUGH else _parts(_NOISE.sub(" ", text))


def _parts(text: str) -> str:
    if len(text) <= 3 * PIECE:
        return text
    middle = (len(text) - PIECE) // 2
    return "\n".join((text[:PIECE], text[middle : middle + PIECE], text[-PIECE:]))


def _tells(text: str) -> int:
    """How many different runs of three bytes its letters have in UTF-8: a word that is said again tells nothing new."""
    letters = _NO_LETTERS.sub("", text.lower()).encode("utf-8")
    return len(set(zip(letters, letters[1:], letters[2:], strict=False)))


def _detected(prose: str) -> str:
    if _tells(prose) < ENOUGH:
        return UNKNOWN
    best, probability = _identifier().classify(prose)
    if best == _NOT_LANGUAGE:
        return UNKNOWN
    if probability < SURE and best in _FAMILY:
        probability = sum(each for code, each in _identifier().rank(prose) if family(code) == family(best))
    return _REPORTED.get(best, best) if probability >= SURE else UNKNOWN


def _of_most(prose: str, found: str) -> str:
    """The language of MOST letters in sentences of a known one, UNKNOWN where two share; `found` where none tells."""
    letters: Counter[str] = Counter()
    for sentence in _SENTENCE.split(prose):
        letters[_detected(sentence)] += _tells(sentence)
    del letters[UNKNOWN]
    if not letters:
        return found
    first, count = letters.most_common(1)[0]
    return first if count >= MOST * letters.total() else UNKNOWN


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    known = {code for code in identifier.labels if len(code) == 2} - _NEVER
    identifier.set_languages(known | set(_REPORTED) | {_NOT_LANGUAGE})
    return identifier
