"""How often the language of a text is known, how often it is wrong, and how long that takes.

    python benchmarks/language.py
    python benchmarks/language.py --po FOLDER    another test: gettext catalogues, such as django/conf/locale of Django

Prints, for our own sentences in 19 languages, for the messages of the catalogues, for real English replies (whole, and
cut to their first characters) and for English words in random order: texts, those of known language, those that are
called another language than they are, and milliseconds of processor time a text. Real replies are those in ASCII of the
public files below SLMSAFETY_DATA, so that a reply in Chinese is no error.
"""

from __future__ import annotations

import csv
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from sizes import size_parser

from slmsafety.replies.language import UNKNOWN, family, language, languages

SENTENCES = Path(__file__).parents[1] / "tests" / "data" / "languages.csv"
REPLIES = {"refusal_stability": "response", "xstest": "completion", "gptfuzz_human": "Response"}
SIZES = {"replies": (10_000, 5), "messages": (400, 2), "babble": (2000, 5)}
# What the detector has no code of its own for, or calls otherwise.
LOCALES = {"ckb": "ku"}
NOT_KNOWN = {"ast", "dsb", "hsb", "ia", "io", "kab", "os", "udm"}


def main() -> None:
    parser = size_parser(__doc__, SIZES)
    parser.add_argument("--po", type=Path, help="a folder of gettext catalogues, LOCALE/LC_MESSAGES/*.po")
    options = parser.parse_args()
    language("Load the detector before the clock starts.")
    with SENTENCES.open(encoding="utf-8") as file:
        report("our own sentences", [(row["language"], row["text"]) for row in csv.DictReader(file)])
    if options.po is not None:
        for low, high in ((20, 40), (40, 80), (80, 160), (160, 10_000)):
            found = [pair for pair in messages(options.po, options.messages) if low <= len(pair[1]) < high]
            report(f"messages of {low} to {high} characters", found)
    replies = english_replies()[: options.replies]
    for size in (40, 80, 200, 1_000_000):
        found = [("en", text[:size]) for text in replies]
        report(f"English replies, the first {size:,} characters", found)
    rng, words = random.Random(0), " ".join(replies or [Path(__file__).read_text("utf-8")]).split()
    for count in (5, 20, 60):
        babble = [("en", " ".join(rng.choices(words, k=count))) for _ in range(options.babble)]
        report(f"{count} English words in random order", babble)


def report(what: str, texts: list[tuple[str, str]]) -> None:
    """Print a line on texts, each with the language that it is in."""
    if not texts:
        return
    start = time.process_time()
    found = languages(text for _, text in texts)
    each = 1000 * (time.process_time() - start) / len(texts)
    known = sum(code != UNKNOWN for code in found)
    pairs = zip(texts, found, strict=True)
    wrong = sum(got != UNKNOWN and family(got) != family(wanted) for (wanted, _), got in pairs)
    rates = f"known {known / len(texts):.1%}; wrong {wrong} ({wrong / len(texts):.2%})"
    print(f"{what}: {len(texts):,}; {rates}; {each:.2f} ms")


def english_replies() -> list[str]:
    """The different public replies in ASCII; none without SLMSAFETY_DATA."""
    found: dict[str, None] = {}
    folder = Path(os.environ.get("SLMSAFETY_DATA", "absent")) / "responses"
    for name, column in REPLIES.items():
        for path in sorted((folder / name).glob("*.csv")):
            table = pd.read_csv(path, keep_default_na=False)
            found |= dict.fromkeys(text for text in table.get(column, []) if text.isascii() and text.strip())
    return list(found)


def messages(folder: Path, most: int) -> Iterator[tuple[str, str]]:
    """Yield the language and text of translated messages of 20 characters or more, `most` of each locale."""
    for path in sorted(folder.glob("*/LC_MESSAGES/*.po")):
        locale = re.split("[_@]", path.parts[-3])[0]
        if locale in NOT_KNOWN:
            continue
        catalogue = path.read_text("utf-8")
        written = re.findall(r'^msgstr(?:\[\d\])? ((?:".*"\s*)+)', catalogue.split("\n\n", 1)[-1], re.MULTILINE)
        texts = ("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace("\\n", " ") for text in written)
        plain = (" ".join(re.sub(r"%\(\w+\)[sd]|%[sd]|<[^>]+>|\{[^}]*\}|\\.", " ", text).split()) for text in texts)
        long = [text for text in dict.fromkeys(plain) if len(text) >= 20]
        yield from ((LOCALES.get(locale, locale), text) for text in long[:most])


if __name__ == "__main__":
    main()
