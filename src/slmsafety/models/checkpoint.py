"""Whether the weights of a checkpoint are those of its architecture: none lacks, none is left over, none has another
shape. transformers fills what it lacks with random numbers, drops what is left over, and goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from slmsafety.errors import InputError

_SHOWN = 3
# What old checkpoints hold beside weights: masks and tables of positions, which today's code computes, and versions.
_COMPUTED = re.compile(
    r"(^|\.)((attn|attention|self_attention)\.(masked_)?bias|attn\.causal_mask|(original_)?inv_freq|(cos|sin)_cached"
    r"|position_ids|rope\.freqs|(en|de)coder\.version|_extra_state)$"
)
# A layer on the first token's state, which no sentence encoder here reads: many checkpoints come without it.
_POOLER = re.compile(r"(^|\.)pooler\.")
ADAPTER_FILE = "adapter_config.json"
# The files whose auto_map says where a model's own code is.
_NAMING_CODE = ("config.json", "tokenizer_config.json")


def refuse_misfit(source: str, found: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose weights are not those of its architecture.

    Parameters
    ----------
    source : str
        How the message names the model.
    found : mapping
        transformers' loading info, with mismatched sizes ignored: missing_keys and unexpected_keys (names) and
        mismatched_keys (name, shape in the checkpoint, shape in the architecture). Tied weights are none of them.

    Raises
    ------
    InputError
        Naming the first weights that are missing, have another shape, or have no place in the architecture. What old
        checkpoints hold beside weights (masks, rotary tables, position ids) has none and needs none.
    """
    missing, wrong = sorted(found["missing_keys"]), sorted(found["mismatched_keys"])
    surplus = sorted(name for name in found["unexpected_keys"] if not _COMPUTED.search(name))
    if missing:
        lacks = f"its checkpoint lacks {len(missing)} weight(s), which would be random"
        raise InputError(f"{source}: {lacks}: {_few(missing)}")
    if wrong:
        shapes = [f"{name} is {_shape(held)}, not {_shape(due)}" for name, held, due in wrong]
        raise InputError(
            f"{source}: {len(wrong)} weight(s) of its checkpoint have another shape than its config.json gives: "
            f"{_few(shapes)}"
        )
    refuse_surplus(source, surplus)


def refuse_surplus(source: str, names: list[str]) -> None:
    """Raise InputError where a checkpoint holds weights that its architecture has no place for."""
    if names:
        raise InputError(
            f"{source}: its checkpoint holds {len(names)} weight(s) that its architecture has no place for, so that "
            f"another model would run: {_few(names)}; its config.json may be another model's, or its format keeps what "
            "transformers cannot read"
        )


def of_encoder(found: Mapping[str, Any], parts: Collection[str], prefix: str) -> dict[str, Any]:
    """Return the loading info of a sentence encoder without what is none of its business.

    A pooler that lacks is not read. Weights outside its `parts` (names of its own modules, with or without the prefix
    of its base model) belong to another head, such as that of the masked language model it was trained as.
    """
    surplus = {name for name in found["unexpected_keys"] if name.removeprefix(f"{prefix}.").split(".")[0] in parts}
    missing = {name for name in found["missing_keys"] if not _POOLER.search(name)}
    return {**found, "missing_keys": missing, "unexpected_keys": surplus}


def refuse_unconverted(source: str, names: list[str]) -> None:
    """Raise InputError where parts in a checkpoint, such as a mixture's experts, do not make up these weights."""
    if names:
        raise InputError(
            f"{source}: its checkpoint does not hold all parts of {len(names)} weight(s), or in other shapes: "
            f"{_few(names)}"
        )


def refuse_adapter(source: str, config: Path | None) -> None:
    """Refuse an adapter: its base is another model, which only a file of it names.

    Where peft is not installed, transformers loads what lies beside it in silence. `config` is its adapter_config.json;
    nothing is refused where that is None or not there.
    """
    if config is None or not config.is_file():
        return
    named = _json(config).get("base_model_name_or_path")
    base = f" of {named}" if isinstance(named, str) and named else ""
    raise InputError(
        f"{source}: is an adapter{base} ({ADAPTER_FILE}), not a whole model; merge the two (with peft: "
        "`model.merge_and_unload().save_pretrained(FOLDER)`, then the tokenizer's `save_pretrained(FOLDER)`) and give "
        "that folder"
    )


def refuse_parts_from_elsewhere(source: str, find: Callable[[str], Path | None]) -> None:
    """Refuse a model of which a part lies in another repository, at no pinned revision.

    Parameters
    ----------
    source : str
        How the message names the model.
    find : callable
        The path of a file of the model by its name; None, or a path where nothing is, where it has none.

    Raises
    ------
    InputError
        For an adapter, and for code of its own that its config.json or tokenizer_config.json takes from elsewhere.
    """
    refuse_adapter(source, find(ADAPTER_FILE))
    for name in _NAMING_CODE:
        path = find(name)
        if path is None or not path.is_file():
            continue
        for reference in _references(_json(path).get("auto_map")):
            if "--" in reference:
                raise InputError(
                    f"{source}: its {name} takes code from another repository ({reference.partition('--')[0]}), of "
                    "which no revision is pinned; copy that code into the model's folder and name it there in auto_map"
                )


def weights_advice(error: BaseException, folder: Path | None, weights: str) -> str:
    """Return what to do where a checkpoint has no weights of the wanted format; "" for any other error.

    `folder` None: a model of the hub, whose other files are not known.
    """
    if weights == "bin" or "model.safetensors" not in str(error):
        return ""
    if folder is None:
        return (
            "if it has pytorch_model.bin only, add `weights: bin` to its entry, which reads that and runs no code in it"
        )
    if not any(folder.glob("pytorch_model*.bin*")):
        return ""
    return "it has pytorch_model.bin: add `weights: bin` to its entry, which reads that and runs no code in it"


def _few(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _shape(sizes: Collection[int]) -> str:
    return "x".join(map(str, sizes)) or "a number"


def _references(auto_map: Any) -> list[str]:
    """Return the class references of an auto_map; a tokenizer's are a list, of which one may be null."""
    values = auto_map.values() if isinstance(auto_map, dict) else [auto_map]
    listed = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return [one for one in listed if isinstance(one, str)]


def _json(path: Path) -> dict[str, Any]:
    """Return a JSON file's mapping; none where it is damaged, which the loader says better."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
