"""What defines a generation, and the id that follows from it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from slmsafety.models.engine import transformers_engine
from slmsafety.models.source import Source
from slmsafety.records.ids import content_id

ENDPOINT_ENGINE = "openai-compatible endpoint"
# Settings that came later: each is left out of the id at its old value, under which older rows were made.
_LATER: dict[str, Any] = {"system_prompt": None, "frame": None, "template_kwargs": {}, "request": {}}


class GenerationSettings(BaseModel):
    """The settings of greedy decoding. The paper: a chat template if any, 256 new tokens for SALAD, 512 for HELM.

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
    engine : str
        Name and version of the library that generates; default: the installed transformers.
    system_prompt : str or None, default None
        The system's turn of the chat, or what stands in the frame's slot {{SYSTEM}}.
    frame : str or None, default None
        The text around a prompt, with the slot {{PROMPT}} (`frames.check_frame`); in a chat it is the user's turn.
    template_kwargs : dict, default {}
        Variables of the chat template, such as enable_thinking.
    request : dict, default {}
        Of an endpoint: sent along with every call.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_new_tokens: int = Field(default=256, ge=1)
    template: Literal["auto", "chat", "raw"] = "auto"
    truncation: Literal["keep_end", "helm"] = "keep_end"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
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
    defined = {key: value for key, value in settings.model_dump().items() if key not in _LATER or value != _LATER[key]}
    if source.endpoint is not None:
        defined = {key: value for key, value in defined.items() if key not in ("dtype", "truncation")}
        defined["engine"] = ENDPOINT_ENGINE
        defined["template"] = "raw" if settings.template == "raw" else "chat"
    return content_id({"weights": source.definition(), **defined})
