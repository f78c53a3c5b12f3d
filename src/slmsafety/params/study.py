"""A study's parameters: one validated mapping, from a name, a file or a notebook.

A misspelt key must stop a run before it starts, since papermill itself runs the defaults and exits with 0.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from slmsafety.errors import InputError, unknown
from slmsafety.importers.human_labels import read_human_labels
from slmsafety.importers.rules import NAME_LENGTH
from slmsafety.judging.empty_replies import empty_policy
from slmsafety.judging.llm.cost import Price
from slmsafety.judging.registry import MULTIPLE_CHOICE_JUDGE
from slmsafety.judging.rubrics.base import RubricChoice
from slmsafety.judging.rubrics.registry import RUBRICS, build
from slmsafety.metrics.own import own_metric
from slmsafety.models.cards import load_cards
from slmsafety.params.entries import (
    CARD_KEYS,
    GenerationParams,
    MetricParams,
    ModelParams,
    Strict,
    SuiteParams,
    by_name,
    first_problem,
)
from slmsafety.params.imports import AirbenchScoredEntry, HelmRunEntry, JudgeColumn, ScoresParams, TableEntry
from slmsafety.params.judges.base import JudgeEntry
from slmsafety.params.judges.endpoint import EndpointJudge, is_rubric_file
from slmsafety.params.judges.entry import JUDGE_KINDS, JudgeParams
from slmsafety.params.judges.fit import check_judges
from slmsafety.params.secrets import refuse_secrets
from slmsafety.paths import data_path, is_file, project_root
from slmsafety.plugins import load_plugin
from slmsafety.records.yaml_files import read_yaml
from slmsafety.suites.catalogue import MULTIPLE_CHOICE


class StudyParams(Strict):
    """One study. `kind` says where its numbers come from: the printed tables, an own run, or imported judgments."""

    name: str = Field(pattern=r"^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$", max_length=NAME_LENGTH)
    kind: Literal["published", "run", "imported"]
    suites: tuple[Annotated[SuiteParams, by_name("name")], ...] = ()
    models: tuple[Annotated[ModelParams, by_name("id")], ...] = ()
    generation: GenerationParams = GenerationParams()
    metrics: MetricParams = MetricParams()
    judges: tuple[JudgeParams, ...] = ()
    empty: str = "missing"
    judged: Literal["answer", "reply"] = "answer"
    judged_csv: str | None = None
    judged_tables: tuple[Annotated[TableEntry, by_name("path")], ...] = ()
    helm_runs: tuple[Annotated[HelmRunEntry, by_name("path")], ...] = ()
    airbench_scored: tuple[AirbenchScoredEntry, ...] = ()
    scores: ScoresParams = ScoresParams()
    human_labels: str | None = None
    without: dict[str, tuple[str, ...]] = Field(default={})
    on_demand: bool = False
    seed: int = Field(default=1337, ge=0, lt=2**32)

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, value: Any) -> Any:
        refuse_secrets(value)
        return value

    @field_validator("empty")
    @classmethod
    def _is_policy(cls, value: str) -> str:
        empty_policy(value, "airbench")
        return value

    @model_validator(mode="after")
    def _complete(self) -> StudyParams:
        needs = {"published": (), "run": ("suites", "models", "judges"), "imported": ()}[self.kind]
        for key in needs:
            if not getattr(self, key):
                raise InputError(f"key '{key}' is missing or empty; a study of kind '{self.kind}' needs it")
        if self.kind == "imported":
            self._check_imported()
        paid = [*(model.endpoint for model in self.models), *(judge.calls_endpoint for judge in self.judges)]
        if self.on_demand and any(paid):
            raise InputError("on_demand makes what a notebook misses, and must not pay for it; remove it (endpoints)")
        if (self.name == "published") != (self.kind == "published"):
            raise InputError(
                "the name 'published' and the kind 'published' belong together: its artifacts are committed"
            )
        defaults = {key: field.default for key, field in type(self).model_fields.items()}
        for key in sorted(set(defaults) - _COMMON - _KEYS[self.kind]):
            if getattr(self, key) == defaults[key]:
                continue
            raise InputError(f"key '{key}' means nothing in a study of kind '{self.kind}'; remove it")
        if self.kind == "run":
            check_judges(self.judges, self.suites, self.model_ids, self.human_labels is not None)
            self._check_templates()
            self.check_without([(suite.name, model) for suite in self.suites for model in self.model_ids])
            for suite in self.suites:
                if not self.judges_of(suite.name):
                    wanted = MULTIPLE_CHOICE_JUDGE if suite.name in MULTIPLE_CHOICE else "a judge of labels"
                    raise InputError(f"suite '{suite.name}' has no judge; add {wanted} to 'judges'")
        listed = {"suite": [suite.name for suite in self.suites], "model": self.model_ids, "judge": self.judge_names}
        for kind, names in listed.items():
            for name in names:
                if names.count(name) > 1:
                    raise InputError(f"{kind} '{name}' is listed twice")
        return self

    @property
    def tables(self) -> tuple[TableEntry, ...]:
        """The tables of judged replies; `judged_csv` is one without further keys."""
        short = (TableEntry(path=self.judged_csv),) if self.judged_csv else ()
        return (*short, *self.judged_tables)

    @property
    def model_ids(self) -> tuple[str, ...]:
        """The ids of the study's models, in the order of the parameters."""
        return tuple(model.id for model in self.models)

    def takes_part(self, suite: str, model: str) -> bool:
        """Return whether a model answers a suite: all do but those that `without` lists."""
        return model not in self.without.get(suite, ())

    def check_without(self, pairs: Collection[tuple[str, str]]) -> None:
        """Raise InputError where `without` names a suite or model that is none of the pairs, or leaves a suite none."""
        suites = {suite for suite, _ in pairs}
        for suite, models in self.without.items():
            if suite not in suites:
                raise unknown("suite", suite, suites, "key 'without'")
            known = {model for name, model in pairs if name == suite}
            for model in models:
                if model not in known:
                    raise unknown("model", model, known, f"key 'without', suite '{suite}'")
            if known <= set(models):
                raise InputError(f"key 'without' leaves suite '{suite}' without a model; keep one, or drop the suite")

    @property
    def judge_names(self) -> tuple[str, ...]:
        """The names of the study's judges, in the order of the parameters."""
        return tuple(judge.name for judge in self.judges)

    def judges_of(self, suite: str) -> list[JudgeEntry]:
        """Return the study's judges that read a suite."""
        (entry,) = (entry for entry in self.suites if entry.name == suite)
        return [judge for judge in self.judges if judge.reads(entry)]

    @property
    def endpoint_judges(self) -> list[EndpointJudge]:
        """The study's judges behind endpoints."""
        return [judge for judge in self.judges if isinstance(judge, EndpointJudge)]

    def judged_models(self, judge: JudgeEntry) -> tuple[str, ...]:
        """Return the ids of the models whose replies a judge reads: all, unless its entry names some."""
        return tuple(model for model in self.model_ids if not judge.models or model in judge.models)

    def _check_imported(self) -> None:
        """Refuse a study of other tools' runs without a source, or with entries of an own run."""
        if not any(getattr(self, key) for key in _SOURCES):
            raise InputError(f"a study of kind 'imported' needs one of the keys {', '.join(_SOURCES)}")
        if any(suite.model_fields_set - {"name", "path"} for suite in self.suites):
            raise InputError("in a study of kind 'imported' a suite has a name and a path only: its replies are there")
        for model in self.models:
            for key in sorted(model.model_fields_set - {"id", *CARD_KEYS}):
                raise InputError(
                    f"in a study of kind 'imported' model '{model.id}' has the key '{key}': its replies are there, and "
                    f"are made by no model here; valid: {', '.join(CARD_KEYS)}"
                )

    def _check_templates(self) -> None:
        """Refuse a base model behind an endpoint that would be asked as in a chat, and a chat's keys without a chat."""
        cards = load_cards().set_index("id")["base_or_tuned"]
        for model in self.models:
            model.check_template(model.template or self.generation.template)
            kind = model.base_or_tuned or cards.get(model.card_id)
            if model.endpoint is not None and kind == "base" and (model.template or self.generation.template) == "auto":
                raise InputError(
                    f"model '{model.id}' is a base model behind an endpoint; give it template: raw (or chat)"
                )


# How files of rows end, which somebody may take for a study.
_OF_ROWS = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".parquet")
_SOURCES = ("judged_csv", "judged_tables", "helm_runs", "airbench_scored")
_COMMON = {"name", "kind", "seed"}
_OF_REPLIES = {"suites", "models", "metrics", "judges", "empty", "judged", "human_labels", "without"}
_KEYS: dict[str, set[str]] = {
    "published": set(),
    "run": {*_OF_REPLIES, "generation", "on_demand"},
    "imported": {*_OF_REPLIES, *_SOURCES, "scores"},
}


def load_params(study: str | Path | dict[str, Any]) -> StudyParams:
    """Return a study's validated parameters.

    Parameters
    ----------
    study : str, Path or dict
        A name (params/<name>.yaml), the path of a YAML file with the one key `study`, or the mapping below that key.

    Raises
    ------
    InputError
        One line that names the file and the key.
    """
    if isinstance(study, dict):
        return _validated(study, "parameter study")
    path = _params_file(str(study))
    content = read_yaml(path)
    if not isinstance(content, dict) or not isinstance(content.get("study"), dict):
        raise InputError(f"{path}: needs one top-level key 'study' that holds a mapping")
    for key in content:
        if key != "study":
            raise unknown("top-level key", key, ["study"], str(path))
    return _validated(content["study"], str(path))


def study_names() -> list[str]:
    """Return the names that params/ defines."""
    return sorted(path.stem for path in (project_root() / "params").glob("*.yaml") if path.is_file())


def injected_names(namespace: Mapping[str, Any]) -> list[str]:
    """Return the names that papermill injected into a notebook, from the cell that it marks "# Parameters"."""
    cells = [source for source in namespace.get("In", []) if source.startswith("# Parameters\n")]
    return [
        target.id
        for statement in ast.parse("\n".join(cells)).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    ]


def _params_file(study: str) -> Path:
    root = project_root()
    if study.lower().endswith(_OF_ROWS):
        raise InputError(
            f"'{study}' is no params file; if it holds judged replies, run: slmsafety import {shlex.quote(study)} "
            "--study NAME"
        )
    if study.endswith((".yaml", ".yml")) or "/" in study:
        for path in (Path(study), root / study):
            if is_file(path):
                return path
        raise InputError(f"params file '{study}' does not exist")
    path = root / "params" / f"{study}.yaml"
    if not is_file(path):
        raise unknown("study", study, study_names(), "params/")
    return path


def _validated(mapping: dict[str, Any], source: str) -> StudyParams:
    try:
        params = StudyParams.model_validate(mapping)
    except ValidationError as error:
        raise first_problem(error, source, _keys_at) from error
    try:
        _check_files(params, project_root())
    except InputError as problem:
        raise InputError(f"{source}: {problem}") from problem
    if params.human_labels:
        read_human_labels(data_path(params.human_labels, project_root()))
    return params


def _check_files(params: StudyParams, root: Path) -> None:
    """Raise InputError for a path, a rubric file or a module that the parameters name and that is not right."""
    given = [suite.path for suite in params.suites] + [params.judged_csv, params.human_labels]
    given += [entry.path for entry in (*params.judged_tables, *params.helm_runs, *params.airbench_scored)]
    for text in filter(None, given):
        data_path(text, root)
    for suite in params.suites:
        if suite.rubric is not None and not is_rubric_file(suite.rubric) and suite.rubric not in RUBRICS:
            raise unknown("rubric", suite.rubric, RUBRICS, f"suite '{suite.name}' (or a path ending in .yaml)")
        if suite.rubric is not None and is_rubric_file(suite.rubric):
            build(RubricChoice(name=data_path(suite.rubric, root)))
    for model in params.models if params.kind == "run" else ():
        model.source(root)
    for judge in params.judges:
        judge.check_files(root)
    params.metrics.sources(root)
    metrics = [own_metric(load_plugin(name, root)).name for name in params.metrics.own]
    for name in metrics:
        if metrics.count(name) > 1:
            raise InputError(f"own metric '{name}' is listed twice; give one of the modules another NAME")
    if params.on_demand and any(judge.costs_money(root) for judge in params.judges):
        raise InputError(
            "on_demand makes what a notebook misses, and must not pay for it; remove it, or the paid judge"
        )


def _keys_at(parents: list[int | str]) -> list[str]:
    """The valid keys of the mapping that a pydantic location points into."""
    nested: Mapping[str, type[BaseModel]] = {
        **JUDGE_KINDS,
        "suites": SuiteParams,
        "models": ModelParams,
        "model": ModelParams,
        "generation": GenerationParams,
        "metrics": MetricParams,
        "judged_tables": TableEntry,
        "helm_runs": HelmRunEntry,
        "airbench_scored": AirbenchScoredEntry,
        "scores": ScoresParams,
        "price": Price,
    }
    names = [part for part in parents if isinstance(part, str)]
    if len(names) == 3 and names[0] == "judged_tables":  # judges, by their own names
        return list(JudgeColumn.model_fields)
    model = nested[names[-1]] if names else StudyParams
    return list(model.model_fields)
