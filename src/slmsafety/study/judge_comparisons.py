"""Judges of one study against each other: pairs of them, each against a reference, one model under two rubrics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from slmsafety import published
from slmsafety.analysis.judges.agreement import agreement, confusion_from_long
from slmsafety.analysis.judges.ar_difference import ar_difference, no_interval, with_difference
from slmsafety.analysis.judges.two_judges import COLUMNS, KEYS, both_labelled, confusions, robustness
from slmsafety.analysis.units import groups
from slmsafety.errors import InputError
from slmsafety.judging.confidence import confidences
from slmsafety.judging.llm.cost import dollars
from slmsafety.params.study import StudyParams
from slmsafety.pipeline.run import Run

PRINTED_JUDGES = ("GPT-4o", "Llama 3.1 405B")


class JudgePair(NamedTuple):
    """Two judges on the same replies to harmful prompts: counts by suite, and Table 5's rows with `ar_difference`."""

    first: str
    second: str
    counts: dict[str, NDArray[np.int64]]
    robustness: pd.DataFrame


class Reference(NamedTuple):
    """Each judge's verdicts on replies whose right label is known, or taken from `name`, as `judge_card` reads them.

    `notes` say what was left out and why.
    """

    name: str
    rows: pd.DataFrame
    notes: tuple[str, ...]


class Crossing(NamedTuple):
    """A model that judged two suites under both their rubrics: (suite, its own rubric) twice, and the labels."""

    served: str
    first: tuple[str, str]
    second: tuple[str, str]
    rows: pd.DataFrame


class StudyRows(Protocol):
    """What of a study is compared."""

    params: StudyParams
    run: Run

    @property
    def name(self) -> str:
        """The study's name."""

    @property
    def printed_only(self) -> bool:
        """Whether it is the paper's printed tables."""

    def judges(self) -> list[str]:
        """Return the judges with stored labels."""

    def labels(self, judge: str | None = None) -> pd.DataFrame:
        """Return one row a reply that a judge was given."""

    def table(self, name: str, columns: list[str] | None = None) -> pd.DataFrame:
        """Return one of the study's tables."""

    def titles(self) -> dict[str, str]:
        """Return the title of each suite."""

    def human_labels(self) -> pd.DataFrame:
        """Return hand labels."""


class Comparisons:
    """The comparisons of a study's judges."""

    def __init__(self, study: StudyRows) -> None:
        self._study = study

    def pair(self, *names: str) -> JudgePair:
        """Return how two judges, by default the `first_pair`, label the same replies; the paper's where it is printed.

        Raises InputError for anything but two different judges that have a labelled reply in common.
        """
        study = self._study
        if study.printed_only:
            return printed_pair(names)
        return pair(names or self.first_pair(), study.labels)

    def first_pair(self) -> tuple[str, ...]:
        """Return the first two judges that labelled one reply to a harmful prompt both; () where no two did."""
        judges = self._study.judges()
        labels = {judge: self._study.labels(judge) for judge in judges if len(judges) > 1}
        for first, second in combinations(labels, 2):
            if _labelled_one_reply(labels[first], labels[second]):
                return first, second
        return ()

    def printed(self) -> pd.DataFrame:
        """Return Table 5 as printed (`published.robustness`)."""
        return published.robustness()

    def reference(self) -> Reference:
        """Return the judges' verdicts on replies with hand labels, or else with a label of the `first_pair`'s first.

        Raises InputError where there is neither.
        """
        study, judged = self._study, {}
        about = study.table("judgments", ["input_tokens", "output_tokens", "meta"])
        for judge in study.judges():
            judged[judge] = study.labels(judge).merge(about, on=[*KEYS, "judge_id"], validate="one_to_one")
        if study.params.human_labels:
            prompts = study.table("prompts", ["expected"])
            hand = study.human_labels().merge(prompts, on=["suite", "instance_id"], how="left", validate="many_to_one")
            return against_people(hand, judged)
        pair = self.first_pair()
        if not pair:
            raise InputError(
                f"study {study.name} has no two judges with labels of the same replies, and no human_labels: there is "
                "nothing to hold a judge against"
            )
        return against_judge(pair[0], judged)

    def crossings(self) -> list[Crossing]:
        """Return every two suites that one model judged under both their rubrics (`crossings`)."""
        return crossings(self._study.run, self._study.judges(), self._study.labels)


def printed_pair(names: Collection[str] = ()) -> JudgePair:
    """Return the paper's two judges: Table 6's counts, what follows from them, and Table 5's printed rank ranges.

    Its 16 models are not named, so that the rank ranges cannot be recomputed; kappa's interval treats replies as
    independent, and the difference of the ambiguity rates has none. Raises InputError where others are asked for.
    """
    if names and tuple(names) != PRINTED_JUDGES:
        raise InputError(f"judges: the paper prints {' and '.join(PRINTED_JUDGES)} alone, in this order")
    long = published.printed("table6_confusion").rename(columns={"gpt": "first", "llama": "second"})
    counts = {published.SUITES[str(name)]: confusion_from_long(rows) for name, rows in long.groupby("suite")}
    rows = [{"suite": suite, **agreement(table)._asdict()} for suite, table in counts.items()]
    ranges = published.robustness()[["suite", "rank_range_first", "rank_range_second"]]
    frame = pd.DataFrame(rows).assign(interval_unit="replies", models=published.TWO_JUDGE_MODELS)
    whole = with_difference(frame.merge(ranges, on="suite")[list(COLUMNS)], no_interval(frame))
    return JudgePair(*PRINTED_JUDGES, counts, whole)


def pair(names: Collection[str], labels: Callable[[str], pd.DataFrame]) -> JudgePair:
    """Return how two judges label the same replies; `labels` gives a judge's.

    Raises InputError for anything but two different names, and where they have no labelled reply in common.
    """
    if len(names) != 2 or len(set(names)) != 2:
        raise InputError(f"judges: two different names of judges are compared, not {', '.join(names) or 'none'}")
    first, second = names
    both = both_labelled(labels(first), labels(second))
    if both.empty:
        raise InputError(f"judges '{first}' and '{second}' have no labelled reply to a harmful prompt in common")
    groups = both if "group" in both else both.merge(labels(first)[[*KEYS, "group"]], on=KEYS, validate="one_to_one")
    return JudgePair(first, second, confusions(both), with_difference(robustness(both), ar_difference(groups)))


def against_people(hand: pd.DataFrame, judged: Mapping[str, pd.DataFrame]) -> Reference:
    """Return the judges' verdicts on replies with hand labels (`Study.human_labels`, with expected)."""
    truth = hand[hand["matches"]].rename(columns={"human": "reference"})
    gone = len(hand) - len(truth)
    notes = [f"{gone} hand labels are of other replies than the study's and do not apply"] if gone else []
    return _reference("hand labels", truth, judged, notes)


def against_judge(name: str, judged: Mapping[str, pd.DataFrame]) -> Reference:
    """Return the other judges' verdicts where one judge gave a label."""
    labels = judged[name]
    truth = labels[labels["status"].eq("ok") & labels["label"].notna()].rename(columns={"label": "reference"})
    note = f"the reference is judge {name}: agreement with it says how alike the judges are, not who is right"
    others = {judge: rows for judge, rows in judged.items() if judge != name}
    return _reference(f"judge {name}", truth, others, [note])


def _reference(name: str, truth: pd.DataFrame, judged: Mapping[str, pd.DataFrame], notes: list[str]) -> Reference:
    """The verdicts on the replies to harmful prompts in `truth` that all judges of their suite were given.

    Judges of a suite are those that were given one of its replies in `truth`. A label counts where the judge gave it:
    one that a policy puts on an empty reply is the study's.
    """
    truth = truth.loc[truth["expected"] == "refuse", [*KEYS, "reference"]]
    frames, read = [], {}
    for judge, labels in judged.items():
        harmful = labels[labels["expected"] == "refuse"]
        read[judge] = set(harmful["suite"])
        found = truth.merge(harmful, on=KEYS, validate="one_to_one")
        found["label"] = found["label"].where(found["status"] == "ok")
        frames.append(found.assign(price=dollars(found), confidence=confidences(found["meta"], found["label"])))
    rows = pd.concat(frames, ignore_index=True)
    rows["group"] = groups(rows)
    judges = rows.groupby("suite")["judge"].transform("nunique")
    rows = rows[rows.groupby(KEYS)["judge"].transform("nunique") == judges].reset_index(drop=True)
    left_out = truth["suite"].value_counts().sub(rows.drop_duplicates(KEYS)["suite"].value_counts(), fill_value=0)
    for suite, count in left_out[left_out > 0].sort_index().items():
        notes = [*notes, f"{suite}: {count:.0f} replies that not every judge was given are left out"]
    for judge, suites in read.items():
        without = sorted(suites - set(rows.loc[rows["judge"] == judge, "suite"]))
        if without:
            notes = [*notes, f"judge {judge} has no row in {', '.join(without)}: it got no reply that counts there"]
    about = ["judge", "status", "label", "reference", "group", "price", "confidence"]
    return Reference(name, rows[[*KEYS, *about]], tuple(notes))


def crossings(run: Run, judges: Collection[str], labels: Callable[[str], pd.DataFrame]) -> list[Crossing]:
    """Return every two suites with different rubrics of their own that one model judged under both of these.

    `judges` are those with stored labels. Each suite needs a reply with a label under both rubrics. Entries are one
    model where they name the same server, model and revision, and read and ask in the same way.
    """
    cells: dict[tuple[str, ...], dict[tuple[str, str], str]] = {}
    for judge in run.judges:
        if judge.same_asking is not None and judge.name in judges:
            read = cells.setdefault(judge.same_asking, {})
            for suite in run.suites_of(judge):
                read.setdefault((suite.name, str(judge.rubric_for(suite))), judge.name)
    own = [(suite.name, suite.rubric_name) for suite in run.suites if suite.rubric_name is not None]
    found = []
    for way, by_cell in cells.items():
        for first, second in combinations(own, 2):
            asked = [(suite, rubric) for suite, _ in (first, second) for _, rubric in (first, second)]
            if first[1] == second[1] or not all(cell in by_cell for cell in asked):
                continue
            rows = [_cell(labels(by_cell[cell]), *cell) for cell in asked]
            if _meet(*rows[:2]) and _meet(*rows[2:]):
                found.append(Crossing(way[0], first, second, pd.concat(rows, ignore_index=True)))
    return found


def _labelled_one_reply(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    """Whether both judges labelled one reply to a harmful prompt, looked for part by part until one is found."""
    parts = [frame[["suite", "model"]].drop_duplicates() for frame in (first, second)]
    for suite, model in parts[0].merge(parts[1]).itertuples(index=False):
        some = (frame[frame["suite"].eq(suite) & frame["model"].eq(model)] for frame in (first, second))
        if len(both_labelled(*some)):
            return True
    return False


def _cell(labels: pd.DataFrame, suite: str, rubric: str) -> pd.DataFrame:
    """The replies to a suite's harmful prompts that the judge labelled under a rubric."""
    kept = labels[labels["suite"].eq(suite) & labels["expected"].eq("refuse")]
    kept = kept[kept["status"].eq("ok") & kept["label"].notna()]
    return kept[[*KEYS, "group", "label"]].assign(rubric=rubric)


def _meet(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    """Whether two cells of one suite have a reply in common."""
    return not first.merge(second, on=KEYS).empty
