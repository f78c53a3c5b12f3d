"""A judge of a study, as its parameters give it: a name, a language model behind an endpoint, or weights run here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from slmsafety.errors import InputError, unknown
from slmsafety.judging.guards.prompt_format import read_template
from slmsafety.judging.llm.cost import Price
from slmsafety.judging.mapping.methods import METHODS, PROBABILITY
from slmsafety.judging.mapping.stored import from_json
from slmsafety.judging.parsers.guard_outputs import NATIVE_JUDGES
from slmsafety.judging.registry import JUDGES, MULTIPLE_CHOICE_JUDGE
from slmsafety.judging.rubrics.registry import RUBRIC_OF
from slmsafety.models.client import Endpoint
from slmsafety.params.entries import NAME_LENGTH, SOURCE_KEYS, ModelParams, Strict
from slmsafety.paths import data_path
from slmsafety.suites.catalogue import MULTIPLE_CHOICE

# How weights are read: by the logits of two verdict tokens, or by what they write.
TWO_TOKEN = ("md_judge_v01", "two_token")
ADAPTERS = (*TWO_TOKEN, *NATIVE_JUDGES)

# The judge whose refusals the mapping `semantic` takes.
REFUSALS = "refusal_rules"

# What a request is made of by its rubric, and what must not come from anywhere else.
_REQUEST_KEYS = {"model", "messages", "temperature", "max_tokens", "max_completion_tokens", "stream", "n"}

# Parameters are written to manifests and beside every figure. Keys in lower case, with _ for -.
_SECRET_KEYS = {
    *("api_key", "apikey", "x_api_key", "authorization", "proxy_authorization", "auth", "bearer", "cookie"),
    *("headers", "extra_headers", "default_headers", "credentials", "password", "passwd", "secret", "client_secret"),
    *("token", "access_token", "api_token", "auth_token"),
}


class JudgeParams(Strict):
    """A judge of the study: a name of `judging.judges` alone, a language model that follows a rubric, or a guard model.

    `suites` and `models` limit what it judges. A language model has `endpoint` and `served`, and by default each
    suite's own rubric. `prompt_source` is this package's wording (own) or HELM's, read from `helm` (a crfm-helm file or
    folder) or the installed one. The next three are AirBench's. `request` is sent along with every call, such as a
    server's way to hold answers to a form. Those from `price` on say how calls are made, and define none of the work:
    dollars, limits a minute, calls at once, and whether they go as batches.

    A guard model has an `adapter`, which says how it is asked and read, and the `model` whose weights are run in this
    process: an entry as in `models`. `template` is its prompt, where its tokenizer has none; `two_token` takes the two
    tokens of its verdict. One that gives a probability and no label has a `mapping`: an arm of `mapping.arms`, fitted
    on the study, or the path of a stored one.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=NAME_LENGTH)
    suites: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    endpoint: str | None = None
    served: str | None = None
    api_key_env: str | None = None
    revision: str | None = None
    rubric: Literal["auto", "harmbench", "sst", "xstest", "airbench"] = "auto"
    prompt_source: Literal["own", "helm"] = "own"
    helm: str | None = None
    parser: Literal["anchored", "helm"] = "anchored"
    judge_prompts: str | None = None
    polarity: Literal["post_swap", "pre_swap"] = "post_swap"
    rubric_revision: str | None = None
    request: dict[str, Any] = Field(default={})
    price: Price | None = None
    max_cost: float | None = Field(default=None, ge=0)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    concurrency: int = Field(default=16, gt=0)
    batch: bool = False
    adapter: str | None = None
    model: ModelParams | None = None
    template: str | None = None
    safe_token: str | None = None
    unsafe_token: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    batch_size: int = Field(default=16, gt=0)
    mapping: str | None = None

    @field_validator("model", mode="before")
    @classmethod
    def _id_is_model(cls, value: Any) -> Any:
        return {"id": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fits(self) -> JudgeParams:
        if self.endpoint is not None and self.adapter is not None:
            raise InputError(f"judge '{self.name}' has an endpoint and an adapter; its weights are there, or here")
        kind, keys = "a name alone", set[str]()
        if self.endpoint is not None:
            kind, keys = "a judge with an endpoint", _ENDPOINT_KEYS
        elif self.adapter is not None:
            kind, keys = "a judge with an adapter", _ADAPTER_KEYS
        given = {key for key, field in type(self).model_fields.items() if getattr(self, key) != field.default}
        for key in sorted(given - {"name", "suites", "models"} - keys):
            owner = "an adapter" if key in _ADAPTER_KEYS else "an endpoint"
            raise InputError(f"key '{key}' belongs to a judge with {owner}; '{self.name}' is {kind}")
        if kind == "a name alone":
            return self
        if self.name in JUDGES:
            raise InputError(f"judge '{self.name}' is the name of a judge without a model; call this one otherwise")
        if self.endpoint is not None:
            self._check_endpoint()
        else:
            self._check_adapter()
        return self

    def _check_endpoint(self) -> None:
        if not self.served:
            raise InputError(f"judge '{self.name}' needs 'served': the model's name on that server")
        if self.max_cost is not None and self.price is None:
            raise InputError(f"judge '{self.name}' has max_cost but no price; give price: {{input, output, date}}")
        if self.helm is not None and self.prompt_source != "helm":
            raise InputError(f"judge '{self.name}' has the key 'helm'; it belongs to prompt_source: helm")
        for key in sorted(_REQUEST_KEYS & self.request.keys()):
            raise InputError(f"judge '{self.name}': its request has the key '{key}', which the rubric sets; remove it")
        for key in _keys(self.request):
            if key.lower().replace("-", "_") in _SECRET_KEYS:
                raise InputError(
                    f"judge '{self.name}': its request has the key '{key}', which may hold a secret; use api_key_env"
                )
        try:
            self.server()
        except InputError as error:
            raise InputError(f"judge '{self.name}': {error}") from error

    def _check_adapter(self) -> None:
        if self.adapter not in ADAPTERS:
            raise unknown("adapter", str(self.adapter), ADAPTERS, f"judge '{self.name}'")
        if self.model is None or self.model.endpoint is not None:
            raise InputError(f"judge '{self.name}' needs 'model': a hub id, folder or GGUF file, or the id of a card")
        for key in sorted(self.model.model_fields_set - {"id", *SOURCE_KEYS}):
            raise InputError(
                f"judge '{self.name}': its model has the key '{key}', which belongs to a model that is judged"
            )
        by_tokens = self.adapter in TWO_TOKEN
        needed = {
            "template": by_tokens or NATIVE_JUDGES[str(self.adapter)].layout == "template",
            "safe_token": self.adapter == "two_token",
            "unsafe_token": self.adapter == "two_token",
            "mapping": by_tokens,
        }
        for key, wanted in needed.items():
            if wanted and getattr(self, key) is None:
                raise InputError(f"judge '{self.name}' needs '{key}': adapter {self.adapter} {_WHY[key]}")
            if not wanted and getattr(self, key) is not None:
                raise InputError(f"judge '{self.name}' has the key '{key}', which adapter {self.adapter} does not use")
        arms = [name for name, arm in METHODS.items() if arm.span == PROBABILITY]
        if self.mapping is not None and not self.mapping.endswith(".json") and self.mapping not in arms:
            raise unknown("mapping", self.mapping, arms, f"judge '{self.name}' (or the path of a stored one, .json)")

    def server(self, processes: int = 1) -> Endpoint:
        """Return the server of a language model, with the limits a minute of one of so many processes.

        Raises InputError for a URL that is none.
        """
        requests, tokens = (each and each / processes for each in (self.requests_per_minute, self.tokens_per_minute))
        return Endpoint(str(self.endpoint), str(self.served), self.api_key_env, self.concurrency, requests, tokens)

    def reads(self, suite: str) -> bool:
        """Whether it reads a suite: multiple-choice suites have a judge of their own."""
        if (suite in MULTIPLE_CHOICE) != (self.name == MULTIPLE_CHOICE_JUDGE):
            return False
        if self.suites:
            return suite in self.suites
        return self.endpoint is None or self.rubric != "auto" or suite in RUBRIC_OF

    def check_files(self, root: Path) -> None:
        """Raise InputError when a path that the entry names leads nowhere, or to something else."""
        for text in (self.helm, self.judge_prompts):
            if text is not None:
                data_path(text, root)
        if self.template is not None:
            read_template(data_path(self.template, root))
        if self.mapping is not None and self.mapping.endswith(".json"):
            path = data_path(self.mapping, root)
            from_json(path.read_text(encoding="utf-8"), str(path))
        if self.model is not None:
            self.model.source(root)


def _keys(value: Any) -> Iterator[str]:
    """Yield every key of nested mappings and lists, as text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _keys(inner)


_ADAPTER_KEYS = {"adapter", "model", "template", "safe_token", "unsafe_token", "dtype", "batch_size", "mapping"}
_ENDPOINT_KEYS = set(JudgeParams.model_fields) - _ADAPTER_KEYS
_WHY = {
    "template": "has no prompt of its own; give a text file with {{QUESTION}} and {{ANSWER}}",
    "safe_token": "reads the logits of two tokens; give one as the tokenizer's vocabulary spells it",
    "unsafe_token": "reads the logits of two tokens; give one as the tokenizer's vocabulary spells it",
    "mapping": "measures a probability and gives no label; give an arm such as otsu_per_model",
}
