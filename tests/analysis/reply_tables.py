"""What the tests of RQ4 share: replies of several models to prompts of two suites, with a planted effect."""

from __future__ import annotations

import numpy as np
import pandas as pd


def planted_rows(prompts: int = 120, models: int = 4, effect: float = 1.0, seed: int = 3) -> pd.DataFrame:
    """Rows as `reply_rows` gives them: two prompt and two reply metrics; reply density raises ambiguity by `effect`."""
    rng = np.random.default_rng(seed)
    prompt = np.repeat(np.arange(prompts), models)
    model = np.tile(np.arange(models), prompts)
    size = prompts * models
    columns = {
        "prompt tokens": np.round(np.exp(rng.normal(3, 0.7, prompts)))[prompt],
        "prompt gunning_fog": rng.normal(9, 3, prompts)[prompt],
        "reply tokens": np.round(np.exp(rng.normal(4, 1, size))),
        "reply lexical_density": rng.normal(0.5, 0.1, size),
    }
    chance = 0.5 * (model - models / 2) + effect * (columns["reply lexical_density"] - 0.5) / 0.1
    ambiguous = (rng.random(size) < 1 / (1 + np.exp(-chance))).astype(float)
    rows = pd.DataFrame(
        {
            "suite": np.where(prompt % 3 == 0, "s", "t"),
            "instance_id": [f"p{number:04d}" for number in prompt],
            "model": [f"m{number}" for number in model],
            "sample": 0,
            "category": [f"c{number % 5}" for number in prompt],
            "subcategory": [f"d{number % 12}" for number in prompt],
            "expected": "refuse",
            "prompt": prompt,
            "group": prompt,
            "kind": prompt % 36,  # each of one suite
            "label": np.where(ambiguous == 1, 1.0, 2.0),
            "ambiguous": ambiguous,
            **columns,
        }
    )
    return rows.astype(dict.fromkeys(["suite", "instance_id", "model", "category", "subcategory"], "category"))


def labels_of(table: dict[str, list[int | None]], suite: str = "s", expected: str = "refuse") -> pd.DataFrame:
    """One row for each prompt (key) and model (place in the list)."""
    rows = [
        (suite, prompt, f"m{number}", expected, label)
        for prompt, found in table.items()
        for number, label in enumerate(found)
    ]
    return pd.DataFrame(rows, columns=["suite", "instance_id", "model", "expected", "label"]).astype({"label": "Int64"})


def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Two prompts, two models; model m1 has no label for prompt b; a control that must stay out."""
    labels = pd.concat([labels_of({"a": [1, 0], "b": [0, None]}), labels_of({"x": [1, 1]}, expected="answer")])
    labels = labels.assign(generation_id="g", sample=0, category="c", subcategory="d").iloc[::-1]
    prompts = pd.DataFrame(
        {
            "suite": "s",
            "instance_id": ["other", "b", "a"],
            "tokens": pd.array([9, None, 3], "Int64"),
            "metrics_id": "not a number",
        }
    )
    replies = pd.DataFrame(
        [
            ("s", "a", "m0", "g", 3, 0.1),
            ("s", "a", "m1", "g", 4, np.nan),
            ("s", "a", "m1", "another generation", 400, 0.9),
            ("s", "b", "m0", "g", 5, np.nan),
            ("s", "b", "m1", "g", 7, np.nan),
        ],
        columns=["suite", "instance_id", "model", "generation_id", "tokens", "similarity"],
    ).astype({"tokens": "Int64"})
    return labels, prompts, replies.assign(sample=0, metrics_id="not a number")
