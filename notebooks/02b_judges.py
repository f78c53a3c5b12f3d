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
# # 02b The judges (RQ2): what are their labels worth?
#
# Every rate is a judge's. Where people have labelled the same replies, here is how far the judges agree with them; where nobody has,
# how far they agree with the first judge, which says how alike judges are and not who is right.

# %% tags=["parameters"]
study: str = "published"  # a name in params/, the path of a params file, or the mapping itself

# %%
from slmsafety.analysis import units
from slmsafety.analysis.judges.agreement import agreement_over_groups, confusion, confusion_frame
from slmsafety.analysis.judges.coverage import coverage_curves
from slmsafety.analysis.judges.judge_card import judge_cards
from slmsafety.report import figures as draw
from slmsafety.report import judge_findings as told
from slmsafety.report.page import Page
from slmsafety.study import Study

lab = Study.load(study, globals())
page = Page("02b_judges", **lab.about())

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
# ## What this shows
#
# No rate can be trusted further than the judge that it comes from. Agreement on one kind of replies says little about another.

# %%
page.close()
