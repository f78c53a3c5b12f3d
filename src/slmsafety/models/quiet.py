"""Loading without the progress bars and tables of transformers: the caller shows a bar and one line of its own."""

from __future__ import annotations

import logging as standard_logging
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging

_REPORT, _UNCONVERTED = "LOAD REPORT", "CONVERSION"


class Reports(standard_logging.Filter):
    """Takes the tables that transformers writes of a checkpoint's weights out of its log, and keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self._tables: list[str] = []

    def filter(self, record: standard_logging.LogRecord) -> bool:
        """Return whether a record is none of these tables, and stays in the log."""
        text = record.getMessage()
        if _REPORT not in text:
            return True
        self._tables.append(text)
        return False

    def unconverted(self) -> list[str]:
        """Return the weights that the parts in a checkpoint (a mixture's experts) do not make up, in order."""
        rows = [line.split("|") for table in self._tables for line in table.splitlines()]
        return sorted({row[0].strip() for row in rows if len(row) > 1 and _UNCONVERTED in row[1]})


@contextmanager
def quiet() -> Iterator[Reports]:
    """Turn transformers' progress bars off and keep its tables; at the end the bars are back if they were on."""
    shown, reports = logging.is_progress_bar_enabled(), Reports()
    logger = standard_logging.getLogger("transformers.modeling_utils")
    logging.disable_progress_bar()  # type: ignore[no-untyped-call] # transformers has no types here
    logger.addFilter(reports)
    try:
        yield reports
    finally:
        logger.removeFilter(reports)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call] # transformers has no types here
