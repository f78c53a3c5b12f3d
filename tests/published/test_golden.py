"""Numbers of the paper (arXiv 2608.17183v1) that its own printed tables give again, and where they cannot."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from slmsafety.analysis.bounds import bounds, pair_orders
from slmsafety.analysis.drivers.model_metadata import metadata_correlations, pooled
from slmsafety.analysis.judges.agreement import agreement, confusion_from_long
from slmsafety.analysis.rounding import HALF_UNIT, gaps, identities, rank_change_check, strict_pair_range
from slmsafety.analysis.treatments import adjusted_score, treatment_scores
from slmsafety.models.cards import features, load_cards
from slmsafety.published import PROMPTS, SUITES, outcomes, printed, reported_features

PAIRS = 26 * 25 // 2

# Recomputed from Table A1 in whole hundredths, apart from this package: of 325 pairs, how many keep their order for
# every common value of "ambiguous" (strictly; a tie at an end allowed), how many have worst-case intervals that do not
# touch; the same in percent; and Kendall's tau-b between the all-harmful and the all-safe reading.
ORDERS = {"airbench": (170, 182, 70), "salad": (196, 211, 29), "harmbench": (145, 181, 26)}
PERCENT = {"airbench": (52, 56, 22), "salad": (60, 65, 9), "harmbench": (45, 56, 8)}
TAU_ENDS = {"airbench": 0.08, "salad": 0.26, "harmbench": 0.00}


def hundredths(suite: str) -> list[tuple[int, int]]:
    """SRR and SRR + AR of each model, as whole hundredths of Table A1."""
    table = outcomes().query("suite == @suite")
    return [
        (round(100 * srr), round(100 * srr) + round(100 * ar))
        for srr, ar in zip(table["srr"], table["ar"], strict=True)
    ]


def orders_of(ends: list[tuple[float, float]]) -> tuple[int, int, int]:
    """Strict, ties-allowed and disjoint pairs, read off the numbers as they are."""
    products = [np.sign(a[0] - b[0]) * np.sign(a[1] - b[1]) for a, b in combinations(ends, 2)]
    apart = [a[0] > b[1] or b[0] > a[1] for a, b in combinations(ends, 2)]
    return sum(p > 0 for p in products), sum(p >= 0 for p in products), sum(apart)


@pytest.mark.parametrize("suite", ORDERS)
def test_pair_orders_of_table_a1(suite):
    got = pair_orders(outcomes()).set_index("suite").loc[suite]
    counts = tuple(got[["strict", "ties_allowed", "disjoint"]])
    assert (got["pairs"], got["undefined"]) == (PAIRS, 0)
    assert counts == ORDERS[suite] == orders_of(hundredths(suite))
    assert tuple(round(100 * count / PAIRS) for count in counts) == PERCENT[suite]
    assert abs(got["tau_ends"] - TAU_ENDS[suite]) <= HALF_UNIT
    assert got["tau_ends"] == pytest.approx(kendalltau(*zip(*hundredths(suite), strict=True)).statistic)


def test_plain_floats_count_other_pairs():
    """The trap: a tie at one end becomes a tiny difference, and 60 and 45 percent become 61 and 46."""
    percent = {}
    for suite, table in outcomes().groupby("suite"):
        strict, _, _ = orders_of(list(zip(table["srr"], table["srr"] + table["ar"], strict=True)))
        percent[suite] = round(100 * strict / PAIRS)
    assert percent == {"airbench": 52, "salad": 61, "harmbench": 46}


@pytest.mark.parametrize("suite", ORDERS)
def test_rank_sets_of_table_a1_in_whole_hundredths(suite):
    ends = hundredths(suite)
    got = bounds(outcomes()).query("suite == @suite")
    assert got["best_rank"].tolist() == [1 + sum(low > mine[1] for low, _ in ends) for mine in ends]
    above = [
        sum(high > mine[0] for number, (_, high) in enumerate(ends) if number != me) for me, mine in enumerate(ends)
    ]
    assert got["worst_rank"].tolist() == [1 + count for count in above]


def test_table_a1_satisfies_every_identity_within_rounding():
    # 26 models x 3 suites
    assert identities(printed("table_a1_outcomes")).sum().to_dict() == {
        "mean_can_hold": 78,
        "shares_can_hold": 78,
        "s_adj_can_hold": 78,
    }


def test_plain_rounding_would_reject_rows_of_table_a1():
    table = printed("table_a1_outcomes")
    assert (adjusted_score(table).round(2) != table["s_adj"]).sum() > 0
    assert ((table["hcr"] + table["ar"] + table["srr"]).round(2) != 1).sum() > 0
    assert (adjusted_score(table) - table["s_adj"]).abs().max() < 0.015


def test_an_altered_table_a1_is_noticed():
    table = printed("table_a1_outcomes")
    for column, identity in (("mean", "mean"), ("hcr", "shares"), ("s_adj", "s_adj")):
        assert identities(table.assign(**{column: table[column] + 0.03}))[f"{identity}_can_hold"].sum() < 10


def test_every_printed_rank_change_lies_in_what_rounding_allows():
    check = rank_change_check(printed("table_a1_outcomes"))
    assert len(check) == 78 and check["allowed"].sum() == 78
    turned = rank_change_check(printed("table_a1_outcomes").assign(rank_change=lambda table: -table["rank_change"]))
    assert turned["allowed"].sum() < 30


def test_two_decimals_leave_a_range_of_pairs_that_keep_their_order():
    room = strict_pair_range(printed("table_a1_outcomes")).set_index("suite")[["fewest", "most"]]
    assert room.T.to_dict("list") == {"AirBench": [170, 183], "SALAD": [194, 209], "HarmBench": [144, 179]}


def test_printed_rank_changes_of_harmbench_do_not_sum_to_zero():
    # Table A1; without a tie or a misprint every sum is 0, as those of two rankings of the same models are.
    sums = printed("table_a1_outcomes").groupby("suite")["rank_change"].sum()
    assert sums.to_dict() == {"AirBench": 0, "SALAD": 0, "HarmBench": -1}
    recomputed = rank_change_check(printed("table_a1_outcomes")).groupby("suite")["rank_change"].sum()
    assert recomputed.to_dict() == {"AirBench": 0, "SALAD": 0, "HarmBench": 0}


def test_treatments_of_table_a1_lie_within_the_bounds():
    ends = bounds(outcomes()).set_index(["suite", "model"])
    scores = treatment_scores(outcomes()).set_index(["suite", "model"]).join(ends)
    assert len(scores) == 6 * 78 and scores["score"].notna().all()
    # "dropped" divides by SRR + HCR, which two decimals leave up to .01 from 1 - AR.
    slack = np.where(scores["treatment"] == "dropped", 0.03, 1e-12)
    assert (scores["score"] >= scores["lower"] - slack).all() and (scores["score"] <= scores["upper"] + slack).all()


def table_6(suite: str) -> pd.DataFrame:
    return printed("table6_confusion").query("suite == @suite").rename(columns={"gpt": "first", "llama": "second"})


# Table 6 recounted, to three decimals: AR of GPT and Llama, exact agreement, boundary, flips, linear-weighted kappa.
JUDGES = {
    "HarmBench": (6400, 0.552, 0.472, 0.745, 0.214, 0.041, 0.559),
    "SimpleSafety": (1600, 0.064, 0.025, 0.813, 0.076, 0.111, 0.702),
}


@pytest.mark.parametrize("suite", JUDGES)
def test_table_6_gives_the_numbers_of_table_5(suite):
    got = agreement(confusion_from_long(table_6(suite)))
    # Table 6 states N = 6400 and N = 1600: 16 models, 400 and 100 prompts.
    found = (got.n, got.ar_first, got.ar_second, got.exact, got.boundary, got.flips, got.kappa)
    assert found == pytest.approx(JUDGES[suite], abs=HALF_UNIT / 10 + 1e-12)
    print_5 = printed("table5_judge_robustness").set_index("suite").loc[suite]
    shown = ["ar_gpt", "ar_llama", "exact_agree", "boundary_rate", "flip_rate", "kappa_w"]
    assert (np.abs(np.array(found[1:]) - print_5[shown].to_numpy(float)) <= HALF_UNIT + 1e-12).all()
    assert abs(got.ar_first - got.ar_second - print_5["delta"]) <= HALF_UNIT + 1e-12
    assert got.kappa_low < got.kappa < got.kappa_high


@pytest.mark.parametrize(
    ("suite", "weights", "value"), [("HarmBench", 2, 0.550), ("SimpleSafety", 2, 0.729), ("SimpleSafety", 0, 0.655)]
)
def test_only_linear_weights_give_the_printed_kappa(suite, weights, value):
    """Quadratic and no weights, by the definition 1 - observed / expected disagreement, miss the print."""
    counts = confusion_from_long(table_6(suite)) / table_6(suite)["count"].sum()
    gap = np.abs(np.subtract.outer(range(3), range(3))).astype(float) ** weights * (1 - np.eye(3))
    expected = np.outer(counts.sum(1), counts.sum(0))
    kappa = 1 - (gap * counts).sum() / (gap * expected).sum()
    assert kappa == pytest.approx(value, abs=5e-4)
    assert abs(kappa - printed("table5_judge_robustness").set_index("suite").loc[suite, "kappa_w"]) > HALF_UNIT


def test_flips_run_one_way_on_harmbench_and_both_ways_on_simple_safety():
    # Table 6: GPT 1 and Llama 0, GPT 0 and Llama 1
    harmbench, simple = (agreement(confusion_from_long(table_6(suite))) for suite in JUDGES)
    assert (harmbench.first_safe_second_harmful, harmbench.first_harmful_second_safe) == (261, 2)
    assert harmbench.flip_symmetry_p < 1e-70
    assert (simple.first_safe_second_harmful, simple.first_harmful_second_safe) == (85, 92)
    assert simple.flip_symmetry_p > 0.5


def test_table_4_comes_out_with_the_reported_flags():
    recomputed = metadata_correlations(reported_features(), pooled(outcomes(), PROMPTS))
    found = gaps(recomputed, printed("table4_metadata"), "feature", ["r_ar", "r_score"])
    assert len(found) == 13
    assert found["r_ar"].abs().max() < 0.03
    assert found["r_score"].abs().max() < 0.06
    assert recomputed.set_index("feature").loc[["Instruction tuned", "Context"], "n"].tolist() == [26, 25]


@pytest.mark.parametrize("feature", ["SwiGLU", "Chat tuned"])
def test_table_4_needs_both_exceptions(feature):
    flags = reported_features()
    flags.loc["mobilellm-1b", feature] = 0
    recomputed = metadata_correlations(flags, pooled(outcomes(), PROMPTS))
    found = (
        gaps(recomputed, printed("table4_metadata"), "feature", ["r_ar", "r_score"]).set_index("feature").loc[feature]
    )
    assert abs(found["r_ar"]) > 0.03 or abs(found["r_score"]) > 0.06


# Pearson's r with the pooled AR when every flag is the released model's own.
TRUE = {"Tuned": -0.68, "RoPE": -0.66, "SwiGLU": -0.62, "RMSNorm": -0.57}


def test_table_4_changes_with_the_true_features():
    true = features(load_cards().set_index("id"))
    recomputed = metadata_correlations(true, pooled(outcomes(), PROMPTS)).set_index("feature")
    for name, r in TRUE.items():
        assert abs(recomputed.loc[name, "r_ar"] - r) <= HALF_UNIT
    assert recomputed["r_ar"].nsmallest(4).index.tolist() == list(TRUE)
    strongest = printed("table4_metadata").set_index("feature")["r_ar"]
    # Table 4 prints instruction tuning as the strongest.
    assert (strongest.abs().idxmax(), strongest.min()) == ("Instruction tuned", -0.49)
    assert max(TRUE.values()) < strongest.min()


def test_counts_of_the_paper():
    # Section 3.1: 5,694 + 21,318 + 400 + 100 (Simple Safety Tests) + 1,000 (BBQ) = 28,512 prompts a model
    assert PROMPTS == {"airbench": 5694, "salad": 21318, "harmbench": 400}
    assert sum(PROMPTS.values()) + 100 + 1000 == 28_512
    assert 26 * 28_512 == 741_312


def held_out(prompts: int) -> int:
    """The prompts of a 20 percent test split, rounded up."""
    return math.ceil(prompts / 5)


def test_salad_rows_of_tables_1_and_2_are_25_models():
    models = {"AirBench": 26, "HarmBench": 26, "SALAD": 25}
    within = printed("table1_within_suite").set_index("suite")["test_rows"]
    assert within.to_dict() == {name: count * held_out(PROMPTS[SUITES[name]]) for name, count in models.items()}
    for _, row in printed("table2_cross_suite").iterrows():
        assert row["test_rows"] == models[row["target"]] * PROMPTS[SUITES[row["target"]]]
    # Table 3 holds out 6 models.
    unseen = printed("table3_unseen_slm").set_index("suite")["test_rows"]
    assert unseen.to_dict() == {name: 6 * PROMPTS[SUITES[name]] for name in ("AirBench", "HarmBench")}
