"""The command line of a benchmark: an option for each number that makes it large, and `--smallest` for all of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class _Smallest(argparse.Action):
    """Set every count to its smallest value; an option that follows on the command line still overrides its count."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        vars(namespace).update(self.const)


def size_parser(doc: str | None, counts: dict[str, tuple[int, int]]) -> argparse.ArgumentParser:
    """Return a parser with an option for each count, given as (default, smallest); "new_tokens" is --new-tokens.

    With `--smallest` a script takes seconds: it shows that it runs, and its numbers mean nothing.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (default, _) in counts.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, metavar="N", help=f"({default})")
    smallest = {name: least for name, (_, least) in counts.items()}
    shown = ", ".join(f"{name} {least}" for name, least in smallest.items())
    parser.add_argument("--smallest", nargs=0, action=_Smallest, const=smallest, help=f"only to try it: {shown}")
    return parser


def data_files(names: Sequence[str]) -> list[Path]:
    """Return public data files under SLMSAFETY_DATA, or end the script with a line that says what is missing."""
    folder = os.environ.get("SLMSAFETY_DATA")
    if folder is None:
        print("skipped: SLMSAFETY_DATA is not set; it names the folder of public data files")
        raise SystemExit(0)
    paths = [Path(folder, name) for name in names]
    for path in paths:
        if not path.exists():
            print(f"skipped: '{path}' does not exist; SLMSAFETY_DATA names the folder of public data files")
            raise SystemExit(0)
    return paths
