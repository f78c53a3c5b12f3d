"""Language models behind endpoints as judges of a run: asked within what they may spend, call by call or in batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.judging.llm.batches import Batching, BatchRun
from slmsafety.judging.llm.budget import Budget
from slmsafety.judging.llm.judge import JudgeRun, LlmJudge
from slmsafety.judging.rubrics.registry import build
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.endpoint import EndpointJudge
from slmsafety.pipeline.judged_texts import REPLY, JudgeIds, every_text
from slmsafety.pipeline.run import JUDGED_WITH, Run, say, with_prompts
from slmsafety.pipeline.spending import Ledger


def language_model(run: Run, entry: EndpointJudge, suite: SuiteParams) -> LlmJudge:
    """Return a language model as it judges a suite; InputError when its rubric's prompts are not to be had."""
    rubric = build(entry.rubric_choice(suite, run.root))
    return LlmJudge(
        entry.name, rubric, entry.server(run.shard.world), entry.revision, entry.request, entry.asking, entry.served_as
    )


class ServedJudge:
    """A language model as the judge of one suite of a run. Prints how calls ended that gave no label."""

    costs_money = True

    def __init__(self, run: Run, entry: EndpointJudge, asked: LlmJudge, ids: JudgeIds) -> None:
        """Take the entry, the model as it is asked, and the ids of its work, which name calls and notes."""
        self._run, self.entry, self.asked, self.ids = run, entry, asked, ids

    @property
    def name(self) -> str:
        """The judge's name in the tables."""
        return self.entry.name

    def definition(self) -> dict[str, Any]:
        """Return what defines the work: the served model, the rubric and the request."""
        return self.asked.definition()

    def warning(self) -> str | None:
        """Return one line when the rubric was published with other models, else None."""
        return self.asked.rubric.warning(str(self.entry.served))

    def send(self, rows: pd.DataFrame) -> None:
        """Send replies ahead in batches, where the entry asks for batches and there are any.

        Says first what killed runs have left unsettled.
        """
        if self.entry.batch and self._run.shard.world > 1:
            raise InputError(
                f"judge '{self.name}' sends batches, which one process does; judge outside of the launcher"
            )
        if self._spent.exists():
            self._budget.tell_lost()
        if self.entry.batch and len(rows):
            self._batches(rows).send()

    def judge(self, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yield verdicts as calls end; see `judging.base.Judge`."""
        calls = self._batches(rows) if self.entry.batch else JudgeRun(self.asked, rows, self.ids.whole, self._budget)
        yield from calls
        self._report(calls, len(rows))

    def close(self) -> None:
        """Say what the judge has cost on all suites together, and let go of the ledger."""
        budget: Budget | None = self._run.forget(("budget", self.name))
        if budget is not None:
            if budget.calls:
                budget.tell_lost()
            budget.close()
            if budget.calls:
                limit = "" if budget.limit is None else f" of max_cost ${budget.limit:g}"
                self._say(f"${budget.own:.4f} in this run ({budget.calls} calls), ${budget.spent:.4f}{limit} in all")

    @property
    def _spent(self) -> Path:
        return self._run.folder / "spent" / self.name

    @property
    def _budget(self) -> Budget:
        """What the judge may spend on all suites together, in all processes."""
        entry = self.entry
        return self._run.once(
            ("budget", self.name), lambda: Budget(entry.price, entry.max_cost, Ledger(self._spent), self._say)
        )

    def _say(self, text: str) -> None:
        say(f"{self._run.shard.prefix()}judge {self.name}: {text}")

    def _batches(self, rows: pd.DataFrame) -> BatchRun:
        """The batches of a model's replies; every setting has notes of its own, so that none takes in another's.

        What a batch holds is taken in also where the study judged another part of the replies when it was sent.
        """
        suite, model = (str(rows[column].iloc[0]) for column in ("suite", "model"))
        name = f"{self._run.texts.notes(suite, model)}-{self.ids.whole}"
        notes = self._run.folder / "batches" / self.name / suite / model / name
        every = with_prompts(
            every_text(self._run, self._run.replies(suite, model, REPLY), self.ids),
            self._run.prompts(suite)[JUDGED_WITH],
        )
        return BatchRun(self.asked, rows, self.ids.whole, self._budget, Batching(notes, every))

    def _report(self, calls: JudgeRun, asked: int) -> None:
        """Print what gave no label, and what was not asked for."""
        ended = ", ".join(f"{status} {count}" for status, count in calls.statuses.most_common() if status != "ok")
        if ended:
            self._say(f"{calls.statuses['ok']} ok, {ended} ({calls.attempts} calls)")
        left = max(0, asked - calls.statuses.total())
        if calls.stopped:
            limit, spent = self._budget.limit, self._budget.spent
            self._say(f"stopped at max_cost ${limit:g} (spent ${spent:.4f}); {left} replies left")
        elif left:
            self._say(f"{left} replies have no answer yet; run again to ask for them")
