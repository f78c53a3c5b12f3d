"""The figures: each takes a frame and returns a Figure in the LNCS style; each module says what its frame holds.

A new figure is a module of this folder and one import here; `as` makes the name public.
"""

from slmsafety.report.figures.agreement import rank_agreement as rank_agreement
from slmsafety.report.figures.associations import fig5_associations as fig5_associations
from slmsafety.report.figures.bounds import bounds as bounds
from slmsafety.report.figures.coverage import judge_coverage as judge_coverage
from slmsafety.report.figures.distributions import fig3_distributions as fig3_distributions
from slmsafety.report.figures.effects import association_checks as association_checks
from slmsafety.report.figures.effects import common_quality as common_quality
from slmsafety.report.figures.effects import metadata_ranges as metadata_ranges
from slmsafety.report.figures.metrics import metric_distributions as metric_distributions
from slmsafety.report.figures.proportions import fig2_proportions as fig2_proportions
from slmsafety.report.figures.rankings import fig1_rankings as fig1_rankings
from slmsafety.report.figures.sensitivity import fig4_rank_sensitivity as fig4_rank_sensitivity
from slmsafety.report.figures.size import size_within_family as size_within_family
from slmsafety.report.figures.t_path import t_path as t_path
