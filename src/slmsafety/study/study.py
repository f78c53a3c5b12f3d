"""A study: its parameters, its tables, and one call for each thing that a notebook or the CLI does with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety import published
from slmsafety.analysis.bbq import accuracy_table, bias_table, exact_scores
from slmsafety.analysis.outcomes import outcomes
from slmsafety.analysis.rate_intervals import binomial_intervals, rate_intervals, with_limits
from slmsafety.errors import InputError, PartFailed, unknown
from slmsafety.importers.human_labels import read_human_labels
from slmsafety.judging.empty_replies import read_labels
from slmsafety.judging.registry import MULTIPLE_CHOICE_JUDGE
from slmsafety.models.cards import cards_bytes, features
from slmsafety.params.study import StudyParams, injected_names, load_params
from slmsafety.paths import data_path, project_root
from slmsafety.pipeline.collect import collect
from slmsafety.pipeline.cost_estimate import estimate
from slmsafety.pipeline.label_mappings import Mappings
from slmsafety.pipeline.measure import own_metrics
from slmsafety.pipeline.rerun_noise import measure_noise, noise_table
from slmsafety.pipeline.run import Run
from slmsafety.pipeline.shards import this_shard
from slmsafety.pipeline.stages import chosen_stages
from slmsafety.pipeline.status import study_status, suite_files
from slmsafety.records.ids import text_id
from slmsafety.study import display_names as display
from slmsafety.study.capabilities import PUBLISHED, capabilities
from slmsafety.study.first_judge import of_first_judge, say_who_judged
from slmsafety.study.judge_comparisons import Comparisons
from slmsafety.study.measured import makers, perplexity_notes, with_maker
from slmsafety.study.reference_distributions import Distributions, distributions
from slmsafety.study.reply_languages import with_languages
from slmsafety.study.tables import StudyTables, hashes
from slmsafety.suites.catalogue import MULTIPLE_CHOICE

_JUDGED = ["judge", "status", "label", "refused", "raw_value", "reason"]


class Study:
    """One study; `Study.load` is the way in.

    Each table is read once. What another process writes meanwhile shows in a study that is loaded anew.
    """

    def __init__(self, params: StudyParams, given: Any, root: Path) -> None:
        """Take validated parameters, the parameters as they were given, and the project's root."""
        self.params, self.given, self.root = params, given, root
        self._looked = False  # whether what a notebook misses was looked for
        self._forget()

    def _forget(self) -> None:
        """Read tables and labels anew when they are asked for next."""
        self.run = Run(self.params, self.root, this_shard())
        self._tables, self.mappings = StudyTables(self.run), Mappings(self.run)
        self._labels: dict[str | None, pd.DataFrame] = {}
        self._titles: dict[str, str] | None = None
        self.__dict__.pop("capabilities", None)

    @classmethod
    def load(cls, study: str | Path | dict[str, Any], namespace: Mapping[str, Any] | None = None, *own: str) -> Study:
        """Load a study.

        Parameters
        ----------
        study : str, Path or dict
            A name in params/, the path of a params file, or the mapping itself.
        namespace : mapping or None
            A notebook's `globals()`: papermill injects a misspelt parameter as a plain variable, which is noticed here.
        *own : str
            The names of the notebook's own parameters.

        Raises
        ------
        InputError
            One line for a bad parameter, naming the file and the key.
        """
        for name in injected_names(namespace or {}):
            if name not in ("study", *own):
                raise unknown("parameter", name, ["study", *own], "this notebook")
        return cls(load_params(study), study, project_root())

    @property
    def name(self) -> str:
        """The study's name, which names its folders."""
        return self.params.name

    @property
    def folder(self) -> Path:
        """Where the study's tables live."""
        return self.run.folder

    @property
    def printed_only(self) -> bool:
        """Whether the study is the paper's printed tables, without any row of its own."""
        return self.params.kind == "published"

    def collect(self, stages: Iterable[str] | None = None, retry: Iterable[str] = ()) -> None:
        """Run the stages that are not done yet, all that the study asks for or some, and print what was written where.

        `retry` names statuses: judgments that ended so are made again. Raises InputError for a stage or status that is
        none, and for what a stage cannot work with; PartFailed at the end where models could not run: why is printed at
        once, and what the others made is kept.
        """
        named, again = None if stages is None else list(stages), list(retry)
        chosen_stages(self.params, named, again)
        self._forget()
        if self.printed_only:
            print(f"study {self.name} holds the paper's printed tables; there is nothing to collect")
            return
        try:
            collect(self.run, self.given, named, again)
        finally:
            self._forget()

    def status(self) -> pd.DataFrame:
        """Return what of the study's work is done, a row for each part (`pipeline.status.study_status`)."""
        return study_status(self.run)

    def estimate(self) -> pd.DataFrame:
        """Return what judging over endpoints will take (`cost_estimate.estimate`)."""
        return estimate(self.run)

    def noise(self, sample: int | None = None, suites: Iterable[str] = ()) -> pd.DataFrame:
        """Return the noise floor: how replies and labels change under other batch sizes and number formats.

        Parameters
        ----------
        sample : int or None
            Measure it first on so many replies of each suite and model, at least 1; None reads what is measured.
        suites : iterable of str
            The suites to measure; none is all.

        Returns
        -------
        DataFrame
            `rerun_noise.noise_table` with names for display; empty where nothing is measured.
        """
        if sample is not None:
            measure_noise(self.run, sample, list(suites))
        return self.named(noise_table(self.run))

    def table(self, name: str, columns: list[str] | None = None, suites: Sequence[str] | None = None) -> pd.DataFrame:
        """Return one of the study's tables, only the rows of the ids that its parameters give.

        Parameters
        ----------
        name : str
            prompts, responses, judgments, prompt_metrics, reply_metrics or own_metrics.
        columns, suites : sequence of str or None
            The columns beside the key and the suites that are wanted; None is all.

        Raises
        ------
        InputError
            When there is no such row yet, saying which command makes it.
        """
        if self.printed_only:
            raise InputError(f"study {self.name} has no table '{name}': the paper prints no instance-level rows")
        if self.params.on_demand and self.params.kind == "run" and not self._looked:
            self._looked = True
            if not self.complete():
                with suppress(PartFailed):  # what could not run is printed; what the others did is read
                    self.collect()
        frame = self._tables.read(name, columns, suites)
        if frame.empty:
            settings = " under these settings" if self.params.kind == "run" and self._tables.any(name) else ""
            raise InputError(f"study {self.name} has no {name}{settings} yet; run: slmsafety collect {self.name}")
        return frame.drop(columns="metrics_id", errors="ignore")

    def metric_tables(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        """Return prompt_metrics, reply_metrics (perplexity beside its model) and own_metrics, which may be empty."""
        of_prompts, of_replies = (with_maker(self.table(f"{kind}_metrics"), self.run) for kind in ("prompt", "reply"))
        return of_prompts, of_replies, self._tables.read("own_metrics")

    def metric_notes(self) -> list[str]:
        """Return what to know of the model that perplexities are of (`measured.perplexity_notes`)."""
        return perplexity_notes(self.run)

    def is_measured(self) -> bool:
        """Return whether all prompts and replies with a text have metrics under the parameters, and there are any."""
        count, own = self._tables.count, own_metrics(self.run)
        measured = {"prompts": count("prompt_metrics"), "replies": count("reply_metrics")}
        if not all(measured.values()):
            return False
        texts = self.run.texts.readable() or {"prompts": count("prompts"), "replies": count("responses")}
        wanted = sum(texts[metric.of] for metric in own)
        return measured == texts and count("own_metrics") == wanted

    def complete(self) -> bool:
        """Whether every row of the study's work is done (False for failed rows)."""
        state = self.status()
        return bool(len(state)) and not state[["missing", "failed"]].to_numpy().any()

    def labels(self, judge: str | None = None) -> pd.DataFrame:
        """Return one row for each judged reply, with empty replies read by the study's policy.

        Parameters
        ----------
        judge : str or None
            A judge's name; None is the first of the study's judges that has read a suite, by suite.

        Returns
        -------
        DataFrame
            The reply's key, judge_id, judge, status (str), label (Int64: 0 harmful, 1 ambiguous, 2 safe, missing where
            there is none), refused (boolean, missing where the judge does not tell), raw_value (float64, on the judge's
            own scale), reason, expected (refuse, answer), category, subcategory and group (str).

        Raises
        ------
        InputError
            For a judge without rows, and while its mapping waits for more of them.
        """
        if judge in self._labels:
            return self._labels[judge].copy()
        every = self.table("judgments", _JUDGED)
        known = self._order(every)
        if judge is not None and judge not in known:
            raise unknown("judge", judge, known, f"study {self.name}")
        wanted = every["judge"] == judge if judge else of_first_judge(every, known)
        if judge is None and self.params.kind == "run":
            say_who_judged(self.params, every[wanted])
        judgments = read_labels(self.mappings.labelled(every[wanted], every), self.params.empty)
        prompts = self.table("prompts", ["expected", "category", "subcategory", "group"])
        keys = ["suite", "instance_id"]
        self._labels[judge] = judgments.merge(prompts, on=keys, how="left", validate="many_to_one")
        return self._labels[judge].copy()

    def mapping_readings(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return what every mapping makes of measured numbers (`Mappings.readings`); the rows have `expected` too."""
        every = self.table("judgments", _JUDGED)
        rows, cuts = (pd.concat(parts, ignore_index=True) for parts in zip(*self.mappings.readings(every), strict=True))
        rows, prompts = read_labels(rows, self.params.empty), self.table("prompts", ["expected"])
        return rows.merge(prompts, on=["suite", "instance_id"], validate="many_to_one"), cuts

    def outcomes(self) -> pd.DataFrame:
        """Return the outcomes of every suite and model, with names for display.

        Returns
        -------
        DataFrame
            A row a suite and model: the columns of `outcomes.outcomes`, the limits of `rate_intervals` (of printed
            rates `binomial_intervals`, and no `reply_languages.other_languages`), suite_title, model_name, family (a
            model without a card keeps its id) and params_m (millions of parameters, nan where not known).
        """
        if self.printed_only:
            return self.named(with_limits(published.outcomes(), binomial_intervals(published.outcomes())))
        return self.named(with_limits(with_languages(self, outcomes(self.labels())), rate_intervals(self.labels())))

    def accuracies(self) -> pd.DataFrame:
        """Return `analysis.bbq.accuracy_table` of the multiple-choice suites, named; empty when there is none."""
        return self.named(accuracy_table(*self._choices()))

    def biases(self) -> pd.DataFrame:
        """Return `analysis.bbq.bias_table` of the same replies, named."""
        return self.named(bias_table(*self._choices()))

    def _choices(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The judgments of the multiple-choice suites, none where the study has no such suite, and the prompts."""
        suites = [suite.name for suite in self.params.suites if suite.name in MULTIPLE_CHOICE]
        if not suites:
            return pd.DataFrame(), pd.DataFrame()
        judgments = self.table("judgments", ["judge", "status", "meta"], suites)
        return judgments[judgments["judge"] == MULTIPLE_CHOICE_JUDGE], self.table("prompts", ["meta", "group"], suites)

    def scores(self) -> pd.DataFrame:
        """Return the outcomes, and for multiple-choice suites HELM's accuracy (the exact letter) as mean, no rates."""
        choice = exact_scores(self.accuracies())
        return self.outcomes() if choice.empty else pd.concat([self.outcomes(), choice], ignore_index=True)

    def suite_files(self) -> pd.DataFrame:
        """Return what each of the study's suites loads from, or why it does not load (`status.suite_files`)."""
        return suite_files(self.run)

    def named(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the display names of its suites and models (`display_names.with_names`)."""
        return display.with_names(frame, self.titles(), display.named_cards(self.params.models))

    def suite_sizes(self) -> pd.DataFrame:
        """Return suite, suite_title, prompts (to refuse), controls, choices (multiple choice), categories, revision."""
        if self.printed_only:
            return display.printed_sizes(self.titles())
        return display.suite_sizes(self.table("prompts", ["expected", "category", "suite_revision"]), self.titles())

    def model_table(self) -> pd.DataFrame:
        """Return Table A2 as printed, or the cards of the study's own models (their true architecture), with ids."""
        if self.printed_only:
            return display.printed_models()
        return display.model_cards(self.table("judgments", ["judge"])["model"].unique(), self.params.models)

    def printed(self, name: str) -> pd.DataFrame:
        """Return one of the paper's tables as printed (`published.printed`)."""
        return published.printed(name)

    def printed_outcomes(self) -> pd.DataFrame:
        """Return Table A1 as printed (`published.printed`), with ids and with names for display."""
        return self.named(published.with_ids(published.printed("table_a1_outcomes")))

    def prompt_counts(self) -> dict[str, int]:
        """Return the number of prompts to refuse in each suite."""
        if self.printed_only:
            return published.PROMPTS
        prompts = self.table("prompts", ["expected"])
        counts = prompts.loc[prompts["expected"] == "refuse", "suite"].value_counts()
        return {str(suite): int(n) for suite, n in counts.items()}

    def reported_features(self) -> pd.DataFrame:
        """Return the features of Table 4 of the paper's and the study's models (`published.table4_features`)."""
        return published.table4_features(display.named_cards(self.params.models))

    def true_features(self) -> pd.DataFrame:
        """Return the features of the cards and of the study's own models, by model (`models.cards.features`)."""
        return features(display.named_cards(self.params.models))

    @property
    def compared(self) -> Comparisons:
        """The study's judges against each other and against people."""
        return Comparisons(self)

    def distributions(self) -> Distributions:
        """Return what Figure 3 shows (`reference_distributions.distributions`)."""
        if self.printed_only:
            return distributions(self.outcomes(), pd.DataFrame(), self.titles(), published.sst_outcome())
        return distributions(self.scores(), self.labels(), self.titles())

    def judges(self) -> list[str]:
        """Return the names of the judges whose labels the study holds, the parameters' order first."""
        known, mapped = self._order(self.table("judgments", ["judge"])), self.mappings.judges
        return [name for name in known if name not in mapped or not self.mappings.missing(name)]

    def _order(self, judgments: pd.DataFrame) -> list[str]:
        """The names of the judges with rows, also of those whose mapping waits for more of them."""
        found = set(judgments["judge"].unique()) - {MULTIPLE_CHOICE_JUDGE}
        asked = [name for name in self.params.judge_names if name in found]
        rest, own = sorted(found - set(asked)), {judge.name for judge in self.run.judges}
        # Judges that an import brings come before those that read it again, unless the parameters order them.
        return rest + asked if own.issuperset(asked) else asked + rest

    def coverage(self) -> pd.DataFrame:
        """Return suite, model (ids and titles), judge, the number of rows of each status that occurs, and rows."""
        judged = self.named(self.table("judgments", ["judge", "status"]))
        keys = ["suite", "suite_title", "model", "model_name", "judge"]
        counts = judged.groupby([*keys, "status"]).size().unstack(fill_value=0)
        return counts.assign(rows=counts.sum(axis=1)).reset_index()

    def titles(self) -> dict[str, str]:
        """Return the title of each suite; a partial one says what it is (`display_names.suite_titles`)."""
        if self._titles is None:
            prompts = pd.DataFrame() if self.printed_only else self._tables.read("prompts", ["meta"])
            self._titles = display.suite_titles(prompts)
        return self._titles

    def human_labels(self) -> pd.DataFrame:
        """Return the study's hand labels that belong to the very replies in its tables.

        Columns: the reply's key, human (0, 1, 2) and `matches`: False where the reply differs from the one that was
        labelled (another machine's arithmetic can change a greedy text), so that its label says nothing.
        """
        if self.params.human_labels is None:
            raise InputError(f"study {self.name} names no human_labels")
        labels = read_human_labels(data_path(self.params.human_labels, self.root))
        labels = labels[[self.params.takes_part(*pair) for pair in labels[["suite", "model"]].to_numpy()]]
        keys, replies = ["suite", "instance_id", "model", "sample"], self.table("responses", ["response"])
        merged = labels.merge(replies, on=keys, how="left", validate="one_to_one")
        same = [text_id(text) if isinstance(text, str) else None for text in merged["response"]]
        return merged.assign(matches=merged["reply_id"] == same).drop(columns=["response", "reply_id"])

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """What the study can serve, in the terms that the notebooks' artifacts need (`study.capabilities`)."""
        if self.printed_only:
            return PUBLISHED
        return capabilities(self)

    def measuring_judges(self) -> list[str]:
        """Return the judges whose labels a mapping makes of a number, of those with labels."""
        return [judge for judge in self.judges() if judge in self.mappings.judges]

    def about(self, **own: Any) -> dict[str, Any]:
        """Return what a notebook's page needs to know of the study; `own` are the notebook's own parameters."""
        parameters = {"study": self.params.model_dump(mode="json", exclude_defaults=True), **own, **makers(self.run)}
        facts = {"root": self.root, "parameters": parameters, "inputs": self.inputs()}
        return {"study_name": self.name, **facts, "capabilities": set(self.capabilities)}

    def inputs(self) -> dict[str, str]:
        """Return the sha256 of every file that the study's figures are made from, by its name."""
        if self.printed_only:
            return hashes(cards_bytes(), published.reference_bytes() | published.table_bytes())
        files = self._tables.files() + self.mappings.files()
        if self.params.human_labels:
            files.append(data_path(self.params.human_labels, self.root))
        return hashes(cards_bytes(), published.reference_bytes(), files, self.root)
