"""What can be known of a model without its weights: its config, its tokenizer, its window and its end tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from slmsafety.errors import InputError
from slmsafety.models.hub import unavailable
from slmsafety.models.load import locate
from slmsafety.models.quiet import quiet
from slmsafety.models.source import Source
from slmsafety.models.tokens import end_ids, window


@dataclass(frozen=True)
class Outline:
    """A model without its weights; `context_length` in tokens, `end_tokens` are the ids that can end a reply."""

    tokenizer: PreTrainedTokenizerBase
    context_length: int
    end_tokens: tuple[int, ...]


def read_outline(source: Source) -> Outline:
    """Return a model's outline; of a hub id only the config and the tokenizer's files are fetched.

    Parameters
    ----------
    source : Source
        Where the model comes from; no endpoint. A GGUF that was never used is dequantised first (up to a minute).

    Raises
    ------
    InputError
        When config or tokenizer cannot be read, when the model needs code of its own that its entry does not allow,
        and for a config of no causal language model.
    """
    location, commit, _ = locate(source)
    trust = source.trust_remote_code
    try:
        with quiet():
            given, _ = PreTrainedConfig.get_config_dict(location, revision=commit)
            _refuse_own_code(source, given)
            config = AutoConfig.from_pretrained(location, revision=commit, trust_remote_code=trust)
            tokenizer = AutoTokenizer.from_pretrained(location, revision=commit, trust_remote_code=trust)
            ends = end_ids(_generation_config(location, commit, config), tokenizer)
    except InputError:
        raise
    except Exception as error:  # the parsers of its files raise anything; tokenizers raises Exception itself
        raise unavailable(str(source), error) from error
    if config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not _brings(given, "AutoModelForCausalLM"):
        raise InputError(f"{source}: model type '{config.model_type}' is no causal language model")
    return Outline(tokenizer, window(config, tokenizer), tuple(ends))


def _refuse_own_code(source: Source, given: dict[str, Any]) -> None:
    """Raise InputError for a model that needs its own code, where its entry does not let it run."""
    needed = _brings(given, "AutoConfig") and given.get("model_type") not in CONFIG_MAPPING
    if needed and not source.trust_remote_code:
        raise InputError(
            f"{source}: needs code of its own, which runs only where its entry says `trust_remote_code: true`; "
            "read that code first, and pin a `revision` of a hub id"
        )


def _brings(given: dict[str, Any], name: str) -> bool:
    """Whether a config names code of its own for a class."""
    code = given.get("auto_map")
    return isinstance(code, dict) and name in code


def _generation_config(location: str, commit: str | None, config: Any) -> Any:
    """A model's generation config, which the config stands in for where there is none."""
    if Path(location).is_dir() and not (Path(location) / "generation_config.json").is_file():
        return GenerationConfig.from_model_config(config)
    try:
        return GenerationConfig.from_pretrained(location, revision=commit or "main")
    except OSError:  # a hub id without that file
        return GenerationConfig.from_model_config(config)
