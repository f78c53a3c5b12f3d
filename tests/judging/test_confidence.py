from __future__ import annotations

import pandas as pd

from slmsafety.judging.confidence import confidences


def test_the_confidence_is_the_probability_of_the_label() -> None:
    metas = [
        '{"harmful": 0.2, "ambiguous": 0.5, "safe": 0.3, "text": 1.0}',
        '{"harmful": 1, "ambiguous": 0, "safe": 0}',
        '{"harmful": 0.2, "ambiguous": 0.5, "safe": 0.3}',
        "{}",
        None,
        '{"harmful": 0.2, "safe": 0.8}',
        '{"harmful": "no", "ambiguous": 0, "safe": 0}',
        '{"harmful": 3, "ambiguous": 0, "safe": 0}',
        '{"harmful": true, "ambiguous": false, "safe": false}',
        '{"harmful": 0.2, "ambiguous": 0.1, "safe": 0.1}',
        '["harmful"]',
        '{"harmful": tr',
        '{"harmful": 0.2, "ambiguous": 0.5, "safe": 0.3}',
    ]
    found = confidences(pd.Series(metas, index=range(13, 0, -1)), pd.Series([1, 0, *[2] * 10, None], range(13, 0, -1)))
    assert found.index.tolist() == list(range(13, 0, -1))
    assert found.tolist()[:3] == [0.5, 1.0, 0.3]
    assert found[3:].isna().all()
