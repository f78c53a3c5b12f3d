"""What an import makes of damaged files: seeded mutations of a valid table in each format.

Bytes are flipped, cut out, doubled and put in. A mutated file must be refused in one line that names it, or be read
with every judgment that is in it counted once (in = out + rejected). Prints format by outcome; anything else ends the
script with such a file's seed and a non-zero code.
"""

from __future__ import annotations

import io
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
from sizes import size_parser

from slmsafety.errors import InputError
from slmsafety.importers.counts import count
from slmsafety.importers.judged_table import read_judged_table
from slmsafety.importers.rules import by_rules
from slmsafety.importers.scores import Scale
from slmsafety.importers.table_layout import TableOptions
from slmsafety.records.schema import JUDGMENTS, PROMPTS, RESPONSES, check

SIZES = {"mutations": (1000, 3)}
TABLES = (PROMPTS, RESPONSES, JUDGMENTS)
# Bytes that mean something in one of the formats.
TELLING = b'",;\t|\r\n\\{}[]:0159.-eE \x00\xff\xfe\xef\xc3'


def table() -> pd.DataFrame:
    """A small table of mild judged replies, with what is hard in a file: quotes, line ends, blanks, other scripts."""
    replies = ["Good day.", 'A "word", and\nanother line', "", "Gr\u00fc\u00dfe \N{GRINNING FACE}", "a;b|c\td", " x "]
    rows = [
        {"suite": "mild", "instance_id": f"{n:03}", "model": ("org/tiny", "small")[n % 2], "judge": "first"}
        | {"prompt": f"Question {n}?", "response": replies[n % len(replies)], "score": "" if n == 4 else str(n % 3 / 2)}
        | {"status": "ok" if n < 5 else "", "note": n}
        for n in range(2 * len(replies))
    ]
    rows += [{**row, "judge": "second", "score": "1"} for row in rows[:2]]
    return pd.DataFrame(rows)


def _csv(**options: str) -> Callable[[pd.DataFrame], bytes]:
    return lambda frame: frame.to_csv(index=False, **options).encode()


def _parquet(frame: pd.DataFrame) -> bytes:
    sink = io.BytesIO()
    frame.to_parquet(sink)
    return sink.getvalue()


# name: (suffix, what the study says of the file, how a table is written)
FORMATS: dict[str, tuple[str, dict[str, str], Callable[[pd.DataFrame], bytes]]] = {
    "csv": (".csv", {}, _csv()),
    "csv, crlf": (".csv", {}, _csv(lineterminator="\r\n")),
    "csv, utf-16": (".csv", {"encoding": "utf-16"}, lambda frame: frame.to_csv(index=False).encode("utf-16")),
    "semicolons": (".csv", {"delimiter": ";"}, _csv(sep=";")),
    "tsv": (".tsv", {}, _csv(sep="\t")),
    "json lines": (".jsonl", {}, lambda frame: frame.to_json(orient="records", lines=True).encode()),
    "json list": (".json", {}, lambda frame: json.dumps(frame.to_dict("records"), indent=1).encode()),
    "parquet": (".parquet", {}, _parquet),
}


def mutated(data: bytes, seed: int) -> bytes:
    """Return a file's bytes with one to three mutations."""
    chance, found = random.Random(seed), bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(found)) if found else 0
        size = chance.choice((1, 1, 1, 2, 8, 60))
        kind = chance.choice(("bit", "bit", "byte", "byte", "telling", "cut", "insert", "double", "end"))
        if kind == "bit" and found:
            found[at] ^= 1 << chance.randrange(8)
        elif kind == "byte" and found:
            found[at] = chance.randrange(256)
        elif kind == "telling" and found:
            found[at] = chance.choice(TELLING)
        elif kind == "cut":
            del found[at : at + size]
        elif kind == "insert":
            found[at:at] = bytes(chance.choice(TELLING) for _ in range(size))
        elif kind == "double":
            found[at:at] = found[at : at + size]
        else:
            del found[at:]
    return bytes(found)


def outcome(path: Path, said: dict[str, str]) -> str:
    """Import a file and return what became of it: refused, read, or what else happened."""
    options = TableOptions(scale=Scale("safe"), **said)  # type: ignore[arg-type]
    try:
        sources = by_rules([read_judged_table(path, options).imported], lambda suite: False)
        (counts,) = count(sources)
        stored = [len(check(getattr(sources[0], each.name), each, str(path))) for each in TABLES][-1]
    except InputError as error:
        return "refused" if len(str(error).splitlines()) == 1 and str(path) in str(error) else f"refused with {error}"
    except Exception as error:  # noqa: BLE001 # the point of the exercise
        return f"{type(error).__name__}: {error}"
    balanced = counts.read == stored == counts.out + sum(counts.rejected.values())
    return "read" if balanced else f"read {counts.read}, stored {stored}"


def outcomes(name: str, mutations: int, folder: Path) -> Iterator[tuple[int, str]]:
    """Yield the seed and the outcome of mutations of a format."""
    suffix, said, write = FORMATS[name]
    data = write(table())
    path = folder / f"table{suffix}"
    path.write_bytes(data)
    assert outcome(path, said) == "read"
    for seed in range(mutations):
        path.write_bytes(mutated(data, seed))
        yield seed, outcome(path, said)


def main() -> None:
    options = size_parser(__doc__, SIZES).parse_args()
    rows, wrong = [], []
    for name in FORMATS:
        with tempfile.TemporaryDirectory() as scratch:
            found = list(outcomes(name, options.mutations, Path(scratch)))
        wrong += [f"{name}, seed {seed}: {what}" for seed, what in found if what not in ("refused", "read")]
        counts = pd.Series([what for _, what in found]).where(lambda said: said.isin(["refused", "read"]), "else")
        rows.append({"format": name} | {what: int(counts.eq(what).sum()) for what in ("refused", "read", "else")})
    print(pd.DataFrame(rows).to_string(index=False))
    if wrong:
        raise SystemExit("\n".join(wrong[:20]))


if __name__ == "__main__":
    main()
