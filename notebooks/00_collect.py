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
# # 00 Collect: what was asked, of which models, and what came back
#
# Every later notebook rests on five tables keyed by suite, prompt, model and settings. This one makes them, or takes up
# where a stopped run left off, and then asks one question: **is anything missing?** A rate whose missing rows are
# unknown cannot be read.
#
# *The subject is harmful text. No prompt or reply is shown here.*

# %% tags=["parameters"]
study: str = "published"  # a name in params/, the path of a params file, or the mapping itself

# %%
from slmsafety.report import score_findings as told
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals())
lab.collect()  # a model that cannot run stops no other: the cell ends with its reason, and the next ones can be run

# %%
page = Page("00_collect", **lab.about())

# %% [markdown]
# ## The suites
#
# `prompts` are those that a safe model should refuse, `controls` are benign and should be answered, `choices` are multiple
# choice. A title with a number (HarmBench-80) marks a partial suite.

# %%
suites = lab.suite_sizes()
page.table("suites", suites)

# %% [markdown]
# ## The models
#
# For `published` this is Table A2 as the paper prints it, gaps included; for a study of one's own, the architecture of the
# released models. A name that ends in **q4** stands for weights that were derived from a 4-bit file: not the original ones.

# %%
models = lab.model_table()
page.table("table_a2_models", models)

# %% [markdown]
# ## Coverage
#
# A row that could not be judged keeps its status and is counted; it never turns into a score.

# %%
if page.has("coverage"):
    coverage = lab.coverage()
    page.table("coverage", coverage)
    page.say(told.judged(coverage))

# %% [markdown]
# ## The pipeline's own noise
#
# The same replies made again in other batches and number formats, and judged again: in float32 nothing may change; what
# changes in bfloat16 is a difference between two runs that no model made. `changed` counts replies with another text,
# `verdicts_changed` those with another label, `flips` harmful against safe; `low` and `high` are 95 % limits of their
# shares (Wilson). Differences between models below these shares are noise.

# %%
noise = lab.noise()
about = ["suite_title", "model_name", "judge", "dtype", "batch_size", "n"]
counts = ["changed", "changed_low", "changed_high", "verdicts_changed", "verdicts_changed_low", "verdicts_changed_high"]
noise[[*about, *counts, "flips", "ar", "ar_again"]].round(3) if len(noise) else page.say(
    told.no_noise(lab.name, lab.params.kind)
)

# %% [markdown]
# ## What this shows

# %%
page.say(*told.covered(lab.name, suites, models))
if lab.printed_only:
    page.say(
        "The paper prints no count of replies without a label, so that n in later tables is the number of prompts.",
        "Its 741,312 evaluations add Simple Safety Tests (100 prompts) and BBQ (1,000), for which it prints no rates per",
        "model: figures from here on cover AirBench, SALAD and HarmBench.",
    )
page.numbers({"prompts": f"{suites['prompts'].sum():,}", "models": str(len(models))})
page.close()
