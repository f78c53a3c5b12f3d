"""Models are looked at before the first batch, and one that cannot run stops nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from servers import Server, echo, failing, running
from tiny_folders import write_tiny

from slmsafety.cli import main
from slmsafety.errors import PartFailed
from slmsafety.models.number_formats import slow_on_cpu
from slmsafety.study import Study

TEXTS = ["name a colour", "count to ten", "what is red", "the end"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    (tmp_path / "params").mkdir()
    rows = "".join(f"{index},{text}\n" for index, text in enumerate(TEXTS))
    (tmp_path / "mild.csv").write_text("instance_id,prompt\n" + rows)
    return tmp_path


def study(models: list[Any], **generation: Any) -> Study:
    given = {"max_new_tokens": 6, "batch_size": 2, **generation}
    suites = [{"name": "mild", "path": "mild.csv"}]
    common = {"name": "mine", "kind": "run", "suites": suites, "judges": ["refusal_rules"], "generation": given}
    return Study.load({**common, "models": models})


def folder(root: Path, name: str, **changes: Any) -> dict[str, Any]:
    """An entry for a tiny model; `changes` are made to its config."""
    path = write_tiny(root / name)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, **changes}))
    return {"id": name, "folder": name}


def done(asked: Study) -> dict[str, int]:
    """The number of replies and of labels, which are as many, by model."""
    replies, labels = asked.table("responses"), asked.table("judgments")
    counts = replies["model"].value_counts().to_dict()
    assert labels["model"].value_counts().to_dict() == counts
    return counts


def own_code(path: Path) -> None:
    """Make a model folder bring code of its own."""
    config = json.loads((path / "config.json").read_text())
    config["model_type"] = "ownllm"
    config["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (path / "config.json").write_text(json.dumps(config))
    (path / "generation_config.json").unlink(missing_ok=True)
    (path / "own.py").write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'ownllm'\n"
        "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )


def test_what_cannot_run_is_named_before_the_first_batch_and_stops_nobody(root, capsys):
    models = [folder(root, "narrow", max_position_embeddings=6), folder(root, "good"), folder(root, "no-lm")]
    models += [folder(root, "own"), folder(root, "torn"), folder(root, "raises")]
    own_code(root / "own")
    config = json.loads((root / "no-lm/config.json").read_text())
    (root / "no-lm/config.json").write_text(json.dumps({**config, "model_type": "vit"}))
    (root / "torn/tokenizer.json").write_text("{")
    (root / "raises/chat_template.jinja").write_text("{{ raise_exception('no user here') }}")
    asked = study(models)
    with pytest.raises(PartFailed, match=r"5 of 6 models could not run, the others' work is done and kept: narrow \("):
        asked.collect()
    assert done(asked) == {"good": len(TEXTS)}
    said = capsys.readouterr().out
    lines = said.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("generate:"))
    reasons = {line.split(" cannot run: ")[0]: line for line in lines[:first] if " cannot run: " in line}
    assert "max_new_tokens 6 of suite 'mild' leaves no room for a prompt in a window of 6" in reasons["narrow"]
    assert "model type 'vit' is no causal language model" in reasons["no-lm"]
    assert "needs code of its own, which runs only where its entry says `trust_remote_code: true`" in reasons["own"]
    assert "cannot be loaded" in reasons["torn"]
    assert "no user here" in reasons["raises"]
    assert said.count(" cannot run: ") == len(reasons) == 5
    manifest = json.loads(sorted((root / "runs/mine/manifests").glob("*.json"))[-1].read_text())
    assert set(manifest["could_not_run"]) == set(reasons)


def test_own_code_runs_where_the_entry_says_so(root):
    entry = folder(root, "own")
    own_code(root / "own")
    asked = study([{**entry, "trust_remote_code": True}])
    asked.collect()
    assert done(asked) == {"own": len(TEXTS)}


def test_the_command_ends_with_1_and_a_finished_study_with_0(root, capsys):
    folder(root, "good")
    broken = folder(root, "broken", max_position_embeddings=6)
    text = json.dumps(
        {"study": study([{"id": "good", "folder": "good"}, broken]).params.model_dump(exclude_defaults=True)}
    )
    (root / "params/mine.yaml").write_text(text)
    assert main(["collect", "mine"]) == 1
    assert "slmsafety: 1 of 2 models could not run" in capsys.readouterr().err
    config = json.loads((root / "broken/config.json").read_text())
    (root / "broken/config.json").write_text(json.dumps({**config, "max_position_embeddings": 48}))
    assert main(["collect", "mine"]) == 0
    # What is finished needs no model any more, and is not looked at.
    (root / "broken/tokenizer.json").write_text("{")
    assert main(["collect", "mine"]) in (0, 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_fails_later_stops_alone(root, workers, capsys):
    models = [folder(root, "cut"), folder(root, "endless"), folder(root, "good")]
    from safetensors.torch import load_file, save_file

    weights = load_file(root / "endless/model.safetensors")
    endless = {name: weight * float("inf") if "norm" in name else weight for name, weight in weights.items()}
    save_file(endless, root / "endless/model.safetensors", {"format": "pt"})
    (root / "cut/model.safetensors").write_bytes((root / "cut/model.safetensors").read_bytes()[:100])
    asked = study(models, workers=workers)
    with pytest.raises(PartFailed, match=r"2 of 3 models could not run.*: cut \(.*cannot be loaded.*; endless \("):
        asked.collect()
    assert done(asked) == {"good": len(TEXTS)}
    assert capsys.readouterr().out.count(" cannot run: ") == 2


def test_a_prompt_that_does_not_fit_stops_its_model_alone(root, monkeypatch):
    from slmsafety.generation import transformers_engine

    models = [folder(root, "big"), folder(root, "good")]
    real = transformers_engine.decode

    def decode(model, prompts, config, limits):
        if model.name_or_path.endswith("big") and config.max_new_tokens == 6:  # the study's, not the check's
            raise RuntimeError("CUDA out of memory")
        yield from real(model, prompts, config, limits)

    monkeypatch.setattr("slmsafety.generation.cache_check.decode", decode)
    asked = study(models)
    with pytest.raises(PartFailed, match=r"1 of 2 models could not run.*big \(.*fit into memory"):
        asked.collect()
    assert done(asked)["good"] == len(TEXTS)


def test_a_server_that_is_gone_and_a_missing_key_stop_their_models_only(root, monkeypatch, capsys):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    refused = Server(fault=lambda prompt, attempt: failing(401))
    with running(Server(answer=echo)) as good, running(refused) as bad:
        models = [
            {"id": "refused", "endpoint": bad.url, "served": "tiny"},
            {"id": "keyless", "endpoint": good.url, "served": "tiny", "api_key_env": "NO_SUCH_KEY"},
            {"id": "served", "endpoint": good.url, "served": "tiny-1"},
        ]
        asked = study(models)
        with pytest.raises(PartFailed, match="2 of 3 models could not run"):
            asked.collect()
    assert done(asked) == {"served": len(TEXTS)}
    assert "keyless cannot run: " in capsys.readouterr().out


def test_when_no_model_can_run_it_says_so_once(root):
    asked = study([folder(root, "narrow", max_position_embeddings=6)])
    with pytest.raises(PartFailed, match="1 of 1 models could not run"):
        asked.collect()


def test_a_notebook_reads_on_demand_what_the_others_made(root, capsys):
    models = [folder(root, "narrow", max_position_embeddings=6), folder(root, "good")]
    given = study(models).params.model_dump(exclude_defaults=True)
    asked = Study.load({**given, "on_demand": True})
    assert set(asked.labels()["model"]) == {"good"}
    assert "narrow cannot run: " in capsys.readouterr().out


def test_where_nothing_can_end_a_reply_a_line_says_so(root, capsys):
    entry = folder(root, "endless", eos_token_id=None)
    (root / "endless/generation_config.json").unlink()
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (path := root / "endless" / name).exists():
            held = json.loads(path.read_text())
            held.pop("eos_token", None)
            path.write_text(json.dumps({**held, "pad_token": "a"}))
    study([entry, folder(root, "good")]).collect()
    said = capsys.readouterr().out
    assert "endless: nothing can end its replies" in said and "good: nothing" not in said


@pytest.mark.parametrize(
    ("flags", "slow"),
    [
        ("flags\t\t: fpu sse2 avx512f", ["bfloat16", "float16"]),
        ("flags\t\t: fpu avx512f avx512_bf16", ["float16"]),
        ("flags\t\t: fpu amx_bf16 avx512_fp16", []),
        ("Features\t: fp asimd fphp bf16", []),
        ("no such line", []),
    ],
)
def test_a_processor_tells_which_number_formats_are_slow(tmp_path, flags, slow):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nmodel name\t: bf16 fphp\n{flags}\n")
    found = [name for name in ("float32", "bfloat16", "float16") if slow_on_cpu(name, tmp_path / "cpuinfo")]
    assert found == slow
    assert not slow_on_cpu("bfloat16", tmp_path / "absent")


def test_slow_numbers_are_told_once(root, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("slmsafety.models.number_formats.slow_on_cpu", lambda dtype: dtype == "bfloat16")
    study([folder(root, "one"), folder(root, "two")], dtype="bfloat16").collect(["prompts", "generate"])
    assert capsys.readouterr().out.count("this processor has no instructions for bfloat16") == 1


def test_the_models_of_the_paper_are_looked_at_without_a_hub(monkeypatch, tmp_path, capsys):
    """Nothing is cached here: each says why, and what it will need."""
    from slmsafety.pipeline.model_checks import look_at_models
    from slmsafety.pipeline.run import Run

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked = Study.load("paper")
    run = Run(asked.params, tmp_path)
    stopped = look_at_models(run, run.params.model_ids)
    assert set(stopped) == set(run.params.model_ids)
    gated = {"gemma3-270m-it", "gemma3-1b-it", "mobilellm-1b", "llama3.2-1b-it", "gemma2-2b-it", "llama3.2-3b-it"}
    assert {model for model, reason in stopped.items() if "its licence must be accepted at https://" in reason} == gated
    assert not [reason for reason in stopped.values() if "trust_remote_code: true" in reason]  # the entry has it
    assert next(m for m in asked.params.models if m.id == "mobilellm-1b").trust_remote_code
    assert len(capsys.readouterr().out.splitlines()) >= len(stopped)


def test_a_card_that_needs_its_own_code_says_so(monkeypatch, tmp_path):
    from slmsafety.pipeline.model_checks import look_at_models

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # The card's own entry, a system of it, and its hub id under a name of one's own.
    system, renamed = {"id": "safe", "card": "mobilellm-1b"}, {"id": "mine", "hub": "facebook/MobileLLM-1B"}
    models = ["mobilellm-1b", system, renamed, {"id": "asked", "card": "gemma3-1b-it"}]
    common = {"name": "p", "kind": "run", "suites": ["demo_direct"], "judges": ["offline"]}
    reasons = look_at_models(Study.load({**common, "models": models}).run, ["mobilellm-1b", "safe", "mine", "asked"])
    needs = "it needs code of its own: `trust_remote_code: true` in its entry"
    assert [needs in reason for reason in reasons.values()] == [True, True, True, False]
    assert "its licence must be accepted at https://huggingface.co/google/gemma-3-1b-it" in reasons["asked"]
