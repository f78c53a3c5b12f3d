from __future__ import annotations

from pathlib import Path

import pytest

from slmsafety.errors import InputError
from slmsafety.study import Study


def test_bbq_in_a_table_of_labels_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    (tmp_path / "params").mkdir()
    (tmp_path / "rows.csv").write_text(
        "suite,instance_id,model,judge,score,prompt,response,expected\n"
        "garden,1,a,j,0.5,When to plant?,In spring.,refuse\n"
        "bbq,1,a,j,1,Which one?,B,answer\n"
    )
    study = Study.load({"name": "mine", "kind": "imported", "judged_csv": "rows.csv"})
    with pytest.raises(InputError, match=r"rows\.csv: suite 'bbq' is multiple choice: its outcome is accuracy"):
        study.collect()
    assert not list(tmp_path.rglob("*.parquet"))
