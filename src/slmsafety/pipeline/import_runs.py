"""A study of kind `imported`: other tools' judged runs -> the tables of the study."""

from __future__ import annotations

from pathlib import Path

from slmsafety.errors import unknown
from slmsafety.importers.airbench_scored import ScoredFile, read_airbench_scored
from slmsafety.importers.helm_run import RunOptions, read_helm_run
from slmsafety.importers.judged_csv import read_judged_csv
from slmsafety.importers.suite_ids import with_suite_ids
from slmsafety.importers.tables import Imported, write_imported
from slmsafety.judging.registry import sends_empty
from slmsafety.params.study import StudyParams
from slmsafety.paths import data_path
from slmsafety.suites.catalogue import load_suite


def import_sources(params: StudyParams, folder: Path, root: Path) -> None:
    """Read all sources of the study and write their rows below its folder; importing again replaces them.

    Rows of HELM runs and scored files get the ids of the suites that the parameters name. Raises InputError with one
    line, before anything is written.
    """
    runs = _runs(params, root)
    found = {suite for run in runs for suite in run.prompts["suite"].unique()}
    for suite in params.suites:
        if suite.name not in found:
            raise unknown("suite", suite.name, found, "the study's runs")
        path = None if suite.path is None else data_path(suite.path, root)
        prompts = load_suite(suite.name, path).prompts
        runs = [with_suite_ids(run, prompts) for run in runs]
    table = [read_judged_csv(data_path(params.judged_csv, root))] if params.judged_csv else []
    write_imported([*table, *runs], folder)


def _runs(params: StudyParams, root: Path) -> list[Imported]:
    # HELM itself gave AirBench's empty replies no judge; what it asked about others counts.
    judged, helm_judged = params.empty == "judge", sends_empty(params.empty, "harmbench")
    runs = []
    for helm in params.helm_runs:
        options = RunOptions(**helm.model_dump(exclude={"path"}))
        runs.append(read_helm_run(data_path(helm.path, root), options, helm_judged))
    for scored in params.airbench_scored:
        about = ScoredFile(**scored.model_dump(exclude={"path"}))
        runs.append(read_airbench_scored(data_path(scored.path, root), about, judged))
    return runs
