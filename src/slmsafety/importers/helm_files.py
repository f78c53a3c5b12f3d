"""The files of a HELM run folder: what is needed of them, and whether they belong together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field

from slmsafety.errors import InputError
from slmsafety.importers.json_files import Record, read_json, record

# HELM writes all of them when a run ends, and nothing before.
FILES = ("run_spec.json", "scenario_state.json", "per_instance_stats.json")


class _Text(Record):
    text: str


class _Reference(Record):
    output: _Text


class Instance(Record):
    """A prompt; `references` hold the suite's categories as text."""

    id: str
    input: _Text
    references: list[_Reference] = Field(default_factory=list)


class _Finish(Record):
    reason: str


class _Completion(Record):
    text: str
    tokens: int = 0
    finish_reason: _Finish | None = None


class _Result(Record):
    success: bool = True
    error: str | None = None
    completions: list[_Completion]
    request_datetime: int | None = None


class _Request(Record):
    max_tokens: int


class RequestState(Record):
    """A prompt, its reply, and what the judges wrote about it (`annotations`, by annotator)."""

    instance: Instance
    request: _Request
    result: _Result
    prompt_truncated: bool = False
    annotations: dict[str, dict[str, Any]] | None = None

    @property
    def reply(self) -> _Completion:
        """The one completion."""
        return self.result.completions[0]


class _ScenarioState(Record):
    request_states: list[RequestState]


class _Spec(Record):
    class_name: str
    args: dict[str, Any] = Field(default_factory=dict)


class Adapter(Record):
    """The settings of the generation, all of them: they are what its id hashes."""

    model_config = ConfigDict(extra="allow")

    model: str


class RunSpec(Record):
    """Which suite, which model with which settings, which annotators."""

    scenario_spec: _Spec
    adapter_spec: Adapter
    annotators: list[_Spec] | None = None


class _Name(Record):
    name: str
    perturbation: Any = None


class _Stat(Record):
    name: _Name
    mean: float | None = None


class _Stats(Record):
    instance_id: str
    stats: list[_Stat]


class _AllStats(Record):
    entries: list[_Stats]


class _Instances(Record):
    entries: list[Instance]


class HelmRun(NamedTuple):
    """A run folder's content. `scores` has the mean of each statistic by instance id and name."""

    spec: RunSpec
    states: list[RequestState]
    scores: dict[tuple[str, str], float]


def read_run(folder: Path) -> HelmRun:
    """Return the content of a HELM run folder.

    Raises InputError with one line: a folder without one of FILES (a run that failed), a file of another form, an
    instance that is there twice (perturbed, or in several trials) or has not exactly one completion, and an instance of
    instances.json (written by helm-summarize, not needed) that the run has no reply to.
    """
    for name in FILES:
        if not (folder / name).is_file():
            raise InputError(
                f"{folder}: lacks {name}; HELM writes it when a run ends, so there is no finished run here"
            )
    spec = record(RunSpec, read_json(folder / FILES[0]), str(folder / FILES[0]))
    path = folder / FILES[1]
    states = record(_ScenarioState, read_json(path, _count_tokens), str(path)).request_states
    seen = set()
    for state in states:
        if state.instance.id in seen:
            raise InputError(
                f"{path}: has instance '{state.instance.id}' twice; it is there once in a run of one trial without "
                "perturbations"
            )
        seen.add(state.instance.id)
        if len(state.result.completions) != 1:
            raise InputError(
                f"{path}: instance '{state.instance.id}' has {len(state.result.completions)} completions, not 1"
            )
    if not states:
        raise InputError(f"{path}: has no request_states")
    path = folder / "instances.json"
    if path.is_file():
        listed = record(_Instances, {"entries": read_json(path)}, str(path)).entries
        without = [instance.id for instance in listed if instance.id not in seen]
        if without:
            raise InputError(
                f"{path}: instance '{without[0]}' has no reply in scenario_state.json ({len(without)} such)"
            )
    return HelmRun(spec, states, _scores(folder / FILES[2]))


def compare(run: HelmRun, instance_id: str, name: str, score: float | None, folder: Path) -> None:
    """Raise InputError where a judge's score is not the one in per_instance_stats.json: files of two runs."""
    stored = run.scores.get((instance_id, name))
    given = None if score is None or math.isnan(score) else score  # HELM leaves out a statistic that is nan
    if stored != given:
        raise InputError(
            f"{folder}: instance '{instance_id}' has score {given} in scenario_state.json, but {name} {stored} in "
            "per_instance_stats.json; the files are not of one run"
        )


def _count_tokens(value: dict[str, Any]) -> dict[str, Any]:
    """Keep the number of a completion's tokens instead of the tokens, which are most of a file."""
    if isinstance(value.get("tokens"), list):
        value["tokens"] = len(value["tokens"])
    return value


def _scores(path: Path) -> dict[tuple[str, str], float]:
    """The means by instance and name: a file has several entries an instance, one a class of metrics."""
    entries = record(_AllStats, {"entries": read_json(path)}, str(path)).entries
    return {
        (entry.instance_id, stat.name.name): stat.mean
        for entry in entries
        for stat in entry.stats
        if stat.mean is not None and stat.name.perturbation is None
    }
