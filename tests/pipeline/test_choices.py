"""A study of HarmBench, Simple Safety Tests and a part of BBQ: every stage but generation, then Figures 1, 2 and 4."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from bbq_files import write_bbq

from slmsafety.analysis.outcomes import missing
from slmsafety.analysis.rankings import rank_within_suites
from slmsafety.analysis.treatments import treatment_scores
from slmsafety.records.schema import RESPONSES
from slmsafety.records.store import Partition
from slmsafety.report import figures as draw
from slmsafety.study import Study

TALKS, BABBLES = "gemma3-270m-base-q4", "smollm2-135m-it-q4"
HARMBENCH = "Behavior,FunctionalCategory,SemanticCategory,Tags,ContextString,BehaviorID\n" + "".join(
    f"Is {n} odd?,standard,harmful,,,b{n}\n" for n in range(3)
)
SST = "id,harm_area,counter,category,prompts_final\nsst_1,Colours,1,Advice,Is red warm?\n"
# BBQ's replies by model: of eight items in a row two are of each polarity and condition.
SAYS = {
    TALKS: ["A", "B", "C", "A", "B.", "Answer: B", "C", "B"],
    BABBLES: ["The", "The", "", "The", "A", "The", "The", "The"],
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The study after its prompts were loaded, its replies written down by hand, and the real judges run."""
    root = tmp_path_factory.mktemp("project")
    (root / "params").mkdir()
    (root / "harmbench.csv").write_text(HARMBENCH)
    (root / "sst.csv").write_text(SST)
    write_bbq(root / "bbq", "Religion", "Sexual_orientation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLMSAFETY_ROOT", str(root))
        mapping = {
            "name": "choices",
            "kind": "run",
            "suites": [
                {"name": "harmbench", "path": "harmbench.csv"},
                {"name": "sst", "path": "sst.csv"},
                {"name": "bbq", "path": "bbq", "max_new_tokens": 1},
            ],
            "models": [TALKS, BABBLES],
            "judges": ["refusal_rules", "bbq_letter"],
        }
        study = Study.load(mapping)
        study.collect(["prompts"])
        for key, generation_id in study.run.generation_ids.items():
            Partition(study.folder, RESPONSES, key).replace(replies(study, *key, generation_id))
        study.collect(["judge"])
        yield study


@pytest.fixture(scope="module")
def scores(study):
    """Its scores, for one suite and model a row."""
    return study.scores()


def replies(study: Study, suite: str, model: str, generation_id: str) -> pd.DataFrame:
    """A response for every prompt of a suite."""
    prompts = study.table("prompts", ["meta"])
    prompts = prompts[prompts["suite"] == suite].reset_index(drop=True)
    texts = ["I cannot help with that."] * len(prompts)
    if suite == "bbq":
        places = [json.loads(meta)["example_id"] % 8 for meta in prompts["meta"]]
        texts = [SAYS[model][place] for place in places]
    frame = prompts[["suite", "instance_id"]].assign(model=model, generation_id=generation_id, response=texts)
    frame["finish_reason"] = frame["response"].map(lambda text: "length" if text else "empty")
    return frame.assign(prompt_tokens=5, output_tokens=1, prompt_truncated=False, meta="{}")


def test_the_status_counts_what_a_part_of_a_suite_holds(study):
    """Before any prompt is stored, a user's own file is counted; a suite without one has its full number."""
    suites = [
        *study.given["suites"][:2],
        {"name": "bbq_full", "path": "bbq"},
        {"name": "bbq", "path": "bbq", "limit": 7},
    ]
    fresh = Study.load({**study.given, "name": "fresh", "suites": [*suites, "xstest"]})
    state = fresh.status()
    assert state.loc[state["stage"] == "prompts"].set_index("suite")["missing"].to_dict() == {
        "harmbench": 3,
        "sst": 1,
        "bbq_full": 1200 + 864,
        "bbq": 7,
        "xstest": 450,
    }
    assert not fresh.folder.exists()


def test_every_suite_is_called_by_the_part_that_it_is(study, scores):
    assert study.suite_files()["title"].tolist() == ["HarmBench-3", "Simple Safety Tests-1", "BBQ-2"]
    assert "choices" in study.capabilities
    assert scores["suite_title"].unique().tolist() == ["HarmBench-3", "Simple Safety Tests-1", "BBQ-2"]


def test_accuracy_and_bias_by_reading_and_formula(study, scores):
    rows = study.accuracies().set_index(["model", "reading"])
    items = study.table("prompts", ["meta"])["meta"].map(json.loads)
    places = pd.Series([item["example_id"] % 8 for item in items if "example_id" in item])
    # Places 0, 2, 4 and 6 are ambiguous (C is right), the others give the answer away (B is right).
    exact, tolerant = rows.loc[(TALKS, "exact")], rows.loc[(TALKS, "tolerant")]
    assert exact["n"] == len(places) == 1000
    assert exact["accuracy"] == places.isin([1, 2, 6, 7]).mean()
    assert tolerant["accuracy"] == places.isin([1, 2, 5, 6, 7]).mean()
    assert exact["unmapped"] == places.isin([4, 5]).mean()
    assert tolerant["unmapped"] == 0
    drawn = scores.set_index(["suite", "model"])
    assert drawn.loc[("bbq", TALKS), "mean"] == exact["accuracy"] != tolerant["accuracy"]
    assert missing(drawn)["bbq", BABBLES] == places.eq(2).sum()
    babble = rows.loc[(BABBLES, "exact")]
    assert babble["empty"] == places.eq(2).sum()
    assert babble["n"] + babble["empty"] == 1000
    assert babble["accuracy"] == 0
    bias = study.biases().set_index(["model", "reading", "formula"])
    assert bias.loc[(BABBLES, "exact", "HELM"), "disambiguated"] == -1
    assert bias.loc[(BABBLES, "exact", "Parrish"), ["n_disambiguated", "n_ambiguous"]].tolist() == [
        0,
        places.eq(4).sum(),
    ]


def test_the_figures_cover_every_suite(study, scores):
    ranked = scores.assign(rank=rank_within_suites(scores, "mean"))
    treated = treatment_scores(scores)
    trajectories = study.named(treated.assign(rank=rank_within_suites(treated)))
    first, second = draw.fig1_rankings(scores, ranked), draw.fig2_proportions(scores)
    fourth = draw.fig4_rank_sensitivity(trajectories)
    titles = [
        [ax.get_title().replace("\n", " ") for ax in fig.axes if ax.get_title()] for fig in (first, second, fourth)
    ]
    assert titles[0] == ["BBQ-2 accuracy", "HarmBench-3", "Simple Safety Tests-1"]
    assert titles[1] == ["BBQ-2 n at the bars", "HarmBench-3 n = 3", "Simple Safety Tests-1 n = 1"]
    assert titles[2] == ["BBQ-2", "HarmBench-3", "Simple Safety Tests-1"]
