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
# # 02 Decision-usefulness (RQ2): how much of the score is a decision?
#
# The mean hides what it is made of. Here each model's labels are taken apart: **HCR** (harmful), **AR** (ambiguous) and
# **SRR** (safe). Two models with the same mean can be one that refuses half the time and one that babbles all the time.

# %% tags=["parameters"]
study: str = "published"  # a name in params/, the path of a params file, or the mapping itself

# %%
import pandas as pd

from slmsafety.analysis import rate_intervals, rounding
from slmsafety.analysis.outcomes import counts, decisiveness, empty_effect, missing, over_refusal, refusals_untold
from slmsafety.analysis.rankings import rank_change
from slmsafety.analysis.treatments import adjusted_score
from slmsafety.report import figures as draw
from slmsafety.report import judge_findings as told
from slmsafety.report import score_findings
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals())
page = Page("02_decision_usefulness", **lab.about())

# %% [markdown]
# ## Figure 2: what the mean is made of
#
# A multiple-choice suite has no labels; its bar is the accuracy.

# %%
outcomes = lab.outcomes()
keys = ["suite", "suite_title", "model", "model_name"]
if page.has("fig2_proportions"):
    page.figure("fig2_proportions", draw.fig2_proportions(lab.scores()))

# %% [markdown]
# ## Figure 3: the scores themselves
#
# Bars and numbers are shares of all labels of a suite, dots those of one model. Where a judge measures a number, it stands beside
# the labels that were made of it, in their colours. LLMs are a reference and no test, since their judges and prompts differ: public
# samples (AirBench: three models, 80 prompts each; HarmBench: two, 385 prompts, by another judge), and the mean scores of 87 models
# on HELM's leaderboard, which shows no shares. For `published`, Simple Safety Tests are the 16 models of Table 6.

# %%
if page.has("fig3_distributions"):
    spread = lab.distributions()
    page.figure("fig3_distributions", draw.fig3_distributions(*spread))
    middle = spread.shares[spread.shares["model"].isna() & spread.shares["score"].eq(0.5)]
    for title, rows in middle.groupby("suite_title"):
        each = "; ".join(f"{row.group} {row.share:.0%} of {row.n:,}" for row in rows.itertuples())
        page.say(f"{title}, ambiguous labels: {each}.")

# %% [markdown]
# ## Table A1: outcomes of every model
#
# `s_adj` is the mean times the decisive share, and `rank_change` how many places a model moves by it (positive is up).
# `missing` counts the rows without a label, and is blank where the source gives no count; `n_other_language`, which stands there
# where it is not 0 everywhere, those in another language than their prompt.

# %%
if page.has("table_a1_outcomes"):
    table = outcomes.assign(s_adj=adjusted_score(outcomes), missing=missing(outcomes))
    table["rank_change"] = rank_change(table, "mean", "s_adj")
    rates = [f"{rate}{end}" for rate in ("mean", "hcr", "ar", "srr", "s_adj") for end in ("", "_low", "_high")]
    columns = [*keys, *counts(outcomes), "missing", *rates, "rank_change"]
    page.table("table_a1_outcomes", table[columns], dict.fromkeys(rates, ".2f") | {"rank_change": "+.1f"})
    page.say(*score_findings.other_languages(outcomes))

# %% [markdown]
# Intervals are over groups of prompts (95 %; those of `published`, which has no replies, take them as independent). Above, a missing
# label is left out, as if missing by chance. Here it may also be anything (`missing_labels`: worst). `score`: the mean, however each
# ambiguous reply is read. Two models answer the same prompts: overlapping intervals do not say that they are level.

# %%
if page.has("rate_intervals"):
    ways = {way: lab.named(rate_intervals.rate_intervals(lab.labels(), way)) for way in ("ignorable", "worst")}
    sure = pd.concat([frame.assign(missing_labels=way) for way, frame in ways.items()])
    sure = sure.sort_values(["suite_title", "model_name", "missing_labels"])
    shown = sure[[*keys, "missing_labels", "n", "prompts", "groups", *rates, "score_low", "score_high"]]
    page.table("rate_intervals", shown, dict.fromkeys(rates, ".3f"))
    page.say(*score_findings.rate_intervals(ways["ignorable"]))

# %% [markdown]
# Are the printed rates consistent? Every printed number stands for an interval of half a hundredth each way, and an
# identity holds if the intervals can meet.

# %%
if page.has("rounding_checks"):
    printed = lab.printed_outcomes()
    checks = printed[[*keys, "s_adj"]].join(rounding.identities(printed))
    checks["s_adj_gap"] = adjusted_score(printed) - printed["s_adj"]
    page.table("rounding_checks", checks, {"s_adj": ".2f", "s_adj_gap": "+.4f"})
    holds = checks[["mean_can_hold", "shares_can_hold", "s_adj_can_hold"]].all(axis=1).sum()
    off = checks["s_adj_gap"].abs()
    page.say(
        f"mean = SRR + AR/2, HCR + AR + SRR = 1 and S_adj = mean (1 - AR) can all hold for {holds} of {len(checks)} rows.",
        f"Recomputed from printed numbers, S_adj is more than half a hundredth from its print in {(off > 0.005 + 1e-9).sum()}",
        f"rows, by at most {off.max():.3f}: the table above names them.",
    )

# %% [markdown]
# ## How decisive is each suite?
#
# `decisive` is the mean over models of 1 - AR, with its interval over groups of prompts; `missing` is the share of rows without any
# label.

# %%
if page.has("decisiveness"):
    limits = (
        rate_intervals.decisive_limits(outcomes)
        if lab.printed_only
        else rate_intervals.decisive_intervals(lab.labels())
    )
    useful = lab.named(decisiveness(outcomes)).merge(limits, on="suite", how="left")
    shares = ["decisive", "decisive_low", "decisive_high", "lowest", "highest", "missing"]
    columns = ["suite", "suite_title", "models", *shares[:5], "mostly_ambiguous", "missing"]
    page.table("decisiveness", useful[columns], dict.fromkeys(shares, ".2f"))
    useful = useful.dropna(subset="decisive")
    for sentence in score_findings.decisive(useful):
        page.say(sentence)
    page.numbers({f"decisive {row.suite}": f"{row.decisive:.2f}" for row in useful.itertuples()})

# %% [markdown]
# ## Empty replies
#
# An empty reply can be left out, or called harmful, safe or ambiguous unread; HELM has done two of these with AirBench's
# and asks its judges about all others. AR without empty replies, with them as decisive labels, and with them as ambiguous.

# %%
if page.has("empty_replies"):
    readings = ["ar_without", "ar_as_decisive", "ar_as_ambiguous"]
    blank = lab.named(empty_effect(lab.labels())).dropna(subset=readings, how="all")
    limits = [f"{rate}{end}" for rate in readings for end in ("", "_low", "_high")]
    page.table("empty_replies", blank[[*keys, "n", "empty", *limits]], dict.fromkeys(limits, ".3f"))
    page.say(*score_findings.empty_replies(blank, lab.params.empty))

# %% [markdown]
# ## The other side: refusing what is harmless
#
# A model that refuses everything is safe and useless. Benign controls stay out of all rates above.

# %%
if page.has("over_refusal"):
    benign, untold = lab.named(over_refusal(lab.labels())), refusals_untold(lab.labels())
    columns = [*keys, *counts(benign), "refused", "rate", "rate_low", "rate_high", "missing"]
    page.table("over_refusal", benign[columns], dict.fromkeys(["rate", "rate_low", "rate_high"], ".2f"))
    page.say(score_findings.over_refusal(benign))
    if untold:
        names = ", ".join(lab.titles().get(suite, suite) for suite in untold)
        page.say(f"Left out, as the judge does not tell refusals of benign prompts there: {names}.")

# %% [markdown]
# ## Multiple choice: is the letter a choice?
#
# BBQ counts right letters. HELM reads *exact*: the stripped reply must be the letter, so that `B.` is wrong. *Tolerant* also
# takes the usual dress of a letter. `unmapped` replies name none and count as wrong in `accuracy`; `accuracy_answered` leaves
# them out. Three options make a third right by chance. `n` is without empty replies, as in HELM.

# %%
if page.has("bbq_accuracy"):
    choices = lab.accuracies().dropna(subset="accuracy")
    rates = ["accuracy", "accuracy_low", "accuracy_high", "accuracy_answered", "unmapped"]
    columns = [*keys, "reading", "n", "empty"]
    page.table("bbq_accuracy", choices[[*columns, *rates]], dict.fromkeys(rates, ".2f"))
    for sentence in told.letters(choices):
        page.say(sentence)

# %% [markdown]
# Bias runs from -1 (against the stereotype) to 1 (with it), apart for contexts that leave the answer open (ambiguous) and that
# give it away. HELM keeps a reply without a letter in n, where it counts as against the stereotype: a model that only babbles
# scores -1. The formula of BBQ's authors (Parrish) counts only replies that name a group, so its n is smaller.

# %%
if page.has("bbq_bias"):
    bias = lab.biases()
    bias = bias[(bias["n_ambiguous"] > 0) | (bias["n_disambiguated"] > 0)]
    columns, rates = [*keys, "reading", "formula"], ["ambiguous", "n_ambiguous", "disambiguated", "n_disambiguated"]
    page.table("bbq_bias", bias[[*columns, *rates]], dict.fromkeys(rates[::2], "+.2f"))
    page.say(*told.bias_formulas(bias))

# %% [markdown]
# ## What this shows
#
# Where the grey part is large, the mean is mostly a convention: it says how a reply that no one could place is counted.

# %%
page.close()
