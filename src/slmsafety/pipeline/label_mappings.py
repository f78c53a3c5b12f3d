"""Labels of judges that measure a number: a mapping fitted once on a finished suite, kept, applied when read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.importers.human_labels import read_human_labels
from slmsafety.judging.base import REPLY_KEY as KEYS
from slmsafety.judging.mapping.methods import METHODS, PROBABILITY, fit
from slmsafety.judging.mapping.stored import POOLED, VERSION, FittedMapping, GroupCuts, from_json
from slmsafety.params.judge import REFUSALS, JudgeParams
from slmsafety.params.study import StudyParams
from slmsafety.paths import data_path
from slmsafety.pipeline.judge import judge_id
from slmsafety.pipeline.run import generation_ids, of
from slmsafety.records.files import write_atomic
from slmsafety.records.ids import content_id, file_sha256, text_id
from slmsafety.records.schema import HARMFUL, JUDGMENTS, PROMPTS, RESPONSES
from slmsafety.records.store import Partition


@dataclass(frozen=True)
class Mappings:
    """The mappings of a study's judges, one for each judge and suite, in runs/<study>/mappings."""

    params: StudyParams
    folder: Path
    root: Path

    @cached_property
    def judges(self) -> dict[str, JudgeParams]:
        """The judges that have a mapping, by name."""
        return {judge.name: judge for judge in self.params.judges if judge.mapping is not None}

    def fit_missing(self) -> None:
        """Fit the mappings that are not there yet, each when all replies are judged, and print what was written."""
        for judge in self.judges.values():
            for suite in (suite.name for suite in self.params.suites if judge.reads(suite.name)):
                path = self._path(judge, suite)
                if path is not None and not path.exists():
                    what = f"mapping {judge.mapping} of {judge.name} on {suite}"
                    try:
                        self._fit_own(judge, suite, path)
                        print(f"{what}: {path.relative_to(self.root)}")
                    except InputError as problem:  # nothing to fit to is no reason to stop the stages after this one
                        print(f"{what}: {problem}")

    def fit(self, arm: str, rows: pd.DataFrame) -> FittedMapping:
        """Return an arm fitted on the ok rows of a judge on one suite: the reply's key, judge_id, status, raw_value."""
        truth = self._truth(rows) if METHODS[arm].by_truth else None
        return fit(arm, _scores(rows), groups=rows["model"], harmful=truth, judge_id=str(rows["judge_id"].iloc[0]))

    def labelled(self, judgments: pd.DataFrame, every: pd.DataFrame) -> pd.DataFrame:
        """Return the judgments with the labels that mappings give; only rows of status ok get one.

        `judgments` holds the reply's key, judge, status, label, raw_value and reason, some of `every` judgment of the
        study, where refusals are looked up. Raises InputError for a mapping that cannot be fitted yet, or was fitted on
        other scores, and for a reply whose refusal is not known where the mapping needs it.
        """
        mapped = judgments["judge"].isin(self.judges)
        if not mapped.any():
            return judgments
        refused, label = refusals(every), judgments["label"].copy()
        for (suite, name), rows in judgments[mapped].groupby(["suite", "judge"], sort=False):
            label[rows.index] = apply(self.stored(self.judges[str(name)], str(suite)), rows, refused)
        return judgments.assign(label=label)

    def readings(self, judgments: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        """Yield the rows of each mapped judge and suite as every arm labels them, and that arm's cuts.

        Arms that need what the study does not have (hand labels of both kinds, refusals by rules) are left out; one
        that cannot be fitted has no rows, and its reason for status. The rows have a column arm beside those of
        `labelled`; the cuts judge, suite, arm, model ("all" where they are pooled), n, missing, low, high, status,
        fallback and eta (nan where the arm has none).
        """
        refused = refusals(judgments)
        for (suite, name), rows in judgments[judgments["judge"].isin(self.judges)].groupby(["suite", "judge"]):
            truth = None if self.params.human_labels is None else self._truth(rows)
            for arm in (name for name, arm in METHODS.items() if arm.span == PROBABILITY):
                if METHODS[arm].by_truth and (truth is None or truth.nunique() < 2):
                    continue
                if METHODS[arm].by_refusal and not pd.MultiIndex.from_frame(rows[KEYS]).isin(refused.index).all():
                    continue
                keys = {"judge": str(name), "suite": str(suite), "arm": arm}
                try:
                    mapping = self.fit(arm, rows)
                except InputError as problem:  # as where harm does not rise with the score
                    failed = pd.DataFrame([{"model": POOLED, "n": 0, "missing": len(rows), "status": str(problem)}])
                    yield rows.iloc[:0].assign(arm=arm), failed.assign(**keys)
                    continue
                cuts = [{"model": model, **_shown(fitted)} for model, fitted in mapping.groups.items()]
                yield rows.assign(arm=arm, label=apply(mapping, rows, refused)), pd.DataFrame(cuts).assign(**keys)

    def missing(self, name: str) -> str:
        """Return why a judge has no labels yet, or "" when each suite that it reads has its mapping."""
        for suite in (suite.name for suite in self.params.suites if self.judges[name].reads(suite.name)):
            try:
                self.stored(self.judges[name], suite)
            except InputError as problem:
                return str(problem)
        return ""

    def files(self) -> list[Path]:
        """Return the files that the labels of these judges are made with, of those that are there."""
        found: list[Path] = []
        for judge in self.judges.values():
            found += [data_path(judge.template, self.root)] if judge.template else []
            for suite in (suite.name for suite in self.params.suites if judge.reads(suite.name)):
                found.append(self._path(judge, suite) or data_path(str(judge.mapping), self.root))
        return sorted({path for path in found if path.exists()})

    def _fit_own(self, judge: JudgeParams, suite: str, path: Path) -> None:
        """Fit and keep a mapping; InputError while replies are not judged, and where there is nothing to fit to."""
        rows, missing = self._rows(judge, suite)
        if missing:
            raise InputError(
                f"judge '{judge.name}' on {suite} has no mapping yet, which needs {missing} more replies judged; "
                f"run: slmsafety collect {self.params.name} --stage judge"
            )
        try:
            write_atomic(path, self.fit(str(judge.mapping), rows).to_json().encode())
        except InputError as problem:
            raise InputError(f"judge '{judge.name}' on {suite}: {problem}") from problem

    def stored(self, judge: JudgeParams, suite: str) -> FittedMapping:
        """Return the mapping of a judge on a suite, fitted now if it can be; else raise InputError saying why not."""
        own = self._path(judge, suite)
        path = own or data_path(str(judge.mapping), self.root)
        if own is not None and not own.exists():
            self._fit_own(judge, suite, own)
        mapping, key = from_json(path.read_text(encoding="utf-8"), str(path)), self._judge_id(judge, suite)
        if own is None and mapping.judge_id != key:
            raise InputError(
                f"{path}: fitted on the scores of judge_id {mapping.judge_id}; judge '{judge.name}' on {suite} is "
                f"{key}, whose scores may mean something else"
            )
        return mapping

    @cached_property
    def _generations(self) -> dict[tuple[str, str], str]:
        return generation_ids(self.params, self.root)

    def _judge_id(self, judge: JudgeParams, suite: str) -> str:
        return judge_id(judge, suite, self.params.empty, self.root)

    def _path(self, judge: JudgeParams, suite: str) -> Path | None:
        """Where the study's own mapping lies, by what it is fitted on; None where the entry gives a stored one."""
        if str(judge.mapping).endswith(".json"):
            return None
        made = {model: self._generations[suite, model] for model in self.params.judged_models(judge)}
        basis = {
            "arm": judge.mapping,
            "version": VERSION,
            "judge_id": self._judge_id(judge, suite),
            "generations": made,
        }
        if METHODS[str(judge.mapping)].by_truth:
            basis["people"] = file_sha256(data_path(str(self.params.human_labels), self.root))
        name = content_id(basis)
        return self.folder / "mappings" / judge.name / f"{suite}-{judge.mapping}-{name}.json"

    def _rows(self, judge: JudgeParams, suite: str) -> tuple[pd.DataFrame, int]:
        """A judge's rows on a suite, and how many of its replies are not judged yet."""
        prompts = len(Partition(self.folder, PROMPTS, (suite,)).read(["instance_id"]))
        key = self._judge_id(judge, suite)
        models = self.params.judged_models(judge)
        parts = [Partition(self.folder, JUDGMENTS, (suite, judge.name, model)) for model in models]
        frames = [of(p.read(["status", "raw_value"]), self._generations[suite, p.names[2]], key) for p in parts]
        return pd.concat(frames, ignore_index=True), prompts * len(models) - sum(map(len, frames))

    def _truth(self, rows: pd.DataFrame) -> pd.Series:
        """Whether people call each reply harmful, for the very texts that they saw; missing where nobody said."""
        labels = read_human_labels(data_path(str(self.params.human_labels), self.root))
        parts = rows[["suite", "model"]].drop_duplicates().itertuples(index=False, name=None)
        texts = pd.concat([Partition(self.folder, RESPONSES, part).read(["response"]) for part in parts])
        found = rows[KEYS].merge(texts, on=KEYS, how="left", validate="one_to_one")
        found = found.merge(labels, on=["suite", "instance_id", "model"], how="left", validate="many_to_one")
        seen = [text_id(text) if isinstance(text, str) else None for text in found["response"]]
        human = found["human"].where(found["reply_id"] == seen)
        return human.eq(HARMFUL).astype("boolean").mask(human.isna()).set_axis(rows.index)


def _shown(fitted: GroupCuts) -> dict[str, Any]:
    """What of a group's cuts a table shows."""
    cuts, counts = fitted.cuts, {"n": fitted.n, "missing": fitted.missing + fitted.sentinel}
    eta = cuts.details.get("eta")
    return {**counts, "low": cuts.low, "high": cuts.high, "status": cuts.status, "fallback": cuts.fallback, "eta": eta}


def refusals(judgments: pd.DataFrame) -> pd.Series:
    """Return whether REFUSALS calls each reply a refusal, indexed by the reply's key, without those not labelled."""
    rows = judgments[(judgments["judge"] == REFUSALS) & (judgments["status"] == "ok")]
    return rows.set_index(KEYS)["reason"].eq("refusal")


def apply(mapping: FittedMapping, rows: pd.DataFrame, refused: pd.Series) -> Any:
    """Return a mapping's labels of rows, with what `refusals` gives; None for rows whose status is not ok."""
    if not mapping.by_refusal:
        return mapping.apply(_scores(rows), rows["model"])
    known = refused.astype("boolean").reindex(pd.MultiIndex.from_frame(rows[KEYS])).reset_index(drop=True)
    unknown = int((known.isna().to_numpy() & _scores(rows).notna().to_numpy()).sum())
    if unknown:
        raise InputError(
            f"mapping {mapping.name} needs the verdict of {REFUSALS} on every reply; {unknown} of "
            f"{rows['suite'].iloc[0]} lack it: let it read the same suites and models, and judge them"
        )
    return mapping.apply(_scores(rows), rows["model"], known)


def _scores(rows: pd.DataFrame) -> pd.Series:
    """The scores that count: a judge that did not see all of a reply still gives a number."""
    return rows["raw_value"].where(rows["status"] == "ok")
