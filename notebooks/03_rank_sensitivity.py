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
# # 03 Rank sensitivity (RQ3): does the ranking survive another reading of "ambiguous"?
#
# The 0.5 for an ambiguous label is a choice. Others are as defensible: 0 (it was harmful), 1 (it was safe), something
# between, or leaving the row out. A ranking that is a fact about models should not depend on it.

# %% tags=["parameters"]
study: str = "published"  # a name in params/, the path of a params file, or the mapping itself

# %%
import pandas as pd

from slmsafety.analysis.agreement import agreement, confusion_frame
from slmsafety.analysis.bounds import pair_orders
from slmsafety.analysis.rankings import rank_ranges, rank_within_suites
from slmsafety.analysis.rounding import gaps
from slmsafety.analysis.treatments import treatment_scores
from slmsafety.report import figures as draw
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals())
page = Page("03_rank_sensitivity", **lab.about())

# %% [markdown]
# ## Figure 4: rank trajectories under six treatments
#
# Accuracy (BBQ) has no ambiguous label: its ranks are level, and they are in none of the tables below.

# %%
outcomes = lab.outcomes()
scores = treatment_scores(lab.scores())
trajectories = lab.named(scores.assign(rank=rank_within_suites(scores)))
page.figure("fig4_rank_sensitivity", draw.fig4_rank_sensitivity(trajectories))

# %%
treated = trajectories[trajectories["suite"].isin(outcomes["suite"])]
ranges = lab.named(rank_ranges(treated)).sort_values(
    ["suite_title", "range", "model_name"], ascending=[True, False, True]
)
columns = ["suite_title", "model_name", "best", "worst", "range"]
page.table("rank_ranges", ranges[columns], dict.fromkeys(["best", "worst", "range"], ".1f"))
for title, group in ranges.groupby("suite_title"):
    most = group.iloc[0]
    page.say(
        f"{title}: a model's rank moves by {group['range'].mean():.1f} places on average, {most.model_name} by {most.range:.1f}."
    )

# %% [markdown]
# ## Which orders can be trusted at all?
#
# Let every ambiguous label be worth the same t. A pair of models keeps its order for every t in [0, 1] if it does at both
# ends: `strict`, or `ties_allowed` when they may be level at an end. `disjoint` asks more: each model's ambiguous replies may
# be read its own way, and still the pair cannot turn round.

# %%
orders = lab.named(pair_orders(outcomes))
columns = ["suite_title", "pairs", "strict", "ties_allowed", "disjoint", "tau_ends", "undefined"]
page.table("pair_orders", orders[columns], {"tau_ends": ".2f"})
for row in orders.itertuples():
    page.say(
        f"{row.suite_title}: {row.strict} of {row.pairs} pairs keep their order whatever common value an ambiguous label",
        f"has, and {row.disjoint} when each model may be read its own way.",
    )

# %%
if lab.printed_only:
    robust = pair_orders(outcomes.assign(ar=1 - outcomes["hcr"] - outcomes["srr"]))
    both = ", ".join(f"{suite} {n}" for suite, n in robust.set_index("suite")["strict"].items())
    page.say(
        "SRR + AR adds two roundings. With 1 - HCR as the upper end the strict pairs are",
        f"{both}; pairs within a hundredth can go either way.",
    )
page.numbers({f"strict pairs {row.suite}": str(row.strict) for row in orders.itertuples()})

# %% [markdown]
# ## Two judges on the same replies (Tables 5 and 6)
#
# Counts and percents come from the confusion counts. For `published` the rank ranges are the paper's print: its 16 models
# are not named, so that Table 6 cannot give them. Intervals and p values treat replies as independent, though prompts and
# models repeat.

# %%
if page.has("table6_confusion"):
    counts = lab.judge_confusions()
    parts = {title: confusion_frame(table, *judges) for title, (table, *judges) in counts.items()}
    page.table("table6_confusion", pd.concat(parts, names=["suite", None]).reset_index("suite"), {"percent": ".2f"})

# %%
if page.has("table5_judge_robustness"):
    rows = [{"suite": title, **agreement(table)._asdict()} for title, (table, *_) in counts.items()]
    robustness = pd.DataFrame(rows).merge(lab.judge_rank_ranges(), on="suite")
    page.table("table5_judge_robustness", robustness, {"flip_symmetry_p": ".2g"})
    for row in robustness.itertuples():
        page.say(
            f"{row.suite}: the judges agree on {row.exact:.1%} of {row.n:,} replies (linear kappa {row.kappa:.3f});",
            f"{row.boundary:.1%} differ at the ambiguous boundary and {row.flips:.1%} are flips, of which",
            f"{row.first_safe_second_harmful} run safe to harmful and {row.first_harmful_second_safe} the other way.",
        )

# %% [markdown]
# How far are the recomputed numbers from the printed ones?

# %%
if page.has("table5_gaps"):
    shared = ["ar_first", "ar_second", "exact", "kappa", "boundary", "flips"]
    gap = gaps(robustness, lab.printed_robustness(), "suite", shared)
    page.table("table5_gaps", gap, dict.fromkeys(shared, "+.4f"))
    worst = gap[shared].abs().max().max()
    page.say(f"No recomputed number of Table 5 is further than {worst:.4f} from its print, which rounding explains.")

# %% [markdown]
# ## What this shows
#
# An order that turns round under a defensible reading is not a finding about the models. The certified pairs are what a
# mean-score leaderboard may still claim.

# %%
page.close()
