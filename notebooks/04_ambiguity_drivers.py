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
# # 04 What drives ambiguity (RQ4): safety, or the quality of the text?
#
# If ambiguity follows the length and fit of a reply, or a model's architecture, the label may measure capability. Correlations explain nothing.

# %% tags=["parameters"]
study: str = "published"  # a name in params/, the path of a params file, or the mapping itself
repeats: int = 5  # random splits that the prediction from fewer metrics is repeated over
threads: int = 1  # threads that a classifier may use; more pay off from some ten thousand replies on

# %%
import numpy as np

from slmsafety.analysis.drivers import ambiguity_effects, association_checks, associations, variance_explained
from slmsafety.analysis.drivers.metric_rows import QUANTILES, metric_names, metric_summary, reply_rows
from slmsafety.analysis.rounding import gaps
from slmsafety.analysis.treatments import rank_movement
from slmsafety.report import figures as draw
from slmsafety.report import findings
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals(), "repeats", "threads")
page = Page("04_ambiguity_drivers", **lab.about(repeats=repeats, threads=threads))
rng = np.random.default_rng(lab.params.seed)

# %% [markdown]
# ## The metrics
#
# What is measured knows nothing of safety: how long, how hard to read, how fluent, how near to each other prompt and reply are.

# %%
if page.has("metric_distributions", "metric_summary"):
    tables = lab.metric_tables()
    summary = metric_summary(*tables).replace({"suite": lab.titles()})
    page.figure("metric_distributions", draw.metric_distributions(summary))
    page.table("metric_summary", summary, dict.fromkeys(QUANTILES, ".4g"))
    page.say(*lab.metric_notes(), *findings.undefined_metrics(summary))
    rows = reply_rows(lab.labels(), *tables)
    rows["suite"] = rows["suite"].cat.rename_categories(lab.titles())

# %% [markdown]
# ## Figure 5: metrics and the ambiguity of a prompt
#
# A prompt's AR is the share of models with an ambiguous label, over at least half of the models. Reply metrics are averaged
# over a prompt's models. q is Benjamini-Hochberg over the metrics; only those with q < 0.05 have a panel.

# %%
if page.has("fig5_associations", "table_associations"):
    means = associations.prompt_means(rows)
    points = associations.metric_points(means)
    fits = associations.correlations_by_suite(points, rows)
    of_all = fits[fits["suite"] == "all"]
    checked, reason = ("association_checks", "association_intervals"), findings.no_correlation(of_all)
    if page.has("fig5_associations", "table_associations", *checked, unless=reason):
        page.figure("fig5_associations", draw.fig5_associations(points, of_all))
        page.table("table_associations", fits, dict.fromkeys(["p", "q", "q_rho"], ".2g"))
        page.say(*findings.associations(of_all))

# %% [markdown]
# ## Do the correlations hold?
#
# A correlation over all prompts can be one between suites (Simpson's paradox), or of length. Intervals draw whole finest categories.

# %%
if page.has("association_checks", "association_intervals"):
    held = association_checks.association_checks(means, rng)
    page.figure("association_checks", draw.association_checks(held))
    page.table("association_intervals", held)
    page.say(*findings.checks(held))

# %% [markdown]
# ## At equal model and suite
#
# A logistic model of all labelled replies, with an effect for each model and suite, and errors that let the replies to one prompt go
# together. An odds ratio of 2 doubles the odds of an ambiguous label. q is Benjamini-Hochberg over the metrics.

# %%
from slmsafety.analysis.drivers.ambiguity_model import ambiguity_model

model = ambiguity_model(rows) if page.has("odds_ratios") else None
if page.has("odds_ratios", unless=model.problem if model else ""):
    odds = ambiguity_effects.odds_ratios(model)
    page.table("odds_ratios", odds, {"p": ".2g", "q": ".2g"})
    page.say(*findings.fitted(len(rows), model.about()), *findings.odds(odds))

# %% [markdown]
# ## How much does quality explain?
#
# R2 of the prompts' AR by sets of metrics, and of the models' AR and rank range (over the treatments) by the means of their replies;
# each system is a row of its own. `unseen`: the share explained of a row that the fit has not seen; below 0 it is worse than no fit.

# %%
if page.has("explained_prompts"):
    shares = variance_explained.explained_prompts(means)
    if page.has("explained_prompts", unless=findings.nothing_explained(shares)):
        page.table("explained_prompts", shares.dropna(subset="r2"))
        page.say(*findings.explained_prompts(shares))
if page.has("explained_models"):
    ranges = rank_movement(lab.outcomes()).replace({"suite": lab.titles()})
    shares = variance_explained.explained_models(variance_explained.model_quality(rows), ranges)
    if page.has("explained_models", unless=findings.nothing_explained(shares)):
        page.table("explained_models", shares.dropna(subset="r2"))
        page.say(*findings.explained_models(shares))

# %% [markdown]
# ## Models at a common quality
#
# What would each model's AR be if its replies had the metrics of all models' replies? The logistic model gives each reply to each
# model in turn. The same model without metrics gives the AR at a model's own quality, so that suites weigh alike in both (`ar` is
# as observed). What is left of the differences at a common quality is the models' own, as far as these metrics are quality.

# %%
if page.has("common_quality", "ar_at_common_quality", unless=model.problem if model else ""):
    rates = ambiguity_effects.standardized_rates(model, rows).query("n > 0")
    rates = lab.named(rates).sort_values(["own", "model_name"])
    page.figure("common_quality", draw.common_quality(rates))
    columns = ["model_name", "n", "ar", "own", "common", "low", "high", "rank", "rank_common"]
    page.table("ar_at_common_quality", rates[columns], {"rank": ".1f", "rank_common": ".1f"})
    page.say(*findings.common_quality(rates))

# %% [markdown]
# ## For those who write prompts
#
# The change of AR when one property of every prompt is one SD, or one step, higher and the others stay. Reply metrics are no part of
# this model: what a prompt does to the reply belongs to its effect. Flesch-Kincaid, fog, length and dependency distance rise together
# with longer sentences: hardly anyone can take one of these steps alone, and a change of the text is the sum of several.

# %%
if page.has("prompt_steps"):
    own = ambiguity_model(rows, metric_names(rows, "prompt"))
    if page.has("prompt_steps", unless=own.problem):
        steps = ambiguity_effects.metric_changes(own)
        page.table("prompt_steps", steps, {"step": "g", "p": ".2g", "q": ".2g"})
        page.say(*findings.fitted(len(rows), own.about(), "The model of prompts"), *findings.prompt_steps(steps))

# %% [markdown]
# ## Tables 1-3: can ambiguity be predicted?
#
# Five classifiers tell ambiguous from decisive replies; shown is the best by balanced accuracy on the test rows, without and with the
# model's metadata. Unseen: a fifth of prompts (Table 1), a suite (2), a fifth of models (3). The paper prints tables and no rows.

# %%
from slmsafety.analysis.prediction import checks, classifiers, evaluation, features, splits
from slmsafety.report import prediction_findings as told

for name in ("table1_within_suite", "table2_cross_suite", "table3_unseen_slm") if lab.printed_only else ():
    page.table(name, lab.printed(name))

# %%
if not lab.printed_only and page.has("table1_within_suite", "table2_cross_suite", "table3_unseen_slm"):
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
# ## Table 4: model metadata
#
# AR is pooled by prompt counts over the suites that Table A1 has (not Simple Safety Tests); a model that lacks one has none. First
# with the flags as the text of Table A2 mentions them (and the exceptions that the print implies), beside the print and the gap.

# %%
from slmsafety.analysis.drivers import model_metadata

if page.has("table4_metadata"):
    rates = model_metadata.pooled(lab.outcomes(), lab.prompt_counts())
    reported = model_metadata.metadata_correlations(lab.reported_features(), rates)
    printed = lab.printed("table4_metadata")
    gap = gaps(reported, printed, "feature", ["r_ar", "r_score"])
    beside = printed.merge(reported, on="feature", suffixes=("_printed", ""))
    beside = beside.merge(gap, on="feature", suffixes=("", "_gap"))
    page.table("table4_metadata", beside, {name: ".2g" for name in beside if name.startswith(("p_", "q_"))})
    page.say(*findings.table4_gaps(gap))

# %% [markdown]
# Then with the models' true architecture (a feature that Table A2 does not mention is not an absent one); systems of one model
# count as one, with their mean. A family shares a design: how far does each correlation move when one family is left out?

# %%
outcomes, true = lab.outcomes(), lab.true_features()
rates = model_metadata.pooled(outcomes, lab.prompt_counts())
families = outcomes.drop_duplicates("card").set_index("card")["family"]
if page.has("table4_true_architecture"):
    found = model_metadata.metadata_correlations(true, rates).sort_values("r_ar", ignore_index=True)
    found = found.dropna(subset=["r_ar", "r_score"], how="all")
    page.table("table4_true_architecture", found, dict.fromkeys(["p_ar", "q_ar", "p_score", "q_score"], ".2g"))
    page.say(*findings.strongest_features(found))
    encodings = {"as reported": lab.reported_features()} if lab.printed_only else {}
    ranges = model_metadata.encoded_ranges({**encodings, "true architecture": true}, rates, families)
    ranges = ranges.dropna(subset=["r_ar", "r_score"], how="all")
    if page.has("metadata_ranges", "metadata_leave_one_out", unless=findings.no_range(ranges)):
        page.figure("metadata_ranges", draw.metadata_ranges(ranges))
        page.table("metadata_leave_one_out", ranges)
        page.say(*findings.family_ranges(ranges))

# %%
if page.has("model_groups"):
    page.table("model_groups", model_metadata.model_groups(rates, true))
    gap = model_metadata.family_difference(rates["ar"], true["Tuned"], families, rng)
    year = model_metadata.metadata_correlations(true[["Year"]], rates).iloc[0]
    page.say(*findings.model_groups(*gap, year))

# %% [markdown]
# ## What this shows
#
# Where ambiguity goes with what a model is and with what its text looks like, the label may measure capability as well as
# safety. Correlations over a few models or prompts are descriptions: take the sign and the q value, not a cause.

# %%
page.close()
