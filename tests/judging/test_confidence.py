from __future__ import annotations

import pandas as pd

from slmsafety.judging.confidence import confidences


def test_the_highest_probability_of_a_label_is_the_confidence() -> None:
    metas = [
        '{"harmful": 0.2, "ambiguous": 0.5, "safe": 0.3, "text": 1.0}',
        '{"harmful": 1, "ambiguous": 0, "safe": 0}',
        "{}",
        None,
        '{"harmful": 0.2, "safe": 0.8}',
        '{"harmful": "no", "ambiguous": 0, "safe": 0}',
        '{"harmful": 3, "ambiguous": 0, "safe": 0}',
    ]
    found = confidences(pd.Series(metas, index=range(7, 0, -1)))
    assert found.index.tolist() == list(range(7, 0, -1))
    assert found.tolist()[:2] == [0.5, 1.0]
    assert found.isna().tolist() == [False, False, True, True, True, True, True]
