"""A language model behind a server as a judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from slmsafety.errors import InputError, unknown
from slmsafety.judging.llm.asking import Asking, TokenKey
from slmsafety.judging.llm.cost import Price
from slmsafety.judging.rubrics.base import RubricChoice
from slmsafety.judging.rubrics.registry import RUBRICS, build
from slmsafety.models.endpoint import RETRIES, TIMEOUT, Endpoint, api_key
from slmsafety.params.entries import Names, SuiteParams, check_request
from slmsafety.params.judges.base import JudgeEntry, refuse_known_name
from slmsafety.paths import data_path
from slmsafety.suites.catalogue import SUITES

# What a request is made of by its rubric, and what must not come from anywhere else.
_REQUEST_KEYS = {"model", "messages", "stream", "n"}
# What a key of the entry says: its own name, or another.
_OWN_KEYS = {"temperature": "temperature", "max_tokens": "max_tokens", "max_completion_tokens": "token_key"}


class EndpointJudge(JudgeEntry):
    """A language model behind an OpenAI-compatible server that follows a rubric.

    Attributes
    ----------
    endpoint, served, api_key_env : str
        The base URL, the model's name there, and the environment variable that holds the key.
    revision : str or None
        What the user says of the served weights.
    rubric : str
        `auto` (each suite's own), a rubric's name, or the path of a rubric file (.yaml).
    prompt_source, helm, parser : str
        The package's wording (own) or HELM's, read from `helm` (a crfm-helm file or folder) or the installed one.
    judge_prompts, polarity, rubric_revision : str
        AirBench's prompts, which end of their scale is safe, and what names their revision.
    request : dict
        Sent along with every call, such as a server's way to hold answers to a form.
    max_tokens : int or None
        The most tokens of a verdict, reasoning included; the rubric's without it.
    token_key : str
        The name under which the server takes them.
    temperature : 0 or None
        None sends none, to a model that refuses one.
    served_as : tuple of str
        Other names that the model may answer by, or `any`.
    price, max_cost : Price, float
        US dollars a million tokens, and the most dollars in all.
    requests_per_minute, tokens_per_minute, concurrency, timeout, retries, batch
        How calls are made. These, the price and the limit define none of the work.
    """

    endpoint: str
    served: str | None = None
    api_key_env: str | None = None
    revision: str | None = None
    rubric: str = "auto"
    prompt_source: Literal["own", "helm"] = "own"
    helm: str | None = None
    parser: Literal["anchored", "helm"] = "anchored"
    judge_prompts: str | None = None
    polarity: Literal["post_swap", "pre_swap"] = "post_swap"
    rubric_revision: str | None = None
    request: dict[str, Any] = Field(default={})
    max_tokens: int | None = Field(default=None, gt=0)
    token_key: TokenKey = "max_tokens"
    temperature: Literal[0] | None = 0
    served_as: Names = ()
    price: Price | None = None
    max_cost: float | None = Field(default=None, ge=0)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    concurrency: int = Field(default=16, gt=0)
    timeout: float = Field(default=TIMEOUT, gt=0, allow_inf_nan=False)
    retries: int = Field(default=RETRIES, ge=0)
    batch: bool = False

    @model_validator(mode="after")
    def _fits(self) -> EndpointJudge:
        refuse_known_name(self.name)
        if not self.served:
            raise InputError(f"judge '{self.name}' needs 'served': the model's name on that server")
        if self.max_cost is not None and self.price is None:
            raise InputError(f"judge '{self.name}' has max_cost but no price; give price: {{input, output, date}}")
        if self.helm is not None and self.prompt_source != "helm":
            raise InputError(f"judge '{self.name}' has the key 'helm'; it belongs to prompt_source: helm")
        if self.rubric not in ("auto", *RUBRICS) and not is_rubric_file(self.rubric):
            raise unknown("rubric", self.rubric, ("auto", *RUBRICS), f"judge '{self.name}' (or a path ending in .yaml)")
        for key in sorted(_REQUEST_KEYS & self.request.keys()):
            raise InputError(f"judge '{self.name}': its request has the key '{key}', which the rubric sets; remove it")
        for key in sorted(_OWN_KEYS.keys() & self.request.keys()):
            raise InputError(
                f"judge '{self.name}': its request has the key '{key}'; give the judge itself '{_OWN_KEYS[key]}'"
            )
        check_request(self.request, f"judge '{self.name}': its request")
        try:
            self.server()
        except InputError as error:
            raise InputError(f"judge '{self.name}': {error}") from error
        return self

    @property
    def asking(self) -> Asking:
        """How the model is asked beside its rubric and the request."""
        return Asking(self.max_tokens, self.token_key, self.temperature)

    @property
    def calls_endpoint(self) -> bool:
        """True."""
        return True

    def server(self, processes: int = 1) -> Endpoint:
        """Return the server, with its limits a minute divided by the processes; InputError for a URL that is none."""
        requests, tokens = (each and each / processes for each in (self.requests_per_minute, self.tokens_per_minute))
        return Endpoint(
            base_url=self.endpoint,
            model=str(self.served),
            api_key_env=self.api_key_env,
            concurrency=self.concurrency,
            requests_per_minute=requests,
            tokens_per_minute=tokens,
            timeout=self.timeout,
            retries=self.retries,
        )

    def reads(self, suite: SuiteParams) -> bool:
        """Return whether it reads a suite: those it names, or all but known suites that have no rubric (SALAD)."""
        return super().reads(suite) and bool(self.suites or self.rubric_for(suite) or suite.name not in SUITES)

    def rubric_for(self, suite: SuiteParams) -> str | None:
        """Return the entry's rubric, else the suite's; None where the suite has none."""
        return suite.rubric_name if self.rubric == "auto" else self.rubric

    def rubric_choice(self, suite: SuiteParams, root: Path) -> RubricChoice:
        """Return how the judge is asked on a suite, with its files found; InputError for a suite without rubric."""
        rubric = self._needed_rubric(suite)
        helm, prompts = (None if path is None else data_path(path, root) for path in (self.helm, self.judge_prompts))
        return RubricChoice(
            name=data_path(rubric, root) if is_rubric_file(rubric) else rubric,
            prompt_source=self.prompt_source,
            helm=helm,
            parser=self.parser,
            judge_prompts=prompts,
            polarity=self.polarity,
            revision=self.rubric_revision,
        )

    def _needed_rubric(self, suite: SuiteParams) -> str:
        rubric = self.rubric_for(suite)
        if rubric is None:
            raise InputError(
                f"suite '{suite.name}' has no rubric of its own; give the judge or the suite one: "
                f"{', '.join(RUBRICS)}, or the path of a rubric file (.yaml); or limit the judge by its 'suites'"
            )
        return rubric

    def check_suites(self, suites: list[SuiteParams]) -> None:
        """Raise InputError for a suite without rubric, for AirBench's rubric elsewhere, and its keys without it."""
        rubrics = [self._needed_rubric(suite) for suite in suites]
        if self.rubric == "airbench" and [suite.name for suite in suites] != ["airbench"]:
            raise InputError(
                f"judge '{self.name}' has rubric airbench, which reads that suite; give suites: [airbench]"
            )
        if "airbench" not in rubrics:
            for key in ("polarity", "judge_prompts", "rubric_revision"):
                if getattr(self, key) != type(self).model_fields[key].default:
                    raise InputError(f"judge '{self.name}' has the key '{key}'; it belongs to rubric airbench")

    def check_files(self, root: Path) -> None:
        """Raise InputError for a path that leads nowhere and for a rubric file with a fault."""
        for text in (self.helm, self.judge_prompts):
            if text is not None:
                data_path(text, root)
        if is_rubric_file(self.rubric):
            build(RubricChoice(name=data_path(self.rubric, root)))

    def check_access(self) -> None:
        """Raise InputError when the environment variable of the key is not set."""
        api_key(self.server())

    @property
    def same_asking(self) -> tuple[str, ...]:
        """The model, its server, and how it is asked and read."""
        way = (self.served, self.endpoint, self.revision, self.prompt_source, self.parser, self.request, self.asking)
        return tuple(map(str, way))


def is_rubric_file(rubric: str) -> bool:
    """Return whether a rubric is given as the path of a file."""
    return rubric.endswith((".yaml", ".yml"))
