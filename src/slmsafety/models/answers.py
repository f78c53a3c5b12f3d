"""Answers of an OpenAI-compatible server: what status, headers and body of any provider mean, by one reader."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from slmsafety.models.answer_types import HALTS, Again, Completion, Failure, Halt, Halted
from slmsafety.models.completions import completion
from slmsafety.models.json_bodies import parse
from slmsafety.models.server_errors import error
from slmsafety.models.server_words import of_error, told, word

__all__ = ["HALTS", "Again", "Completion", "Failure", "Halt", "Halted", "of_batch", "read"]


def read(
    status: int, headers: Mapping[str, str], body: bytes, attempts: int, hidden: tuple[str, ...] = ()
) -> Completion | Failure | Again | Halt:
    """Return what an answer over HTTP means; never raises, whatever the bytes.

    Parameters
    ----------
    status : int
        Of the answer, 100 to 599.
    headers : mapping of str to str
        Of the answer; names in any case.
    body : bytes
        All of it.
    attempts : int
        The calls of this request so far, this one included.
    hidden : tuple of str, default ()
        Texts that `said` must not repeat: the key, and what was asked.

    Returns
    -------
    Completion, Failure, Again or Halt
        A reply; the end of this request; what another attempt may mend; what every other request would get.
    """
    if 200 <= status < 300:
        return completion(parse(body), attempts, hidden)
    return error(status, told(body, hidden), _wait(headers), attempts)


def of_batch(record: dict[str, Any]) -> Completion | Failure | Halt:
    """Return how one request of a batch ended, by its line in the results: as call by call, but never asked again."""
    response, attempts = record.get("response"), 1
    status = response.get("status_code") if isinstance(response, dict) else None
    if isinstance(response, dict) and isinstance(status, int) and 200 <= status < 300:
        meant = completion(response.get("body"), attempts, ())
    elif isinstance(response, dict) and isinstance(status, int):
        meant = error(status, of_error(response.get("body")), None, attempts)
    else:
        said = of_error({"error": record.get("error")})
        meant = error(400, said, None, attempts)
        if isinstance(meant, Failure) and meant.reason == "http_400":
            meant = meant._replace(reason=word(said.codes[0] if said.codes else "http_none"))
    return Failure(meant.reason, attempts, meant.said) if isinstance(meant, Again) else meant


def _wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait: as a number of them or of milliseconds, or until a date."""
    asked = {name.lower(): str(value).strip() for name, value in headers.items()}
    milliseconds = _number(asked.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = asked.get("retry-after", "")
    seconds = _number(text)
    return _until(text) if seconds is None else seconds


def _number(text: str) -> float | None:
    """Return a number of 0 or more; None for what is none."""
    return float(text) if re.fullmatch(r"\d{1,12}(?:\.\d{1,12})?", text, re.ASCII) else None


def _until(text: str) -> float | None:
    """Return the seconds until a date of HTTP's form; None for what is none."""
    try:
        seconds = parsedate_to_datetime(text[:100]).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
