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
from slmsafety.analysis import rate_intervals, rounding, units
from slmsafety.analysis.judges.agreement import agreement_over_groups, confusion, confusion_frame
from slmsafety.analysis.judges.coverage import coverage_curves
from slmsafety.analysis.judges.judge_card import judge_cards
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
    rates = ["mean", "hcr", "ar", "srr", "s_adj"]
    columns = [*keys, *counts(outcomes), "missing", *rates, "rank_change"]
    page.table("table_a1_outcomes", table[columns], dict.fromkeys(rates, ".2f") | {"rank_change": "+.1f"})
    page.say(*score_findings.other_languages(outcomes))

# %% [markdown]
# How far would they move with other prompts? Intervals are over groups of prompts (95 %), and take a missing label as one that is
# missing by chance. Two models answer the same prompts, so that overlapping intervals do not say that two models are level.

# %%
if page.has("rate_intervals"):
    sure = lab.named(rate_intervals.rate_intervals(lab.labels()))
    limits = [f"{rate}{end}" for rate in ("hcr", "ar", "srr", "mean") for end in ("", "_low", "_high")]
    shown = sure[[*keys, "n", "prompts", "groups", *limits]]
    page.table("rate_intervals", shown, dict.fromkeys(limits, ".3f"))
    page.say(*score_findings.rate_intervals(sure))

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
# `decisive` is the mean over models of 1 - AR; `missing` is the share of rows without any label.

# %%
if page.has("decisiveness"):
    useful = lab.named(decisiveness(outcomes))
    columns = ["suite", "suite_title", "models", "decisive", "lowest", "highest", "mostly_ambiguous", "missing"]
    page.table("decisiveness", useful[columns], dict.fromkeys(["decisive", "lowest", "highest", "missing"], ".2f"))
    useful = useful.dropna(subset="decisive")
    for sentence in score_findings.decisive(useful):
        page.say(sentence)
    page.numbers({f"decisive {row.suite}": f"{row.decisive:.2f}" for row in useful.itertuples()})

# %% [markdown]
# ## Is the judge itself any good?
#
# Rows are hand labels of the same replies to harmful prompts, columns the judge's. The interval of kappa draws whole groups
# of prompts; below ten groups there is none.

# %%
if page.has("baseline_confusion"):
    both = lab.labels().merge(lab.human_labels(), on=["suite", "instance_id", "model", "sample"])
    both = both[both["expected"] == "refuse"]
    usable = both[both["matches"] & both["status"].eq("ok") & both["label"].notna()]
    crossed = confusion(usable["human"], usable["label"])
    result = agreement_over_groups(usable["human"], usable["label"], units.groups(usable))
    page.table("baseline_confusion", confusion_frame(crossed, "hand label", "judge"), {"percent": ".1f"})

# %%
if page.has("baseline_confusion"):
    page.say(*told.against_hand_labels(lab.judges()[0], result._asdict(), len(both) - len(usable)))
    flattered = (
        "refusal_rules was tuned and offline was fitted on the demo's hand labels: against those both are flattered."
    )
    page.say(flattered if {"refusal_rules", "offline"} & set(lab.judges()) else "")

# %% [markdown]
# A row a judge, and one for a judge that always says safe. Where there are no hand labels, the first judge is the reference:
# agreement with it says how alike two judges are, and not who is right. Intervals draw groups of prompts; directions are counts.

# %%
if page.has("judge_card"):
    known = lab.compared.reference()
    cards = lab.named(judge_cards(known.rows))
    found = ["suite", "suite_title", "judge", "n", "coverage", "exact", "kappa", "kappa_low", "kappa_high"]
    wrong = ["ar_reference", "ar_judge", "boundary", "flips", "safe_as_harmful", "harmful_as_safe"]
    page.table("judge_card", cards[[*found, *wrong]])
    for sentence in told.judge_cards(cards[cards["judge"] != "always safe"], known.name):
        page.say(sentence)

# %% [markdown]
# A judge with probabilities can abstain where it is unsure (`threshold`). Read from left to right: the fewer replies it labels, the
# more of its labels should equal the reference's; where the line stays level, its probabilities tell nothing. Kappa falls to 0 where
# hardly any label but one is left.

# %%
if page.has("judge_coverage"):
    curves = lab.named(coverage_curves(known.rows))
    if page.has("judge_coverage", unless="no judge with a reference gives probabilities" if curves.empty else ""):
        page.figure("judge_coverage", draw.judge_coverage(curves))
        page.say(*told.judge_coverage(curves))

# %% [markdown]
# ## Empty replies
#
# An empty reply can be left out, or called harmful, safe or ambiguous unread; HELM has done two of these with AirBench's
# and asks its judges about all others. AR without empty replies, with them as decisive labels, and with them as ambiguous.

# %%
if page.has("empty_replies"):
    rates = ["ar_without", "ar_as_decisive", "ar_as_ambiguous"]
    blank = lab.named(empty_effect(lab.labels())).dropna(subset=rates, how="all")
    page.table("empty_replies", blank[[*keys, "n", "empty", *rates]], dict.fromkeys(rates, ".3f"))
    page.say(*score_findings.empty_replies(blank, lab.params.empty))

# %% [markdown]
# ## The other side: refusing what is harmless
#
# A model that refuses everything is safe and useless. Benign controls stay out of all rates above.

# %%
if page.has("over_refusal"):
    benign, untold = lab.named(over_refusal(lab.labels())), refusals_untold(lab.labels())
    columns = [*keys, *counts(benign), "refused", "rate", "low", "high", "missing"]
    page.table("over_refusal", benign[columns], dict.fromkeys(["rate", "low", "high"], ".2f"))
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
    columns, rates = [*keys, "reading", "n", "empty"], ["accuracy", "accuracy_answered", "unmapped"]
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
