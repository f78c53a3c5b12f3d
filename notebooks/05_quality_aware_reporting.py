# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 05 Quality-aware reporting (RQ5): what may be said, and how?
#
# Three things stand in for a bare mean: the **interval** that the ambiguous rows leave open, the **set of ranks** that goes
# with it, and the paper's **ambiguity-adjusted score**, which discounts the mean by the decisive share.

# %% tags=["parameters"]
study: str = "published"  # a name in params/, the path of a params file, or the mapping itself

# %%
import numpy as np

from slmsafety.analysis.bounds import bounds
from slmsafety.analysis.certified_orders import certified, certified_from_rates, certified_ranks
from slmsafety.analysis.rankings import rank_change, ranks
from slmsafety.analysis.rounding import rank_change_check
from slmsafety.analysis.treatments import adjusted_score
from slmsafety.report import figures as draw
from slmsafety.report import rank_findings as told
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals())
page = Page("05_quality_aware_reporting", **lab.about())
keys = ["suite", "suite_title", "model", "model_name"]

# %% [markdown]
# ## Worst-case intervals
#
# From SRR (every ambiguous reply was harmful) to SRR + AR (every one was safe), with the mean as a dot. It covers what
# ambiguous labels hide and nothing else. The thin line adds sampling: it holds the score with 95 %, over groups of prompts, however
# each ambiguous reply is read. Rows without a label are left out (notebook 02 has their worst case).

# %%
outcomes = lab.outcomes()
known = outcomes[outcomes["ar"].notna()]
if page.has("bounds"):
    page.figure("bounds", draw.bounds(outcomes))

# %% [markdown]
# ## Rank sets
#
# `best_rank` counts the models that are above under every reading, `worst_rank` those that are above under some: of these prompts, so
# that both leave sampling out. `score_low` and `score_high` do not.

# %%
if page.has("rank_sets"):
    sets = lab.named(bounds(known)).merge(known[["suite", "model", "score_low", "score_high"]], on=["suite", "model"])
    sets = sets.sort_values(["suite_title", "best_rank", "worst_rank", "model_name"])
    ends = ["lower", "upper", "score_low", "score_high"]
    columns = [*keys, *ends, "best_rank", "worst_rank"]
    formats = dict.fromkeys(ends, ".2f") | dict.fromkeys(["best_rank", "worst_rank"], ".0f")
    page.table("rank_sets", sets[columns], formats)
    for sentence in told.rank_sets(sets):
        page.say(sentence)

# %% [markdown]
# With sampling: the ranks that the certified orders leave (notebook 03), for all models of a suite at once with 95 %, where an ambiguous
# reply is worth one half (`half`), whatever common value it has (`common`), and however each reply is read (`own`).

# %%
if page.has("certified_ranks"):
    rng = np.random.default_rng(lab.params.seed)
    sure = certified_from_rates(known, rounding=0.005) if lab.printed_only else certified(lab.labels(), rng)
    open_ = lab.named(certified_ranks(sure)).sort_values(["suite_title", "best_common", "worst_common", "model_name"])
    places = [f"{end}_{reading}" for reading in ("half", "common", "own") for end in ("best", "worst")]
    page.table("certified_ranks", open_[[*keys, *places]])
    page.say(*told.certified_ranks(open_))

# %% [markdown]
# ## The ambiguity-adjusted score
#
# S_adj = mean (1 - AR). It is a diagnostic and no utility: it says how much of the mean is left when only decisive labels count.

# %%
if page.has("quality_adjusted"):
    scores = known.assign(s_adj=adjusted_score(known))
    places = scores.groupby("suite")[["mean", "s_adj"]].transform(ranks)
    scores = scores.assign(rank_mean=places["mean"], rank_adjusted=places["s_adj"])
    scores["rank_change"] = rank_change(scores, "mean", "s_adj")
    rates = [f"{rate}{end}" for rate in ("mean", "ar", "s_adj") for end in ("", "_low", "_high")]
    placed = ["rank_mean", "rank_adjusted"]
    formats = dict.fromkeys(rates, ".2f") | dict.fromkeys(placed, ".1f") | {"rank_change": "+.1f"}
    rows = scores.sort_values(["suite_title", "rank_adjusted", "model_name"])
    page.table("quality_adjusted", rows[[*keys, *rates, *placed, "rank_change"]], formats)
    for sentence in told.far_moves(scores):
        page.say(sentence)

# %% [markdown]
# ## Can the printed rank changes be right?
#
# Ranks of rounded scores are themselves uncertain: models with the same print can stand in any order.

# %%
if page.has("rank_change_check"):
    check = rank_change_check(lab.printed_outcomes())
    changes = ["rank_change_printed", "rank_change"]
    page.table("rank_change_check", check[[*keys, *changes, "lowest", "highest", "allowed"]], {"rank_change": "+.1f"})
    off = (check["rank_change"] - check["rank_change_printed"]).abs()
    page.say(
        f"From rounded scores {(off > 0).sum()} of {len(check)} printed rank changes come out otherwise, by up to {off.max():.1f} places."
    )
    sums = check.groupby("suite_title", sort=False)["rank_change_printed"].sum()
    page.say(
        f"{check['allowed'].sum()} of {len(check)} printed rank changes lie within what rounding allows.",
        f"The printed changes sum to {', '.join(f'{suite} {total}' for suite, total in sums.items())}: a ranking without",
        "ties has sum 0, so a suite with another sum has a tie or a misprint.",
    )

# %% [markdown]
# ## What to report
#
# 1. HCR, AR and SRR with n and what is missing, never the mean alone.
# 2. The interval and the rank set; a claim that A is safer than B only where no reading of the ambiguous labels turns it
#    round, and where the sample is large enough for the gap.
# 3. The over-refusal rate on benign controls beside the refusal rate.
# 4. Which judge, with which agreement with people, and how empty replies were read.

# %%
page.close()
