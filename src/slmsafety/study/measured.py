"""What measured the metrics: a perplexity means something only beside the name of the model that it is of."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from slmsafety.models.cards import load_cards
from slmsafety.models.source import Source
from slmsafety.pipeline.run import Run

_NAME = 24


def perplexity_maker(source: Source) -> str:
    """Return the short name of the model that perplexities are of.

    Parameters
    ----------
    source : Source
        The study's `metrics.perplexity`.

    Returns
    -------
    str
        At most 24 characters: the name of a package's card, the last part of a hub id, or the name of a folder or file.
    """
    if source.package is not None:
        cards = load_cards()
        name = str(cards.loc[cards["package"] == source.package, "name"].iloc[0])
    elif source.hub is not None:
        name = source.hub.rpartition("/")[2]
    else:
        name = source.folder.name if source.folder else Path(str(source.gguf)).stem
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}\N{HORIZONTAL ELLIPSIS}"


def with_maker(table: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Return a metric table whose column `perplexity` names its model: 'perplexity (SmolLM2-135M)'."""
    maker = perplexity_maker(run.reference_models["perplexity"])
    return table.rename(columns={"perplexity": f"perplexity ({maker})"})


def perplexity_notes(run: Run) -> list[str]:
    """Return a sentence on the model of the perplexities, and one where it is also a model of the study."""
    source = run.reference_models["perplexity"]
    maker, weights = perplexity_maker(source), source.definition()
    own = sorted(model for model, other in run.sources.items() if other.definition() == weights)
    notes = [f"Perplexity is that of {maker} ({source}): it compares texts under this model only."]
    if own:
        notes.append(
            f"It is a model of the study too ({', '.join(own)}): its own replies look more fluent to it than to others."
        )
    return notes


def makers(run: Run) -> dict[str, dict[str, str]]:
    """Return `measured_by`, for sidecars: where each reference model comes from. Nothing is loaded, no hub is asked.

    Empty for the paper's printed tables, in which nothing is measured.
    """
    if run.params.kind == "published":
        return {}
    return {"measured_by": {name: str(source) for name, source in run.params.metrics.sources(run.root).items()}}
