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
from slmsafety.generation.settings import ENDPOINT_ENGINE, GenerationJob
from slmsafety.generation.streams import request_seed, stream
from slmsafety.models.answers import Completion, Failure
from slmsafety.models.client import Endpoint, Request, complete
from slmsafety.models.source import Source
from slmsafety.records.schema import RESPONSES, typed, with_sample
from slmsafety.replies.language import reply_languages
from slmsafety.replies.parts import answer_part

# Greedy decoding draws nothing, but some servers sample at temperature 0 after all; the paper's seed for SALAD.
_SEED = 1337


class EndpointRun:
    """The frames of a run, and how its calls ended: iterate it once, then read `failed` and `attempts`.

    Attributes
    ----------
    failed : Counter of str
        Requests without a reply, by reason. They have no row, so the next run asks for them again.
    attempts : int
        All calls so far, retries included.
    """

    def __init__(self, endpoint: Endpoint, prompts: pd.DataFrame, job: GenerationJob) -> None:
        """Take the server, the prompts still to be done and the job."""
        self.failed: Counter[str] = Counter()
        self.attempts = 0
        self._endpoint, self._prompts, self._job = endpoint, prompts, job
        keys = zip(prompts["suite"], prompts["instance_id"], strict=True)
        self._texts = dict(zip(keys, prompts["prompt"], strict=True))

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield frames of the responses table as calls end; raises InputError as `complete` does."""
        for answers in complete(self._endpoint, self._requests()):
            rows = []
            for key, answer in answers:
                self.attempts += answer.attempts
                if isinstance(answer, Failure):
                    self.failed[answer.reason] += 1
                else:
                    rows.append(self._row(key, answer))
            if rows:
                made = pd.DataFrame.from_records(rows)
                yield typed(made.assign(language=reply_languages(made)), RESPONSES)

    def problems(self) -> str:
        """Return what failed as a line for the user; empty when nothing did."""
        if not self.failed:
            return ""
        reasons = ", ".join(f"{reason} {count}" for reason, count in self.failed.most_common())
        return f"{self.failed.total()} requests got no reply ({reasons}); run again to ask for them"

    def _requests(self) -> Iterator[Request]:
        columns = (with_sample(self._prompts)[c] for c in ("suite", "instance_id", "sample", "prompt"))
        for suite, instance, sample, prompt in zip(*columns, strict=True):
            key = (suite, instance, int(sample))
            yield Request(key, {**self._asked(prompt), **self._decoding(key), **self._job.settings.request})

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
        meta = {
            "attempts": reply.attempts,
            "base_url": self._endpoint.base_url,
            "engine": ENDPOINT_ENGINE,
            "fingerprint": reply.fingerprint,
            "served_model": reply.model,
            "template_used": "chat" if self._chat else "raw",
        }
        ended = reply.text.strip() or reply.reasoning is not None or reply.finish_reason == "length"
        return {
            "suite": key[0],
            "instance_id": key[1],
            "model": self._job.model_id,
            "generation_id": self._job.generation_id,
            "sample": key[2],
            "response": reply.text,
            **self._answer(key, reply),
            "prompt_tokens": reply.input_tokens,
            "output_tokens": reply.output_tokens,
            "finish_reason": reply.finish_reason if ended else "empty",
            "prompt_truncated": False,
            "meta": json.dumps(meta, sort_keys=True),
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
        the server cannot be used.
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
    return EndpointRun(endpoint, prompts, job)
