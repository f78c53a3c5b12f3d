"""Every judgment that was read is out or rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest
from table_tools import read, ruled

from slmsafety.importers.counts import count

WIDE = "suite,instance_id,model,response,a,b\ns,1,m,x,0.5,1\ns,2,m, ,1,0\ns,3,m,z,,0\n"


def test_judgments_are_counted_by_label_and_status(tmp_path):
    found = ruled(read(tmp_path / "a.csv", WIDE, judges={"a": "a", "b": "b"}))
    (counts,) = count([found])
    assert counts.read == counts.out == 6
    assert counts.labels == {"harmful": 1, "ambiguous": 1, "safe": 1}
    assert counts.statuses == {"empty_response": 2, "unparsed": 1}
    assert counts.line == (
        "import: 6 judgments read: 1 harmful, 1 ambiguous, 1 safe; without a label: 2 empty_response, 1 unparsed; "
        f"rejected: 0: {tmp_path / 'a.csv'}"
    )


@pytest.mark.parametrize("lost", [slice(1, None), slice(None, -1)])
def test_a_judgment_that_is_lost_is_noticed(tmp_path, lost):
    found = ruled(read(tmp_path / "a.csv", WIDE, judges={"a": "a", "b": "b"}))
    with pytest.raises(RuntimeError, match="6 judgments read, 5 out"):
        count([replace(found, judgments=found.judgments[lost])])
