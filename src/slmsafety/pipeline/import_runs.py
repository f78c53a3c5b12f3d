"""A study of kind `imported`: other tools' judged runs -> the tables of the study."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from slmsafety.errors import unknown, visible
from slmsafety.importers.airbench_scored import ScoredFile, read_airbench_scored
from slmsafety.importers.counts import Counts, count
from slmsafety.importers.direction import Openings, check_direction, check_one_scale, check_unsaid, openings, together
from slmsafety.importers.helm_run import RunOptions, read_helm_run
from slmsafety.importers.judged_table import Understood, read_judged_table
from slmsafety.importers.rules import by_rules
from slmsafety.importers.suite_ids import with_suite_ids
from slmsafety.importers.tables import Imported, with_answers, write_imported
from slmsafety.judging.refusal_rules import opens_with_refusal
from slmsafety.judging.registry import sends_empty
from slmsafety.params.study import StudyParams
from slmsafety.paths import data_path
from slmsafety.pipeline.imported_texts import asked, check_names, forget_changed_prompts, names_of
from slmsafety.pipeline.run import Run


class SourcesRead(NamedTuple):
    """What the sources of a study hold: their rows, what became of their judgments, and what was understood of tables.

    `own` names the judges that the study runs itself.
    """

    sources: list[Imported]
    counts: list[Counts]
    tables: list[Understood]
    own: Collection[str]


def import_sources(run: Run) -> list[Counts]:
    """Read all sources of the study and write their rows below its folder; importing again replaces them.

    Prints what became of every judgment, and returns it, one line a source. Raises InputError with one line, before
    anything is written.
    """
    read = read_sources(run)
    forget_changed_prompts(run, read.sources)
    write_imported(read.sources, run.folder, read.own, asked(run.params))
    for each in read.counts:
        print(visible(each.line))
    return read.counts


def read_sources(run: Run) -> SourcesRead:
    """Return what all sources of the study hold; nothing is written.

    Rows of HELM runs and scored files get the ids of the suites that the parameters name. Raises InputError with one
    line.
    """
    params, runs = run.params, _runs(run)
    found = {suite for source in runs for suite in source.prompts["suite"].unique()}
    for suite in params.suites:
        if suite.name not in found:
            raise unknown("suite", suite.name, found, "the study's runs")
        prompts = run.suite_data(suite).prompts
        runs = [with_suite_ids(source, prompts) for source in runs]
    tables = [
        read_judged_table(data_path(entry.path, run.root), entry.options(params.scores)) for entry in params.tables
    ]
    check_one_scale([table.understood for table in tables])
    sources = by_rules([*(table.imported for table in tables), *runs], partial(sends_empty, params.empty))
    _check_directions(params, [table.understood for table in tables], sources)
    own = check_names(params, *names_of(sources))
    sources = [with_answers(source) for source in sources]
    return SourcesRead(sources, count(sources), [table.understood for table in tables], own)


def _check_directions(params: StudyParams, tables: list[Understood], sources: list[Imported]) -> None:
    """Refuse scores that seem to run the other way, and those of which nothing tells the way; tables come first."""
    of_tables: list[Openings] = []
    for number, source in enumerate(sources):
        found = openings(source, opens_with_refusal)
        insisted = {name for table in tables[number : number + 1] for name in table.insisted}
        if not params.scores.checked:
            checked = [judge for judge in found if judge.judge not in insisted]
            check_direction(source.source, checked)
            of_tables += checked if number < len(tables) else []
        for table in tables[number : number + 1]:
            check_unsaid(table, found)
    check_direction("the study's tables together", together(of_tables))


def _runs(run: Run) -> list[Imported]:
    params, sources = run.params, []
    for helm in params.helm_runs:
        options = RunOptions(**helm.model_dump(exclude={"path"}))
        sources.append(read_helm_run(data_path(helm.path, run.root), options))
    for scored in params.airbench_scored:
        about = ScoredFile(**scored.model_dump(exclude={"path"}))
        sources.append(read_airbench_scored(data_path(scored.path, run.root), about))
    return sources
