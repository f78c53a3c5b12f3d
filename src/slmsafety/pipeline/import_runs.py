"""A study of kind `imported`: other tools' judged runs -> the tables of the study."""

from __future__ import annotations

from functools import partial

from slmsafety.errors import unknown
from slmsafety.importers.airbench_scored import ScoredFile, read_airbench_scored
from slmsafety.importers.choice_suites import refuse_choice_suites
from slmsafety.importers.direction import check_direction, openings
from slmsafety.importers.helm_run import RunOptions, read_helm_run
from slmsafety.importers.judged_csv import read_judged_csv
from slmsafety.importers.rules import by_rules
from slmsafety.importers.scores import Scale
from slmsafety.importers.suite_ids import with_suite_ids
from slmsafety.importers.tables import Imported, write_imported
from slmsafety.judging.refusal_rules import opens_with_refusal
from slmsafety.judging.registry import sends_empty
from slmsafety.paths import data_path
from slmsafety.pipeline.imported_texts import check_names, forget_changed_prompts
from slmsafety.pipeline.run import Run


def import_sources(run: Run) -> None:
    """Read all sources of the study and write their rows below its folder; importing again replaces them.

    Rows of HELM runs and scored files get the ids of the suites that the parameters name. Raises InputError with one
    line, before anything is written.
    """
    params, runs = run.params, _runs(run)
    found = {suite for source in runs for suite in source.prompts["suite"].unique()}
    for suite in params.suites:
        if suite.name not in found:
            raise unknown("suite", suite.name, found, "the study's runs")
        prompts = run.suite_data(suite).prompts
        runs = [with_suite_ids(source, prompts) for source in runs]
    scale = Scale(params.scores.higher, params.scores.map)
    table = [read_judged_csv(data_path(params.judged_csv, run.root), scale)] if params.judged_csv else []
    sources = by_rules([*table, *runs], partial(sends_empty, params.empty))
    for source in sources:
        refuse_choice_suites(source)
    for source in sources if not params.scores.checked else ():
        check_direction(source, openings(source, opens_with_refusal))
    own = check_names(run, sources)
    forget_changed_prompts(run, sources)
    write_imported(sources, run.folder, own)


def _runs(run: Run) -> list[Imported]:
    params, sources = run.params, []
    for helm in params.helm_runs:
        options = RunOptions(**helm.model_dump(exclude={"path"}))
        sources.append(read_helm_run(data_path(helm.path, run.root), options))
    for scored in params.airbench_scored:
        about = ScoredFile(**scored.model_dump(exclude={"path"}))
        sources.append(read_airbench_scored(data_path(scored.path, run.root), about))
    return sources
