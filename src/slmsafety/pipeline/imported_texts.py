"""What an imported study needs before its texts are judged or measured, and what becomes of texts that changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.importers.tables import Imported
from slmsafety.judging.registry import JUDGES, sends_empty
from slmsafety.params.judges.fit import check_judges
from slmsafety.params.study import StudyParams
from slmsafety.pipeline.run import Run
from slmsafety.pipeline.texts import ImportedTexts, imported_judges, own_judges
from slmsafety.records.ids import content_id
from slmsafety.records.imports import asked_of, read_imported
from slmsafety.records.schema import OWN_METRICS, PROMPT_KEY, PROMPT_METRICS, PROMPTS
from slmsafety.records.store import partitions

_KEY = list(PROMPT_KEY)
_READ_BY = {"judged_csv", "judged_tables", "helm_runs", "airbench_scored", "scores", "suites"}


def names_of(sources: Sequence[Imported]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the models and of the judges that sources hold."""
    models = {str(name) for source in sources for name in source.responses["model"].unique()}
    judges = {str(name) for source in sources for name in source.judgments["judge"].unique()}
    return frozenset(models), frozenset(judges)


def check_names(params: StudyParams, models: Collection[str], judges: frozenset[str]) -> list[str]:
    """Check the names that a study gives against those that its sources hold, and return the judges that it runs.

    Raises InputError for a model that no source holds, for a judge to run that has the name of one of theirs, and for a
    name alone that is neither theirs nor a judge's that can be run.
    """
    for model in params.model_ids:
        if model not in models:
            raise unknown("model", model, sorted(models), "the study's sources")
    own = [judge.name for judge in own_judges(params.judges, judges)]
    for name in params.judge_names:
        if name not in own and name not in judges:
            raise unknown("judge", name, sorted({*judges, *JUDGES}), "the study's sources")
    return own


def asked(params: StudyParams) -> str:
    """Return what stands for how a study's sources are read: it changes when a label could come out otherwise.

    Of the policy for empty replies only what an import does by it counts; a release of HELM has its own for AirBench.
    """
    sources = params.model_dump(mode="json", include=_READ_BY)
    return content_id({**sources, "judges_empty": [sends_empty(params.empty, suite) for suite in ("airbench", "sst")]})


def check_asked(run: Run) -> None:
    """Raise InputError where the import was made when the parameters read its sources in another way.

    The same for a suite or model in the key `without` that it does not hold.
    """
    if isinstance(run.texts, ImportedTexts) and run.texts.held:
        run.params.check_without(run.texts.held)
    before = asked_of(run.texts.opened.root) if isinstance(run.texts, ImportedTexts) else ""
    if before not in ("", asked(run.params)):
        raise InputError(
            f"study {run.params.name} was imported when its parameters read its sources otherwise ("
            f"{', '.join(sorted(_READ_BY))}, or empty); run: slmsafety collect {run.params.name}"
        )


def check_imported(run: Run, stages: Collection[str]) -> None:
    """Raise InputError where there is no import to work on, and for judges that do not fit what it holds.

    Prints how many replies can be neither judged nor measured, as their source has no text of them.
    """
    params, again = run.params, f"run: slmsafety collect {run.params.name} --stage import"
    texts = run.texts
    if not isinstance(texts, ImportedTexts) or not texts.numbered:
        raise InputError(f"study {params.name} holds no replies yet, or those of an older version; {again}")
    params.check_without(texts.held)
    check_names(params, sorted({model for _, model in texts.held}), imported_judges(texts.opened.root))
    if "judge" in stages and not run.judges:
        raise InputError(f"study {params.name} names no judge to run; its labels are those of its sources")
    if "judge" in stages:
        check_judges(run.judges, run.suites, texts.models(), params.human_labels is not None)
    pairs = [(suite.name, model) for suite in run.suites for model in texts.models(suite.name)]
    total = sum(run.responses(*pair).count() for pair in pairs)
    without = total - texts.readable()["replies"]
    if without == total:
        raise InputError(
            f"study {params.name} has no text to judge or to measure: its sources hold no prompts and replies "
            "(columns prompt and response)"
        )
    if without and run.shard.rank == 0:
        print(f"{without} of {total} replies have no text, or their prompts have none: not judged and not measured")


def forget_changed_prompts(run: Run, sources: Sequence[Imported]) -> None:
    """Remove the metrics of prompts whose text is another one than in the import before, or is not there any more.

    Metrics of prompts are kept by the prompts' ids alone; those of replies, and judgments, by the texts themselves.
    """
    parts = partitions(run.folder, PROMPT_METRICS.name)
    parts += [part for part in partitions(run.folder, OWN_METRICS.name) if part.names[-1] == ""]
    if not parts:
        return
    before = read_imported(run.folder, PROMPTS.name, ["prompt"])
    after = pd.concat([source.prompts[[*_KEY, "prompt"]] for source in sources]).drop_duplicates()
    same = pd.MultiIndex.from_frame(before.merge(after, on=[*_KEY, "prompt"])[_KEY])
    for part in parts:
        part.compact()
        rows = part.read()
        kept = rows[pd.MultiIndex.from_frame(rows[_KEY]).isin(same)]
        if len(kept) < len(rows):
            part.replace(kept)
