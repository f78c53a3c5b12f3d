"""Guard models as judges of a run: their weights loaded here when a reply is to be judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.judging.guards.generative import GenerativeJudge
from slmsafety.judging.guards.generative import definition as generative_definition
from slmsafety.judging.guards.prompt_format import read_template
from slmsafety.judging.guards.two_token import TwoToken, TwoTokenJudge, VerdictToken, md_judge_v01
from slmsafety.judging.guards.two_token import definition as two_token_definition
from slmsafety.models.load import load_causal_lm
from slmsafety.models.source import Source, pinned
from slmsafety.params.judges.guard import TWO_TOKEN, GuardJudge
from slmsafety.paths import data_path
from slmsafety.pipeline.judged_texts import JudgeIds
from slmsafety.pipeline.run import Run, same_commit

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
        entry, weights, template = self._entry, self._source.definition(), self._template
        self._defined = weights
        if entry.adapter in TWO_TOKEN:
            return two_token_definition(self._two_token(str(template)), weights, entry.dtype)
        return generative_definition(entry.adapter, template, weights, entry.dtype)

    def measure(self, rows: pd.DataFrame, /) -> pd.DataFrame:
        """Return the verdicts on replies of one suite and model, in their order.

        Raises InputError when the weights cannot be loaded, when the adapter's tokens are not the tokenizer's, and when
        the hub's weights have moved since earlier rows of this judge.
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
        entry, template = self._entry, self._template
        loaded = load_causal_lm(self._source, dtype=entry.dtype)
        if self._defined not in ({}, self._source.definition()):
            raise InputError(f"judge '{entry.name}': its files changed while this run was at work; run again")
        if entry.adapter in TWO_TOKEN:
            return TwoTokenJudge(loaded, self._two_token(str(template)), entry.batch_size).measure, loaded.revision
        return GenerativeJudge(loaded, entry.adapter, template, entry.batch_size).measure, loaded.revision

    def _two_token(self, template: str) -> TwoToken:
        """The verdicts of the entry. Models that were not trained for the form may write anything: not strict."""
        if self._entry.adapter == "md_judge_v01":
            return md_judge_v01(template)
        safe, unsafe = VerdictToken(str(self._entry.safe_token)), VerdictToken(str(self._entry.unsafe_token))
        return TwoToken(template, safe, unsafe, strict=False)

    @property
    def _template(self) -> str | None:
        given = self._entry.template
        return None if given is None else read_template(data_path(given, self._run.root))

    @property
    def _source(self) -> Source:
        if self._entry.model is None:
            raise ValueError(f"judge {self._entry.name} has no model")
        return self._entry.model.source(self._run.root)
