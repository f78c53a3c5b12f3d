"""What a study's parameters are made of: its suites, its models, how replies are generated, its judges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from slmsafety.errors import InputError, unknown
from slmsafety.judging.cost import Price
from slmsafety.judging.judges import JUDGES, MULTIPLE_CHOICE_JUDGE
from slmsafety.judging.rubrics import RUBRIC_OF
from slmsafety.models.cards import card
from slmsafety.models.client import Endpoint
from slmsafety.models.source import Source
from slmsafety.paths import data_path
from slmsafety.suites.catalogue import MULTIPLE_CHOICE, SUITES

# Names become names of files, to which the store adds some 60 characters, of at most 255.
NAME_LENGTH = 100


class Strict(BaseModel):
    """Parameters in which an unknown key is an error. No message of pydantic's own repeats what was given."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)


class SuiteParams(Strict):
    """A suite by name: the path of its file (else downloaded), the size of a seeded sample, its own token limit."""

    name: str
    path: str | None = None
    limit: int | None = Field(default=None, gt=0)
    max_new_tokens: int | None = Field(default=None, gt=0)

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in SUITES:
            raise unknown("suite", name, SUITES)
        return name


class ModelParams(Strict):
    """A model: the id of a card, or a model of the study's own; beside `id` the fields of a source and of a card.

    The id of a card without an origin means the card's; with one it means the card's model from there. `folder` and
    `gguf` are paths as elsewhere in a study. `template` goes before the study's: a client cannot see whether the model
    behind an endpoint has a chat template, so that a base model there needs raw.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=NAME_LENGTH)
    hub: str | None = None
    folder: str | None = None
    gguf: str | None = None
    endpoint: str | None = None
    served: str | None = None
    api_key_env: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    weights: Literal["safetensors", "bin"] | None = None
    template: Literal["auto", "chat", "raw"] | None = None
    name: str | None = None
    family: str | None = None
    year: int | None = None
    params_m: int | None = Field(default=None, gt=0)
    base_or_tuned: Literal["base", "tuned"] | None = None

    def source(self, root: Path) -> Source:
        """Return where the model comes from; InputError for an id without card and origin, or a path that is not."""
        given = {key: getattr(self, key) for key in _SOURCE_KEYS if getattr(self, key) not in (None, False)}
        given |= {key: data_path(given[key], root) for key in ("folder", "gguf") if key in given}
        if not any(key in given for key in _ORIGINS):
            known = card(self.id).source
            given = known.model_dump(exclude_defaults=True) | given
        try:
            return Source(**given)
        except ValidationError as error:
            raise first_problem(error, f"model '{self.id}'") from error


_ORIGINS = ("hub", "folder", "gguf", "endpoint")
_SOURCE_KEYS = (*_ORIGINS, "served", "api_key_env", "revision", "trust_remote_code", "weights")


class GenerationParams(Strict):
    """How replies are made; the defaults are the paper's for its open-ended suites (section 3.1).

    The last four say how the work is run and define none of it: the most prompts of a batch, the memory of one process,
    the processes on a CPU, and the requests that an endpoint gets at once.
    """

    max_new_tokens: int = Field(default=512, gt=0)
    template: Literal["auto", "chat", "raw"] = "auto"
    truncation: Literal["keep_end", "helm"] = "keep_end"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    batch_size: int = Field(default=32, gt=0)
    memory_gb: float | None = Field(default=None, gt=0)
    workers: int = Field(default=1, gt=0)
    concurrency: int = Field(default=16, gt=0)


class JudgeParams(Strict):
    """A judge of the study: a name of `judging.judges` alone, or a language model that follows a rubric.

    A language model has `endpoint` and `served`, and by default each suite's own rubric; `suites` and `models` limit
    what it judges. `prompt_source` is this package's wording (own) or HELM's, read from `helm` (a crfm-helm file or
    folder) or the installed one. The next three are AirBench's. The last say how the calls are made, and define none of
    the work: dollars, limits a minute, calls at once, and whether they go as batches.
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
    price: Price | None = None
    max_cost: float | None = Field(default=None, ge=0)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    concurrency: int = Field(default=16, gt=0)
    batch: bool = False

    @model_validator(mode="after")
    def _fits(self) -> JudgeParams:
        if self.endpoint is None:
            given = [key for key, field in type(self).model_fields.items() if getattr(self, key) != field.default]
            own = sorted(set(given) - {"name", "suites", "models"})
            if own:
                raise InputError(f"key '{own[0]}' belongs to a judge with an endpoint; '{self.name}' is a name alone")
            return self
        if self.name in JUDGES:
            raise InputError(f"judge '{self.name}' is the name of a judge without a model; call this one otherwise")
        if not self.served:
            raise InputError(f"judge '{self.name}' needs 'served': the model's name on that server")
        if self.max_cost is not None and self.price is None:
            raise InputError(f"judge '{self.name}' has max_cost but no price; give price: {{input, output, date}}")
        if self.helm is not None and self.prompt_source != "helm":
            raise InputError(f"judge '{self.name}' has the key 'helm'; it belongs to prompt_source: helm")
        try:
            self.server()
        except InputError as error:
            raise InputError(f"judge '{self.name}': {error}") from error
        return self

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


def first_problem(
    error: ValidationError, source: str, keys_at: Callable[[list[int | str]], list[str]] = lambda parents: []
) -> InputError:
    """Return pydantic's first error as one line that names the key; `keys_at` gives the keys valid at its place."""
    # A misspelt key is also a missing one; the former says more.
    found = error.errors()
    first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return InputError(f"{source}: {cause}")
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        *parents, key = first["loc"]
        return unknown("key", key, keys_at(parents), source)
    if first["type"] == "missing":
        return InputError(f"{source}: key '{where}' is missing")
    shown = _shown(where.rpartition(".")[2], first["input"])
    return InputError(f"{source}: key '{where}' {shown}; {first['msg'][0].lower()}{first['msg'][1:]}")


def _shown(key: str, value: object) -> str:
    """What an error says of a bad value: the value, unless it may hold a secret."""
    if key in ("endpoint", "api_key_env") or isinstance(value, dict | list | tuple | set):
        return "is not right"
    return f"is {value!r}"
