"""Guard models as judges of a study: their weights loaded here, asked and read by their adapter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.judging.guards.generative import GenerativeJudge
from slmsafety.judging.guards.generative import definition as generative_definition
from slmsafety.judging.guards.prompt_format import read_template
from slmsafety.judging.guards.two_token import TwoToken, TwoTokenJudge, VerdictToken, md_judge_v01
from slmsafety.judging.guards.two_token import definition as two_token_definition
from slmsafety.models.load import load_causal_lm
from slmsafety.models.source import Source
from slmsafety.params.judge import TWO_TOKEN, JudgeParams
from slmsafety.paths import data_path


def definition(judge: JudgeParams, root: Path) -> dict[str, Any]:
    """Return what defines a guard model's work, without loading it; InputError when its files are not there."""
    weights, template = _source(judge, root).definition(), _template(judge, root)
    if judge.adapter in TWO_TOKEN:
        return two_token_definition(_two_token(judge, str(template)), weights, judge.dtype)
    return generative_definition(str(judge.adapter), template, weights, judge.dtype)


def load(judge: JudgeParams, root: Path) -> tuple[Callable[[pd.DataFrame], pd.DataFrame], str]:
    """Return what measures replies (a frame with prompt and response) by a guard model, and its weights' revision.

    Raises InputError when the weights cannot be loaded or the adapter's tokens are not the tokenizer's.
    """
    loaded, template = load_causal_lm(_source(judge, root), dtype=judge.dtype), _template(judge, root)
    if judge.adapter in TWO_TOKEN:
        return TwoTokenJudge(loaded, _two_token(judge, str(template)), judge.batch_size).measure, loaded.revision
    return GenerativeJudge(loaded, str(judge.adapter), template, judge.batch_size).measure, loaded.revision


def unpinned(judge: JudgeParams, root: Path) -> bool:
    """Return whether the weights come from the hub without a revision, so that they may change."""
    source = _source(judge, root)
    return source.hub is not None and source.revision is None


def _two_token(judge: JudgeParams, template: str) -> TwoToken:
    """The verdicts that an entry names. Models that were not trained for the form may write anything: not strict."""
    if judge.adapter == "md_judge_v01":
        return md_judge_v01(template)
    safe, unsafe = VerdictToken(str(judge.safe_token)), VerdictToken(str(judge.unsafe_token))
    return TwoToken(template, safe, unsafe, strict=False)


def _template(judge: JudgeParams, root: Path) -> str | None:
    return None if judge.template is None else read_template(data_path(judge.template, root))


def _source(judge: JudgeParams, root: Path) -> Source:
    if judge.model is None:
        raise ValueError(f"judge {judge.name} has no model")
    return judge.model.source(root)
