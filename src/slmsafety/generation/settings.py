"""What defines a generation, and the id that follows from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from slmsafety.errors import InputError
from slmsafety.models.engine import transformers_engine
from slmsafety.models.source import Source
from slmsafety.records.ids import content_id

ENDPOINT_ENGINE = "openai-compatible endpoint"
# What an endpoint is told of decoding, and a null in `request` leaves unsaid, for a model that refuses it.
UNSENT = ("temperature", "top_p", "seed", "frequency_penalty", "max_tokens")
# Settings that came later: each is left out of the id at its old value, under which older rows were made.
_LATER: dict[str, Any] = {"system_prompt": None, "frame": None, "template_kwargs": {}, "request": {}}


def _drawable(value: float) -> float:
    """Return a temperature; InputError for one that stands for another, or for none."""
    if value != 0 and not 0.01 <= value <= 100:
        raise InputError(f"key 'temperature' is {value:g}; valid: 0 (the likeliest token each time), or 0.01 to 100")
    return value


Temperature = Annotated[float, AfterValidator(_drawable)]
"""What divides the logits where tokens are drawn; 0 where none are."""


class GenerationSettings(BaseModel):
    """The settings of decoding. The paper: a chat template if any, greedy, 256 new tokens for SALAD, 512 for HELM.

    Parameters
    ----------
    max_new_tokens : int, default 256
        The most tokens of a reply, 1 or more.
    template : {"auto", "chat", "raw"}, default "auto"
        `chat` sends the prompt in the tokenizer's chat template, `raw` as it is, `auto` in the template where there is
        one.
    truncation : {"keep_end", "helm"}, default "keep_end"
        Of a prompt that is longer than the context length allows, `keep_end` keeps the last tokens of what is sent,
        `helm` the start of the prompt and all of the template around it.
    dtype : {"float32", "bfloat16", "float16"}, default "float32"
        The number format of weights and activations. In float32 a text does not depend on its batch.
    temperature : float, default 0
        0 takes the likeliest token each time (greedy). Else tokens are drawn, with their logits divided by it; 0.01 to
        100.
    top_p : float, default 1
        Tokens are drawn from the likeliest ones that have this probability together, above 0 up to 1 (all).
    seed : int, default 1337
        What the random numbers of every prompt and sample are made from, 0 or more.
    engine : str
        Name and version of the library that generates; default: the installed transformers.
    system_prompt : str or None, default None
        The system's turn of the chat, or what stands in the frame's slot {{SYSTEM}}.
    frame : str or None, default None
        The text around a prompt, with the slot {{PROMPT}} (`frames.check_frame`); in a chat it is the user's turn.
    template_kwargs : dict, default {}
        Variables of the chat template, such as enable_thinking.
    request : dict, default {}
        Of an endpoint: sent along with every call; a null under one of UNSENT leaves that out.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_new_tokens: int = Field(default=256, ge=1)
    template: Literal["auto", "chat", "raw"] = "auto"
    truncation: Literal["keep_end", "helm"] = "keep_end"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    temperature: Temperature = 0
    top_p: float = Field(default=1, gt=0, le=1)
    seed: int = Field(default=1337, ge=0, lt=2**32)
    engine: str = Field(default_factory=transformers_engine)
    system_prompt: str | None = None
    frame: str | None = None
    template_kwargs: dict[str, Any] = Field(default={})
    request: dict[str, Any] = Field(default={})


class GenerationJob(NamedTuple):
    """What is the same in every reply of a run: the settings, the model's id in the study and the generation's id."""

    settings: GenerationSettings
    model_id: str
    generation_id: str


def generation_id(source: Source, settings: GenerationSettings) -> str:
    """Return the id of a generation: a hash of the weights and the settings.

    Batch size, threads and device are not part of the id; the column `meta` of the responses has them. For an endpoint,
    dtype and truncation are decided by the server and not part of the id either, and the template `auto` is `chat`.
    How many replies a prompt gets is no part of it: more of them join those that are there. What draws tokens counts
    where they are drawn.

    Parameters
    ----------
    source : Source
        Where the model comes from.
    settings : GenerationSettings
        How its replies are decoded.

    Returns
    -------
    str
        12 hex digits.
    """
    unset = {key for key, value in _LATER.items() if getattr(settings, key) == value}
    unused = () if settings.temperature else ("temperature", "top_p", "seed")
    defined = settings.model_dump(exclude={*unset, *unused})
    if source.endpoint is not None:
        defined = {key: value for key, value in defined.items() if key not in ("dtype", "truncation")}
        defined["engine"] = ENDPOINT_ENGINE
        defined["template"] = "raw" if settings.template == "raw" else "chat"
    return content_id({"weights": source.definition(), **defined})
