"""The noise floor on real weights: float32 repeats itself in any batch, bfloat16 does not, and nothing is run twice."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from slmsafety.cli import main
from slmsafety.errors import InputError
from slmsafety.generation.transformers_engine import generate
from slmsafety.records.store import read_table
from slmsafety.study import Study

SMALL = {
    "name": "small",
    "kind": "run",
    "suites": [{"name": "demo_direct", "limit": 6}, {"name": "demo_framed", "limit": 2, "max_new_tokens": 1}],
    "models": ["smollm2-135m-it-q4"],
    "generation": {"max_new_tokens": 12, "batch_size": 8},
    "judges": ["refusal_rules"],
}
SETTINGS = [(dtype, size) for dtype in ("bfloat16", "float32") for size in (1, 8)]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study with replies, in a root of its own."""
    root = tmp_path_factory.mktemp("project")
    (root / "params").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLMSAFETY_ROOT", str(root))
        study = Study.load(SMALL)
        study.collect(["prompts", "generate"])
        yield study


@pytest.fixture(scope="module")
def floor(study):
    """Its noise floor on one suite."""
    return study.noise(6, ["demo_direct"])


def test_float32_changes_nothing_and_bfloat16_changes_replies(floor):
    assert list(zip(floor["dtype"], floor["batch_size"], strict=True)) == SETTINGS
    assert set(floor["n"]) == {6}
    exact, rough = floor[floor["dtype"] == "float32"], floor[floor["dtype"] == "bfloat16"]
    assert exact[["changed", "verdicts_changed", "flips"]].to_numpy().sum() == 0
    assert exact["same_start"].isna().all()
    assert rough["changed"].sum() > 0
    assert rough["same_start"].dropna().between(0, 1, inclusive="left").all()
    assert set(floor["ar"]) == set(exact["ar_again"])
    assert set(floor["device"]) == {"cpu"}
    assert set(floor["model_name"]) == {"SmolLM2-135M IT q4"}


def test_a_further_suite_is_added_and_nothing_is_run_twice(study, floor, capsys):
    before = (study.folder / "noise.csv").read_bytes()
    pd.testing.assert_frame_equal(study.noise(6, ["demo_direct"]), floor)
    assert "noise: 0 settings measured, 4 kept: runs/small/noise.csv" in capsys.readouterr().out
    assert (study.folder / "noise.csv").read_bytes() == before
    both = study.noise(6)
    assert "noise: 4 settings measured, 4 kept" in capsys.readouterr().out
    assert both.groupby("suite")["n"].first().to_dict() == {"demo_direct": 6, "demo_framed": 2}
    pd.testing.assert_frame_equal(both[both["suite"] == "demo_direct"], floor)
    assert not [path for path in study.folder.iterdir() if path.name.startswith(".noise")]
    assert len(read_table(study.folder, "responses", [])) == 8  # nothing of it enters the study


def test_the_verb_prints_the_table_and_refuses_what_is_not_there(study, floor, capsys):
    (study.root / "params/small.yaml").write_text(f"study: {SMALL}\n")
    assert main(["noise", "small", "--sample", "6", "--suite", "demo_direct"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "noise: 0 settings measured, 4 kept: runs/small/noise.csv"
    exact = [line for line in lines if "demo_direct" in line and "float32" in line]
    assert len(exact) == 2
    assert all(line.count("0 (0.00-0.39)") == 3 for line in exact)
    assert main(["noise", "small", "--suite", "demo_drect"]) == 2
    assert "unknown suite 'demo_drect' in study small; did you mean 'demo_direct'?" in capsys.readouterr().err
    assert main(["noise", "small", "--sample", "-1"]) == 2
    assert main(["noise", "published"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_models_behind_endpoints_are_left_out_aloud(study, floor, capsys):
    served = {"id": "served-slm", "endpoint": "http://localhost:9/v1", "served": "slm"}
    wider = Study.load({**SMALL, "models": [*SMALL["models"], served]})
    found = wider.noise(6, ["demo_direct"])
    assert set(found["model"]) == {"smollm2-135m-it-q4"}
    assert "noise: served-slm is left out, since its server chooses batches and dtype" in capsys.readouterr().out


def test_an_interrupted_run_is_continued_and_takes_the_place_of_another_sample(study, floor, monkeypatch, capsys):
    """And other parameters of the study have a floor of their own."""
    calls, ran = [], []

    def stop(*given):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        frames = list(generate(*given))
        made = [json.loads(meta) for frame in frames for meta in frame["meta"]]
        ran.extend({(each["dtype"], each["batch_size"]) for each in made})
        return frames

    monkeypatch.setattr("slmsafety.generation.transformers_engine.generate", stop)
    with pytest.raises(KeyboardInterrupt):
        study.noise(1, ["demo_framed"])
    assert sorted(study.noise().groupby("suite")["n"].get_group("demo_framed")) == [1, 1, 2, 2]
    both = study.noise(1, ["demo_framed"])
    assert "noise: 2 settings measured, 2 kept" in capsys.readouterr().out
    assert len(calls) == 3 + 2
    framed = both[both["suite"] == "demo_framed"]
    assert sorted(ran) == sorted(zip(framed["dtype"], framed["batch_size"], strict=True))
    assert both.groupby("suite")["n"].unique().map(list).to_dict() == {"demo_direct": [6], "demo_framed": [1]}
    other = Study.load({**SMALL, "suites": SMALL["suites"][:1], "generation": {"max_new_tokens": 5}})
    assert other.noise().empty
    with pytest.raises(
        InputError, match="study small has no finished replies of its own; run: slmsafety collect small"
    ):
        other.noise(3)
