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

# %%
import numpy as np

from slmsafety.analysis.drivers import ambiguity_effects, association_checks, associations, variance_explained
from slmsafety.analysis.drivers.metric_rows import QUANTILES, metric_names, metric_summary, reply_rows
from slmsafety.analysis.treatments import rank_movement
from slmsafety.report import figures as draw
from slmsafety.report import findings
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals())
page = Page("04_ambiguity_drivers", **lab.about())
rng = np.random.default_rng(lab.params.seed)

# %% [markdown]
# ## The metrics
#
# What is measured knows nothing of safety: how long, how hard to read, how fluent, how near to each other prompt and reply are.

# %%
if page.has("metric_distributions", "metric_summary"):
    tables = lab.metric_tables()
    summary = lab.named(metric_summary(*tables))
    page.figure("metric_distributions", draw.metric_distributions(summary.assign(suite=summary["suite_title"])))
    page.table("metric_summary", summary, dict.fromkeys(QUANTILES, ".4g"))
    page.say(*lab.metric_notes(), *findings.undefined_metrics(summary))
    rows = reply_rows(lab.labels(), *tables)

# %% [markdown]
# ## Figure 5: metrics and the ambiguity of a prompt
#
# A prompt's AR is the share of models with an ambiguous label, over at least half of the models. Reply metrics are averaged
# over a prompt's models. q is Benjamini-Hochberg over the metrics; only those with q < 0.05 have a panel. The paper's p takes
# prompts as independent draws. `p_kinds` asks what other kinds of prompts would show: the finest categories of a suite with at least
# 20 of them, else groups of prompts. A line is dashed where only the first passes.

# %%
if page.has("fig5_associations", "table_associations"):
    means = associations.prompt_means(rows)
    points = associations.metric_points(means)
    fits = lab.named(associations.correlations_by_suite(points, rows))
    of_all = fits[fits["suite"] == "all"]
    checked, reason = ("association_checks", "association_intervals"), findings.no_correlation(of_all)
    if page.has("fig5_associations", "table_associations", *checked, unless=reason):
        titled = points.assign(suite=lab.named(points[["suite"]])["suite_title"])
        page.figure("fig5_associations", draw.fig5_associations(titled, of_all))
        page.table("table_associations", fits, dict.fromkeys(["p", "q", "p_kinds", "q_kinds", "q_rho"], ".2g"))
        page.say(*findings.associations(of_all))

# %% [markdown]
# ## Do the correlations hold?
#
# A correlation over all prompts can be one between suites (Simpson's paradox), or of length. Intervals draw whole kinds of prompts.

# %%
if page.has("association_checks", "association_intervals"):
    held = association_checks.association_checks(means, rng)
    page.figure("association_checks", draw.association_checks(held))
    page.table("association_intervals", held)
    page.say(*findings.checks(held))

# %% [markdown]
# ## At equal model and suite
#
# A logistic model of all labelled replies, with an effect for each model and suite. Errors leave out one kind of prompts in turn: they
# are for other kinds, and undefined below ten. An odds ratio of 2 doubles the odds of an ambiguous label. q is Benjamini-Hochberg over the metrics.

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
# each system is a row of its own. `unseen`: the share explained of a kind of prompts, or of a model with all its systems and suites,
# that the fit has not seen; below 0 it is worse than no fit.

# %%
if page.has("explained_prompts"):
    shares = variance_explained.explained_prompts(means)
    if page.has("explained_prompts", unless=findings.nothing_explained(shares)):
        page.table("explained_prompts", shares.dropna(subset="r2"))
        page.say(*findings.explained_prompts(shares))
if page.has("explained_models"):
    quality = lab.named(variance_explained.model_quality(rows))
    shares = lab.named(variance_explained.explained_models(quality, rank_movement(lab.outcomes())))
    if page.has("explained_models", unless=findings.nothing_explained(shares)):
        page.table("explained_models", shares.dropna(subset="r2"))
        page.say(*findings.explained_models(shares))

# %% [markdown]
# ## Models at a common quality
#
# What would each model's AR be if its replies had the metrics of all models' replies? The logistic model gives each reply to each
# model in turn. The same model without metrics gives the AR at a model's own quality, so that suites weigh alike in both (`ar` is
# as observed). What is left of the differences at a common quality is the models' own, as far as these metrics are quality. `turned`
# counts the models with which a model's order clearly turns: the intervals of both differences leave 0 out, on opposite sides.

# %%
if page.has("common_quality", "ar_at_common_quality", unless=model.problem if model else ""):
    rates = ambiguity_effects.standardized_rates(model, rows).query("n > 0")
    rates = lab.named(rates).sort_values(["own", "model_name"])
    page.figure("common_quality", draw.common_quality(rates))
    at = ["own", "common", "common_low", "common_high"]
    columns = ["model", "model_name", "n", "ar", *at, "rank", "rank_common", "turned"]
    page.table("ar_at_common_quality", rates[columns], {"rank": ".1f", "rank_common": ".1f", "turned": ".0f"})
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
# ## What this shows
#
# Where ambiguity goes with what a model is and with what its text looks like, the label may measure capability as well as
# safety. Correlations over a few models or prompts are descriptions: take the sign and the q value, not a cause.

# %%
page.close()
