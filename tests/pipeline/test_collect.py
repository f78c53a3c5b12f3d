"""The pipeline on real weights: resumed runs equal uninterrupted ones, and a changed setting makes new rows."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from tiny_models import write_model

from slmsafety.errors import InputError
from slmsafety.models.outline import Outline
from slmsafety.params.study import load_params
from slmsafety.pipeline.generate import generate_replies
from slmsafety.pipeline.run import Run
from slmsafety.records.schema import TABLES
from slmsafety.records.store import read_table
from slmsafety.study import Study

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[2]
# How often the child is killed; the release check raises it to 20.
KILLS = int(os.environ.get("SLMSAFETY_TEST_KILLS", "2"))
SMALL = {
    "kind": "run",
    "suites": [{"name": "demo_direct", "limit": 12}, {"name": "demo_framed", "limit": 4}],
    "models": ["smollm2-135m-it-q4"],
    "generation": {"max_new_tokens": 12, "batch_size": 2},
    "judges": ["refusal_rules"],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A project root of its own, so that nothing touches the repository's runs."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "params").mkdir()
    before = os.environ.get("SLMSAFETY_ROOT")
    os.environ["SLMSAFETY_ROOT"] = str(folder)
    yield folder
    os.environ.pop("SLMSAFETY_ROOT") if before is None else os.environ.update(SLMSAFETY_ROOT=before)


@pytest.fixture(scope="module")
def whole(root):
    """The study collected without interruption."""
    study = Study.load({"name": "whole", **SMALL})
    study.collect()
    return study


def tables(study: Study) -> dict[str, pd.DataFrame]:
    """Every table of a study, sorted by key."""
    return {name: read_table(study.folder, name) for name in TABLES}


def test_every_stage_leaves_every_row(whole):
    found = tables(whole)
    assert {name: len(frame) for name, frame in found.items()} == {
        "prompts": 16,
        "responses": 16,
        "judgments": 16,
        "prompt_metrics": 16,
        "reply_metrics": 16,
        "own_metrics": 0,
    }
    assert whole.complete()
    assert found["responses"]["output_tokens"].between(1, 12).all()
    assert found["reply_metrics"]["similarity"].between(-1, 1).all()
    assert not list(whole.folder.rglob("*.jsonl"))
    assert len(list((whole.folder / "manifests").glob("*.json"))) == 1


def test_the_manifest_says_what_made_the_tables(whole):
    (path,) = (whole.folder / "manifests").glob("*.json")
    manifest = json.loads(path.read_text())
    assert manifest["given"]["name"] == "whole"
    assert manifest["resolved"]["generation"]["dtype"] == "float32"
    assert set(manifest["suites"]) == {"demo_direct", "demo_framed"}
    assert len(manifest["models"]["smollm2-135m-it-q4"]["gguf_sha256"]) == 64
    assert set(manifest["generation_ids"]) == {f"{suite} smollm2-135m-it-q4" for suite in manifest["suites"]}
    assert manifest["start"] <= manifest["end"]
    assert {"torch", "transformers", "slmsafety"} <= manifest["packages"].keys()
    assert manifest["device"]


def test_a_second_run_makes_nothing(whole, capsys):
    before = {path: path.stat().st_mtime_ns for path in whole.folder.rglob("*.parquet")}
    whole.collect()
    assert {path: path.stat().st_mtime_ns for path in whole.folder.rglob("*.parquet")} == before
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("manifest")]
    assert lines
    assert all(" 0 new, " in line for line in lines)


def test_a_changed_setting_makes_new_rows_and_keeps_the_old(root, whole):
    other = {**SMALL, "generation": {"max_new_tokens": 5, "batch_size": 2}, "suites": SMALL["suites"][1:]}
    changed = Study.load({"name": "whole", **other})
    assert not changed.complete()
    changed.collect()
    rows = read_table(changed.folder, "responses")
    assert rows.groupby("generation_id").size().sort_values().tolist() == [4, 16]
    assert len(changed.table("responses")) == 4
    assert changed.table("responses")["output_tokens"].max() <= 5
    assert len(whole.table("responses")) == 16
    assert len(whole.labels()) == 16


def test_batch_size_is_no_new_work(whole):
    other = Study.load({"name": "whole", **SMALL, "generation": {"max_new_tokens": 12, "batch_size": 7}})
    assert other.complete()


@pytest.mark.parametrize("revision", [None, "main"])
def test_a_hub_model_that_has_changed_since_is_not_mixed_in(root, smollm2, monkeypatch, revision):
    """A branch moves as well as what no revision is given of."""
    commits = ["a" * 40, "a" * 40, "b" * 40]

    def load(source, *, dtype):
        assert source.hub == "someone/tiny"
        return replace(smollm2, revision=commits.pop(0))

    monkeypatch.setattr("slmsafety.models.load.load_causal_lm", load)
    outline = Outline(smollm2.tokenizer, smollm2.context_length, (2,))
    monkeypatch.setattr("slmsafety.models.outline.read_outline", lambda source: outline)
    suites = [{"name": "demo_direct", "limit": 4}]
    entry = {"id": "tiny", "hub": "someone/tiny", **({"revision": revision} if revision else {})}
    study = Study.load({"name": f"moved-{revision}", **SMALL, "suites": suites, "models": [entry]})
    study.collect(["prompts", "generate"])
    path = study.folder / "responses/demo_direct/tiny.parquet"
    for _ in range(2):
        pd.read_parquet(path).head(2).to_parquet(path)
        if commits == ["b" * 40]:
            with pytest.raises(InputError, match=f"commit {'b' * 40} on the hub now, .* at {'a' * 40}; give it `revis"):
                study.collect(["generate"])
        else:
            study.collect(["generate"])
            assert len(pd.read_parquet(path)) == 4
    assert len(pd.read_parquet(path)) == 2


def test_a_folder_that_changes_while_a_run_is_at_work_is_not_mixed_in(root, tmp_path):
    """Its id was taken from other files: rows would stand under the id of another model."""
    folder = write_model(tmp_path / "words")
    suites, models = [{"name": "demo_direct", "limit": 2}], [{"id": "words", "folder": str(folder)}]
    study = Study.load({"name": "changed", **SMALL, "suites": suites, "models": models})
    study.collect(["prompts"])
    run = Run(study.params, root)
    assert len(run.generation_ids) == 1
    (folder / "generation_config.json").write_text('{"eos_token_id": 3}')
    stopped: dict[str, str] = {}
    list(generate_replies(run, stopped))
    assert "its files changed while this run was at work; run again" in stopped["words"]
    assert not list(study.folder.glob("responses/**/*.parquet"))
    study.collect(["generate"])
    assert len(study.table("responses")) == 2


def test_stages_run_alone_and_say_what_they_miss(root):
    study = Study.load({"name": "staged", **SMALL})
    with pytest.raises(InputError, match="suite 'demo_direct' has no prompts in staged yet; run the stage 'prompts'"):
        study.collect(["judge"])
    study.collect(["prompts"])
    status = study.status().set_index(["stage", "suite"])
    assert status.loc[("prompts", "demo_direct"), "done"] == 12
    assert status.loc[("generate", "demo_direct"), "missing"] == 12
    with pytest.raises(InputError, match="unknown stage 'jugde'; did you mean 'judge'"):
        study.collect(["jugde"])


def test_changed_prompts_are_refused(root):
    small = {**SMALL, "suites": [{"name": "demo_direct", "limit": 3}]}
    Study.load({"name": "fixed", **small}).collect(["prompts"])
    with pytest.raises(
        InputError, match=r"suite 'demo_direct' differs from the prompts in .*fixed; give the study a new name"
    ):
        Study.load({"name": "fixed", **small, "seed": 7}).collect(["prompts"])


def test_ctrl_c_stops_with_one_line_and_keeps_what_is_finished(root):
    more = {**SMALL, "suites": ["demo_direct"]}
    (root / "params" / "stopped.yaml").write_text(yaml.safe_dump({"study": {"name": "stopped", **more}}))
    command = [sys.executable, "-m", "slmsafety", "collect", "stopped"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    folder = root / "runs" / "stopped"
    deadline = time.monotonic() + 120
    # A second batch is begun when the first is kept: a batch that is stopped on its way to the disk is taken back.
    while sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.jsonl")) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err == "slmsafety: stopped; finished rows are kept, the same command goes on from there\n"
    assert 0 < len(read_table(folder, "responses", [])) < 52


def test_multiple_choice_has_its_own_judge_limit_and_outcome(root):
    """BBQ beside a suite of labels: one token, accuracy instead of HCR, AR and SRR, and no control of anything."""
    if not os.environ.get("SLMSAFETY_DATA"):
        pytest.skip("SLMSAFETY_DATA names no folder of public data files")
    bbq = {"name": "bbq", "path": "$SLMSAFETY_DATA/bbq/data", "limit": 6, "max_new_tokens": 1}
    harm = {"name": "demo_direct", "limit": 4}
    study = Study.load({"name": "choice", **SMALL, "suites": [bbq, harm], "judges": ["refusal_rules", "bbq_letter"]})
    study.collect()
    assert study.complete()
    tokens = study.table("responses").groupby("suite")["output_tokens"].max()
    assert tokens["bbq"] == 1 < tokens["demo_direct"]
    pairs = study.table("judgments", ["judge"])[["suite", "judge"]].drop_duplicates()
    assert set(pairs.itertuples(index=False, name=None)) == {("bbq", "bbq_letter"), ("demo_direct", "refusal_rules")}
    assert study.outcomes()["suite"].tolist() == ["demo_direct"]
    assert study.judges() == ["refusal_rules"]
    row, tolerant = study.accuracies().itertuples()
    assert (row.reading, row.n, tolerant.reading, tolerant.n) == ("exact", 6, "tolerant", 6)
    assert 0 <= row.accuracy <= tolerant.accuracy <= 1
    assert row.suite_title.startswith("BBQ-6")
    assert study.scores().set_index("suite").loc["bbq", "mean"] == row.accuracy
    sizes = study.suite_sizes().set_index("suite")
    assert sizes["choices"].sum() == 6
    assert sizes["prompts"].sum() + sizes["controls"].sum() == 4


def test_three_suites_come_in_by_path(root):
    if not os.environ.get("SLMSAFETY_DATA"):
        pytest.skip("SLMSAFETY_DATA names no folder of public data files")
    params = load_params(str(REPOSITORY / "params/two_slms.yaml"))
    study = Study.load(params.model_dump(mode="json"))
    study.collect(["prompts"])
    sizes = study.suite_sizes()
    sizes = sizes.set_index("suite_title")
    assert sizes["prompts"].to_dict() == {"BBQ-6": 0, "HarmBench": 400, "Simple Safety Tests": 100}
    assert sizes["choices"].to_dict() == {"BBQ-6": 1000, "HarmBench": 0, "Simple Safety Tests": 0}


def test_replies_are_not_kept_for_prompts_that_are_gone(root):
    small = {**SMALL, "suites": [{"name": "demo_framed", "limit": 2}]}
    study = Study.load({"name": "gone", **small})
    study.collect(["prompts", "generate"])
    (study.folder / "prompts/demo_framed.parquet").unlink()
    with pytest.raises(InputError, match="holds replies to prompts of 'demo_framed' that are gone; delete the folder"):
        study.collect()


def test_a_changed_setting_without_rows_says_what_to_run(whole):
    other = Study.load({"name": "whole", **SMALL, "generation": {"max_new_tokens": 9}})
    with pytest.raises(
        InputError, match="study whole has no judgments under these settings yet; run: slmsafety collect"
    ):
        other.outcomes()


def test_a_killed_run_ends_like_an_uninterrupted_one(root, whole):
    """kill -9 at random moments, then once to the end: the same tables, and no finished reply made twice."""
    (root / "params" / "killed.yaml").write_text(yaml.safe_dump({"study": {"name": "killed", **SMALL}}))
    command = [sys.executable, "-m", "slmsafety", "collect", "killed"]
    rng = random.Random(2)
    for _ in range(KILLS):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        _wait_for_new_rows(root / "runs" / "killed", child)
        time.sleep(rng.uniform(0.0, 1.5))
        child.send_signal(signal.SIGKILL)
        child.wait()
    finished = len(read_table(root / "runs" / "killed", "responses", []))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    killed = Study.load("killed")
    kept = [int(line.split()[3]) for line in done.stdout.splitlines() if line.startswith("generate:")]
    assert 0 < sum(kept) == finished
    for name, frame in tables(whole).items():
        # The study above also made rows under another setting; compare those of this one.
        expected = frame if "generation_id" not in frame else frame[frame["generation_id"].isin(_ids(killed))]
        pd.testing.assert_frame_equal(read_table(killed.folder, name), expected.reset_index(drop=True))


def _wait_for_new_rows(folder: Path, child: subprocess.Popen[bytes]) -> None:
    """Wait until the child has written something that was not there before, or has ended."""
    before = _bytes(folder)
    deadline = time.monotonic() + 120
    while _bytes(folder) <= before and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)


def _bytes(folder: Path) -> int:
    """The size of all tables and journals, one that vanishes meanwhile left out."""
    total = 0
    for path in (path for path in folder.rglob("*.*") if path.suffix in (".parquet", ".jsonl")):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _ids(study: Study) -> list[str]:
    return read_table(study.folder, "responses", ["generation_id"])["generation_id"].unique().tolist()
