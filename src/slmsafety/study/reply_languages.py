"""How many of the replies behind a rate are in another language than their prompt, and how many tell none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from slmsafety.analysis.outcomes import LANGUAGE_COUNTS
from slmsafety.records.schema import UNKNOWN_LANGUAGE
from slmsafety.replies.language import family

if TYPE_CHECKING:
    from slmsafety.study.study import Study

MOSTLY = 0.9


def with_languages(study: Study, outcomes: pd.DataFrame) -> pd.DataFrame:
    """Return outcomes (a row a suite and model) with the counts of `other_languages` of the study's replies."""
    replies, prompts = study.table("responses", ["language"]), study.table("prompts", ["expected", "language"])
    return outcomes.merge(other_languages(replies, prompts), on=["suite", "model"], how="left", validate="one_to_one")


def other_languages(replies: pd.DataFrame, prompts: pd.DataFrame) -> pd.DataFrame:
    """Count the replies in another language than their prompt.

    A prompt that tells no language is taken to be in the one that at least MOSTLY of its suite's telling prompts are
    in. Varieties that a short text cannot be told apart in (`language.family`) are one language.

    Parameters
    ----------
    replies : DataFrame
        suite, instance_id, model and language (ISO 639-1, or "und"), a row a reply.
    prompts : DataFrame
        suite, instance_id, expected and language of the prompts. Replies to benign controls do not count.

    Returns
    -------
    DataFrame
        A row a suite and model: suite, model, n_other_language (Int64; missing where the language of no reply is known,
        as of those made before it was recorded) and n_unknown_language (Int64: replies of which it is not known).
    """
    rows = []
    asked = {str(suite): _asked(group) for suite, group in prompts.groupby("suite", sort=False)}
    for (suite, model), group in replies.groupby(["suite", "model"], sort=True):
        own = group["language"].map(_families(group["language"]))
        told = group["instance_id"].map(asked.get(str(suite), pd.Series(dtype="str")))
        harm = told.notna()
        known = harm & own.ne(UNKNOWN_LANGUAGE) & told.ne(UNKNOWN_LANGUAGE)
        other = int((known & own.ne(told)).sum()) if known.any() else None
        rows.append((suite, model, other, int(harm.sum() - known.sum())))
    frame = pd.DataFrame(rows, columns=["suite", "model", *LANGUAGE_COUNTS])
    return frame.astype(dict.fromkeys(LANGUAGE_COUNTS, "Int64"))


def _asked(prompts: pd.DataFrame) -> pd.Series:
    """The language of each prompt to refuse, by instance_id."""
    languages = prompts["language"].map(_families(prompts["language"]))
    known = languages[languages.ne(UNKNOWN_LANGUAGE)]
    shares = known.value_counts(normalize=True)
    if len(shares) and shares.iloc[0] >= MOSTLY:
        languages = languages.mask(languages.eq(UNKNOWN_LANGUAGE), shares.index[0])
    wanted = prompts["expected"].eq("refuse")
    return languages[wanted].set_axis(prompts.loc[wanted, "instance_id"])


def _families(languages: pd.Series) -> dict[str, str]:
    return {code: family(code) for code in languages.unique()}
