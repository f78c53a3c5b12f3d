"""Generation by an OpenAI-compatible server (vLLM, SGLang, TGI, llama.cpp, `transformers serve`).

The template `raw` sends the prompt as it is to /completions; `chat` and `auto` send it as the only turn of a chat,
since a client cannot see whether the server's tokenizer has a template. A base model therefore needs `raw`. Whether the
server's template writes a system prompt, or reads the variables that it is sent, cannot be seen either.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.generation.frames import framed, turns
from slmsafety.generation.settings import ENDPOINT_ENGINE, UNSENT, GenerationJob
from slmsafety.generation.streams import request_seed, stream
from slmsafety.models.answers import Completion, Failure
from slmsafety.models.attempts import Request
from slmsafety.models.client import complete
from slmsafety.models.endpoint import Endpoint
from slmsafety.models.hints import naming_keys
from slmsafety.models.input_read import input_cut
from slmsafety.models.served import other_model, takes
from slmsafety.models.source import Source
from slmsafety.records.schema import RESPONSES, typed, with_sample
from slmsafety.replies.language import reply_languages
from slmsafety.replies.parts import answer_part

# Greedy decoding draws nothing, but some servers sample at temperature 0 after all; the paper's seed for SALAD.
_SEED = 1337
# What a model's entry can do about a parameter that its server refuses.
_TOKENS = "give the model the key request: {max_tokens: null, max_completion_tokens: N}"
_HINTS = {
    "max_tokens": _TOKENS,
    "max_completion_tokens": _TOKENS,
    **{
        key: f"give the model the key request: {{{key}: null}}, which sends none"
        for key in UNSENT
        if "tokens" not in key
    },
}


class EndpointRun:
    """The frames of a run, and how its calls ended: iterate it once, then read `failed` and `attempts`.

    Attributes
    ----------
    failed : Counter of str
        Requests without a reply, by reason. They have no row, so the next run asks for them again. One that the
        server's filter stopped is no such request: it has a row, without a text, and is not asked for again.
    attempts : int
        All calls so far, retries included.
    """

    def __init__(
        self, endpoint: Endpoint, prompts: pd.DataFrame, job: GenerationJob, served_as: tuple[str, ...] = ()
    ) -> None:
        """Take the server, the prompts still to be done and the job; `served_as` are other names of the model."""
        self.failed: Counter[str] = Counter()
        self.attempts = 0
        self._wrong: InputError | None = None
        self._endpoint, self._prompts, self._job, self._served_as = endpoint, prompts, job, served_as
        keys = zip(prompts["suite"], prompts["instance_id"], strict=True)
        self._texts = dict(zip(keys, prompts["prompt"], strict=True))

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield frames of the responses table as calls end; raises InputError as `complete` does, and after the answer
        of another model than the one asked for."""
        with naming_keys(_HINTS):
            for answers in complete(self._endpoint, self._requests()):
                made = pd.DataFrame.from_records([row for key, answer in answers if (row := self._ended(key, answer))])
                if len(made):
                    yield typed(made.assign(language=reply_languages(made)), RESPONSES)
            if self._wrong is not None:
                raise self._wrong

    def _ended(self, key: tuple[str, str, int], answer: Completion | Failure) -> dict[str, object] | None:
        """Count a call and return its row; None for one without a reply, or with one of another model."""
        self.attempts += answer.attempts
        if isinstance(answer, Failure):
            if answer.reason == "blocked":
                return self._blocked(key, answer)
            self.failed[answer.reason] += 1
            return None
        if not takes(self._endpoint.model, answer.model, self._served_as):
            server, who = self._endpoint, f"model {self._job.model_id}"
            self._wrong = other_model(who, server.model, answer.model, server.host)
            self.failed["other_model"] += 1
            return None
        return self._row(key, answer)

    def problems(self) -> str:
        """Return what failed as a line for the user; empty when nothing did."""
        if not self.failed:
            return ""
        reasons = ", ".join(f"{reason} {count}" for reason, count in self.failed.most_common())
        return f"{self.failed.total()} requests got no reply ({reasons}); run again to ask for them"

    def _requests(self) -> Iterator[Request]:
        columns = (with_sample(self._prompts)[c] for c in ("suite", "instance_id", "sample", "prompt"))
        for suite, instance, sample, prompt in zip(*columns, strict=True):
            if self._wrong is not None:
                return  # what is under way still ends, and is kept
            key = (suite, instance, int(sample))
            body = {**self._asked(prompt), **self._decoding(key), **self._job.settings.request}
            yield Request(key, {name: value for name, value in body.items() if value is not None or name not in UNSENT})

    def _asked(self, prompt: str) -> dict[str, Any]:
        """What is asked: a chat, with its template's variables in the key that servers have for them, or a text."""
        how = self._job.settings
        if not self._chat:
            return {"prompt": framed(how.frame, prompt, how.system_prompt)}
        variables = {"chat_template_kwargs": how.template_kwargs} if how.template_kwargs else {}
        return {"messages": turns(prompt, how.frame, how.system_prompt), **variables}

    @property
    def _chat(self) -> bool:
        return self._job.settings.template != "raw"

    def _decoding(self, key: tuple[str, str, int]) -> dict[str, float]:
        """Return what a request says of decoding.

        What has its default value is given all the same: a server may else take one from the model's own settings.
        """
        settings = self._job.settings
        asked = {"max_tokens": settings.max_new_tokens, "temperature": settings.temperature, "frequency_penalty": 0}
        if settings.temperature == 0:
            return {**asked, "temperature": 0, "seed": _SEED}
        # A server starts the numbers of each request anew: with one seed all prompts would get the same.
        return {**asked, "top_p": settings.top_p, "seed": request_seed(stream(settings.seed, *key))}

    def _row(self, key: tuple[str, str, int], reply: Completion) -> dict[str, object]:
        """The row of a reply. One without a text is empty, unless it was cut, holds reasoning, or was withheld."""
        meta: dict[str, object] = {
            "fingerprint": reply.fingerprint,
            "served_model": reply.model,
            **({"refusal": True} if reply.refusal else {}),
            **({} if reply.reasoning is None else {"reasoning_characters": len(reply.reasoning)}),
        }
        ended = reply.text.strip() or reply.reasoning is not None or reply.finish_reason == "length"
        finish = reply.finish_reason if ended else "blocked" if reply.refusal else "empty"
        return {
            **self._framed(key, reply.attempts, meta),
            "response": reply.text,
            **self._answer(key, reply),
            "prompt_tokens": reply.input_tokens,
            "output_tokens": reply.output_tokens,
            "finish_reason": finish,
            "prompt_truncated": input_cut(self._asked(self._texts[key[:2]]), reply),
        }

    def _blocked(self, key: tuple[str, str, int], failure: Failure) -> dict[str, object]:
        """The row of a request that the server's filter stopped: no text, and what the server said."""
        framed = self._framed(key, failure.attempts, {"said": failure.said})
        return {**framed, "response": "", "finish_reason": "blocked", "prompt_truncated": False}

    def _framed(self, key: tuple[str, str, int], attempts: int, meta: dict[str, object]) -> dict[str, object]:
        """What every row has: its key, and how it was asked for beside what its own meta says."""
        asked = {
            "attempts": attempts,
            "base_url": self._endpoint.base_url,
            "engine": ENDPOINT_ENGINE,
            "template_used": "chat" if self._chat else "raw",
        }
        return {
            "suite": key[0],
            "instance_id": key[1],
            "model": self._job.model_id,
            "generation_id": self._job.generation_id,
            "sample": key[2],
            "meta": json.dumps({**asked, **meta}, sort_keys=True),
        }

    def _answer(self, key: tuple[str, str, int], reply: Completion) -> dict[str, int]:
        """Where the answer stands in the text; nowhere where the server has left nothing beside the reasoning."""
        found = answer_part(reply.text, self._texts[key[:2]])
        if reply.reasoning is not None and not reply.text.strip():
            found = 0, 0
        return {} if found is None else {"answer_start": found[0], "answer_end": found[1]}


def generate(source: Source, prompts: pd.DataFrame, job: GenerationJob, concurrency: int) -> EndpointRun:
    """Return a run over prompts; iterating it sends the calls.

    Parameters
    ----------
    source : Source
        The endpoint.
    prompts : DataFrame
        Rows of the prompts table still to be done: suite, instance_id and prompt (str); and `sample` (int), the number
        of the reply among those to its prompt, which may be left out where it is 0. Each is a request of its own.
    job : GenerationJob
        Settings and ids of the replies.
    concurrency : int
        The most calls open at once.

    Returns
    -------
    EndpointRun
        Yields frames of the responses table as calls end. Token counts are the server's and may include the end token.
        A prompt that the server refuses as too long is a failure (`prompt_too_long`): this engine cuts none.

    Raises
    ------
    InputError
        When the source is no endpoint or its URL holds a secret; when iterated, when the server's key is missing or
        the server cannot be used, or answers for another model.
    """
    if source.endpoint is None or source.served is None:
        raise InputError(f"{source} is no endpoint")
    endpoint = Endpoint(
        base_url=source.endpoint,
        model=source.served,
        api_key_env=source.api_key_env,
        concurrency=concurrency,
        timeout=source.timeout,
        retries=source.retries,
    )
    return EndpointRun(endpoint, prompts, job, source.served_as)
