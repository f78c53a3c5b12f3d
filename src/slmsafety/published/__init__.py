"""The paper's own printed tables (arXiv 2608.17183v1) as CSV, public numbers of larger models, and their loader."""

from slmsafety.published.larger_models import helm_means, llm_labels, reference_bytes
from slmsafety.published.tables import (
    PRINTED,
    PROMPTS,
    SUITES,
    TWO_JUDGE_MODELS,
    outcomes,
    printed,
    reported_features,
    robustness,
    sst_outcome,
    table4_features,
    table_bytes,
    with_ids,
)

__all__ = [
    "PRINTED",
    "PROMPTS",
    "SUITES",
    "TWO_JUDGE_MODELS",
    "helm_means",
    "llm_labels",
    "outcomes",
    "printed",
    "reference_bytes",
    "reported_features",
    "robustness",
    "sst_outcome",
    "table4_features",
    "table_bytes",
    "with_ids",
]
