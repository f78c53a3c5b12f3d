"""The completion in a body: its text, its end and its counts, in the forms that servers give them."""

from __future__ import annotations

import re
from typing import Any

from slmsafety.models.answer_types import Again, Completion, Failure, Halt
from slmsafety.models.json_bodies import count, whole
from slmsafety.models.server_errors import error
from slmsafety.models.server_words import kept, of_error, word

# What servers call the end of a reply, in small letters. Any other (a tool call) is no reply to a prompt.
_STOP = (
    *("stop", "eos", "eos_token", "eos_found", "stop_sequence", "stop_token", "end_turn", "end_of_turn", "end"),
    *("complete", "completed", "finished", "finish_reason_stop"),
)
_LENGTH = (
    *("length", "max_tokens", "max_length", "model_length", "max_new_tokens", "max_output_tokens", "token_limit"),
    *("finish_reason_max_tokens", "model_context_window_exceeded"),
)
_BLOCKED = (
    *("content_filter", "content_filtered", "content_policy_violation", "safety", "recitation", "prohibited_content"),
    *("blocklist", "spii", "image_safety", "model_armor", "guardrail_intervened", "sensitive", "error_toxic"),
    *("finish_reason_safety", "moderation", "content_moderation"),
)
_REFUSED = ("refusal", "refused")
# The server gave up on the reply; another attempt may do better.
_BROKEN = ("error", "abort", "aborted", "cancelled", "insufficient_system_resource", "network_error", "timeout")
_FINISHED = {
    **dict.fromkeys(_STOP, "stop"),
    **dict.fromkeys(_LENGTH, "length"),
    **dict.fromkeys(_REFUSED, "refusal"),
    **dict.fromkeys(_BLOCKED, "blocked"),
    **dict.fromkeys(_BROKEN, "broken"),
}
# Keys of a message, and types of its parts, that hold what the model wrote before its reply.
_REASONING = ("reasoning_content", "reasoning", "thinking", "thought", "reasoning_text")
_FEEDBACK = ("prompt_feedback", "promptFeedback", "prompt_filter_results")


def completion(data: Any, attempts: int, hidden: tuple[str, ...]) -> Completion | Failure | Again | Halt:
    """Return what the body of an answer with status 200 holds."""
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    if not isinstance(data, dict):
        return Again("malformed")
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    inside = choice.get("error") if isinstance(choice, dict) else None
    if wrong := inside or data.get("error") or (data if data.get("object") == "error" else None):
        return _wrong(wrong, attempts, hidden)
    if not isinstance(choice, dict):
        return _without_choice(data, attempts, hidden)
    return _of_choice(data, choice, attempts)


def _wrong(wrong: Any, attempts: int, hidden: tuple[str, ...]) -> Failure | Again | Halt:
    """What an error means that came with status 200: OpenRouter sends those that happen while a model writes."""
    told = of_error({"error": wrong}, hidden)
    meant = error(told.status or 400, told, None, attempts)
    unclear = told.status is None and isinstance(meant, Failure) and meant.reason == "http_400"
    return Again("malformed", meant.said) if unclear else meant


def _without_choice(data: dict[str, Any], attempts: int, hidden: tuple[str, ...]) -> Failure | Again | Halt:
    """What an answer without any choice means: some servers withhold them from a prompt that they block."""
    if isinstance(data.get("base_resp"), dict):
        return _wrong(data["base_resp"], attempts, hidden)  # MiniMax's way to say what is wrong
    feedback = next((data[key] for key in _FEEDBACK if data.get(key)), None)
    usage = _mapping(data.get("usage"))
    answer = "completion" in _text(data.get("object")) or bool(usage)
    if feedback is None and (data.get("choices") not in ([], None) or not (answer or {"id", "choices"} <= data.keys())):
        return Again("malformed")
    told = of_error(feedback, hidden)
    written = count(usage.get("completion_tokens"))
    said = kept(told.codes, told.sentence) or "no choice"
    return Failure("finish_none" if written and feedback is None else "blocked", attempts, said)


def _of_choice(data: dict[str, Any], choice: dict[str, Any], attempts: int) -> Completion | Failure | Again:
    message, finish = choice.get("message"), _finish(choice)
    text, reasoning, refusal = _written(choice, message)
    if text is None:
        return Again("malformed")
    end = None if finish is None else _FINISHED.get(finish, "filtered" if "content_filter" in finish else "other")
    said = None if finish is None else f"finish_reason: {word(finish)}"
    if end in ("blocked", "filtered"):
        return Failure("blocked", attempts, said)
    if end is None:
        # Billed text; to ask again would most likely give the same.
        return Failure("finish_none", attempts) if text else Again("malformed")
    if end == "broken":
        return Again(word(f"finish_{finish}"), said)
    if end == "other":
        return Failure(word(f"finish_{finish}"), attempts, said)
    if "text" not in choice and message is None and end == "stop":
        return Failure("blocked", attempts, "no message")
    if reasoning is None and (_reasoned(data) or 0) > 0:
        reasoning = ""
    usage = _mapping(data.get("usage"))
    return Completion(
        whole(refusal if refusal and not text else text),
        "length" if end == "length" else "stop",
        count(usage.get("prompt_tokens")),
        _output_tokens(usage),
        _name(data.get("model")),
        _name(data.get("system_fingerprint")),
        attempts,
        None if reasoning is None else whole(reasoning),
        bool(refusal) or end == "refusal",
        count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
    )


def _finish(choice: dict[str, Any]) -> str | None:
    """The word for the end in small letters; of a server that passes on another's, that one's where it has none."""
    for key in ("finish_reason", "native_finish_reason", "stop_reason"):
        word = choice.get(key)
        if isinstance(word, str) and word.strip():
            return re.sub(r"[\s-]+", "_", word.strip().lower())
    return None


def _written(choice: dict[str, Any], message: Any) -> tuple[str | None, str | None, str]:
    """Return text, reasoning and refusal; no text (None) where the choice has no form of a reply."""
    if isinstance(choice.get("text"), str):
        return choice["text"], _reasoning(choice), ""
    if message is None:
        known = "message" in choice or "text" in choice
        return ("" if known else None), None, ""
    if not isinstance(message, dict):
        return None, None, ""
    content = message.get("content")
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, str | list | None):
        return None, None, ""
    refusal = message.get("refusal")
    parts = _Parts()
    parts.take(content or "")
    thought = "".join(filter(None, (_reasoning(message), parts.reasoning)))
    hidden_thought = any(message.get(key) for key in (*_REASONING, "reasoning_details")) or parts.thought
    refused = refusal if isinstance(refusal, str) and refusal.strip() else parts.refusal
    return parts.text, thought if thought or hidden_thought else None, refused


def _reasoning(holder: dict[str, Any]) -> str | None:
    return next((holder[key] for key in _REASONING if isinstance(holder.get(key), str) and holder[key]), None)


class _Parts:
    """The parts of a content, told apart: text, reasoning and refusal. `thought`: there is a part of reasoning."""

    def __init__(self) -> None:
        """Start with none."""
        self.text = self.reasoning = self.refusal = ""
        self.thought = False

    def take(self, content: Any) -> None:
        """Take a text, or the parts of a list; parts of other kinds, such as pictures, are no reply."""
        if isinstance(content, str):
            self.text += content
        for part in content if isinstance(content, list) else ():
            kind = _text(part.get("type", "text")).lower() if isinstance(part, dict) else ""
            if isinstance(part, str):
                self.text += part
            elif kind in ("text", "output_text"):
                self.text += _text(part.get("text"))
            elif kind == "refusal":
                self.refusal += _text(part.get("refusal")) or _text(part.get("text"))
            elif kind in _REASONING or "think" in kind or "reason" in kind:
                self.thought = True
                self.reasoning += next(filter(None, (_text(part.get(key)) for key in (*_REASONING, "text"))), "")


def _text(value: Any) -> str:
    """Return a text, or that of its parts."""
    parts = value if isinstance(value, list) else [value]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def _output_tokens(usage: dict[str, Any]) -> int | None:
    """The tokens that were written, reasoning included, which some servers count in the total alone."""
    given, written, total = (count(usage.get(key)) for key in ("prompt_tokens", "completion_tokens", "total_tokens"))
    return written if given is None or written is None or total is None else max(written, total - given)


def _reasoned(data: dict[str, Any]) -> int | None:
    """The tokens of reasoning that the server counts."""
    details = _mapping(_mapping(data.get("usage")).get("completion_tokens_details"))
    return count(details.get("reasoning_tokens"))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _name(value: Any) -> str | None:
    """Return a name as tables keep it; None where there is none."""
    return whole(value) if isinstance(value, str) and value.strip() else None
