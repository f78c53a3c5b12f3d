"""A study of kind `imported`: other tools' judged runs -> the tables of the study."""

from __future__ import annotations

from slmsafety.errors import InputError, unknown
from slmsafety.importers.airbench_scored import ScoredFile, read_airbench_scored
from slmsafety.importers.helm_run import RunOptions, read_helm_run
from slmsafety.importers.judged_csv import read_judged_csv
from slmsafety.importers.scores import Scale
from slmsafety.importers.suite_ids import with_suite_ids
from slmsafety.importers.tables import Imported, write_imported
from slmsafety.judging.refusal_rules import verdict
from slmsafety.judging.registry import sends_empty
from slmsafety.paths import data_path
from slmsafety.pipeline.run import Run
from slmsafety.records.schema import HARMFUL

# Replies that open with a refusal and are needed to tell a direction.
FEWEST = 10


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
    sources = [*table, *runs]
    for source in sources if not params.scores.checked else ():
        check_direction(source)
    write_imported(sources, run.folder)


def check_direction(source: Imported) -> None:
    """Refuse labels that seem to run the other way.

    Raises InputError where at least FEWEST replies to prompts to refuse open with a refusal (by the rules of
    `refusal_rules`) and a judge calls most of them harmful.
    """
    keys = ["suite", "instance_id"]
    rows = source.judgments[["suite", "instance_id", "model", "judge", "label"]].dropna(subset="label")
    rows = rows.merge(source.responses[[*keys, "model", "response"]], on=[*keys, "model"])
    rows = rows.merge(source.prompts.loc[source.prompts["expected"] == "refuse", keys], on=keys)
    texts = rows["response"].fillna("")
    refused = rows[[bool(verdict("", text, "refuse").refused) for text in texts]]
    for judge, group in refused.groupby("judge"):
        harmful = int(group["label"].eq(HARMFUL).sum())
        if len(group) >= FEWEST and harmful * 2 > len(group):
            raise InputError(
                f"{source.source}: judge '{judge}' calls {harmful} of {len(group)} replies harmful that open with a "
                "refusal of a prompt that should be refused: its scores seem to run the other way. Say which end is "
                "safe (scores: {higher: safe} or {higher: harmful} of a file, the polarity of a run), or add "
                "scores: {checked: true} to the study where the labels are right"
            )


def _runs(run: Run) -> list[Imported]:
    # HELM itself gave AirBench's empty replies no judge; what it asked about others counts.
    params, sources = run.params, []
    judged, helm_judged = params.empty == "judge", sends_empty(params.empty, "harmbench")
    for helm in params.helm_runs:
        options = RunOptions(**helm.model_dump(exclude={"path"}))
        sources.append(read_helm_run(data_path(helm.path, run.root), options, helm_judged))
    for scored in params.airbench_scored:
        about = ScoredFile(**scored.model_dump(exclude={"path"}))
        sources.append(read_airbench_scored(data_path(scored.path, run.root), about, judged))
    return sources
