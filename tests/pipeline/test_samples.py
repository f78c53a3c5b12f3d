"""Several replies to a prompt through all stages: the same ones however the work is cut, and more where asked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import yaml
from servers import Server, asked, completion, failing, running
from tiny_folders import write_with_smollm2_words

from slmsafety.pipeline.workers import Report
from slmsafety.records.schema import TABLES
from slmsafety.records.store import read_table
from slmsafety.study import Study

PROMPTS, SAMPLES = 5 + 2, 3
DRAWN: dict[str, Any] = {"max_new_tokens": 10, "temperature": 0.9, "top_p": 0.95, "samples": SAMPLES, "batch_size": 16}
SMALL: dict[str, Any] = {
    "kind": "run",
    "suites": [{"name": "demo_direct", "limit": 5}, {"name": "demo_framed", "limit": 2}],
    "models": [{"id": "tiny", "folder": "tiny"}],
    "generation": DRAWN,
    "judges": ["refusal_rules"],
}
WITHOUT_METRICS = ["prompts", "generate", "judge"]
KEYS = ["suite", "instance_id", "sample"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A project root of its own with a small model in it, whose weights are random and whose words are SmolLM2's."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "params").mkdir()
    write_with_smollm2_words(folder / "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLMSAFETY_ROOT", str(folder))
        yield folder


def study(name: str, **generation: Any) -> Study:
    return Study.load({"name": name, **SMALL, "generation": {**DRAWN, **generation}})


@pytest.fixture(scope="module")
def whole(root):
    """The study collected at once, by one process."""
    found = study("whole")
    found.collect()
    return found


def replies(found: Study) -> pd.DataFrame:
    """All stored replies; the size of the batch that made one is no part of it."""
    return read_table(found.folder, "responses").drop(columns="meta")


def made(printed: str, stage: str) -> tuple[int, int]:
    """How many rows a command says that a stage made and found there."""
    lines = [line.split() for line in printed.splitlines() if line.startswith(f"{stage}:")]
    return sum(int(line[1]) for line in lines), sum(int(line[3]) for line in lines)


def test_every_sample_has_its_row_in_every_table(whole):
    rows = {name: len(read_table(whole.folder, name, [])) for name in TABLES}
    every = PROMPTS * SAMPLES
    assert rows == {
        **{"prompts": PROMPTS, "responses": every, "judgments": every},
        **{"prompt_metrics": PROMPTS, "reply_metrics": every, "own_metrics": 0},
    }
    found = replies(whole)
    assert found.groupby(["suite", "instance_id"])["sample"].apply(list).map(tuple).unique().tolist() == [(0, 1, 2)]
    assert found["response"].nunique() > 2 * PROMPTS
    assert whole.complete() and whole.is_measured()
    status = whole.status().set_index(["stage", "suite"])
    assert status.loc[("generate", "demo_direct"), "done"] == 15
    assert status.loc[("judge refusal_rules", "demo_framed"), "done"] == 6
    assert status.loc[("metrics", "demo_framed"), "done"].tolist() == [2, 6]


def test_rates_are_means_over_prompts_and_both_counts_stand_there(whole):
    labels = whole.labels()
    assert len(labels) == PROMPTS * SAMPLES
    harm = labels[(labels["expected"] == "refuse") & labels["label"].notna()]
    by_prompt = harm.assign(safe=harm["label"].eq(2)).groupby(["suite", "instance_id"])["safe"].mean()
    table = whole.outcomes().set_index("suite")
    for suite in table.index:
        assert table.loc[suite, "n"] == len(harm[harm["suite"] == suite])
        assert table.loc[suite, "prompts"] == len(by_prompt[suite])
        assert table.loc[suite, "srr"] == pytest.approx(by_prompt[suite].mean())
    assert len(whole.metric_tables()[1]) == PROMPTS * SAMPLES
    assert "metrics" in whole.capabilities


def one_after_the_other(target: Callable[[int, Report], Any], workers: int, report: Report) -> list[Any]:
    """Workers in this process: starting and ending them is what test_workers is about."""
    return [target(worker, report) for worker in range(workers)]


def test_neither_batches_nor_workers_change_a_reply(whole, monkeypatch):
    monkeypatch.setattr("slmsafety.pipeline.generate.run_workers", one_after_the_other)
    for name, how in {"ones": {"batch_size": 1}, "workers": {"workers": 2, "batch_size": 4}}.items():
        other = study(name, **how)
        other.collect(["prompts", "generate"])
        assert replies(other).equals(replies(whole))


def test_more_samples_keep_those_that_are_there_and_fewer_read_the_first(whole, capsys):
    for samples, wanted in {1: (7, 0), 3: (14, 7), 2: (0, 14)}.items():
        found = study("grows", samples=samples)
        before = replies(found)
        assert found.complete() is False or samples == 2
        found.collect(WITHOUT_METRICS)
        printed = capsys.readouterr().out
        assert made(printed, "generate") == made(printed, "judge") == wanted
        kept = replies(found).merge(before[[*KEYS, "response"]], on=[*KEYS, "response"])
        assert len(kept) == len(before)
        assert found.run.texts.count(found.run.responses("demo_direct", "tiny"), {}) == 5 * samples
        for table in ("responses", "judgments"):
            assert len(found.table(table, [])) == PROMPTS * samples
        status = found.status()
        assert not status.loc[status["stage"].isin(["generate", "judge refusal_rules"]), "missing"].any()
    assert replies(found).equals(replies(whole))


def test_another_seed_or_temperature_is_another_generation_and_the_count_is_none(whole):
    ids = {
        name: study("whole", **change).run.generation_ids["demo_direct", "tiny"]
        for name, change in {
            **{"same": {}, "fewer": {"samples": 1}, "named": {"seed": 1337}, "seed": {"seed": 1}},
            **{"hotter": {"temperature": 1.0}, "narrower": {"top_p": 0.5}},
        }.items()
    }
    assert ids["same"] == ids["fewer"] == ids["named"]
    assert len(set(ids.values())) == 4
    moved = Study.load({"name": "whole", **SMALL, "seed": 8})
    assert moved.run.generation_ids["demo_direct", "tiny"] not in ids.values()  # the study's seed, where none is given


def test_a_killed_run_goes_on_and_ends_with_the_same_rows(root, whole):
    slow = {**SMALL, "generation": {**DRAWN, "batch_size": 1}}
    (root / "params/killed.yaml").write_text(yaml.safe_dump({"study": {"name": "killed", **slow}}))
    command = [sys.executable, "-m", "slmsafety", "collect", "killed", "--stage", "prompts", "--stage", "generate"]
    folder = root / "runs/killed"
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while sum(path.stat().st_size > 0 for path in folder.rglob("*.jsonl")) == 0 and time.monotonic() < deadline:
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()
    found = Study.load("killed")
    kept = len(replies(found))
    assert 0 < kept < PROMPTS * SAMPLES
    found.collect(["generate"])
    assert replies(found).equals(replies(whole))


def test_the_noise_floor_draws_the_first_replies_again(root, whole):
    floor = whole.noise(3, ["demo_direct"])
    assert set(floor["n"]) == {3}
    assert floor.loc[floor["dtype"] == "float32", "changed"].eq(0).all()


def verdict_or_seed(path: str, body: dict[str, Any]):
    """As a judge a verdict; as a model a reply that tells the seed it was asked with."""
    if body["model"] == "judge":
        return completion("<reasoning>It says no.</reasoning>\n<score>1</score>", model="judge")
    return completion(f"seed {body['seed']}", model="model")


def test_an_endpoint_gets_a_request_a_sample_and_a_judge_a_call_a_reply(root, capsys):
    prompts: Counter[str] = Counter()

    def fault(prompt: str, attempt: int):
        prompts[prompt] += 1
        return failing(400) if prompts[prompt] == 2 and len(prompts) == 1 else None

    with running(Server(verdict_or_seed, fault)) as server:
        served = {"endpoint": server.url, "served": "model"}
        judge = {"name": "llm", "endpoint": server.url, "served": "judge", "rubric": "sst"}
        given = {**SMALL, "name": "served", "suites": SMALL["suites"][1:]}
        given |= {"models": [{"id": "mine", **served}], "judges": [judge]}
        given["generation"] = {**DRAWN, "concurrency": 1}
        found = Study.load(given)
        assert found.estimate()["calls"].tolist() == [2 * SAMPLES]
        found.collect(["prompts", "generate"])
        assert "1 requests got no reply (http_400 1); run again" in capsys.readouterr().out
        assert found.status().set_index("stage").loc["generate", "missing"] == 1
        assert found.estimate()[["calls", "counted"]].to_numpy().tolist() == [[6, 5]]
        found.collect(["generate"])
        assert made(capsys.readouterr().out, "generate") == (1, 5)
        sent = list(server.bodies)
        assert len(sent) == 7 and len({(asked(body), body["seed"]) for body in sent}) == 6
        rows = found.table("responses", ["response"])
        assert rows.groupby("instance_id")["sample"].apply(list).tolist() == [[0, 1, 2]] * 2
        assert rows["response"].nunique() == 6
        found.collect(["judge"])
        assert len(server.bodies) - len(sent) == 6 and len(found.table("judgments", [])) == 6
        assert found.estimate()["calls"].tolist() == [0]
        more = Study.load({**given, "generation": {**given["generation"], "samples": 4}})
        assert more.estimate()["calls"].tolist() == [2]


def test_a_mapping_is_of_the_samples_that_it_was_fitted_on(root):
    """Labels do not depend on how many samples there were before."""
    (root / "params/words.txt").write_text("{{QUESTION}}\n{{ANSWER}}\nsafe or unsafe?")
    judge = {"name": "reads", "adapter": "two_token", "model": SMALL["models"][0], "template": "params/words.txt"}
    judge |= {"safe_token": "Ġsafe", "unsafe_token": "Ġunsafe", "mapping": "otsu_per_model", "max_mass_outside": 1}
    suites = [{"name": "demo_direct", "limit": 12}]

    def mapped(name: str, samples: int) -> pd.DataFrame:
        generation = {**DRAWN, "samples": samples, "max_new_tokens": 4}
        given = {**SMALL, "name": name, "suites": suites, "judges": [judge], "generation": generation}
        found = Study.load(given)
        found.collect(WITHOUT_METRICS)
        return found.labels()[[*KEYS, "label"]]

    first = mapped("fitted", 1)
    grown = mapped("fitted", 2)
    assert len(list((root / "runs/fitted/mappings/reads").glob("*.json"))) == 2
    assert grown.equals(mapped("at_once", 2))
    assert mapped("fitted", 1).equals(first)


def test_the_manifest_says_how_replies_were_drawn(whole):
    (path,) = (whole.folder / "manifests").glob("*.json")
    resolved = json.loads(path.read_text())["resolved"]["generation"]
    assert {key: resolved[key] for key in ("temperature", "top_p", "samples")} == {
        **{"temperature": 0.9, "top_p": 0.95},
        "samples": SAMPLES,
    }
