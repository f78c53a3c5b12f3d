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
            "category": [f"c{number % 5}" for number in prompt],
            "subcategory": [f"d{number % 12}" for number in prompt],
            "expected": "refuse",
            "prompt": prompt,
            "label": np.where(ambiguous == 1, 1.0, 2.0),
            "ambiguous": ambiguous,
            **columns,
        }
    )
    return rows.astype(dict.fromkeys(["suite", "instance_id", "model", "category", "subcategory"], "category"))
