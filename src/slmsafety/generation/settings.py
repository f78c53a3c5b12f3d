"""What defines a generation, and the id that follows from it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from slmsafety.models.engine import transformers_engine
from slmsafety.models.source import Source
from slmsafety.records.ids import content_id

ENDPOINT_ENGINE = "openai-compatible endpoint"


class GenerationSettings(BaseModel):
    """Greedy decoding with these settings. The paper: chat template if any, 256 new tokens for SALAD, 512 for HELM.

    `template`: auto takes the tokenizer's chat template where it has one and the raw prompt where not. `truncation`: of
    a prompt too long for the window, keep_end keeps the end of what is sent, helm the start of the prompt. float32 is
    the dtype whose texts do not depend on the batch.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_new_tokens: int = Field(default=256, ge=1)
    template: Literal["auto", "chat", "raw"] = "auto"
    truncation: Literal["keep_end", "helm"] = "keep_end"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    engine: str = Field(default_factory=transformers_engine)


def generation_id(source: Source, settings: GenerationSettings) -> str:
    """Return the 12 hex digits that stand for the weights (`Source.definition`) and the settings.

    Batch size, threads and device are not part of it; they stand in each response's meta. An endpoint's dtype and
    truncation are its server's affair and no part of it either, and its
    template auto is chat.
    """
    defined = settings.model_dump()
    if source.endpoint is not None:
        defined = {key: value for key, value in defined.items() if key not in ("dtype", "truncation")}
        defined["engine"] = ENDPOINT_ENGINE
        defined["template"] = "raw" if settings.template == "raw" else "chat"
    return content_id({"weights": source.definition(), **defined})
