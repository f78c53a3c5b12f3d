"""The words of the command line that say what a file of judged replies holds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slmsafety.errors import InputError

_PLAIN = ("suite", "model", "judge", "polarity", "helm_version", "format", "encoding", "delimiter")
_MEANINGS = "harmful, ambiguous, safe or missing"


def add_import(verbs: argparse._SubParsersAction[Any]) -> None:
    """Add the verb `import` to the verbs of a parser."""
    verb = verbs.add_parser(
        "import",
        help="make a study of a file of judged replies, or of HELM runs",
        description="Read judged replies, write params/NAME.yaml and collect the study. Options say what a file does "
        "not, and become keys of the params file (docs/importing.md).",
    )
    verb.add_argument("path", metavar="PATH", type=Path, help="a table (CSV, TSV, JSONL, Parquet) or HELM's folder")
    verb.add_argument("--study", metavar="NAME", required=True, help="the study's name")
    verb.add_argument("--dry-run", action="store_true", help="print what is understood and write nothing")
    for key in ("suite", "model", "judge"):
        verb.add_argument(f"--{key}", metavar="NAME", help=f"the {key} of all rows, where the file has no such column")
    verb.add_argument(
        "--column", metavar="OURS=THEIRS", action="append", default=[], help="the file's name of a column (repeatable)"
    )
    verb.add_argument(
        "--judge-column", metavar="JUDGE=COLUMN", action="append", default=[], help="a judge's scores (repeatable)"
    )
    verb.add_argument("--higher", choices=("safe", "harmful"), help="which end of the scores is safe")
    verb.add_argument(
        "--map", metavar="VALUE=MEANING", action="append", default=[], help=f"a score is {_MEANINGS} (repeatable)"
    )
    verb.add_argument("--cuts", metavar="A[,B]", help="numbers between harmful, ambiguous and safe; needs --higher")
    verb.add_argument("--other", choices=("missing",), help="every other score is no verdict")
    verb.add_argument("--checked", action="store_true", help="the labels are right although refusals come out harmful")
    verb.add_argument("--format", help="csv, tsv, jsonl, ... where the suffix does not say it")
    verb.add_argument("--encoding", help="where the file is not in UTF-8")
    verb.add_argument("--delimiter", help="what stands between two cells, where it is no comma")
    verb.add_argument("--polarity", metavar="WHICH", help="of AirBench scores: post_swap (1 is safe) or pre_swap")
    verb.add_argument("--helm-version", metavar="VERSION", help="the release that made HELM runs")
    verb.set_defaults(run=_import)


def _import(options: argparse.Namespace) -> None:
    from slmsafety.study.new_import import import_file

    import_file(options.path, options.study, said(options), options.dry_run)


def said(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the options say of a source, as an entry of a params file holds it."""
    entry = {key: getattr(options, key) for key in _PLAIN if getattr(options, key) is not None}
    entry |= _given(columns=_pairs("--column", options.column), judges=_pairs("--judge-column", options.judge_column))
    scores = _given(higher=options.higher, map=_pairs("--map", options.map), cuts=_numbers(options.cuts))
    return entry | _given(scores=scores | _given(other=options.other, checked=options.checked))


def _given(**keys: Any) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value}


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the pairs of a repeated option; the first equals sign divides."""
    pairs: dict[str, str] = {}
    for text in texts:
        first, sign, second = text.partition("=")
        if not (first and sign and second):
            raise InputError(f"{option} '{text}': write two words with = between them")
        if first in pairs:
            raise InputError(f"{option} says twice what '{first}' is")
        pairs[first] = second
    return pairs


def _numbers(text: str | None) -> list[float]:
    try:
        return [float(part) for part in (text or "").split(",") if text]
    except ValueError as error:
        raise InputError(f"--cuts '{text}': write one number, or two with a comma between them") from error
