"""What generating replies takes, without a hub and without weights."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from slmsafety.cli import main
from slmsafety.pipeline.generation_estimate import estimate_generation, generation_totals
from slmsafety.study import Study


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    (tmp_path / "params").mkdir()
    (tmp_path / "mild.csv").write_text("instance_id,prompt\n" + "".join(f"{i},{'word ' * 8}\n" for i in range(5)))
    return tmp_path


def study(models: list[object], **generation: object) -> Study:
    suites = [{"name": "mild", "path": "mild.csv"}, {"name": "sst", "max_new_tokens": 10}]
    common = {"name": "mine", "kind": "run", "suites": suites, "judges": ["refusal_rules"]}
    return Study.load({**common, "models": models, "generation": {"max_new_tokens": 20, **generation}})


def test_replies_tokens_downloads_and_hours_are_those_of_what_is_left(root, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(root / "cache"))
    served = {"id": "served", "endpoint": "http://127.0.0.1:9/v1", "served": "tiny"}
    models = ["gpt2-xl", {"id": "unknown", "hub": "someone/tiny"}, served, "smollm2-135m-it-q4"]
    table = estimate_generation(study(models).run, 100.0).set_index(["model", "suite"])
    assert table["replies"].unstack().drop_duplicates().to_dict("records") == [{"mild": 5, "sst": 100}]
    assert table["new_tokens"].unstack().drop_duplicates().to_dict("records") == [{"mild": 100, "sst": 1000}]
    assert table.loc["gpt2-xl", "download_gb"].tolist() == [3.0, 0.0]
    assert table["download_gb"].isna().groupby("model").sum().to_dict() == {
        "gpt2-xl": 0,
        "served": 0,
        "smollm2-135m-it-q4": 0,
        "unknown": 1,
    }
    assert table.loc[("gpt2-xl", "sst"), "hours"] == pytest.approx(1000 / 100 / 3600)
    assert table.loc["served", "hours"].isna().all()
    weights = root / "cache/models--openai-community--gpt2-xl/snapshots/abc/model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.touch()
    again = estimate_generation(study(models).run)
    assert again.loc[again["model"] == "gpt2-xl", "download_gb"].sum() == 0
    assert again["hours"].isna().all()
    said = generation_totals(again)
    assert "of unknown size" in said and "unknown" in said and "hours not known (--tokens-per-second)" in said


def test_stored_prompts_are_counted_and_samples_multiply(root):
    asked = study(["gpt2-xl"], samples=3, temperature=1.0)
    before = estimate_generation(asked.run).set_index("suite")
    assert before["replies"].to_dict() == {"mild": 15, "sst": 300}
    mild = Study.load({**asked.given, "suites": [{"name": "mild", "path": "mild.csv"}]})
    mild.collect(["prompts"])
    (row,) = estimate_generation(mild.run).to_dict("records")
    assert row["replies"] == 15
    assert row["prompt_tokens"] == 15 * 8  # words of a prompt


@pytest.mark.parametrize("name", ["demo", "two_slms", "paper"])
def test_the_studies_are_estimated_offline(name, tmp_path, monkeypatch, capsys):
    """No hub is asked: every socket is refused."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def refuse(*_: object) -> None:
        raise AssertionError("a server was asked")

    monkeypatch.setattr("socket.socket.connect", refuse)
    assert main(["estimate", name, "--tokens-per-second", "500"]) == 0
    said = capsys.readouterr().out
    assert "generation: " in said and " hours" in said
    assert ("its judges cost nothing" in said) is (name != "paper")
    if name == "paper":
        table = estimate_generation(Study.load("paper").run)
        assert table["model"].nunique() == 26 and table["download_gb"].notna().all()
        assert isinstance(table, pd.DataFrame) and 50 < table["download_gb"].sum() < 80


def test_a_rate_that_is_none_is_refused(capsys):
    assert main(["estimate", "demo", "--tokens-per-second", "0"]) == 2
    assert "give a number above 0" in capsys.readouterr().err
