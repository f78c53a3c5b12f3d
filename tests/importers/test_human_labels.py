"""Hand labels: read by key, refused with one line when they cannot be."""

from __future__ import annotations

import pytest

from slmsafety.errors import InputError
from slmsafety.importers.human_labels import read_human_labels
from slmsafety.paths import project_root

HEAD = "suite,instance_id,model,human,reply_id\n"


def test_labels_are_read_as_text_keys_and_integers(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(HEAD + "a,001,m,2,abc\na,002,m,0,123456\n")
    frame = read_human_labels(path)
    assert frame["instance_id"].tolist() == ["001", "002"]
    assert frame["human"].tolist() == [2, 0]
    assert frame["reply_id"].tolist() == ["abc", "123456"]


def test_models_are_named_as_they_are_stored(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(HEAD + "a,1,org/m ,2,abc\n")
    assert read_human_labels(path)["model"].tolist() == ["org_m"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("suite,instance_id,model,human\na,1,m,2\n", "lacks column 'reply_id'"),
        (HEAD + "a,1,m,2,x\na,2,m,0.5,x\n", "line 3 has label '0.5'"),
        (HEAD + "a,1,..,1,x\n", "name '..' cannot name a file"),
        (HEAD + "a,1,m,,x\n", "line 2 has label ''"),
        (HEAD + "a,1,m,1,x\na,1,m,2,x\n", "line 3 labels a reply that an earlier one labels"),
    ],
)
def test_bad_labels_get_one_line(tmp_path, text, says):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_human_labels(path)
    assert says in str(caught.value)
    assert "labels.csv" in str(caught.value)


def test_the_demo_labels_are_valid():
    frame = read_human_labels(project_root() / "tests/data/demo_labels.csv")
    assert len(frame) == 104
    assert set(frame.groupby("model").size()) == {52}
