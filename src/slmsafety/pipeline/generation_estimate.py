"""What generating a study's replies will take before any of it is made: tokens, downloads, disk and hours."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from slmsafety.judging.llm.cost import count_tokens
from slmsafety.models.cards import load_cards
from slmsafety.models.source import Source
from slmsafety.params.entries import SuiteParams
from slmsafety.pipeline.cost_estimate import PROMPT_TOKENS
from slmsafety.pipeline.run import Run, without
from slmsafety.pipeline.status import expected_rows

COLUMNS = ["model", "suite", "replies", "prompt_tokens", "new_tokens", "download_gb", "hours"]
# Checkpoints of small models are kept in 16 bits, some in 32: a download may be twice as large.
_BYTES = 2
# Bytes of a token of a reply in the tables, with its share of the row around it.
_ROW_BYTES = 8


def estimate_generation(run: Run, tokens_per_second: float | None = None) -> pd.DataFrame:
    """Return what the replies that are still to be made will take, without asking a hub or loading a model.

    Parameters
    ----------
    run : Run
        The study.
    tokens_per_second : float or None
        New tokens a second of one process, over all rows of a batch; None: hours are not known.

    Returns
    -------
    DataFrame
        A row for each model and suite: model, suite (str), replies (still to be made), prompt_tokens (about;
        PROMPT_TOKENS each where no prompt is stored yet), new_tokens (the most there can be; int),
        download_gb (of the model's card in 16 bits, at its first suite; 0 where the weights are here, nan where the
        size is not known) and hours (float64, nan without a rate and for endpoints).
    """
    rows: list[list[object]] = []
    for model, source in run.sources.items():
        download = _download_gb(run, model, source)
        for suite in run.asked_suites(model):
            replies, tokens = _waiting(run, suite, model)
            new = replies * run.settings(suite, model).max_new_tokens
            rate = tokens_per_second if source.endpoint is None else None
            hours = float("nan") if rate is None else new / rate / 3600
            rows.append([model, suite.name, replies, round(tokens), new, download, hours])
            download = 0.0
    return pd.DataFrame(rows, columns=COLUMNS)


def generation_totals(table: pd.DataFrame) -> str:
    """Return the sums of an estimate in one line."""
    total = table[["replies", "prompt_tokens", "new_tokens", "download_gb", "hours"]].sum()
    unknown = table.loc[table["download_gb"].isna(), "model"]
    downloads = f"{total['download_gb']:.1f} GB to download"
    if len(unknown):
        downloads += f" (without {', '.join(unknown)}, of unknown size)"
    disk = total["download_gb"] + total["new_tokens"] * _ROW_BYTES / 1e9
    time = f"{total['hours']:.1f} hours" if table["hours"].notna().any() else "hours not known (--tokens-per-second)"
    return (
        f"generation: {total['replies']:.0f} replies, about {total['prompt_tokens']:.0f} prompt tokens ("
        f"{PROMPT_TOKENS} each where no prompt is stored), "
        f"at most {total['new_tokens']:.0f} new tokens; {downloads}, at most {disk:.1f} GB of disk; "
        f"{time}"
    )


def _waiting(run: Run, suite: SuiteParams, model: str) -> tuple[int, float]:
    """The replies that are still to be made, and the tokens of their prompts."""
    if run.texts.prompts(suite.name).read(["suite"]).empty:
        number = expected_rows(run, suite) * run.samples
        return number, number * float(PROMPT_TOKENS)
    todo = without(run.asked(suite.name), run.replies(suite.name, model, ["instance_id"]))
    counts = run.once(("prompt tokens", suite.name), lambda: _prompt_tokens(run, suite.name))
    return len(todo), float(counts.loc[todo["instance_id"]].sum())


def _prompt_tokens(run: Run, suite: str) -> pd.Series:
    """The tokens of each prompt of a suite, by its id."""
    return run.prompts(suite).set_index("instance_id")["prompt"].map(count_tokens)


def _download_gb(run: Run, model: str, source: Source) -> float:
    """What has to be downloaded of a model, in 1e9 bytes; nan where its size is not known."""
    if source.hub is None or _is_cached(source.hub):
        return 0.0
    entry = next(entry for entry in run.params.models if entry.id == model)
    cards = load_cards().drop_duplicates("hub_id").set_index("hub_id")["params_m"]
    millions = entry.params_m or cards.get(source.hub)
    return float("nan") if millions is None or pd.isna(millions) else float(millions) * _BYTES / 1000


def _is_cached(hub: str) -> bool:
    """Whether weights of a hub id lie in the local cache; no hub is asked."""
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / f"models--{hub.replace('/', '--')}" / "snapshots"
    return any(next(folder.glob(f"*/*{ending}"), None) is not None for ending in (".safetensors", ".bin"))
