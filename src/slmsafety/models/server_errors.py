"""What an error of a server means for a request: blocked, too long, worth another attempt, or the end of the run.

A server's codes are looked at before its words, and its words before the status: many servers have one status for all.
Words are looked at only under a status that fits them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slmsafety.models.answer_types import Again, Failure, Halt
from slmsafety.models.server_words import Told, kept

_AGAIN = (408, 409, 423, 424, 425, 429)
_HALTS = {
    **{401: "wrong_key", 407: "proxy", 402: "no_credit", 403: "no_right", 404: "unknown_model"},
    **{405: "wrong_address", 410: "unknown_model", 415: "wrong_address"},
}
# Statuses that tell nothing of what is wrong with a request, under which servers' words count.
_VAGUE = (400, 403, 413, 422, 451)


class _Kind(NamedTuple):
    """A meaning, the codes that have it, and words that have it under a vague status."""

    reason: str
    codes: frozenset[str]
    words: re.Pattern[str]


def _kind(reason: str, codes: str, *words: str) -> _Kind:
    return _Kind(reason, frozenset(codes.split()), re.compile("|".join(words), re.IGNORECASE | re.DOTALL))


_BLOCKED = _kind(
    "blocked",
    "content_filter content_filtered content_policy_violation contentpolicyviolationerror responsibleaipolicyviolation "
    "invalid_prompt moderation_blocked prohibited_content safety recitation blocklist data_inspection_failed "
    "datainspectionfailed content_policy content_moderation input_moderation sensitive_content "
    "guardrail_intervened policy_violation prompt_blocked refusal",
    r"content[ _-]?(?:filter|management[ _]policy|policy|moderation)|responsible.?ai|content exists risk",
    r"flagged (?:as|by|for)\b|\b(?:was|is|been) flagged|(?:violat|against)\w*\b.{0,60}\b(?:polic(?:y|ies)|guidelines)",
    r"prohibited.?content|data.?inspection|inappropriate content|safety (?:system|filter|check)|requires moderation",
    r"new_sensitive",
    r"blocked (?:by|due to|because of)\b.{0,60}\b(?:safety|polic|filter|moderation|guardrail|prohibited)",
)
# What is said of an account is of every request.
_OF_ACCOUNT = re.compile(
    r"\b(?:account|organi[sz]ation|team|project|resource|access|workspace|key)\b(?: id| to (?:this|the|our) \w+)?"
    r"(?: (?:has|have|had|was|were|is|are|been|temporarily|permanently))+"
    r" (?:suspended|deactivated|terminated|disabled|banned|restricted|revoked|blocked|flagged)",
    re.IGNORECASE,
)
_TOO_LONG = _kind(
    "prompt_too_long",
    "context_length_exceeded contextwindowexceedederror context_window_exceeded model_context_window_exceeded "
    "string_above_max_length string_too_long exceed_context_size_error prompt_too_long request_too_large "
    "tokens_limit_reached token_limit_exceeded input_too_long",
    r"context.?(?:length|size|window|limit)|maximum (?:model|prompt|input) length|max_model_len",
    r"(?:prompt|input|request|messages)\b.{0,40}(?:(?<!took )(?<!taking )too long|too large)",
    r"(?:prompt|input|request|messages)\b.{0,40}exceeds? (?:the )?(?:max|limit|context)",
    r"too many (?:input )?tokens|tokens? \+ .?max_new_tokens|must have less than \d+ tokens|model token limit",
    r"exceeds the maximum (?:allowed length|number of tokens)|range of input length|string too long",
    r"token count\b.{0,40}\bonly supports",
    r"max_tokens must be at least 1, got (?:-|0\b)|reduce the length of the (?:messages|prompt|input)",
    r"request entity too large|payload too large|content too large|request body too large",
)
_NO_CREDIT = _kind(
    "no_credit",
    "insufficient_quota billing_hard_limit_reached billing_not_active insufficient_balance insufficient_credits "
    "arrearage exceeded_current_quota_error credit_balance_too_low insufficient_user_quota",
    r"credit balance is too low|insufficient (?:balance|credits?|funds)|out of credits|doesn.t have any credits",
    r"used all available credits|monthly spending limit|billing (?:is )?not active|specified (?:\w+ )*usage limits",
)
_WRONG_KEY = _kind(
    "wrong_key",
    "invalid_api_key api_key_invalid authentication_error invalid_authentication_error account_deactivated",
    r"(?:invalid|incorrect|missing|no) api.?key|api.?key (?:not valid|is invalid|expired)",
    r"missing or invalid authorization",
)
_UNKNOWN_MODEL = _kind(
    "unknown_model",
    "model_not_found model_not_available invalid_model unknown_model deploymentnotfound model_not_exist "
    "model_not_supported modelnotfound",
    r"\b(?:invalid|unknown|unsupported) model\b|not a valid model|invalid model name",
    r"\bmodel\b.{0,80}\b(?:not found|not exist|is not available|not supported on this)",
)
_REFUSED_PARAMETER = _kind(
    "refused_parameter",
    "unsupported_parameter unsupported_value unknown_parameter extra_forbidden max_tokens_exceeded "
    "integer_above_max_value integer_below_min_value decimal_above_max_value",
    r"(?:unsupported|unrecognized|unknown|unexpected) (?:request )?(?:value|key|parameter|argument|field|name)"
    r"[^\w.]+\w",
    r"extra (?:inputs|fields) (?:are )?not permitted|not (?:supported|allowed|permitted) with this model",
    r"\b(?:max_(?:completion_|new_|output_)?tokens|maxOutputTokens|temperature|top_p|seed|frequency_penalty"
    r"|response_format|reasoning_effort|chat_template_kwargs|grammar)\b.{0,80}"
    r"(?:must|should|invalid|supported|too large|too high|greater|less|range|allowed| > |exceeds|deprecated|conflict)",
)
_HALTING = (_NO_CREDIT, _WRONG_KEY, _UNKNOWN_MODEL, _REFUSED_PARAMETER)
# Where a request says what is asked; what a server says of it is of this request.
_ASKED = ("messages", "prompt", "input", "inputs", "input_tokens", "text", "content")

# By which words the prompt is too long under a status that servers have for much else; of a queue others are said.
_MEASURED = re.compile(r"context|window|\btokens?\b|length|batch size", re.IGNORECASE)
# A rate limit that is smaller than the request.
_NEVER = re.compile(r"request too large\b.{0,200}\brequested \d", re.IGNORECASE | re.DOTALL)

_WINDOW = re.compile(
    r"(?:context (?:length|window|size)|model(?:'s)? (?:context )?length)\D{0,25}(\d{2,9})"
    r"|max_new_tokens\W{1,3}must be <= (\d{2,9})"
)
_TO_WRITE = re.compile(
    r"requested (\d{1,9}) (?:output|completion) tokens|(\d{1,9}) (?:tokens )?(?:in|for) the (?:completion|output)"
    r"|too large: (\d{1,9})|\((\d{1,9}) > |(\d{1,9}) .max_new_tokens|max_tokens \((\d{1,9})\) exceeds"
)
# Said of the reply's tokens alone, not of a sum with the prompt's.
_BOUND = re.compile(
    r"(?<!\+ )(?<!\+ .)\bmax_(?:completion_|new_|output_)?tokens\W{1,3}must be less than", re.IGNORECASE
)


def error(status: int, told: Told, wait: float | None, attempts: int) -> Failure | Again | Halt:
    """Return what an error means.

    Parameters
    ----------
    status : int
        Of the answer; of what the body says where the answer's own is 200.
    told : Told
        What the body says.
    wait : float or None
        Seconds that the headers ask to wait.
    attempts : int
        The calls so far.
    """
    said = kept(told.codes, told.sentence)
    kind = _by_codes(told) or _by_words(status, told) or _by_parameter(status, told)
    if kind == _TOO_LONG.reason and _reply_alone_is_too_long(told.sentence):
        kind = _REFUSED_PARAMETER.reason
    if kind in (_BLOCKED.reason, _TOO_LONG.reason):
        return Failure(kind, attempts, said)
    if kind is not None:
        return Halt(kind, _with_parameter(said, told) if kind == _REFUSED_PARAMETER.reason else said)
    if status in _AGAIN or status >= 500:
        return Again("rate_limit" if status == 429 else f"http_{status}", said, told.wait if wait is None else wait)
    if status in _HALTS and not (status == 403 and _can_be_of_the_text(told)):
        return Halt(_HALTS[status], said)
    if 300 <= status < 400:
        return Halt("wrong_address", said)
    return Failure(f"http_{status}", attempts, said)


def _by_codes(told: Told) -> str | None:
    codes = {re.sub(r"[\s.-]+", "_", code.lower()) for code in told.codes}
    return next((kind.reason for kind in (_TOO_LONG, _BLOCKED, *_HALTING) if kind.codes & codes), None)


def _by_words(status: int, told: Told) -> str | None:
    """What the sentence says, as far as the status leaves that open."""
    if status == 429 and _NEVER.search(told.sentence):
        return _TOO_LONG.reason
    fits = _MEASURED.search(told.sentence) if status == 403 or status >= 500 else status in _VAGUE
    if fits and _TOO_LONG.words.search(told.sentence):
        return _TOO_LONG.reason
    blocked = _BLOCKED.words.search(told.sentence) and not _OF_ACCOUNT.search(told.sentence)
    if blocked and (status in _VAGUE or (status >= 500 and re.search("flagged|violat", told.sentence))):
        return _BLOCKED.reason
    if status in _VAGUE or status == 429:
        kinds = _HALTING if status in (400, 422) else (_NO_CREDIT, _WRONG_KEY)
        if found := next((kind.reason for kind in kinds if kind.words.search(told.sentence)), None):
            return found
    return "no_right" if status in (400, 422) and _OF_ACCOUNT.search(told.sentence) else None


def _by_parameter(status: int, told: Told) -> str | None:
    """What the parameter at fault says, where the server names one that every request has."""
    name = re.split(r"[.\[]", told.parameter)[0]
    if status not in (400, 422) or not name or name in _ASKED:
        return None
    return _UNKNOWN_MODEL.reason if name == "model" else _REFUSED_PARAMETER.reason


def _can_be_of_the_text(told: Told) -> bool:
    """Whether a 403 says nothing of the key: firewalls and gateways send such for what stands in one request."""
    named = any(re.search("[A-Za-z]", code) and code.lower() != "forbidden" for code in told.codes)
    return told.page or not (named or _OF_ACCOUNT.search(told.sentence))


def _with_parameter(said: str | None, told: Told) -> str | None:
    """Return what the server said with the parameter at fault, where its sentence leaves that out."""
    if not told.parameter or told.parameter in (said or ""):
        return said
    return kept((), f"{said or 'a parameter'} ({told.parameter})")


def _reply_alone_is_too_long(sentence: str) -> bool:
    """Whether the tokens asked for the reply fill the model's window by themselves, whatever the prompt."""
    if _BOUND.search(sentence):
        return True
    window, asked = _WINDOW.search(sentence), _TO_WRITE.search(sentence)
    if window is None or asked is None:
        return False
    tokens, most = (int(next(filter(None, found.groups()))) for found in (asked, window))
    return tokens >= most
