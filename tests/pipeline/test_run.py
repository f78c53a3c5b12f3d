"""A run: ids, partitions, and files that are read once a command."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from slmsafety.errors import InputError
from slmsafety.params.study import load_params
from slmsafety.pipeline.collect import collect
from slmsafety.pipeline.run import Run
from slmsafety.pipeline.shards import Shard
from slmsafety.pipeline.status import study_status
from slmsafety.suites.catalogue import load_suite

LLM = {"name": "gpt", "endpoint": "http://127.0.0.1:9/v1", "served": "tiny"}


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    prompts = "".join(f"{number},How do I fold paper plane number {number}?\n" for number in range(6))
    (tmp_path / "planes.csv").write_text("instance_id,prompt\n" + prompts)
    return tmp_path


def run(root: Path, **more: object) -> Run:
    study = {
        "name": "mine",
        "kind": "run",
        "suites": [{"name": "planes", "path": "planes.csv"}],
        "models": ["gpt2-small"],
    }
    return Run(load_params({**study, "judges": ["refusal_rules"], **more}), root)


def test_a_file_of_prompts_is_read_once_a_command(root, monkeypatch):
    read = []
    monkeypatch.setattr("slmsafety.pipeline.run.load_suite", lambda *given: read.append(given) or load_suite(*given))
    asked = run(root)
    assert study_status(asked)["missing"].max() == 6
    collect(asked, {}, ["prompts"])
    assert len(read) == 1
    collect(run(root), {}, ["prompts"])
    assert len(read) == 2, "another command looks whether the file has changed"


def test_a_worker_has_its_part_and_nothing_of_what_is_kept(root):
    asked = run(root)
    collect(asked, {}, ["prompts"])
    whole = set(asked.prompts("planes")["instance_id"])
    parts = [set(asked.of_worker(worker, 3).prompts("planes")["instance_id"]) for worker in range(3)]
    assert set().union(*parts) == whole and sum(map(len, parts)) == len(whole) == 6
    again = pickle.loads(pickle.dumps(Run(asked.params, root, Shard(1, 2)).of_worker(1, 3)))
    assert again == Run(asked.params, root, Shard(3, 6))
    assert again.generation_ids == asked.generation_ids


def test_prompts_that_are_not_there_are_named(root):
    with pytest.raises(InputError, match="suite 'planes' has no prompts in mine yet; run the stage 'prompts' first"):
        run(root).prompts("planes")


@pytest.mark.parametrize(
    ("suite", "judge", "says"),
    [
        ({}, {}, "suite 'planes' has no rubric of its own; give the judge or the suite one: harmbench"),
        (
            {},
            {"suites": ["planes"]},
            "suite 'planes' has no rubric of its own; give the judge or the suite one: harmbench",
        ),
        ({"rubric": "harmbnech"}, {}, "unknown rubric 'harmbnech' in suite 'planes'"),
        ({"rubric": "gone.yaml"}, {}, "path 'gone.yaml' does not exist"),
        ({}, {"rubric": "gone.yaml"}, "path 'gone.yaml' does not exist"),
        ({}, {"rubric": "planes.csv"}, "unknown rubric 'planes.csv' in judge 'gpt' (or a path ending in .yaml)"),
        ({"rubric": "bad.yaml"}, {}, "bad.yaml"),
    ],
)
def test_a_language_model_without_a_rubric_is_refused_before_any_work(root, suite, judge, says):
    (root / "bad.yaml").write_text("name: bad\n")
    suites = [{"name": "planes", "path": "planes.csv", **suite}]
    with pytest.raises(InputError) as caught:
        run(root, suites=suites, judges=[{**LLM, **judge}])
    assert says in str(caught.value)
    assert not (root / "runs").exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"suites": ["planes"]}, "unknown suite 'planes'"),
        (
            {"suites": [{"name": "harm_bench", "path": "planes.csv"}]},
            "'harm_bench' is nearly the known suite 'harmbench'",
        ),
        ({"suites": [{"name": "a/b", "path": "planes.csv"}]}, "suites.0.name"),
        ({"judges": [{"name": "mine", "module": "gone.judge"}]}, "module 'gone.judge' cannot be imported"),
        ({"judges": [{"name": "offline", "module": "gone.py"}]}, "call this one otherwise"),
        (
            {"judges": [{"name": "mine", "module": "gone.py", "served": "x"}]},
            "key 'served' belongs to a judge with an endpoint",
        ),
        (
            {"judges": [{"name": "mine", "module": "x.py", "adapter": "two_token"}]},
            "has an adapter and a module; give one",
        ),
        ({"metrics": {"own": ["gone.metric"]}}, "module 'gone.metric' cannot be imported"),
        ({"metrics": {"own": ["words.py", "again.py"]}}, "own metric 'words' is listed twice; give one of the modules"),
        ({"judges": [{"name": "paid", "module": "paid.py"}], "on_demand": True}, "must not pay for it"),
        ({"judges": [{"name": "mine", "module": "words.py", "mapping": "otsu"}]}, "unknown mapping 'otsu'"),
        ({"judges": [{"name": "mine", "module": "sys"}]}, "module 'sys' has no file of its own"),
        ({"judges": [{"name": "mine", "module": "leaving.py"}]}, "cannot be imported (SystemExit: 0)"),
        ({"judges": [{"name": "mine", "module": "nothing.py"}]}, "'nothing.py' has no function measure(rows)"),
        ({"judges": [{"name": "mine", "module": "bad.py"}]}, "definition of bad.py failed (KeyError"),
        ({"metrics": {"own": ["planes.csv"]}}, "module 'planes.csv' cannot be imported"),
    ],
)
def test_what_of_a_users_own_is_wrong_gets_one_line(root, more, says):
    measure = "def measure(rows):\n    return [1.0] * len(rows)\n"
    files = {"words": "", "again": "NAME = 'words'\n", "paid": "COSTS_MONEY = True\n"}
    files["bad"] = "def definition():\n    return {}['x']\n"
    for name, text in files.items():
        (root / f"{name}.py").write_text(text + measure)
    (root / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    (root / "nothing.py").write_text("")
    with pytest.raises(InputError) as caught:
        run(root, **more)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_own_true_insists_on_a_name_that_is_nearly_known(root):
    own = {"name": "harm_bench", "path": "planes.csv", "own": True}
    assert run(root, suites=[own]).params.suites[0].own


def test_other_categories_and_groups_replace_those_that_are_stored(root, capsys):
    collect(run(root), {}, ["prompts"])
    text = (root / "planes.csv").read_text().splitlines()
    (root / "planes.csv").write_text(
        "\n".join([text[0] + ",group,category", *(line + ",one,paper" for line in text[1:])])
    )
    capsys.readouterr()
    collect(run(root), {}, ["prompts"])
    assert (
        "planes has other categories, groups, languages or titles than before; they are replaced"
        in capsys.readouterr().out
    )
    assert set(run(root).stored_prompts("planes")["group"]) == {"one"}
    (root / "planes.csv").write_text((root / "planes.csv").read_text().replace("fold", "cut"))
    with pytest.raises(InputError, match="suite 'planes' differs from the prompts"):
        collect(run(root), {}, ["prompts"])
