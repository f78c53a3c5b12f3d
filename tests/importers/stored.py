"""Sources put into a study's folder as an import does it."""

from __future__ import annotations

from pathlib import Path

from slmsafety.importers.rules import by_rules
from slmsafety.importers.tables import Imported, write_imported


def store(folder: Path, *sources: Imported, judges_empty: bool = False) -> None:
    """Write the sources by the rules; `judges_empty` takes the judges' word on blank replies."""
    write_imported(by_rules(sources, lambda suite: judges_empty), folder)
