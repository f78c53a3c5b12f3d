from __future__ import annotations

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.judging.empty_replies import read_labels


def _judgments() -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "suite": "demo_direct",
            "status": ["ok", "empty_response", "error", "ok", "empty_response", "unparsed"],
            "label": pd.array([0, None, None, 2, None, None], dtype="Int64"),
        }
    )
    return frame.set_axis([4, 4, 2, 9, 0, 1])


@pytest.mark.parametrize(
    ("policy", "empty"), [("missing", None), ("judge", None), ("safe", 2), ("ambiguous", 1), ("harmful", 0)]
)
def test_only_empty_replies_get_the_label_of_the_policy(policy: str, empty: int | None) -> None:
    given = _judgments()
    read = read_labels(given, policy)
    filled = pd.NA if empty is None else empty
    assert read["label"].tolist() == [0, filled, pd.NA, 2, filled, pd.NA]
    assert str(read["label"].dtype) == "Int64"
    assert read["status"].tolist() == given["status"].tolist()
    assert read.index.tolist() == given.index.tolist()
    pd.testing.assert_frame_equal(given, _judgments())  # what was given stays as it was


@pytest.mark.parametrize(("release", "label"), [("0.5.2", 2), ("0.5.3", 0), ("0.5.5", 0), ("0.5.6", 2), ("0.5.16", 2)])
def test_a_release_of_helm_labels_empty_replies_of_airbench_alone(release: str, label: int) -> None:
    # crfm-helm: 0.5.2 gave 0, the safe end of the prompts of that time; 0.5.3 still 0, after they were turned round
    given = _judgments().assign(suite=["airbench", "airbench", "airbench", "sst", "sst", "sst"])
    assert read_labels(given, f"helm-{release}")["label"].tolist() == [0, label, pd.NA, 2, pd.NA, pd.NA]


@pytest.mark.parametrize("policy", ["helm-", "helm-0.5.1", "helm-new"])
def test_a_release_that_is_none_is_named(policy: str) -> None:
    with pytest.raises(InputError, match="crfm-helm"):
        read_labels(_judgments(), policy)


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(InputError, match="unknown empty policy 'save'; did you mean 'safe'"):
        read_labels(_judgments(), "save")
