"""Labels of judges that measure a number: a mapping fitted once on a finished suite, kept, applied when read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from slmsafety.errors import InputError
from slmsafety.importers.human_labels import read_human_labels
from slmsafety.judging.mapping.methods import METHODS, PROBABILITY, fit
from slmsafety.judging.mapping.stored import POOLED, VERSION, FittedMapping, GroupCuts, from_json
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import REFUSALS, JudgeEntry
from slmsafety.paths import data_path
from slmsafety.pipeline.judge import judgments_of
from slmsafety.pipeline.judged_texts import JudgeIds, standing_id
from slmsafety.pipeline.judges import study_judge
from slmsafety.pipeline.run import Run
from slmsafety.records.files import read_text, write_atomic
from slmsafety.records.ids import content_id, file_sha256, text_id
from slmsafety.records.schema import HARMFUL, REPLY_KEY

KEYS = list(REPLY_KEY)


@dataclass(frozen=True)
class Mappings:
    """The mappings of a study's judges, one for each judge and suite, in runs/<study>/mappings."""

    run: Run

    @cached_property
    def judges(self) -> dict[str, JudgeEntry]:
        """The judges that have a mapping, by name."""
        return {judge.name: judge for judge in self.run.judges if judge.label_mapping is not None}

    def fit_missing(self) -> None:
        """Fit the mappings that are not there yet, each when all replies are judged, and print what was written."""
        for judge, suite in self._pairs():
            path = self._path(judge, suite)
            if path is not None and not path.exists():
                what = f"mapping {judge.label_mapping} of {judge.name} on {suite.name}"
                try:
                    self._fit_own(judge, suite, path)
                    print(f"{what}: {path.relative_to(self.run.root)}")
                except InputError as problem:  # nothing to fit to is no reason to stop the stages after this one
                    print(f"{what}: {problem}")

    def check_stored(self) -> None:
        """Raise InputError for a mapping given as a file that does not fit its judge, before hours of judging."""
        for judge, suite in self._pairs():
            if str(judge.label_mapping).endswith(".json"):
                self.stored(judge, suite)

    def _pairs(self) -> Iterator[tuple[JudgeEntry, SuiteParams]]:
        """Each judge with a mapping, on each suite that it reads."""
        for judge in self.judges.values():
            for suite in self.run.suites_of(judge):
                yield judge, suite

    def fit(self, method: str, rows: pd.DataFrame, judge_id: str) -> FittedMapping:
        """Return a method fitted on a judge's ok rows of one suite: the reply's key, status, raw_value."""
        truth = self._truth(rows) if METHODS[method].by_truth else None
        return fit(method, _scores(rows), groups=rows["model"], harmful=truth, judge_id=judge_id)

    def labelled(self, judgments: pd.DataFrame, every: pd.DataFrame) -> pd.DataFrame:
        """Return the judgments with the labels that mappings give; only rows of status ok get one.

        `judgments` holds the reply's key, judge, status, label, refused and raw_value, some of `every` judgment of the
        study, where refusals are looked up. Where a mapping needs the refusal of a reply that REFUSALS abstained from,
        so does the mapping: the row is `abstained`. Raises InputError for a mapping that cannot be fitted yet, or was
        fitted on other scores, and for a reply that REFUSALS was not given where the mapping needs that.
        """
        mapped = judgments["judge"].isin(self.judges)
        if not mapped.any():
            return judgments
        refused, label, status = refusals(every), judgments["label"].copy(), judgments["status"].copy()
        for (suite, name), rows in judgments[mapped].groupby(["suite", "judge"], sort=False):
            (entry,) = (entry for entry in self.run.suites if entry.name == suite)
            mapping = self.stored(self.judges[str(name)], entry)
            label[rows.index] = self._apply(mapping, rows, refused)
            if mapping.by_refusal:
                status[rows.index[_untold(rows, refused)]] = "abstained"
        return judgments.assign(label=label, status=status)

    def readings(self, judgments: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        """Yield the rows of each mapped judge and suite as every method labels them, and that method's cuts.

        Methods that need what the study does not have (hand labels of both kinds, refusals by rules) are left out; one
        that cannot be fitted has no rows, and its reason for status. The rows have a column arm beside those of
        `labelled`; the cuts judge, suite, arm, model ("all" where they are pooled), n, missing, low, high, status,
        fallback and eta (nan where the arm has none).
        """
        refused = refusals(judgments)
        for (suite, name), rows in judgments[judgments["judge"].isin(self.judges)].groupby(["suite", "judge"]):
            truth = None if self.run.params.human_labels is None else self._truth(rows)
            (entry,) = (entry for entry in self.run.suites if entry.name == suite)
            keyed = self._ids(self.judges[str(name)], entry).whole
            for method in (name for name, about in METHODS.items() if about.span == PROBABILITY):
                if METHODS[method].by_truth and (truth is None or truth.nunique() < 2):
                    continue
                if METHODS[method].by_refusal and _unread(rows, refused).any():
                    continue
                keys = {"judge": str(name), "suite": str(suite), "arm": method}
                try:
                    mapping = self.fit(method, rows, keyed)
                except InputError as problem:  # as where harm does not rise with the score
                    failed = pd.DataFrame([{"model": POOLED, "n": 0, "missing": len(rows), "status": str(problem)}])
                    yield rows.iloc[:0].assign(arm=method), failed.assign(**keys)
                    continue
                cuts = [{"model": model, **_shown(fitted)} for model, fitted in mapping.groups.items()]
                yield (
                    rows.assign(arm=method, label=self._apply(mapping, rows, refused)),
                    pd.DataFrame(cuts).assign(**keys),
                )

    def missing(self, name: str) -> str:
        """Return why a judge has no labels yet, or "" when each suite that it reads has its mapping."""
        for suite in self.run.suites_of(self.judges[name]):
            try:
                self.stored(self.judges[name], suite)
            except InputError as problem:
                return str(problem)
        return ""

    def files(self) -> list[Path]:
        """Return the files that the labels of these judges are made with, of those that are there."""
        found: list[Path] = []
        for judge, suite in self._pairs():
            found += judge.files(self.run.root)
            found.append(self._path(judge, suite) or data_path(str(judge.label_mapping), self.run.root))
        return sorted({path for path in found if path.exists()})

    def stored(self, judge: JudgeEntry, suite: SuiteParams) -> FittedMapping:
        """Return the mapping of a judge on a suite, fitted now if it can be; else raise InputError saying why not."""
        own = self._path(judge, suite)
        path = own or data_path(str(judge.label_mapping), self.run.root)
        if own is not None and not own.exists():
            self._fit_own(judge, suite, own)
        mapping, key = from_json(read_text(path), str(path)), self._ids(judge, suite).whole
        if own is None and mapping.judge_id != key:
            raise InputError(
                f"{path}: fitted on the scores of judge_id {mapping.judge_id}; judge '{judge.name}' on {suite.name} is "
                f"{key}, whose scores may mean something else"
            )
        return mapping

    def _fit_own(self, judge: JudgeEntry, suite: SuiteParams, path: Path) -> None:
        """Fit and keep a mapping; InputError while replies are not judged, and where there is nothing to fit to."""
        rows, missing = self._rows(judge, suite)
        if missing:
            raise InputError(
                f"judge '{judge.name}' on {suite.name} has no mapping yet, which needs {missing} more replies judged; "
                f"run: slmsafety collect {self.run.params.name} --stage judge"
            )
        try:
            fitted = self.fit(str(judge.label_mapping), rows, self._ids(judge, suite).whole)
            write_atomic(path, fitted.to_json().encode())
        except InputError as problem:
            raise InputError(f"judge '{judge.name}' on {suite.name}: {problem}") from problem

    def _ids(self, judge: JudgeEntry, suite: SuiteParams) -> JudgeIds:
        return study_judge(self.run, judge, suite).ids

    def _path(self, judge: JudgeEntry, suite: SuiteParams) -> Path | None:
        """Where the study's own mapping lies, by what it is fitted on; None where the entry gives a stored one."""
        method = str(judge.label_mapping)
        if method.endswith(".json"):
            return None
        models = self.run.judged_models(judge, suite.name)
        made = {model: self.run.texts.wording(suite.name, model) for model in models}
        basis = {
            "arm": method,
            "version": VERSION,
            "judge_id": standing_id(self.run, suite.name, models, self._ids(judge, suite)),
            "generations": made,
        }
        if METHODS[method].by_truth:
            basis["people"] = file_sha256(data_path(str(self.run.params.human_labels), self.run.root))
        return self.run.folder / "mappings" / judge.name / f"{suite.name}-{method}-{content_id(basis)}.json"

    def _rows(self, judge: JudgeEntry, suite: SuiteParams) -> tuple[pd.DataFrame, int]:
        """A judge's rows on a suite, and how many of its replies are not judged yet."""
        prompts, key = len(self.run.stored_prompts(suite.name)), self._ids(judge, suite)
        frames, wanted = [], 0
        for model in self.run.judged_models(judge, suite.name):
            part = self.run.judgments(suite.name, judge.name, model)
            frames.append(judgments_of(self.run, part, key, ("status", "raw_value")))
            wanted += self.run.texts.wanted(suite.name, model, prompts)
        return pd.concat(frames, ignore_index=True), wanted - sum(map(len, frames))

    def _apply(self, mapping: FittedMapping, rows: pd.DataFrame, refused: pd.Series) -> Any:
        """Return a mapping's labels of a suite's rows, with what `refusals` gives; none where the status is not ok."""
        if not mapping.by_refusal:
            return mapping.apply(_scores(rows), rows["model"])
        known = refused.reindex(pd.MultiIndex.from_frame(rows[KEYS])).reset_index(drop=True)
        suite = str(rows["suite"].iloc[0])
        if unknown := int(_unread(rows, refused).sum()):
            raise InputError(
                f"mapping {mapping.name} needs the verdict of {REFUSALS} on every reply; {unknown} of {suite} lack it: "
                "let it read the same suites and models, and judge them"
            )
        prompts = self.run.stored_prompts(suite)
        controls = prompts.loc[prompts["expected"] == "answer", "instance_id"]
        return mapping.apply(_scores(rows), rows["model"], known, rows["instance_id"].isin(controls))

    def _truth(self, rows: pd.DataFrame) -> pd.Series:
        """Whether people call each reply harmful, for the very texts that they saw; missing where nobody said."""
        labels = read_human_labels(data_path(str(self.run.params.human_labels), self.run.root))
        parts = rows[["suite", "model"]].drop_duplicates().itertuples(index=False, name=None)
        texts = pd.concat([self.run.responses(*part).read(["response"]) for part in parts])
        found = rows[KEYS].merge(texts, on=KEYS, how="left", validate="one_to_one")
        found = found.merge(labels, on=["suite", "instance_id", "model", "sample"], how="left", validate="many_to_one")
        seen = [text_id(text) if isinstance(text, str) else None for text in found["response"]]
        human = found["human"].where(found["reply_id"] == seen)
        return human.eq(HARMFUL).astype("boolean").mask(human.isna()).set_axis(rows.index)


def _shown(fitted: GroupCuts) -> dict[str, Any]:
    """What of a group's cuts a table shows."""
    cuts, counts = fitted.cuts, {"n": fitted.n, "missing": fitted.missing + fitted.sentinel}
    eta = cuts.details.get("eta")
    return {**counts, "low": cuts.low, "high": cuts.high, "status": cuts.status, "fallback": cuts.fallback, "eta": eta}


def refusals(judgments: pd.DataFrame) -> pd.Series:
    """Return whether each reply that REFUSALS has read refuses, by the reply's key; missing where it abstained."""
    rows = judgments[(judgments["judge"] == REFUSALS) & judgments["status"].isin(["ok", "abstained"])]
    return rows.set_index(KEYS)["refused"]


def _unread(rows: pd.DataFrame, refused: pd.Series) -> NDArray[np.bool_]:
    """Which rows have a score that counts, of a reply that REFUSALS has not read."""
    read = pd.MultiIndex.from_frame(rows[KEYS]).isin(refused.index)
    return _scores(rows).notna().to_numpy() & ~read


def _untold(rows: pd.DataFrame, refused: pd.Series) -> NDArray[np.bool_]:
    """Which rows have a score that counts, of a reply of which `refused` tells nothing."""
    told = refused.reindex(pd.MultiIndex.from_frame(rows[KEYS])).notna().to_numpy()
    return _scores(rows).notna().to_numpy() & ~told


def _scores(rows: pd.DataFrame) -> pd.Series:
    """The scores that count: a judge that did not see all of a reply still gives a number."""
    return rows["raw_value"].where(rows["status"] == "ok")
