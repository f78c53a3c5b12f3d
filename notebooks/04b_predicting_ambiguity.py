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

# %%
from slmsafety.analysis.drivers.metric_rows import reply_rows
from slmsafety.analysis.prediction import checks, classifiers, evaluation, features, splits
from slmsafety.report import prediction_findings as told
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals(), "repeats", "threads")
page = Page("04b_predicting_ambiguity", **lab.about(repeats=repeats, threads=threads))

# %% [markdown]
# ## Tables 1-3: can ambiguity be predicted?
#
# Five classifiers tell ambiguous from decisive replies; shown is the best by balanced accuracy on the test rows, without and with the
# model's metadata. Unseen: a fifth of prompts (Table 1), a suite (2), a fifth of models (3). The paper prints tables and no rows.

# %%
for name in ("table1_within_suite", "table2_cross_suite", "table3_unseen_slm") if lab.printed_only else ():
    page.table(name, lab.printed(name))

# %%
if not lab.printed_only and page.has("table1_within_suite", "table2_cross_suite", "table3_unseen_slm"):
    rows = reply_rows(lab.labels(), *lab.metric_tables())
    rows["suite"] = rows["suite"].cat.rename_categories(lab.titles())
    replies, apart = features.labelled_replies(rows, lab.true_features()), [lab.titles()["sst"]]
    cards = lab.named(replies[["model"]].drop_duplicates().astype("str")).set_index("model")
    unseen = splits.held_out_models(cards.assign(tuned=lab.true_features()["Tuned"]))
    plan = splits.paper_splits(replies, unseen, apart, lab.params.seed)
    fitting = classifiers.Fitting(lab.params.seed, threads)
    predicted = {name: evaluation.prediction_table(replies, parts, fitting) for name, parts in plan.items()}
    shown = {name: table for name, table in predicted.items() if page.has(name, unless=told.nothing_predicted(table))}
    for name, table in shown.items():
        page.table(name, table)
    page.say(*told.predicted(shown), *told.held_out(unseen, cards))

# %% [markdown]
# What does that rest on? The best classifier of Table 1 is given fewer metrics over other random splits, and one group of columns
# shuffled. Leakage would show in prompts and models on both sides, in random labels that are predicted, or in one feature alone.

# %%
further = ("prediction_baselines", "prediction_importance", "prediction_leakage")
if page.has(*further) and page.has(*further, unless=told.nothing_predicted(predicted["table1_within_suite"])):
    best = evaluation.best_classifiers(predicted["table1_within_suite"])
    fewer = checks.baselines(replies, splits.within_suite(replies, fitting.seed + 1, repeats), best, fitting)
    page.table("prediction_baselines", fewer.dropna(subset="balanced_accuracy"))
    drops = checks.importance(replies, plan["table1_within_suite"], best, fitting)
    page.table("prediction_importance", drops.dropna(subset="drop"))
    leaks = checks.leakage(lab.named(replies), plan["table1_within_suite"] + plan["table3_unseen_slm"], best, fitting)
    page.table("prediction_leakage", leaks.dropna(subset=["shuffled", "alone"], how="all"))
    page.say(*told.fewer_metrics(fewer), *told.shuffled_groups(drops), *told.leaks(leaks))

# %% [markdown]
# ## What this shows
#
# Where ambiguity can be predicted for prompts, suites or models that the classifier has not seen, the label follows the text. How
# well it can be predicted there is a fact about these suites and models, and no cause.

# %%
page.close()
