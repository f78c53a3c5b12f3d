"""What a study's parameters are made of: suites, models, how replies are generated and measured."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from slmsafety.errors import InputError, unknown
from slmsafety.generation.frames import check_frame, no_place, takes_system
from slmsafety.generation.settings import UNSENT, Temperature
from slmsafety.importers.rules import NAME_LENGTH, stored_name
from slmsafety.judging.rubrics.registry import RUBRIC_OF
from slmsafety.models.cards import Card, card, is_card
from slmsafety.models.packages import EN_CORE_WEB_SM, GEMMA3_BASE, MINILM, SMOLLM2
from slmsafety.models.source import Source, check_there
from slmsafety.paths import data_path
from slmsafety.suites.catalogue import MULTIPLE_CHOICE, check_suite_name


class Strict(BaseModel):
    """Parameters in which an unknown key is an error. No message of pydantic's own repeats what was given."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_by_yes(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse yes, no, true and false where a number belongs: Python would count them as 1 and 0."""
        wanted = cls.model_fields[str(info.field_name)].annotation
        kinds = {*get_args(wanted), wanted}
        if isinstance(value, bool) and bool not in kinds and kinds & {int, float}:
            raise InputError(f"key '{info.field_name}' is {value}; give a number")
        return value


FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Name = Annotated[str, AfterValidator(stored_name)]
"""The name of a model or judge, as the tables have it (`importers.rules.stored_name`)."""


def check_json(value: dict[str, Any], what: str) -> None:
    """Raise InputError for a mapping that JSON cannot say (a date, nan, a set): it is sent, hashed and recorded."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} holds what JSON cannot say ({error}); write dates as text, in quotes") from error


def check_request(value: dict[str, Any], what: str) -> None:
    """Raise InputError for what cannot be sent along with a call, or what a server would not read."""
    if "extra_body" in value:
        raise InputError(
            f"{what} has the key 'extra_body', which a Python client takes apart and no server reads; give what it "
            "holds as keys of the request itself"
        )
    check_json(value, what)


Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
"""Names in a list, or one of them alone."""


def by_name(key: str) -> BeforeValidator:
    """Return the rule that an entry may be a text alone: the value of its first key."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


class SuiteParams(Strict):
    """A suite of a study.

    Attributes
    ----------
    name : str
        A known suite (`slmsafety suites`), or a name of one's own for the prompts in `path`.
    path : str or None
        The file, or folder of files, that the prompts are read from; a known suite is downloaded without it.
    own : bool
        Insist that a name which looks like a known suite's is one's own.
    rubric : str or None
        What a language model follows as a judge of this suite, unless its own entry says otherwise: a rubric's name,
        or the path of a rubric file (.yaml). Without it a known suite has its own rubric.
    limit : int or None
        The number of prompts of a seeded sample; all without it.
    max_new_tokens : int or None
        The suite's own limit of tokens a reply.
    """

    name: str = Field(pattern=FILE_NAME, max_length=NAME_LENGTH)
    path: str | None = None
    own: bool = False
    rubric: str | None = None
    limit: int | None = Field(default=None, gt=0)
    max_new_tokens: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _named(self) -> SuiteParams:
        check_suite_name(self.name, self.path, self.own)
        if self.rubric is not None and self.name in MULTIPLE_CHOICE:
            raise InputError(f"suite '{self.name}' is multiple choice: it has no rubric; remove the key 'rubric'")
        if self.rubric == "airbench" and self.name != "airbench":
            raise InputError(f"suite '{self.name}' has rubric airbench, whose prompts go by that suite's categories")
        return self

    @property
    def rubric_name(self) -> str | None:
        """The rubric that the suite brings: the entry's, or the known suite's own; None where there is none."""
        return self.rubric or RUBRIC_OF.get(self.name)


class ModelParams(Strict):
    """A system: a model, and a way of asking it. Beside `id` it has the fields of a source, of asking and of a card.

    The id of a card without an origin means the card's model; with one it means the card's model from there. Where
    several entries are of one card, `card` names it and each has an id of its own. `folder` and `gguf` are paths as
    elsewhere in a study.

    `template` goes before the study's: a client cannot see whether the model behind an endpoint has a chat template, so
    that a base model there needs raw. `system_prompt`, `frame` and `template_kwargs` are as in `GenerationSettings`;
    `request` is sent along with every call to an endpoint; a null in it leaves out what the study would send, for a
    model that refuses it. `served_as` are other names that the model behind an endpoint may answer by.
    """

    id: Name
    card: str | None = None
    hub: str | None = None
    folder: str | None = None
    gguf: str | None = None
    endpoint: str | None = None
    served: str | None = None
    api_key_env: str | None = None
    served_as: Names = ()
    timeout: float | None = Field(default=None, gt=0)
    retries: int | None = Field(default=None, ge=0)
    revision: str | None = None
    trust_remote_code: bool = False
    weights: Literal["safetensors", "bin"] | None = None
    template: Literal["auto", "chat", "raw"] | None = None
    system_prompt: str | None = None
    frame: str | None = None
    template_kwargs: dict[str, Any] = Field(default={})
    request: dict[str, Any] = Field(default={})
    name: str | None = None
    family: str | None = None
    year: int | None = None
    params_m: int | None = Field(default=None, gt=0)
    base_or_tuned: Literal["base", "tuned"] | None = None

    @model_validator(mode="after")
    def _sound(self) -> ModelParams:
        try:
            self._check_card()
            self._check_asking()
        except InputError as error:
            raise InputError(f"model '{self.id}': {error}") from error
        return self

    def _check_card(self) -> None:
        if self.card is None:
            return
        if card(self.card).id != self.id and is_card(self.id):
            raise InputError("its id is a card's, and its key 'card' names another; give it an id of its own")
        for key in OF_CARD:
            if getattr(self, key) is not None:
                raise InputError(f"key '{key}' says what its card says; remove it, or the key 'card'")

    def _check_asking(self) -> None:
        if self.system_prompt is not None and not self.system_prompt.strip():
            raise InputError("its system_prompt is empty; leave the key out for none")
        if self.frame is not None:
            check_frame(self.frame, self.system_prompt)
        for key in sorted(_TEMPLATE_KEYS & self.template_kwargs.keys()):
            raise InputError(f"its template_kwargs have the key '{key}', which the study's own way of asking sets")
        if self.request and self.endpoint is None:
            raise InputError("key 'request' belongs to a model with an endpoint")
        if self.endpoint is not None and "chat_template" in self.template_kwargs:
            raise InputError(
                "its template_kwargs have the key 'chat_template', which only a model that runs here reads"
            )
        self._check_request_keys()
        check_json(self.template_kwargs, "its template_kwargs")
        check_request(self.request, "its request")

    def _check_request_keys(self) -> None:
        unsent = {key for key in UNSENT if key in self.request and self.request[key] is None}
        budget = self.request.get("max_completion_tokens")
        if "max_tokens" in unsent and not (isinstance(budget, int) and budget > 0):
            raise InputError(
                "its request has max_tokens: null; give it max_completion_tokens, the most tokens of a reply"
            )
        for key in sorted((_REQUEST_KEYS & self.request.keys()) - unsent):
            if key == "max_completion_tokens" and "max_tokens" in unsent:
                continue
            more = f" (or give it null, which sends no {key})" if key in UNSENT else ""
            more = " (or give max_tokens: null beside it)" if key == "max_completion_tokens" else more
            raise InputError(f"its request has the key '{key}', which the study's own keys set; remove it{more}")

    def check_template(self, template: str) -> None:
        """Raise InputError for what an entry gives a chat template under the template `raw`, its own or the study's."""
        if template == "raw":
            if self.template_kwargs:
                raise InputError(f"model '{self.id}': {no_place('template_kwargs')}")
            if self.system_prompt is not None and not takes_system(self.frame):
                raise InputError(f"model '{self.id}': {no_place('system_prompt')}")

    @property
    def card_id(self) -> str:
        """The id of the card that tells of the model, where there is one: the key `card`, or the entry's id."""
        return self.card or self.id

    @property
    def asking(self) -> dict[str, Any]:
        """How the model is asked, as far as the entry says so: keys of `GenerationSettings`."""
        return {key: getattr(self, key) for key in ASKING_KEYS if getattr(self, key) not in (None, {})}

    def source(self, root: Path) -> Source:
        """Return where the model comes from; InputError for an id without card and origin, or a path that is not."""
        given = {
            key: value for key in SOURCE_KEYS if (value := getattr(self, key)) not in (None, ()) and value is not False
        }
        given |= {key: data_path(given[key], root) for key in ("folder", "gguf") if key in given}
        if not any(key in given for key in _ORIGINS):
            known = self._card().source
            given = known.model_dump(exclude_defaults=True) | given
        try:
            source = Source(**given)
        except ValidationError as error:
            raise first_problem(error, f"model '{self.id}'") from error
        try:
            check_there(source)
        except InputError as error:
            raise InputError(f"model '{self.id}': {error}") from error
        return source

    def _card(self) -> Card:
        try:
            return card(self.card_id)
        except InputError as error:
            raise InputError(f"{error}; an id of your own needs one of the keys card, {', '.join(_ORIGINS)}") from error


_ORIGINS = ("hub", "folder", "gguf", "endpoint")
OF_CARD = ("family", "params_m", "base_or_tuned", "year")
CARD_KEYS = ("card", "name", *OF_CARD)
ASKING_KEYS = ("template", "system_prompt", "frame", "template_kwargs", "request")
# What `apply_chat_template` takes for itself, or the study sets.
_TEMPLATE_KEYS = {
    *("conversation", "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "tokenize"),
    *("sanitize_control_tokens", "padding", "truncation", "max_length", "return_tensors", "return_dict"),
    *("return_assistant_tokens_mask", "tokenizer_kwargs"),
}
# What a request for a reply is made of by the other keys, and what must not come from anywhere else.
_REQUEST_KEYS = {
    *("model", "messages", "prompt", "stream", "n", "best_of", "echo"),
    *("max_tokens", "max_completion_tokens", "max_new_tokens", "max_output_tokens"),
    *("temperature", "top_p", "seed", "frequency_penalty", "chat_template_kwargs"),
}
SOURCE_KEYS = (
    *(*_ORIGINS, "served", "api_key_env", "served_as", "timeout", "retries"),
    *("revision", "trust_remote_code", "weights"),
)


class GenerationParams(Strict):
    """How replies are made; the defaults are the paper's for its open-ended suites (section 3.1).

    Tokens are the likeliest ones (greedy), unless `temperature` is above 0: then they are drawn, each prompt gets
    `samples` replies, and `top_p` and `seed` (the study's where it is not given) say how. The last four say how the
    work is run and define none of it: the most prompts of a batch, the memory of one process, the processes on a CPU,
    and the requests that an endpoint gets at once.
    """

    max_new_tokens: int = Field(default=512, gt=0)
    template: Literal["auto", "chat", "raw"] = "auto"
    truncation: Literal["keep_end", "helm"] = "keep_end"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    temperature: Temperature = 0
    top_p: float = Field(default=1, gt=0, le=1)
    seed: int | None = Field(default=None, ge=0, lt=2**32)
    samples: int = Field(default=1, gt=0)
    batch_size: int = Field(default=32, gt=0)
    memory_gb: float | None = Field(default=None, gt=0)
    workers: int = Field(default=1, gt=0)
    concurrency: int = Field(default=16, gt=0)

    @model_validator(mode="after")
    def _drawn(self) -> GenerationParams:
        """Refuse keys that need drawn tokens where none are drawn."""
        if self.temperature > 0:
            return self
        if self.samples > 1:
            raise InputError(
                f"generation has samples {self.samples} at temperature 0, where all replies to a prompt are the same; "
                "give it a temperature above 0, or samples 1"
            )
        for key, given in {"top_p": self.top_p < 1, "seed": self.seed is not None}.items():
            if given:
                raise InputError(f"generation has '{key}' at temperature 0, where nothing is drawn; give a temperature")
        return self


class MetricParams(Strict):
    """The reference models of the metrics, and the processes on a CPU that share the work.

    Each model is a source: `hub` (with a `revision`), `folder`, or a package, which needs no network. The perplexity's
    may be a `gguf` too; its default stands in for GPT-2, whose weights no package holds. `own` names a user's own
    metrics, each by the import path or the file of its module (docs/extending.md).
    """

    perplexity: Source = Source(package=SMOLLM2)
    encoder: Source = Source(package=MINILM)
    parser: Source = Source(package=EN_CORE_WEB_SM)
    own: tuple[str, ...] = ()
    workers: int = Field(default=1, gt=0)

    @field_validator("perplexity", "encoder", "parser", mode="before")
    @classmethod
    def _runs_here(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict):
            return value
        name = str(info.field_name)
        try:
            source = Source.model_validate(value)
        except ValidationError as error:
            raise first_problem(error, f"metrics.{name}", lambda parents: list(Source.model_fields)) from error
        if source.endpoint is not None or (source.gguf is not None and name != "perplexity"):
            raise InputError(f"metrics.{name}: a reference model is read here; give hub, folder or package")
        if source.package is not None and source.package not in _MEASURING[name]:
            raise unknown("package", source.package, _MEASURING[name], f"metrics.{name}")
        return source

    def sources(self, root: Path) -> dict[str, Source]:
        """Return perplexity, encoder and parser; InputError for a path that does not exist."""
        given = {name: getattr(self, name) for name in _MEASURING}
        for name, source in given.items():
            paths = {key: data_path(str(path), root) for key in ("folder", "gguf") if (path := getattr(source, key))}
            given[name] = source.model_copy(update=paths)
            try:
                check_there(given[name])
            except InputError as error:
                raise InputError(f"metrics.{name}: {error}") from error
        return given


_MEASURING = {"perplexity": (SMOLLM2, GEMMA3_BASE), "encoder": (MINILM,), "parser": (EN_CORE_WEB_SM,)}


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
    # Which of several kinds an entry is stands in the location as a tag of two words; no key has a blank.
    where = ".".join(str(part) for part in first["loc"] if " " not in str(part))
    if first["type"] == "extra_forbidden":
        *parents, key = first["loc"]
        return unknown("key", key, keys_at(parents), source)
    if first["type"] == "missing":
        return InputError(f"{source}: key '{where}' is missing")
    shown = _shown(where.rpartition(".")[2], first["input"])
    return InputError(f"{source}: key '{where}' {shown}; {_plain(first['msg'])}")


def _plain(message: str) -> str:
    """What pydantic says is wanted, in the words of a params file."""
    said = re.sub(r"a valid dictionary( or instance of \w+)?", "a mapping (key: value)", message)
    said = said.replace("a valid tuple", "a list").replace("a valid string", "text")
    return f"{said[0].lower()}{said[1:]}"


def _shown(key: str, value: object) -> str:
    """What an error says of a bad value: the value, unless it may hold a secret."""
    if key in ("endpoint", "api_key_env") or isinstance(value, dict | list | tuple | set):
        return "is not right"
    return f"is {value!r}"
