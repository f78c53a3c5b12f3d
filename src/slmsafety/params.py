"""A study's parameters: one validated mapping, from a name, a file or a notebook.

A misspelt key must stop a run before it starts, since papermill itself runs the defaults and exits with 0.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from slmsafety.errors import InputError, unknown
from slmsafety.importers.human_labels import read_human_labels
from slmsafety.judging.judges import JUDGES, MULTIPLE_CHOICE_JUDGE
from slmsafety.models.cards import card
from slmsafety.models.source import Source
from slmsafety.suites.catalogue import MULTIPLE_CHOICE, SUITES


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SuiteParams(_Strict):
    """A suite by name: the path of its file (else downloaded), the size of a seeded sample, its own token limit."""

    name: str
    path: str | None = None
    limit: int | None = Field(default=None, gt=0)
    max_new_tokens: int | None = Field(default=None, gt=0)

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in SUITES:
            raise unknown("suite", name, SUITES)
        return name


class ModelParams(_Strict):
    """A model: the id of a card, or a model of the study's own; beside `id` the fields of a source and of a card.

    The id of a card without an origin means the card's; with one it means the card's model from there. `folder` and
    `gguf` are paths as elsewhere in a study.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    hub: str | None = None
    folder: str | None = None
    gguf: str | None = None
    endpoint: str | None = None
    served: str | None = None
    api_key_env: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    weights: Literal["safetensors", "bin"] | None = None
    name: str | None = None
    family: str | None = None
    year: int | None = None
    params_m: int | None = Field(default=None, gt=0)
    base_or_tuned: Literal["base", "tuned"] | None = None

    def source(self, root: Path) -> Source:
        """Return where the model comes from; InputError for an id without card and origin, or a path that is not."""
        given = {key: getattr(self, key) for key in _SOURCE_KEYS if getattr(self, key) not in (None, False)}
        given |= {key: data_path(given[key], root) for key in ("folder", "gguf") if key in given}
        if not any(key in given for key in _ORIGINS):
            known = card(self.id).source
            given = known.model_dump(exclude_defaults=True) | given
        try:
            return Source(**given)
        except ValidationError as error:
            raise _first_problem(error, f"model '{self.id}'") from error


_ORIGINS = ("hub", "folder", "gguf", "endpoint")
_SOURCE_KEYS = (*_ORIGINS, "served", "api_key_env", "revision", "trust_remote_code", "weights")


class GenerationParams(_Strict):
    """How replies are made; the defaults are the paper's for its open-ended suites (section 3.1).

    The last four say how the work is run and define none of it: the most prompts of a batch, the memory of one process,
    the processes on a CPU, and the requests that an endpoint gets at once.
    """

    max_new_tokens: int = Field(default=512, gt=0)
    template: Literal["auto", "chat", "raw"] = "auto"
    truncation: Literal["keep_end", "helm"] = "keep_end"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    batch_size: int = Field(default=32, gt=0)
    memory_gb: float | None = Field(default=None, gt=0)
    workers: int = Field(default=1, gt=0)
    concurrency: int = Field(default=16, gt=0)


class StudyParams(_Strict):
    """One study. `kind` says where its numbers come from: the printed tables, an own run, or judged rows from a CSV."""

    name: str = Field(pattern=r"^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$")
    kind: Literal["published", "run", "imported"]
    suites: tuple[SuiteParams, ...] = ()
    models: tuple[ModelParams, ...] = ()
    generation: GenerationParams = GenerationParams()
    judges: tuple[str, ...] = ()
    empty: Literal["missing", "judge", "safe", "ambiguous", "harmful"] = "missing"
    judged_csv: str | None = None
    human_labels: str | None = None
    on_demand: bool = False
    seed: int = 1337

    @field_validator("suites", mode="before")
    @classmethod
    def _names_are_suites(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return [{"name": entry} if isinstance(entry, str) else entry for entry in value]

    @field_validator("models", mode="before")
    @classmethod
    def _ids_are_models(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return [{"id": entry} if isinstance(entry, str) else entry for entry in value]

    @model_validator(mode="after")
    def _complete(self) -> StudyParams:
        needs = {"published": (), "run": ("suites", "models", "judges"), "imported": ("judged_csv",)}[self.kind]
        for key in needs:
            if not getattr(self, key):
                raise InputError(f"key '{key}' is missing or empty; a study of kind '{self.kind}' needs it")
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
            for name in self.judges:
                if name not in JUDGES:
                    raise unknown("judge", name, JUDGES)
            for suite in self.suites:
                if not self.judges_of(suite.name):
                    kind = MULTIPLE_CHOICE_JUDGE if suite.name in MULTIPLE_CHOICE else "a judge of labels"
                    raise InputError(f"suite '{suite.name}' has no judge; add {kind} to 'judges'")
        listed = {"suite": [suite.name for suite in self.suites], "model": self.model_ids, "judge": self.judges}
        for kind, names in listed.items():
            for name in names:
                if names.count(name) > 1:
                    raise InputError(f"{kind} '{name}' is listed twice")
        return self

    @property
    def model_ids(self) -> tuple[str, ...]:
        """The ids of the study's models, in the order of the parameters."""
        return tuple(model.id for model in self.models)

    def judges_of(self, suite: str) -> list[str]:
        """Return the study's judges that read a suite: multiple-choice suites have one of their own."""
        choice = suite in MULTIPLE_CHOICE
        return [name for name in self.judges if (name == MULTIPLE_CHOICE_JUDGE) == choice]


_COMMON = {"name", "kind", "seed"}
_KEYS: dict[str, set[str]] = {
    "published": set(),
    "run": {"suites", "models", "generation", "judges", "empty", "human_labels", "on_demand"},
    "imported": {"judged_csv", "judges", "empty", "human_labels"},
}


def project_root() -> Path:
    """Return the folder that relative paths start from: SLMSAFETY_ROOT, or the repository of the installed package."""
    given = os.environ.get("SLMSAFETY_ROOT")
    root = Path(given) if given else Path(__file__).resolve().parents[2]
    if not (root / "params").is_dir():
        raise InputError(f"{root} holds no folder 'params'; set SLMSAFETY_ROOT to a clone of the repository")
    return root.resolve()


def data_path(text: str, root: Path) -> Path:
    """Return an existing path from a parameter: $VARIABLES are filled in, relative paths start at the root."""
    filled = os.path.expandvars(text)
    if "$" in filled:
        raise InputError(f"path '{text}' names an environment variable that is not set")
    path = root / filled
    if not path.exists():
        raise InputError(f"path '{text}' does not exist (looked for {path})")
    return path


def load_params(study: str | Path | dict[str, Any]) -> tuple[StudyParams, str]:
    """Return the validated parameters and what they came from, for messages.

    `study` is a name (params/<name>.yaml), a path to a YAML file with the one key `study`, or the mapping below that
    key. Raises InputError with one line that names the file and the key.
    """
    if isinstance(study, dict):
        return _validated(study, "parameter study"), "parameter study"
    path = _params_file(str(study))
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not readable as YAML ({' '.join(str(error).split())})") from error
    if not isinstance(content, dict) or not isinstance(content.get("study"), dict):
        raise InputError(f"{path}: needs one top-level key 'study' that holds a mapping")
    for key in content:
        if key != "study":
            raise unknown("top-level key", key, ["study"], str(path))
    return _validated(content["study"], str(path)), str(path)


def study_names() -> list[str]:
    """Return the names that params/ defines."""
    return sorted(path.stem for path in (project_root() / "params").glob("*.yaml"))


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


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error: plain YAML would take the last one in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping, or raise a YAML error naming the key and its line."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key}' stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _params_file(study: str) -> Path:
    root = project_root()
    if study.endswith((".yaml", ".yml")) or "/" in study:
        for path in (Path(study), root / study):
            if path.is_file():
                return path
        raise InputError(f"params file '{study}' does not exist")
    path = root / "params" / f"{study}.yaml"
    if not path.is_file():
        raise unknown("study", study, study_names(), "params/")
    return path


def _validated(mapping: dict[str, Any], source: str) -> StudyParams:
    try:
        params = StudyParams.model_validate(mapping)
    except ValidationError as error:
        raise _first_problem(error, source) from error
    root = project_root()
    given = [suite.path for suite in params.suites] + [params.judged_csv, params.human_labels]
    for text in filter(None, given):
        try:
            data_path(text, root)
        except InputError as problem:
            raise InputError(f"{source}: {problem}") from problem
    for model in params.models:
        try:
            model.source(root)
        except InputError as problem:
            raise InputError(f"{source}: {problem}") from problem
    if params.human_labels:
        read_human_labels(data_path(params.human_labels, root))
    return params


def _first_problem(error: ValidationError, source: str) -> InputError:
    """Turn pydantic's first error into one line with the key and the nearest valid one."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return InputError(f"{source}: {cause}")
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        *parents, key = first["loc"]
        return unknown("key", key, _keys_at(parents), source)
    if first["type"] == "missing":
        return InputError(f"{source}: key '{where}' is missing")
    return InputError(f"{source}: key '{where}' is {first['input']!r}; {first['msg'][0].lower()}{first['msg'][1:]}")


def _keys_at(parents: list[int | str]) -> list[str]:
    """The valid keys of the mapping that a pydantic location points into."""
    nested: dict[str, type[BaseModel]] = {
        "suites": SuiteParams,
        "models": ModelParams,
        "generation": GenerationParams,
    }
    model = nested[str(parents[0])] if parents else StudyParams
    return list(model.model_fields)
