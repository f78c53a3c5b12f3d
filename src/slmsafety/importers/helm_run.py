"""A run of HELM (Liang et al., 2023) on a safety suite, with its annotators' verdicts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.importers.helm_files import HelmRun, RequestState, RunSpec, compare, read_run
from slmsafety.importers.helm_verdicts import Verdict, read_verdict, verdicts
from slmsafety.importers.rubric_scores import POST_SWAP, airbench_polarity
from slmsafety.importers.tables import Imported
from slmsafety.records.ids import content_id
from slmsafety.records.schema import HARMFUL, JUDGMENTS, PROMPTS, RESPONSES, SAFE
from slmsafety.suites import xstest


class _Suite(NamedTuple):
    """A suite in HELM: its annotator, a judge's statistic, and which scores say that a reply refused.

    `refusal` has the score of a refusal for prompts to refuse and to answer; empty where the scores do not tell.
    """

    name: str
    annotator: str
    statistic: str
    refusal: Mapping[str, float]


_SUITES = {
    "AIRBench2024Scenario": _Suite("airbench", "air_bench_2024", "air_{}score", {}),
    "HarmBenchScenario": _Suite("harmbench", "harm_bench", "safety_{}score", {"refuse": 1.0}),
    "SimpleSafetyTestsScenario": _Suite("sst", "simple_safety_tests", "safety_{}score", {}),
    # Two prompts: 1 is a refusal of an unsafe prompt, and compliance with a safe one.
    "XSTestScenario": _Suite("xstest", "xstest", "safety_{}score", {"refuse": 1.0, "answer": 0.0}),
}
_AIRBENCH_ID = re.compile(r"id(?:[1-4]?\d{1,3}|5[0-5]\d\d|56[0-8]\d|569[0-3])")
# The models behind HELM's prefixes, which its code names and its files do not (annotation/model_as_judge.py).
_JUDGES = {"": "gpt-4o-2024-05-13", "gpt_": "gpt-4o-2024-05-13", "llama_": "llama-3.1-405b-instruct-turbo"}
# Settings that say which prompts were asked, not how.
_WHICH = ("max_eval_instances", "num_trials", "num_train_trials")


@dataclass(frozen=True)
class RunOptions:
    """What a HELM run's folder does not say, or what should be read in its place.

    Attributes
    ----------
    model : str or None
        Another name for the run's model, such as a card's id.
    polarity : {"post_swap", "pre_swap"} or None
        Which end of AirBench's scores is safe (`rubric_scores.POLARITIES`); one of the three must decide it.
    rubric_revision, helm_version : str or None
        The revision of AirBench's data, or the version of HELM, which imply it (`rubric_scores.airbench_polarity`).
    """

    model: str | None = None
    polarity: str | None = None
    rubric_revision: str | None = None
    helm_version: str | None = None


def read_helm_run(folder: Path, options: RunOptions = RunOptions()) -> Imported:
    """Read a HELM run folder of AirBench, HarmBench, Simple Safety Tests or XSTest.

    Parameters
    ----------
    folder : Path
        The folder as helm-run leaves it (`helm_files.FILES`).
    options : RunOptions
        The model's name, and the direction of AirBench's scores, which have had two and whose run records neither.

    Returns
    -------
    Imported
        The prompts, the responses and one judgment a reply and judge. Ids are HELM's: BehaviorID, or a position
        id<row> in the other suites. raw_value is the judge's own score, reason its own words; a missing label has its
        cause in meta (`helm_verdicts.read_verdict`). What a verdict on a blank reply counts is not decided here
        (`rules.by_rules`).

    Raises
    ------
    InputError
        One line for another scenario, an open direction, a score that is not the one in per_instance_stats.json, and
        all that `helm_files.read_run` refuses.
    """
    run = read_run(folder)
    scenario = run.spec.scenario_spec.class_name.rsplit(".", 1)[-1]
    if scenario not in _SUITES:
        raise unknown("HELM scenario", scenario, _SUITES, str(folder))
    suite = _SUITES[scenario]
    given = {key: value for key, value in asdict(options).items() if key != "model"}
    about = given | {"polarity": _direction(suite, run, folder, given), "source": "helm"}
    adapter = {key: value for key, value in run.spec.adapter_spec.model_dump().items() if key not in _WHICH}
    keys = {
        "suite": suite.name,
        "model": options.model or run.spec.adapter_spec.model,
        "generation_id": content_id({"imported": "helm", "adapter": json.dumps(adapter, sort_keys=True)}),
    }
    prompts, responses, judgments = [], [], []
    for state in run.states:
        name = state.instance.id
        place = f"{folder}: instance '{name}'"
        if suite.name == "airbench" and not _AIRBENCH_ID.fullmatch(name):
            raise InputError(f"{place} is no row of AirBench; valid: id0 to id5693")
        prompt = _prompt(suite, state, place)
        prompts.append({**keys, "instance_id": name, **prompt})
        responses.append({**keys, "instance_id": name, **_response(state)})
        if not state.annotations or suite.annotator not in state.annotations:
            raise InputError(f"{place} has no annotation {suite.annotator}; only judged runs can be imported")
        for verdict in verdicts(state.annotations[suite.annotator], place):
            compare(run, name, suite.statistic.format(verdict.prefix), verdict.score, folder)
            judge = _judge(run.spec, verdict.prefix)
            row = _judgment(verdict, suite, prompt["expected"], about | _deployment(run.spec, verdict.prefix))
            judge_id = content_id({"imported_judge": judge, **about})
            judgments.append({**keys, "instance_id": name, "judge": judge, "judge_id": judge_id, **row})
    return Imported(
        str(folder),
        pd.DataFrame(prompts, columns=list(PROMPTS.columns)),
        pd.DataFrame(responses, columns=list(RESPONSES.columns)),
        pd.DataFrame(judgments, columns=list(JUDGMENTS.columns)),
    )


def _prompt(suite: _Suite, state: RequestState, place: str) -> dict[str, Any]:
    """The whole prompt, even where the model saw a part of it, and its categories."""
    texts = [reference.output.text for reference in state.instance.references]
    try:
        category, subcategory = _categories(suite.name, texts)
    except (IndexError, StopIteration) as error:
        raise InputError(f"{place} has {len(texts)} references; its categories are missing") from error
    expected = "refuse"
    if suite.name == "xstest":
        if texts[-1] not in xstest.EXPECTED:
            raise unknown("label", texts[-1], xstest.EXPECTED, place)
        expected = xstest.EXPECTED[texts[-1]]
    meta = {"cate_idx": texts[0], "level_3": texts[2]} if suite.name == "airbench" else {}
    return {
        "prompt": state.instance.input.text,
        "category": category,
        "subcategory": subcategory,
        "expected": expected,
        "suite_revision": "not recorded (HELM run)",
        "meta": json.dumps(meta),
    }


def _categories(suite: str, references: list[str]) -> tuple[str, str]:
    """The coarsest and the finest category among the references; IndexError or StopIteration where they lack them."""
    if suite == "airbench":
        return references[1], references[3]
    if suite == "sst":
        return references[1], references[0]
    if suite == "xstest":  # focus, type, note, label: an empty one is left out, so that places move
        kind = next(text for text in references[:2] if text in xstest.TYPES)
        return kind, kind
    return references[0], references[0]  # HELM has no functional category of a HarmBench behaviour, the coarser level


def _response(state: RequestState) -> dict[str, Any]:
    """The reply. HELM's local client gives no reason for its end: it stopped unless it has all the tokens it may."""
    reply, limit = state.reply, state.request.max_tokens
    given = reply.finish_reason.reason if reply.finish_reason else None
    cut = given == "length" if given else reply.tokens >= limit
    finish, meta = "length" if cut else "stop", dict[str, Any](finish_reason=given)
    if not state.result.success:
        finish = "blocked" if "block" in (state.result.error or "").casefold() else "error"
        meta |= {"success": False, "error": state.result.error}
    return {
        "response": reply.text,
        "output_tokens": reply.tokens or None,
        "finish_reason": finish,
        "prompt_truncated": state.prompt_truncated,
        "meta": json.dumps(meta),
    }


def _judgment(verdict: Verdict, suite: _Suite, expected: str, about: dict[str, Any]) -> dict[str, Any]:
    """The judgment of one judge. A score that is no finite number stays in `meta`: nan would read as missing.

    On a benign control neither end is harmful: it is answered, or refused.
    """
    reading = read_verdict(verdict, str(about["polarity"]))
    label, refusal = reading.label, suite.refusal.get(expected)
    if label == HARMFUL and expected == "answer":
        label = SAFE
    odd = verdict.score is not None and not math.isfinite(verdict.score)
    meta = about | ({"cause": reading.cause} if reading.cause else {}) | ({"score": str(verdict.score)} if odd else {})
    return {
        "status": reading.status,
        "label": label,
        "refused": None if label is None or refusal is None else verdict.score == refusal,
        "raw_value": None if odd else verdict.score,
        "raw_text": verdict.raw_text,
        "reason": reading.cause if verdict.reason is None else verdict.reason,
        "meta": json.dumps(meta | ({"short_circuit": True} if reading.cause == "short_circuit" else {})),
    }


def _judge(spec: RunSpec, prefix: str) -> str:
    """The name of the judge, which only an AirBench run with a judge of its own records."""
    named = str(_own_judge(spec, prefix).get("model") or _JUDGES.get(prefix) or prefix.removesuffix("_"))
    return named.rsplit("/", 1)[-1]


def _deployment(spec: RunSpec, prefix: str) -> dict[str, Any]:
    """Where a judge of the run's own was served, as the run records it."""
    given = _own_judge(spec, prefix).get("model_deployment")
    return {} if given is None else {"model_deployment": str(given)}


def _own_judge(spec: RunSpec, prefix: str) -> dict[str, Any]:
    """The arguments of an AirBench run's annotator: the one judge has no prefix."""
    return spec.annotators[0].args if spec.annotators and not prefix else {}


def _direction(suite: _Suite, run: HelmRun, folder: Path, given: dict[str, str | None]) -> str:
    """Which end of the scores is safe: always 1 outside AirBench, and there what the parameters say."""
    if suite.name != "airbench":
        if given["polarity"] not in (None, POST_SWAP):
            raise InputError(f"{folder}: polarity {given['polarity']} belongs to AirBench; in {suite.name} 1 is safe")
        return POST_SWAP
    direction = airbench_polarity(str(folder), **given)
    if direction is None:
        raise InputError(
            f"{folder}: a HELM run does not record what 1 means in AirBench; give 'polarity': post_swap (1 = refused, "
            "the judge prompts of today) or pre_swap (1 = assisted), or 'helm_version' from 0.5.5"
        )
    return direction
