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
# If ambiguity follows the length and fit of a reply, or a model's architecture, the label measures capability. This notebook
# correlates; it does not explain.

# %% tags=["parameters"]
study: str = "published"  # a name in params/, the path of a params file, or the mapping itself

# %%
import pandas as pd

from slmsafety.analysis.associations import correlations, metric_points, prompt_ambiguity
from slmsafety.analysis.metadata import metadata_correlations, pooled
from slmsafety.analysis.rounding import gaps
from slmsafety.report import figures as draw
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals())
page = Page("04_ambiguity_drivers", **lab.about())

# %% [markdown]
# ## Figure 5: metrics and the ambiguity of a prompt
#
# A prompt's AR is the share of models with an ambiguous label, over at least half of the models. Reply metrics are averaged
# over a prompt's models. q is Benjamini-Hochberg over the metrics shown.

# %%
if page.has("fig5_associations"):
    ambiguity = prompt_ambiguity(lab.labels())
    points = metric_points(ambiguity, lab.table("prompt_metrics"), lab.table("reply_metrics"))
    points = points.replace({"suite": lab.titles()})
    fits = correlations(points)
    page.figure("fig5_associations", draw.fig5_associations(points, fits))

# %%
if page.has("table_associations"):
    parts = {"all": fits} | {title: correlations(part) for title, part in points.groupby("suite")}
    by_suite = pd.concat(parts, names=["suite", None]).reset_index("suite")
    formats = dict.fromkeys(["r", "slope", "intercept"], ".3f") | {"p": ".2g", "q": ".2g"}
    page.table("table_associations", by_suite, formats)
    for row in fits.itertuples():
        found = "passes" if row.q < 0.05 else "does not pass"
        apart = by_suite[(by_suite["metric"] == row.metric) & (by_suite["suite"] != "all")]
        each = ", ".join(f"{r:.2f} in {suite}" for suite, r in zip(apart["suite"], apart["r"], strict=True))
        page.say(
            f"{row.metric}: r = {row.r:.2f} with AR over {row.n} prompts (q = {row.q:.2g}, which {found} q < 0.05); {each}."
        )

# %% [markdown]
# ## Tables 1-3: can ambiguity be predicted?
#
# The paper's classifiers need its rows, so its tables are shown as printed. SALAD's row counts are those of 25 models, not 26.

# %%
for name in ("table1_within_suite", "table2_cross_suite", "table3_unseen_slm"):
    if page.has(name):
        page.table(name, lab.printed(name))

# %% [markdown]
# ## Table 4: model metadata
#
# AR is pooled over AirBench, SALAD and HarmBench by their prompt counts, from two-decimal rates. First with the flags as the
# text of Table A2 mentions them (and the exceptions that the printed numbers imply), beside the print and the gap to it.

# %%
if page.has("table4_metadata"):
    rates = pooled(lab.outcomes(), lab.prompt_counts())
    reported = metadata_correlations(lab.reported_features(), rates)
    printed = lab.printed("table4_metadata")
    gap = gaps(reported, printed, "feature", ["r_ar", "r_score"])
    beside = printed.merge(reported, on="feature", suffixes=("_printed", "")).merge(
        gap, on="feature", suffixes=("", "_gap")
    )
    page.table("table4_metadata", beside, {name: ".2g" for name in beside if name.startswith(("p_", "q_"))})
    worst = gap[["r_ar", "r_score"]].abs().max()
    page.say(
        "Printed correlations come from unrounded rates and cannot be reached exactly: recomputed from the printed rates",
        f"they differ by at most {worst['r_ar']:.3f} (AR) and {worst['r_score']:.3f} (score).",
    )

# %% [markdown]
# Then with the models' true architecture. Table A2 leaves many features unmentioned, and an unmentioned feature is not an
# absent one.

# %%
if page.has("table4_true_architecture"):
    rates = pooled(lab.outcomes(), lab.prompt_counts())
    true = metadata_correlations(lab.true_features(), rates).sort_values("r_ar", ignore_index=True)
    page.table("table4_true_architecture", true, dict.fromkeys(["p_ar", "q_ar", "p_score", "q_score"], ".2g"))
    order = true["r_ar"].abs().sort_values(ascending=False).index[:4]
    strongest = "; ".join(f"{row.feature} {row.r_ar:.2f}" for row in true.loc[order].itertuples())
    page.say(f"With the true architecture the strongest correlations with AR are {strongest}.")

# %% [markdown]
# ## What this shows
#
# Where ambiguity goes with what a model is and with what its text looks like, the label measures capability as well as
# safety. Correlations over a few models or prompts are descriptions: take the sign and the q value, not a cause.

# %%
page.close()
