"""The figures: each takes a frame and returns a Figure in the LNCS style; what each frame holds is in its module."""

from slmsafety.report.figures.agreement import rank_agreement
from slmsafety.report.figures.associations import fig5_associations
from slmsafety.report.figures.bounds import bounds
from slmsafety.report.figures.distributions import fig3_distributions
from slmsafety.report.figures.effects import association_checks, common_quality, metadata_ranges
from slmsafety.report.figures.metrics import metric_distributions
from slmsafety.report.figures.proportions import fig2_proportions
from slmsafety.report.figures.rankings import fig1_rankings
from slmsafety.report.figures.sensitivity import fig4_rank_sensitivity
from slmsafety.report.figures.size import size_within_family

__all__ = [
    "association_checks",
    "bounds",
    "common_quality",
    "fig1_rankings",
    "fig2_proportions",
    "fig3_distributions",
    "fig4_rank_sensitivity",
    "fig5_associations",
    "metadata_ranges",
    "metric_distributions",
    "rank_agreement",
    "size_within_family",
]
