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
# # 04b Predicting ambiguity (RQ4): can it be told from the text alone?
#
# A label that can be predicted from how long, how fluent and how hard a text is measures more than safety.

# %% tags=["parameters"]
study: str = "published"  # a name in params/, the path of a params file, or the mapping itself
repeats: int = 5  # random splits that the prediction from fewer metrics is repeated over
threads: int = 1  # threads that a classifier may use; more pay off from some ten thousand replies on
nested: bool = True  # also choose each classifier inside the training rows, which takes several times as long

# %%
from slmsafety.analysis.drivers.metric_rows import reply_rows
from slmsafety.analysis.prediction import checks, classifiers, evaluation, families, features, splits
from slmsafety.report import prediction_findings as told
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals(), "repeats", "threads", "nested")
page = Page("04b_predicting_ambiguity", **lab.about(repeats=repeats, threads=threads, nested=nested))

# %% [markdown]
# ## Tables 1-3: can ambiguity be predicted?
#
# Five classifiers tell ambiguous from decisive replies; shown is the best by balanced accuracy on the test rows, without and with the
# model's metadata. Unseen: a fifth of prompts (Table 1), a suite (2), a fifth of models (3). The paper prints tables and no rows.

# %%
if lab.printed_only:
    printed = {name: lab.printed(name) for name in told.PRINTED}
    for name, table in printed.items():
        page.table(name, told.with_ids(table, lab.titles()))
    page.say(*told.printed(printed))

# %% [markdown]
# Beside the paper's split by prompts, Table 1 has one by groups: all variants of a question are on one side. Beside the best of five
# on the test rows stands the classifier that is chosen inside the training rows; the difference is the optimism of the former.
# Intervals are for these models, over groups of prompts. (The settings of the classifiers: docs, prediction.)

# %%
ready = not lab.printed_only and page.has(*told.PRINTED)
if ready:
    rows = reply_rows(lab.labels(), *lab.metric_tables())
    replies, apart = lab.named(features.labelled_replies(rows, lab.true_features())), ["sst"]
    cards = lab.named(replies[["model"]].drop_duplicates().astype("str")).set_index("model")
    unseen = splits.held_out_models(cards.assign(tuned=lab.true_features()["Tuned"]))
    plan = splits.paper_splits(replies, unseen, apart, lab.params.seed)
    plan["table1_within_suite"] += splits.within_suite(replies, lab.params.seed, unit=splits.GROUPS)
    fitting = classifiers.Fitting(lab.params.seed, threads)

# %%
if ready:
    found = {name: evaluation.prediction_table(replies, parts, fitting, nested) for name, parts in plan.items()}
    found = {name: told.with_titles(table, lab.titles()) for name, table in found.items()}
    shown = {name: table for name, table in found.items() if page.has(name, unless=told.nothing_predicted(table))}
    for name, table in shown.items():
        page.table(name, table)
    page.say(*told.predicted(shown), *told.group_split(found["table1_within_suite"]), *told.choice(shown))
    page.say(*told.held_out(unseen, cards))
    best = evaluation.best_classifiers(found["table1_within_suite"])

# %% [markdown]
# ## Table 3 with every family left out in turn
#
# One split says how well ambiguity is predicted for these unseen models. A claim about other models takes the family as its unit:
# each family is left out once, its models have one value each, and the interval is over families. The classifier is that of
# Table 1; at most 50,000 replies train, whole groups of prompts drawn at random.

# %%
if ready and page.has("table3_families", "table3_over_families"):
    values = families.family_values(replies, splits.unseen_families(replies, apart, fitting.seed), best, fitting)
    reason = told.nothing_predicted(values)
    if page.has("table3_families", "table3_over_families", unless=reason):
        over = told.with_titles(families.summary(values), lab.titles())
        page.table("table3_families", told.with_titles(values, lab.titles()))
        page.table("table3_over_families", over)
        page.say(*told.unseen_families(over))

# %% [markdown]
# What does that rest on? The classifier of Table 1 is given fewer metrics over other random splits by groups, and one kind of columns
# shuffled. Leakage would show in groups of prompts and models on both sides, in random labels that are predicted, or in one feature alone.

# %%
further = ("prediction_baselines", "prediction_importance", "prediction_leakage")
if page.has(*further) and page.has(*further, unless=told.nothing_predicted(found["table1_within_suite"])):
    within = [split for split in plan["table1_within_suite"] if split.unit == splits.GROUPS]
    others = splits.within_suite(replies, fitting.seed + 1, repeats, splits.GROUPS)
    fewer = told.with_titles(checks.baselines(replies, others, best, fitting), lab.titles())
    drops = told.with_titles(checks.importance(replies, within, best, fitting), lab.titles())
    every = splits.distinct(plan["table1_within_suite"] + plan["table3_unseen_slm"])
    leaks = told.with_titles(checks.leakage(replies, every, best, fitting), lab.titles())
    page.table("prediction_baselines", fewer.dropna(subset="balanced_accuracy"))
    page.table("prediction_importance", drops.dropna(subset="drop"))
    page.table("prediction_leakage", leaks.dropna(subset=["shuffled", "alone"], how="all"))
    page.say(*told.fewer_metrics(fewer), *told.shuffled_groups(drops), *told.leaks(leaks))

# %% [markdown]
# ## What this shows
#
# Where ambiguity can be predicted for prompts, suites or models that the classifier has not seen, the label follows the text. How
# well it can be predicted there is a fact about these suites and models, and no cause.

# %%
page.close()
