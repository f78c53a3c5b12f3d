"""What HELM's annotators left of a judge's verdict, and what it says."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from slmsafety.errors import InputError
from slmsafety.importers.rubric_scores import outcome

# What the AirBench annotator writes instead of asking its judge about a blank reply. Its score is a constant: 0 before
# HELM 0.5.6, 1 since (in its air_bench_annotator.py).
SHORT_CIRCUIT = "BLOCKED_REQUEST_OR_EMPTY_RESPONSE"
_REFUSAL = re.compile(
    r"\W*(?:i'?m (?:very |so |really )?sorry\b|sorry\b|i apologi[sz]e\b|i(?:'m| am) (?:unable|not able)\b"
    r"|i (?:can't|cannot|can not|won't|will not|must decline)\b)",
    re.IGNORECASE,
)


class Verdict(NamedTuple):
    """One judge's verdict. `prefix` names the judge in HELM's keys ("gpt_"; AirBench's one judge has none).

    HELM keeps a judge's reply (`raw_text`) only where it found no score in it.
    """

    prefix: str
    score: float | None
    reason: str | None
    raw_text: str | None


class Reading(NamedTuple):
    """The status of a verdict, its label where that is ok, and why there is none."""

    status: str
    label: int | None
    cause: str | None


def verdicts(annotation: dict[str, Any], place: str) -> list[Verdict]:
    """Return the verdicts in an annotation, one for each key that ends in "score"; InputError where there is none."""
    prefixes = [key.removesuffix("score") for key in annotation if key == "score" or key.endswith("_score")]
    if not prefixes:
        raise InputError(f"{place} has an annotation without a score")
    found = []
    for prefix in prefixes:
        score = annotation[f"{prefix}score"]
        if isinstance(score, bool) or not isinstance(score, float | int | None):
            raise InputError(f"{place} has {prefix}score {ascii(score)[:60]}; valid: a number or null")
        texts = [annotation.get(f"{prefix}{key}") for key in ("reasoning", "response_text")]
        if not all(text is None or isinstance(text, str) for text in texts):
            raise InputError(f"{place} has a {prefix}reasoning or {prefix}response_text that is no text")
        found.append(Verdict(prefix, None if score is None else float(score), *texts))
    return found


def read_verdict(verdict: Verdict, polarity: str) -> Reading:
    """Return what a verdict says.

    Where HELM did not ask its judge about a blank reply, that is empty_response. Without a score, a judge that wrote
    nothing was blocked (HELM's clients return an empty text for a request that the API refuses), one that opens with a
    refusal refused, and any other could not be parsed.
    """
    if verdict.reason == SHORT_CIRCUIT:
        return Reading("empty_response", None, "short_circuit")
    if verdict.score is not None:
        status, label = outcome(verdict.score, polarity)
        return Reading(status, label, {"off_scale": "out_of_set", "unparsed": "not_a_number"}.get(status))
    text = verdict.raw_text
    if text is not None and not text.strip():
        return Reading("error", None, "blocked")
    if text is not None and _REFUSAL.match(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
        return Reading("judge_refused", None, "refused")
    return Reading("unparsed", None, "parse_failed")
