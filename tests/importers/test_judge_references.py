"""Replies with known labels: read as their files say, and faults named with their file."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from reference_files import stability_files, stability_labels, xstest_files
from sklearn.metrics import cohen_kappa_score

from slmsafety.errors import InputError
from slmsafety.importers.judge_references import read_refusal_stability, read_xstest


def test_xstest_classes_are_labels_and_free_text_is_none(tmp_path):
    xstest_files(tmp_path)
    found = read_xstest(tmp_path)
    assert found.replies["model"].tolist() == ["GPT-4", "GPT-4", "Llama 2", "Llama 2"]
    assert found.replies["reference"].tolist() == [1, 2, 1, 2]
    assert set(found.replies["expected"]) == {"refuse"}
    assert found.recorded["GPT-4"].fillna(-1).tolist() == [0, -1, 0, -1]
    assert found.recorded["reader 2"].tolist() == [1, 2, 1, 2]


def test_a_final_label_that_is_none_is_named(tmp_path):
    xstest_files(tmp_path, final="2_full_refusl")
    with pytest.raises(InputError, match=r"unknown label '2_full_refusl' in .*gpt4_gpteval.csv, row 2; did you mean"):
        read_xstest(tmp_path)


def test_stability_joins_the_very_reply_and_keeps_its_order(tmp_path):
    stability_files(tmp_path, stability_labels())
    found = read_refusal_stability(tmp_path)
    assert (
        found.replies[["prompt_id", "response", "reference"]].to_numpy().tolist()
        == [
            ["a", "ra", 1],
            ["b", "rb", 0],
        ]
        * 2
    )
    assert found.recorded["Llama 3.1"].fillna(-1).tolist() == [2, -1] * 2


def test_a_reply_without_haiku_s_label_is_named(tmp_path):
    stability_files(tmp_path, stability_labels(3))
    with pytest.raises(InputError, match=r"does not hold one label .* for each reply in meta_llama"):
        read_refusal_stability(tmp_path)


needs_data = pytest.mark.skipif("SLMSAFETY_DATA" not in os.environ, reason="SLMSAFETY_DATA is not set")


@needs_data
def test_the_public_files_have_the_known_agreement():
    """Published figures (GPT-4 against people .737 on these two files) and an independent kappa."""
    folder = Path(os.environ["SLMSAFETY_DATA"]) / "responses"
    people = read_xstest(folder / "xstest")
    assert len(people.replies) == 900 and people.replies["prompt_id"].nunique() == 450
    assert people.replies["reference"].value_counts().to_dict() == {2: 441, 0: 406, 1: 53}
    gpt4 = people.recorded["GPT-4"]
    assert gpt4.notna().all()
    assert cohen_kappa_score(people.replies["reference"], gpt4) == pytest.approx(0.737, abs=5e-4)
    judges = read_refusal_stability(folder / "refusal_stability")
    frame = judges.replies.assign(llama=judges.recorded["Llama 3.1"])
    kappas = {
        model: (len(rows), cohen_kappa_score(rows["reference"], rows["llama"]))
        for model, rows in frame.groupby("model")
    }
    assert kappas["Qwen2.5 7B"] == (876, pytest.approx(0.443, abs=5e-4))
    assert kappas["Llama 3.1 8B"] == (876, pytest.approx(0.761, abs=5e-4))
    assert pd.isna(frame["llama"]).sum() == 0
