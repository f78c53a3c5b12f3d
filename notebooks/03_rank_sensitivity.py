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
judges: list[str] = []  # the two judges to compare, by name; the study's first two where empty

# %%
import pandas as pd

from slmsafety.analysis.bounds import pair_orders
from slmsafety.analysis.judges.agreement import confusion_frame
from slmsafety.analysis.judges.crossed_rubrics import crossed_rubrics
from slmsafety.analysis.judges.mapping_rates import rates_by_mapping
from slmsafety.analysis.rankings import rank_ranges, rank_within_suites
from slmsafety.analysis.rounding import gaps, strict_pair_range
from slmsafety.analysis.treatments import treatment_scores
from slmsafety.report import figures as draw
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals(), "judges")
page = Page("03_rank_sensitivity", **lab.about(judges=judges))

# %% [markdown]
# ## Figure 4: rank trajectories under six treatments
#
# Accuracy (BBQ) has no ambiguous label: its ranks are level, and they are in none of the tables below.

# %%
outcomes = lab.outcomes()
keys = ["suite", "suite_title", "model", "model_name"]
outcomes = outcomes[outcomes["ar"].notna()]
if page.has("fig4_rank_sensitivity"):
    scores = treatment_scores(lab.scores()).dropna(subset="score")
    trajectories = lab.named(scores.assign(rank=rank_within_suites(scores)))
    page.figure("fig4_rank_sensitivity", draw.fig4_rank_sensitivity(trajectories))

# %%
from slmsafety.analysis.breakdown import ranks_over_all_values, turning_points
from slmsafety.report import rank_findings

if page.has("rank_ranges"):
    treated = trajectories[trajectories["suite"].isin(outcomes["suite"])]
    order = {"by": ["suite_title", "range", "model_name"], "ascending": [True, False, True]}
    ranges = lab.named(rank_ranges(treated)).sort_values(**order)
    exact = ranks_over_all_values(outcomes)
    table = ranges.merge(exact, on=["suite", "model"], how="left", suffixes=("", "_any"))
    places = [f"{end}{way}" for way in ("", "_any") for end in ("best", "worst", "range")]
    page.table("rank_ranges", table[[*keys, *places]], dict.fromkeys(places, ".1f"))
    for sentence in rank_findings.rank_ranges(ranges):
        page.say(sentence)

# %% [markdown]
# ## At what value does an order turn?
#
# A model's score is a line from SRR (t = 0) to SRR + AR (t = 1), and two lines cross once at most: `turns_at`. `rank_ranges` above has
# the ranks over the six treatments, and over every t (`best_any`, `worst_any`), which five values of t can miss. `own_distance` is how
# far from one half two models' own values must move apart for their order to turn; above .5 no reading turns it.

# %%
if page.has("t_path", "turning_points"):
    first = exact.assign(first=exact["best"] == exact.groupby("suite")["best"].transform("min"))
    page.figure("t_path", draw.t_path(outcomes.merge(first, on=["suite", "model"])))
    points = lab.named(turning_points(outcomes))
    points["other_name"] = points["other"].map(outcomes.set_index("model")["model_name"].to_dict())
    columns = [*keys, "other", "other_name", "at_harmful", "at_safe", "order", "turns_at", "distance", "own_distance"]
    page.table("turning_points", points[columns], dict.fromkeys(columns[6:8] + columns[9:], ".2f"))
    page.say(*rank_findings.turning(points))

# %% [markdown]
# ## Which orders can be trusted at all?
#
# Let every ambiguous label be worth the same t. A pair of models keeps its order for every t in [0, 1] if it does at both
# ends: `strict`, or `ties_allowed` when they may be level at an end. `disjoint` asks more: each model's ambiguous replies may
# be read its own way, and still the pair cannot turn round.

# %%
if page.has("pair_orders"):
    orders = lab.named(pair_orders(lab.outcomes()))
    orders = orders[orders["pairs"] > 0]
    columns = ["suite", "suite_title", "pairs", "strict", "ties_allowed", "disjoint", "tau_ends", "undefined"]
    page.table("pair_orders", orders[columns], {"tau_ends": ".2f"})
    for sentence in rank_findings.pair_orders(orders):
        page.say(sentence)
    strict = {f"strict pairs {row.suite}": str(row.strict) for row in orders.itertuples()}
    page.numbers(strict)

# %%
if lab.printed_only:
    room = lab.named(strict_pair_range(outcomes))
    page.say(*rank_findings.strict_pair_range(room))
    places = [(row, end) for row in room.itertuples() for end in ("fewest", "most")]
    ends = {f"strict pairs {row.suite} {end}": str(getattr(row, end)) for row, end in places}
    page.numbers(strict | ends)

# %% [markdown]
# These counts are of these prompts. Would the orders hold for others? An order is certified where it does with 95 %, for all pairs of a
# suite at once, over groups of prompts (an intersection-union test of both ends, stepped down, closed transitively): with an
# ambiguous reply at one half (`certified_half`: t may still turn it), whatever t is (`certified_common`), and however each reply is read
# (`certified_own`). `published` has rates alone: its certificates are those that any pairing of replies and any rounding leave.

# %%
import numpy as np

from slmsafety.analysis.certified_orders import certified, certified_from_rates, order_counts

if page.has("certified_orders"):
    rng = np.random.default_rng(lab.params.seed)
    sure = certified_from_rates(outcomes, rounding=0.005) if lab.printed_only else certified(lab.labels(), rng)
    counts = lab.named(order_counts(sure))
    page.table("certified_orders", counts[counts["pairs"] > 0])
    page.say(*rank_findings.certified(counts))

# %% [markdown]
# ## Two judges on the same replies (Tables 5 and 6)
#
# Replies to harmful prompts that both judges labelled; `ar_difference` is AR by the second minus AR by the first. The interval of
# kappa draws groups of prompts; for `published` there are counts alone, so that it treats replies as
# independent, as the test that flips run both ways alike always does. Its rank ranges are the paper's print: the 16 models are
# not named, so that Table 6 cannot give them.

# %%
from slmsafety.report import judge_findings as told

if page.has("table6_confusion"):
    pair = lab.compared.pair(*judges)
    parts = {suite: confusion_frame(counts, pair.first, pair.second) for suite, counts in pair.counts.items()}
    cells = lab.named(pd.concat(parts, names=["suite", None]).reset_index("suite"))
    page.table("table6_confusion", cells, {"percent": ".2f"})

# %%
if page.has("table5_judge_robustness"):
    robust = lab.named(pair.robustness)
    page.table("table5_judge_robustness", robust, {"flip_symmetry_p": ".2g"})
    for sentence in told.two_judges(robust.assign(suite=robust["suite_title"]), pair.first, pair.second):
        page.say(sentence)

# %% [markdown]
# How far are the recomputed numbers from the printed ones?

# %%
if page.has("table5_gaps"):
    shared = ["ar_first", "ar_second", "exact", "kappa", "boundary", "flips"]
    gap = gaps(pair.robustness, lab.compared.printed(), "suite", shared)
    page.table("table5_gaps", lab.named(gap), dict.fromkeys(shared, "+.4f"))
    worst = gap[shared].abs().max().max()
    page.say(f"No recomputed number of Table 5 is further than {worst:.4f} from its print, which rounding explains.")

# %% [markdown]
# ## Its prompts or its rubric?
#
# HarmBench's rubric calls what is neither compliance nor refusal ambiguous; that of Simple Safety Tests asks whether a reply may be
# unsafe, and gibberish may well be safe. So a low ambiguity can be a fact about the prompts, as the paper has it, or about the
# wording. One model that judges both suites under both rubrics tells: the difference between the suites on their own rubrics is
# the part of the prompts (mean over the rubrics) plus the part of the rubric (mean over the suites). Limits draw groups of prompts.

# %%
if page.has("crossed_rubrics"):
    found = {f"{each.served}: {each.first[0]} and {each.second[0]}": each for each in lab.compared.crossings()}
    crossed = {name: crossed_rubrics(each.rows, each.first, each.second) for name, each in found.items()}
    cells = {name: each.cells for name, each in crossed.items()}
    page.table("crossed_rubrics", lab.named(pd.concat(cells, names=["judge", None]).reset_index("judge")))
    parts = {name: each.effects for name, each in crossed.items()}
    page.table("crossed_effects", pd.concat(parts, names=["judge", None]).reset_index("judge"))

# %%
if page.has("crossed_effects"):
    for name, each in crossed.items():
        page.say(told.crossed_rubrics(name, each.effects))

# %% [markdown]
# ## The model, or the mapping?
#
# A judge that measures a probability gives no label: a mapping does. The same probabilities, read by every mapping that the
# study can fit; rates are means over models, `tau` compares each ranking with that of three-class Otsu on each model, the
# paper's. Otsu always cuts: at `eta` of .9 or below nothing shows three groups, and `terciles` make a third ambiguous of anything.

# %%
if page.has("mapping_arms", "mapping_cuts"):
    readings, cuts = lab.mapping_readings()
    arms = lab.named(rates_by_mapping(readings, "otsu_per_model")).dropna(subset="ar")
    rates = ["hcr", "ar", "srr", "ar_lowest", "ar_highest", "tau"]
    page.table("mapping_arms", arms[["judge", "suite", "suite_title", "arm", "models", "n", *rates]])
    named = lab.named(cuts)
    of_cuts = ["judge", *keys, "arm", "n", "missing", "low", "high", "eta"]
    page.table("mapping_cuts", named[[*of_cuts, "status", "fallback"]], dict.fromkeys(["low", "high"], ".4g"))

# %%
if page.has("mapping_arms"):
    page.say(*told.mapping_arms(arms, named))

# %% [markdown]
# ## What this shows
#
# An order that turns round under a defensible reading is not a finding about the models. The pairs that keep theirs are what a
# mean-score leaderboard may still claim, as far as ambiguity goes: whether other prompts would keep them is another question.

# %%
page.close()
