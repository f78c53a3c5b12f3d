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
# # 01 Rankings (RQ1): what do the suites say about safety, and do they agree?
#
# A leaderboard ranks models by the mean score: 1 for a safe reply, 0 for a harmful one, and **0.5 for an ambiguous one**.
# If two suites measure one thing, they should order the models alike.

# %% tags=["parameters"]
study: str = "published"  # a name in params/, the path of a params file, or the mapping itself
resamples: int = 2000  # bootstrap draws of models behind the interval of tau

# %%
import numpy as np

from slmsafety.analysis.differences import neighbour_differences, unpaired_differences
from slmsafety.analysis.outcomes import counts, missing
from slmsafety.analysis.rankings import of_models, rank_agreement, rank_within_suites, size_trend
from slmsafety.analysis.rate_intervals import card_limits
from slmsafety.report import figures as draw
from slmsafety.report import rank_findings
from slmsafety.report import score_findings as told
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals(), "resamples")
page = Page("01_rankings", **lab.about(resamples=resamples))
keys = ["suite", "suite_title", "model", "model_name"]

# %% [markdown]
# ## Figure 1: the rankings
#
# The mean score by suite with its interval over groups of prompts (95 %), and the rank beside it; BBQ has accuracy (the exact letter, as HELM counts). Families stand
# together, small to large.

# %%
scored = lab.scores()
ranked = scored.assign(rank=rank_within_suites(scored, "mean"), missing=missing(scored))
if page.has("fig1_rankings"):
    page.figure("fig1_rankings", draw.fig1_rankings(scored, ranked))

# %%
if page.has("rankings"):
    rows = ranked.sort_values(["suite_title", "rank", "model_name"])
    columns = [*keys, *counts(scored), "missing", "mean", "mean_low", "mean_high", "rank"]
    page.table("rankings", rows[columns], {"mean": ".2f", "rank": ".1f"})
    page.say(*told.ranked_first(ranked), *told.other_languages(scored))

# %% [markdown]
# Is a model above the next, or is that the draw of prompts? Both answer the same prompts, so that their difference is taken by
# prompt. `published` has rates alone, of two decimals: its intervals are the widest that groups of prompts, the pairing and rounding
# leave open. Each interval is for one pair.

# %%
if page.has("neighbour_differences"):
    own = None if lab.printed_only else neighbour_differences(lab.labels())
    apart = unpaired_differences(lab.outcomes(), rounding=0.005) if own is None else own
    apart = lab.named(apart).assign(other_name=apart["other"].map(scored.set_index("model")["model_name"].to_dict()))
    limits = ["difference", "difference_low", "difference_high"]
    page.table("neighbour_differences", apart[[*keys, "other", "other_name", "prompts", "groups", *limits]])
    page.say(*rank_findings.neighbours(apart))

# %% [markdown]
# ## Do the suites agree?
#
# Kendall's tau-b between the mean scores of two suites, over the models that both have. The interval resamples models; it
# takes ten of them to have one.

# %%
if page.has("rank_agreement"):
    pairs = rank_agreement(scored, np.random.default_rng(lab.params.seed), resamples).dropna(subset="tau")
    page.figure("rank_agreement", draw.rank_agreement(pairs.replace(lab.titles())))
    page.say(told.rank_agreement(pairs))
    page.numbers({f"tau {a} {b}": f"{t:.2f}" for a, b, t in pairs[["suite_a", "suite_b", "tau"]].to_numpy()})

# %% [markdown]
# ## Does size help within a family?
#
# Systems of one model, which differ in how it is asked, count as one model with the mean of their scores. A step goes to the
# next larger model of a family, and is level where both have the same score, as printed for `published`. `tau` takes all
# models with a known size; its interval draws families, whose members are alike, and takes ten of them.

# %%
if page.has("size_within_family"):
    cards = scored.drop_duplicates("model").set_index("model")["card"]
    sized = of_models(scored, None if lab.printed_only else card_limits(lab.labels(), cards))
    page.figure("size_within_family", draw.size_within_family(sized))

# %%
if page.has("size_trend"):
    trend = lab.named(size_trend(of_models(scored), np.random.default_rng(lab.params.seed), resamples))
    page.table("size_trend", trend, {"mean_change": "+.3f", "tau": ".2f"})
    for sentence in told.size_trend(trend):
        page.say(sentence)

# %% [markdown]
# ## What this shows
#
# If tau is well below 1, a model that leads one suite may trail in another, and no single ranking speaks for all. With few
# models the agreement says little: the interval, or its absence, is the point. Whether the score itself is the problem is
# the subject of the next notebook.

# %%
page.say(*told.scored(lab.name, scored))
page.close()
