from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import quick
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.metrics import cohen_kappa_score, confusion_matrix
from statsmodels.stats.inter_rater import cohens_kappa

from slmsafety.analysis.judges.agreement import agreement, confusion, confusion_frame, confusion_from_long
from slmsafety.errors import InputError

labels = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=60)
SHARES = ["ar_first", "ar_second", "exact", "boundary", "flips"]


@quick
@given(labels)
def test_confusion_equals_sklearn(pairs):
    first, second = zip(*pairs, strict=True)
    expected = confusion_matrix(first, second, labels=[0, 1, 2])
    assert confusion(first, second).tolist() == expected.tolist()
    nullable = pd.Series(first, dtype="Int64"), pd.Series(second, dtype="float64")
    assert confusion(*nullable).tolist() == expected.tolist()


@pytest.mark.parametrize("bad", [0.5, -1, 3, None, np.nan])
def test_confusion_takes_labels_only(bad):
    with pytest.raises(InputError, match="row 1 has label"):
        confusion(pd.Series([0, bad]), [1, 2])
    with pytest.raises(InputError, match="row 1 has label"):
        confusion([1, 2], pd.Series([0, bad]))


@quick
@given(labels)
def test_every_share_is_counted_by_hand(pairs):
    first, second = zip(*pairs, strict=True)
    got, n = agreement(confusion(first, second)), len(pairs)
    assert got.n == n
    assert got.ar_first * n == pytest.approx(first.count(1))
    assert got.ar_second * n == pytest.approx(second.count(1))
    assert got.exact * n == pytest.approx(sum(a == b for a, b in pairs))
    assert got.boundary * n == pytest.approx(sum((a == 1) != (b == 1) for a, b in pairs))
    assert got.flips * n == pytest.approx(sum({a, b} == {0, 2} for a, b in pairs))
    assert (got.first_safe_second_harmful, got.first_harmful_second_safe) == (pairs.count((2, 0)), pairs.count((0, 2)))
    assert got.exact + got.boundary + got.flips == pytest.approx(1)


@quick
@given(labels)
def test_kappa_equals_sklearn_and_its_interval_statsmodels(pairs):
    first, second = zip(*pairs, strict=True)
    assume(len(set(first) | set(second)) > 1)
    got = agreement(confusion(first, second))
    assert got.kappa == pytest.approx(cohen_kappa_score(first, second, weights="linear"), abs=1e-9)
    with np.errstate(all="ignore"):
        result = cohens_kappa(confusion_matrix(first, second, labels=[0, 1, 2]), wt="linear")
    if result.var_kappa > 1e-9:
        assert [got.kappa_low, got.kappa_high] == pytest.approx([result.kappa_low, result.kappa_upp])
    else:
        assert np.isnan([got.kappa_low, got.kappa_high]).all()


@quick
@given(labels)
def test_the_judges_can_be_exchanged(pairs):
    first, second = zip(*pairs, strict=True)
    one, other = agreement(confusion(first, second)), agreement(confusion(second, first))
    assert [one.exact, one.kappa, one.boundary, one.flips] == pytest.approx(
        [other.exact, other.kappa, other.boundary, other.flips], nan_ok=True
    )
    assert (one.ar_first, one.first_safe_second_harmful) == (other.ar_second, other.first_harmful_second_safe)
    assert one.flip_symmetry_p == pytest.approx(other.flip_symmetry_p, nan_ok=True)


def test_full_agreement_has_kappa_one_and_no_interval():
    got = agreement(np.diag([3, 2, 1]))
    assert (got.exact, got.kappa, got.boundary, got.flips) == (1, pytest.approx(1), 0, 0)
    assert np.isnan([got.kappa_low, got.kappa_high, got.flip_symmetry_p]).all()


def test_kappa_with_one_label_only():
    same = agreement([[0, 0, 0], [0, 5, 0], [0, 0, 0]])
    assert same.exact == 1 and np.isnan([same.kappa, same.kappa_low, same.kappa_high]).all()
    # One judge that always says the same agrees no better than chance; so do two that always differ.
    for counts in (
        [[3, 0, 0], [1, 0, 0], [0, 0, 0]],
        [[0, 0, 4], [0, 0, 0], [0, 0, 0]],
        [[0, 3, 4], [0, 0, 0], [0, 0, 0]],
    ):
        got = agreement(counts)
        assert got.kappa == pytest.approx(0, abs=1e-12)
        assert np.isnan([got.kappa_low, got.kappa_high]).all()


def test_no_row_at_all():
    got = agreement(np.zeros((3, 3)))
    assert (got.n, got.first_safe_second_harmful, got.first_harmful_second_safe) == (0, 0, 0)
    assert np.isnan(
        [getattr(got, name) for name in [*SHARES, "kappa", "kappa_low", "kappa_high", "flip_symmetry_p"]]
    ).all()


@pytest.mark.parametrize(("down", "up"), [(5, 0), (3, 1), (2, 2), (0, 1)])
def test_flip_symmetry_is_the_exact_binomial_test(down, up):
    n, fewer = down + up, min(down, up)
    assert agreement([[1, 0, up], [0, 1, 0], [down, 0, 1]]).flip_symmetry_p == pytest.approx(
        min(1, 2 * binom.cdf(fewer, n, 0.5))
    )


def test_confusion_from_long_takes_scores():
    long = pd.DataFrame({"first": [0, 0.5, 1, 1], "second": [1, 0.5, 0, 0], "count": [2, 3, 4, 1]})
    assert confusion_from_long(long).tolist() == [[0, 0, 2], [0, 3, 0], [5, 0, 0]]
    assert confusion_from_long(long.iloc[:0]).sum() == 0


def test_confusion_frame_lists_the_nine_cells():
    got = confusion_frame([[1, 0, 2], [0, 3, 0], [4, 0, 0]], "person", "judge")
    assert list(got.columns) == ["person", "judge", "count", "percent"]
    assert len(got) == 9 and got["percent"].sum() == pytest.approx(100)
    cells = got.set_index(["person", "judge"])
    assert cells.loc[("safe", "harmful")].tolist() == [4, 40]
    assert cells.loc[("harmful", "safe")].tolist() == [2, 20]
    assert confusion_frame(np.zeros((3, 3)), "person", "judge")["percent"].isna().all()
