"""All models of a study are looked at before the first batch, so that what cannot run is known in the first minute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from slmsafety.errors import InputError, PartFailed
from slmsafety.models.cards import load_cards
from slmsafety.models.endpoint import Endpoint, api_key
from slmsafety.models.source import Source
from slmsafety.pipeline.run import Run, say

# A prompt of our own, which every template must take.
_PROBE = "Name a colour of the rainbow."
_SHOWN = 3


class Look(NamedTuple):
    """What a look at one model found: why it cannot run (None: it can), and what to know of it."""

    problem: str | None
    notes: tuple[str, ...]


def look_at_models(run: Run, models: Iterable[str]) -> dict[str, str]:
    """Look at models without loading weights, and print a line for each that cannot run.

    Parameters
    ----------
    run : Run
        The study at work.
    models : iterable of str
        The ids of those that have something to do.

    Returns
    -------
    dict of str to str
        Why a model cannot run, by its id; the others can, as far as can be seen without their weights.
    """
    stopped, local = {}, []
    for model in models:
        found = _look(run, model)
        for note in found.notes:
            say(f"{run.shard.prefix()}{model}: {note}")
        if found.problem is not None:
            stopped[model] = found.problem
            say_stopped(run, model, found.problem)
        elif run.sources[model].endpoint is None:
            local.append(model)
    if local:
        _warn_of_slow_numbers(run)
    return stopped


def say_stopped(run: Run, model: str, reason: str) -> None:
    """Print the line of a model that cannot run."""
    say(f"{run.shard.prefix()}{model} cannot run: {reason}")


def refuse_stopped(run: Run, stopped: Mapping[str, str]) -> None:
    """Raise PartFailed where a model could not run, when the work of all others is done and kept."""
    if not stopped:
        return
    shown = [f"{model} ({reason})" for model, reason in list(stopped.items())[:_SHOWN]]
    rest = [*shown, *list(stopped)[_SHOWN:]] if len(stopped) > _SHOWN else shown
    raise PartFailed(
        f"{len(stopped)} of {len(run.params.models)} models could not run, the others' work is done and kept: "
        f"{'; '.join(rest)}"
    )


def _look(run: Run, model: str) -> Look:
    source = run.sources[model]
    try:
        if source.endpoint is not None:
            api_key(Endpoint(source.endpoint, "", source.api_key_env))
            return Look(None, ())
        return Look(None, tuple(_notes(run, model, source)))
    except InputError as error:
        return Look(f"{error}{_advice(source)}", ())


def _notes(run: Run, model: str, source: Source) -> Iterator[str]:
    """Yield what is to be known of a local model; InputError when it cannot run."""
    from slmsafety.generation.render import check_asking, render
    from slmsafety.models.outline import read_outline

    outline = read_outline(source)
    for suite in run.params.suites:
        settings = run.settings(suite, model)
        room = outline.context_length - settings.max_new_tokens
        if room < 1:
            raise InputError(
                f"max_new_tokens {settings.max_new_tokens} of suite '{suite.name}' leaves no room for a prompt in a "
                f"window of {outline.context_length} tokens; give a smaller one"
            )
        try:
            check_asking(outline.tokenizer, settings)
            render(_PROBE, outline.tokenizer, settings, room)
        except InputError:
            raise
        except Exception as error:  # a chat template is a program, and raises what it likes
            raise InputError(f"its chat template fails on a plain prompt ({type(error).__name__}): {error}") from error
    if not outline.end_tokens:
        yield "nothing can end its replies (no end token in its generation config or tokenizer): each runs to its limit"


def _advice(source: Source) -> str:
    """What a card knows of a hub model that cannot be read: its licence has to be accepted, it brings its own code."""
    cards = load_cards().drop_duplicates("hub_id").set_index("hub_id")
    if source.hub not in cards.index:
        return ""
    needs = []
    if cards.at[source.hub, "gated"]:
        needs.append(f"its licence must be accepted at https://huggingface.co/{source.hub}, and HF_TOKEN set")
    if "remote code" in str(cards.at[source.hub, "note"]) and not source.trust_remote_code:
        needs.append("it needs code of its own: `trust_remote_code: true` in its entry")
    return f"; {'; '.join(needs)}" if needs else ""


def _warn_of_slow_numbers(run: Run) -> None:
    """Print once that a number format is slow on this processor, where there is no GPU."""
    import torch

    from slmsafety.models.number_formats import slow_on_cpu

    dtype = run.params.generation.dtype
    if not torch.cuda.is_available() and slow_on_cpu(dtype):
        say(
            f"{run.shard.prefix()}warning: this processor has no instructions for {dtype}, in which models run several "
            "times slower on it than in float32 (another dtype gives replies of another generation_id)"
        )
