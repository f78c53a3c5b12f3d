from __future__ import annotations

import pytest

from slmsafety.models.served import other_model, same_model, takes


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("gpt-4", "gpt-4-0613"),
        ("gpt-3.5-turbo", "gpt-3.5-turbo-0125"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("claude-sonnet-4-0", "claude-sonnet-4-20250514"),
        ("gemini-2.0-flash", "models/gemini-2.0-flash-001"),
        ("mistral-small-latest", "mistral-small-2409"),
        ("command-r", "command-r-08-2024"),
        ("gpt-4-turbo-preview", "gpt-4-0125-preview"),
        ("gpt-4-vision-preview", "gpt-4-1106-vision-preview"),
        ("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf"),
        ("ggml-org/gemma-3-1b-it-GGUF", "gemma-3-1b-it-Q4_K_M.gguf"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Meta-Llama-3.1-8B-Instruct"),
        ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
        ("llama3.2", "llama3.2:latest"),
        ("llama3.2:1b", "llama3.2:1b"),
        ("SmolLM2-360M-Instruct", "/models/smollm2-360m-instruct-q8_0.gguf"),
        ("SmolLM2-360M-Instruct", r"C:\models\SmolLM2-360M-Instruct.Q4_K_M.gguf"),
        ("/data/SmolLM2/", "SmolLM2@main"),
        ("openai/gpt-oss-20b", "gpt-oss-20b-MXFP4"),
        ("Qwen/Qwen3-8B", "Qwen3-8B-FP8"),
        ("accounts/fireworks/models/llama-v3p1-8b-instruct", "accounts/fireworks/models/llama-v3p1-8b-instruct"),
        ("ft:gpt-4o-mini-2024-07-18:org::id", "ft:gpt-4o-mini-2024-07-18:org::id"),
        ("2024", "2024"),
        ("anything", ""),
        ("anything", " "),
        ("anything", None),
    ],
)
def test_one_model_by_two_names(asked: str, answered: str | None) -> None:
    assert same_model(asked, answered) and takes(asked, answered, ())
    assert answered is None or not answered.strip() or same_model(answered, asked)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("gpt-4o", "gpt-4o-mini"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-2024-07-18"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
        ("llama3.2:1b", "llama3.2:3b"),
        ("llama3.2:1b", "llama3.1:1b"),
        ("Llama-3.1-8B-Instruct", "Llama-3.1-70B-Instruct"),
        ("Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("smollm2-360m.Q4_K_M.gguf", "smollm2-360m.Q8_0.gguf"),
        ("tiny-v1.0", "tiny-v1.1"),
        ("gpt-4-1106-preview", "gpt-4-0125-preview"),
        ("gpt-4o-preview", "gpt-4o-audio-preview"),
        ("tiny-Q4_K_M-GGUF", "tiny-Q8_0.gguf"),
        ("my-deployment", "gpt-4o-2024-08-06"),
    ],
)
def test_two_models(asked: str, answered: str) -> None:
    assert not same_model(asked, answered) and not same_model(answered, asked)
    assert takes(asked, answered, ("x", answered)) and takes(asked, answered, ("any",))
    assert not takes(asked, answered, ("x",))


def test_the_line_says_what_to_do() -> None:
    line = str(other_model("judge j", "my-deployment", "gpt-4o\x1b[2J" + "x" * 500, "host:1"))
    assert line.startswith(r"judge j: host:1 answered for the model 'gpt-4o\x1b[2J") and "served_as: gpt-4o" in line
    assert "'my-deployment' was asked for" in line and len(line) < 600
