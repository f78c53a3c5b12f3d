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
# # 04c Model metadata (RQ4): does ambiguity go with what a model is?
#
# Size, depth, tuning, year: if these go with the ambiguity of a model's replies, the label may measure capability.

# %% tags=["parameters"]
study: str = "published"  # a name in params/, the path of a params file, or the mapping itself

# %%
from slmsafety.analysis.drivers import model_metadata
from slmsafety.analysis.rounding import gaps
from slmsafety.report import figures as draw
from slmsafety.report import metadata_findings as findings
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals())
page = Page("04c_model_metadata", **lab.about())

# %% [markdown]
# ## Table 4: model metadata
#
# AR is pooled by prompt counts over the suites that Table A1 has (not Simple Safety Tests); a model that lacks one has none. First
# with the flags as the text of Table A2 mentions them (and the exceptions that the print implies) or, of a model that it lacks, as
# its card tells: for `published` beside the print and the gap. nan: fewer than three models, or one value.

# %%
if page.has("table4_metadata"):
    rates = model_metadata.pooled(lab.outcomes(), lab.prompt_counts())
    reported = model_metadata.metadata_correlations(lab.reported_features(), rates)
    page.say(*findings.undefined_features(reported))
    if lab.printed_only:
        printed = lab.printed("table4_metadata")
        gap = gaps(reported, printed, "feature", ["r_ar", "r_score"])
        reported = printed.merge(reported, on="feature", suffixes=("_printed", ""))
        reported = reported.merge(gap, on="feature", suffixes=("", "_gap"))
        page.say(*findings.table4_gaps(gap))
    formats = {name: ".2g" for name in reported if name.startswith(("p_", "q_"))}
    page.table("table4_metadata", reported[reported["n"] > 0], formats)

# %% [markdown]
# Then with the models' true architecture (a feature that Table A2 does not mention is not an absent one); systems of one model
# count as one, with their mean. A family shares a design: how far does each correlation move when one family is left out?

# %%
outcomes, true = lab.outcomes(), lab.true_features()
rates = model_metadata.pooled(outcomes, lab.prompt_counts())
families = outcomes.drop_duplicates("card").set_index("card")["family"]

# %%
if page.has("table4_true_architecture"):
    found = model_metadata.metadata_correlations(true, rates).sort_values("r_ar", ignore_index=True)
    formats = dict.fromkeys(["p_ar", "q_ar", "p_score", "q_score"], ".2g")
    page.table("table4_true_architecture", found[found["n"] > 0], formats)
    page.say(*findings.strongest_features(found), *findings.undefined_features(found))
    encodings = {"as reported": lab.reported_features()} if lab.printed_only else {}
    ranges = model_metadata.encoded_ranges({**encodings, "true architecture": true}, rates, families)
    ranges = ranges.dropna(subset=["r_ar", "r_score"], how="all")
    if page.has("metadata_ranges", "metadata_leave_one_out", unless=findings.no_range(ranges)):
        page.figure("metadata_ranges", draw.metadata_ranges(ranges))
        page.table("metadata_leave_one_out", ranges)
        page.say(*findings.family_ranges(ranges))

# %% [markdown]
# Tuned against base models: the interval is over families (errors reduced in bias, with the degrees of freedom that the families of
# either side leave), and undefined below ten families or where one side is a single family.

# %%
if page.has("model_groups"):
    page.table("model_groups", model_metadata.model_groups(rates, true))
    gap = model_metadata.family_difference(rates["ar"], true["Tuned"], families)
    year = model_metadata.metadata_correlations(true[["Year"]], rates).iloc[0]
    page.say(*findings.model_groups(*gap, year), findings.paper_families(gap.families) if lab.printed_only else "")

# %% [markdown]
# ## What this shows
#
# Correlations over a few models are descriptions: take the sign and the q value, not a cause.

# %%
page.close()
