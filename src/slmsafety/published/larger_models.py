"""Public numbers of larger models: shares of labels in small samples, and HELM Safety's means."""

from __future__ import annotations

import pandas as pd

from slmsafety.published.files import file_bytes, read_csv

_LLM_LABELS, _HELM_MEANS = "llm_labels.csv", "helm_safety_means.csv"


def llm_labels() -> pd.DataFrame:
    """Return what larger models were called in small public samples.

    Returns
    -------
    DataFrame
        One row a model and suite. suite, model, judge, source (repository and commit): text; n: int, the labelled
        replies, one to a prompt; prompts: int, as many; hcr, ar, srr: float in [0, 1], the shares of harmful, ambiguous
        and safe ones.

    Notes
    -----
    AirBench: 80 prompts each, by AirBench's own judges. HarmBench: 385 prompts that another project asked (greedy),
    whose judge knows refusal, partial refusal and compliance. XSTest: the 200 unsafe prompts, by people. Numbers only;
    the texts are not here.
    """
    table = read_csv(_LLM_LABELS)
    counts = table[["harmful", "ambiguous", "safe"]]
    n = counts.sum(axis=1)
    rates = counts.div(n, axis=0).set_axis(["hcr", "ar", "srr"], axis=1)
    return table[["suite", "model", "judge", "source"]].assign(n=n, prompts=n).join(rates)


def helm_means() -> pd.DataFrame:
    """Return the 87 rows of HELM Safety's leaderboard.

    Returns
    -------
    DataFrame
        suite, model: text; mean: float in [0, 1], four decimals: the mean score of two judges, for BBQ the accuracy.
        HELM publishes no shares of labels.

    Notes
    -----
    From score_matrix_helm.csv of hisakakoji2/safety-criteria-iv-experiment at 251a3cd (MIT); a few of its models are
    small.
    """
    return read_csv(_HELM_MEANS).melt("model", var_name="suite", value_name="mean")[["suite", "model", "mean"]]


def reference_bytes() -> dict[str, bytes]:
    """Return the bytes of the files behind `llm_labels` and `helm_means`, by name as in `table_bytes`."""
    return file_bytes([_LLM_LABELS, _HELM_MEANS])
