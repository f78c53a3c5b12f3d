"""Guard models as judges of a run: their weights loaded here when a reply is to be judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.generation.cache_check import checked_decoder
from slmsafety.generation.decoding import BatchLimits, DecodeConfig
from slmsafety.judging.guards.generative import Decoding, GenerativeJudge, Prompts
from slmsafety.judging.guards.generative import definition as generative_definition
from slmsafety.judging.guards.prompt_format import read_template
from slmsafety.judging.guards.two_token import TwoToken, TwoTokenJudge, md_judge_v01, refuse_little_mass, two_token
from slmsafety.judging.guards.two_token import definition as two_token_definition
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source, pinned
from slmsafety.models.tokens import eos_token_ids
from slmsafety.params.judges.guard import MASS_OUTSIDE, PUBLISHED, TWO_TOKEN, GuardJudge
from slmsafety.paths import data_path
from slmsafety.pipeline.judged_texts import JudgeIds
from slmsafety.pipeline.run import Run, same_commit, say

Measure = Callable[[pd.DataFrame], pd.DataFrame]


class GuardModel:
    """A guard model of a run: what defines its work without loading it, and what it measures."""

    def __init__(self, run: Run, entry: GuardJudge, ids: Callable[[], JudgeIds]) -> None:
        """Take a validated entry, and what tells the ids of its work on the suite."""
        self._run, self._entry, self._ids = run, entry, ids
        self._checked: set[tuple[str, str]] = set()
        self._defined: dict[str, Any] = {}

    def definition(self) -> dict[str, Any]:
        """Return what defines the work; InputError when the files are not there."""
        entry, weights = self._entry, self._source.definition()
        self._defined = weights
        if entry.adapter in TWO_TOKEN:
            return two_token_definition(self._two_token, weights, entry.dtype)
        return generative_definition(entry.adapter, self._prompts, weights, entry.dtype)

    def warning(self) -> str | None:
        """Return one line when the judge is not asked as it was published, else None."""
        entry = self._entry
        if entry.template is None or entry.adapter not in PUBLISHED or entry.prompt_source == "published":
            return None
        return (
            f"judge '{entry.name}' asks in the wording of {entry.template}, not in the published prompt of "
            f"{entry.adapter}, so that its verdicts are not the published judge's; `prompt_source: published` in its "
            "entry says that a file holds that prompt"
        )

    def measure(self, rows: pd.DataFrame, /) -> pd.DataFrame:
        """Return the verdicts on replies of one suite and model, in their order.

        Raises InputError when the weights cannot be loaded, when the adapter's tokens are not the tokenizer's or are
        not what the model says, and when the hub's weights have moved since earlier rows of this judge.
        """
        measure, revision = self._run.once(("weights", self._entry.name), self._load)
        part = (str(rows["suite"].iloc[0]), str(rows["model"].iloc[0]))
        if not pinned(self._source) and part not in self._checked:
            self._check_commit(part, revision)
            self._checked.add(part)
        return measure(rows)

    def close(self) -> None:
        """Free the weights: the next judge may need their room."""
        self._run.forget(("weights", self._entry.name))

    def _check_commit(self, part: tuple[str, str], revision: str) -> None:
        suite, model = part
        made = self._run.judgments(suite, self._entry.name, model).read(["meta"])
        same_commit(made[made["judge_id"].isin(self._ids())], revision, f"judge '{self._entry.name}'")

    def _load(self) -> tuple[Measure, str]:
        entry = self._entry
        loaded = load_causal_lm(self._source, dtype=entry.dtype)
        if self._defined not in ({}, self._source.definition()):
            raise InputError(f"judge '{entry.name}': its files changed while this run was at work; run again")
        measure = self._by_tokens(loaded) if entry.adapter in TWO_TOKEN else self._by_text(loaded)
        return measure, loaded.revision

    def _by_tokens(self, loaded: LoadedModel) -> Measure:
        judge, entry = self._two_token, self._entry
        reader = TwoTokenJudge(loaded, judge, entry.batch_size)
        self._tell(reader.alone)
        most = MASS_OUTSIDE if entry.max_mass_outside is None else entry.max_mass_outside
        looked_at = False

        def measure(rows: pd.DataFrame) -> pd.DataFrame:
            nonlocal looked_at
            said = reader.measure(rows)
            if not looked_at:
                try:
                    looked_at = refuse_little_mass(said, judge, most)
                except InputError as error:
                    raise InputError(f"judge '{entry.name}': {error}") from error
            return said

        return measure

    def _by_text(self, loaded: LoadedModel) -> Measure:
        decoding = greedy(loaded, self._entry.batch_size)
        self._tell(decoding.batch_size < self._entry.batch_size)
        return GenerativeJudge(loaded, self._entry.adapter, self._prompts, decoding).measure

    def _tell(self, alone: bool) -> None:
        if alone:
            say(f"judge {self._entry.name}: its cache holds no rows side by side, so that replies go one at a time")

    @property
    def _two_token(self) -> TwoToken:
        """The prompt and the verdicts of the entry."""
        template = str(self._prompts.plain)
        if self._entry.adapter == "md_judge_v01":
            return md_judge_v01(template)
        return two_token(template, str(self._entry.safe_token), str(self._entry.unsafe_token))

    @property
    def _prompts(self) -> Prompts:
        given = (self._entry.template, self._entry.context_template)
        return Prompts(*(None if one is None else read_template(data_path(one, self._run.root)) for one in given))

    @property
    def _source(self) -> Source:
        if self._entry.model is None:
            raise ValueError(f"judge {self._entry.name} has no model")
        return self._entry.model.source(self._run.root)


def greedy(loaded: LoadedModel, batch_size: int) -> Decoding:
    """Return greedy decoding of a judge, held against plain forward passes of the model.

    Parameters
    ----------
    loaded : LoadedModel
        The judge.
    batch_size : int
        The most inputs at once; 1 is kept of it where the model's cache holds no rows side by side.

    Returns
    -------
    Decoding
        No penalty or ban of the model's own generation config acts. It raises InputError, as this function does, for
        logits that are nan or infinite, and this one for a model whose texts with a cache are not its own.
    """
    ends = eos_token_ids(loaded.model, loaded.tokenizer)
    try:
        checked = checked_decoder(loaded)
    except InputError as error:
        raise InputError(f"{loaded.name}, a judge: {error}") from error
    rows = 1 if checked.alone else batch_size

    def write(inputs: list[list[int]], most: int) -> list[list[int]]:
        config = DecodeConfig(most, ends, loaded.pad_id)
        try:
            finished = list(checked.decode(loaded.model, inputs, config, BatchLimits(rows)))
        except InputError as error:
            raise InputError(f"{loaded.name}, a judge: {error}") from error
        new = dict(row for part in finished for row in part)
        return [new[place] for place in range(len(inputs))]

    return Decoding(write, rows)
