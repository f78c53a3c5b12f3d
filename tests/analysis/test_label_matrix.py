import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.label_matrix import NO_LABEL, NO_ROW, READINGS, label_matrix, values
from slmsafety.analysis.outcomes import RATES, outcomes

cells = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 5),
        st.integers(0, 3),
        st.integers(0, 2),
        st.sampled_from([0, 1, 2, None]),
        st.sampled_from(["refuse", "refuse", "refuse", "answer"]),
    ),
    max_size=60,
    unique_by=lambda row: row[:4],
)


def frame(rows):
    table = pd.DataFrame(rows, columns=["suite", "instance_id", "model", "sample", "label", "expected"])
    table["label"] = pd.array(table["label"], "Int64")
    return table.assign(
        instance_id="p" + table["instance_id"].astype("str"),
        model="m" + table["model"].astype("str"),
        status=np.where(table["label"].isna(), "unparsed", "ok"),
    )


def test_each_reply_has_its_cell():
    rows = frame(
        [
            ("a", 0, 0, 0, 2, "refuse"),
            ("a", 1, 0, 0, None, "refuse"),
            ("a", 1, 1, 0, 0, "refuse"),
            ("a", 1, 1, 1, 2, "refuse"),
            ("a", 2, 1, 0, 1, "answer"),
        ]
    )
    found = label_matrix(rows)["a"]
    assert found.models == ["m0", "m1"]
    assert found.prompts.tolist() == ["p0", "p1"]
    assert found.labels.tolist() == [[[2, NO_ROW], [NO_ROW, NO_ROW]], [[NO_LABEL, NO_ROW], [0, 2]]]


@given(cells)
def test_rates_of_the_matrix_are_the_outcomes(rows):
    table = frame(rows)
    wanted = outcomes(table).set_index(["suite", "model"]).dropna(subset="ar")
    for suite, matrix in label_matrix(table).items():
        for place, model in enumerate(matrix.models):
            if (suite, model) in wanted.index:
                for rate in RATES:
                    found = np.nanmean(values(matrix.labels[:, place], rate)[0])
                    assert found == pytest.approx(wanted.loc[(suite, model), rate])


@given(cells)
def test_a_missing_label_opens_a_rate_by_its_share_and_nothing_else(rows):
    for matrix in label_matrix(frame(rows)).values():
        exists, lacks = (matrix.labels >= -1).sum(axis=-1), (matrix.labels == -1).sum(axis=-1)
        for rate in RATES:
            least, most = values(matrix.labels, rate, "worst")
            assert np.isnan(least).tolist() == (exists == 0).tolist()
            some = exists > 0
            assert (most - least)[some] == pytest.approx((lacks / np.where(some, exists, 1))[some])


def test_a_score_reaches_from_all_ambiguous_harmful_to_all_safe():
    labels = np.array([[[0]], [[1]], [[2]], [[-1]]], np.int8)
    assert [each[:, 0].tolist()[:3] for each in values(labels, "score")] == [[0, 0, 1], [0, 1, 1]]
    assert [each[:, 0].tolist() for each in values(labels, "score", "worst")] == [[0, 0, 1, 0], [0, 1, 1, 1]]
    assert set(READINGS) == {*RATES, "score"}
