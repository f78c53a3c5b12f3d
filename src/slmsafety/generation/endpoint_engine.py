"""Greedy generation by an OpenAI-compatible server (vLLM, SGLang, TGI, llama.cpp, `transformers serve`).

The template `raw` sends the prompt as it is to /completions; `chat` and `auto` send it as the only turn of a chat,
since a client cannot see whether the server's tokenizer has a template. A base model therefore needs `raw`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.generation.settings import ENDPOINT_ENGINE, GenerationJob
from slmsafety.models.answers import Completion, Failure
from slmsafety.models.client import Endpoint, Request, complete
from slmsafety.models.source import Source
from slmsafety.records.schema import RESPONSES, typed

# Greedy decoding draws nothing, but some servers sample at temperature 0 after all; the paper's seed for SALAD.
_SEED = 1337


class EndpointRun:
    """The frames of a run, and how its calls ended: iterate it once, then read `failed` and `attempts`.

    Attributes
    ----------
    failed : Counter of str
        Prompts without a reply, by reason. They have no row, so the next run asks for them again.
    attempts : int
        All calls so far, retries included.
    """

    def __init__(self, endpoint: Endpoint, prompts: pd.DataFrame, job: GenerationJob) -> None:
        """Take the server, the prompts still to be done and the job."""
        self.failed: Counter[str] = Counter()
        self.attempts = 0
        self._endpoint, self._prompts, self._job = endpoint, prompts, job

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
                yield typed(pd.DataFrame.from_records(rows), RESPONSES)

    def problems(self) -> str:
        """Return what failed as a line for the user; empty when nothing did."""
        if not self.failed:
            return ""
        reasons = ", ".join(f"{reason} {count}" for reason, count in self.failed.most_common())
        return f"{self.failed.total()} prompts got no reply ({reasons}); run again to ask for them"

    def _requests(self) -> Iterator[Request]:
        for suite, instance, prompt in zip(
            *(self._prompts[c] for c in ("suite", "instance_id", "prompt")), strict=True
        ):
            asked = {"messages": [{"role": "user", "content": prompt}]} if self._chat else {"prompt": prompt}
            yield Request((suite, instance), {**asked, **self._decoding})

    @property
    def _chat(self) -> bool:
        return self._job.settings.template != "raw"

    @property
    def _decoding(self) -> dict[str, float]:
        # The penalty is given although 0 is its default: a server may else take one from the model's own settings.
        most = self._job.settings.max_new_tokens
        return {"max_tokens": most, "temperature": 0, "frequency_penalty": 0, "seed": _SEED}

    def _row(self, key: tuple[str, str], reply: Completion) -> dict[str, object]:
        meta = {
            "attempts": reply.attempts,
            "base_url": self._endpoint.base_url,
            "engine": ENDPOINT_ENGINE,
            "fingerprint": reply.fingerprint,
            "served_model": reply.model,
            "template_used": "chat" if self._chat else "raw",
        }
        return {
            "suite": key[0],
            "instance_id": key[1],
            "model": self._job.model_id,
            "generation_id": self._job.generation_id,
            "response": reply.text,
            "prompt_tokens": reply.input_tokens,
            "output_tokens": reply.output_tokens,
            # White space up to the limit is cut like any other text: only an end of the model's own makes a reply empty.
            "finish_reason": "empty" if not reply.text.strip() and reply.finish_reason == "stop" else reply.finish_reason,
            "prompt_truncated": False,
            "meta": json.dumps(meta, sort_keys=True),
        }


def generate(source: Source, prompts: pd.DataFrame, job: GenerationJob, concurrency: int) -> EndpointRun:
    """Return a run over prompts; iterating it sends the calls.

    Parameters
    ----------
    source : Source
        The endpoint.
    prompts : DataFrame
        Rows of the prompts table still to be done: suite, instance_id and prompt (str).
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
    return EndpointRun(Endpoint(source.endpoint, source.served, source.api_key_env, concurrency), prompts, job)
