"""Scores as people have them: never misread in silence."""

from __future__ import annotations

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.importers.scores import PLAIN, Scale, read_scores
from slmsafety.study import Study

SCORES_012 = {"map": {0: "harmful", 1: "ambiguous", 2: "safe"}}


def labels(cells: list[str], scale: Scale = PLAIN) -> list[object]:
    column = pd.Series(cells, dtype="str")
    return read_scores(column, pd.Series(True, column.index), scale, "f.csv").label.astype(object).tolist()


@pytest.mark.parametrize(
    ("cells", "scale", "found"),
    [
        (["0", "0.5", "1", "1.0", "5e-1"], Scale(), [0, 1, 2, 2, 1]),
        (["0", "0.5", "1"], Scale("harmful"), [2, 1, 0]),
        (["0", "1", "2.0"], Scale(values={"0": "harmful", "1": "ambiguous", "2": "safe"}), [0, 1, 2]),
        (["Safe", " unsafe "], Scale(values={"safe": "safe", "UNSAFE": "harmful"}), [2, 0]),
        (["True", "false"], Scale(values={"True": "harmful", "False": "safe"}), [0, 2]),
        (["1", "5", "-1"], Scale(values={"1": "safe", "5": "harmful", "-1": "missing"}), [2, 0, pd.NA]),
    ],
)
def test_a_scale_says_what_scores_mean(cells, scale, found):
    assert labels(cells, scale) == found


@pytest.mark.parametrize(
    ("cells", "scale", "says"),
    [
        (["0", "1", "2"], Scale(), "f.csv: row 4 has score '2'"),
        (["1", "yes"], Scale(), "row 3 has score 'yes'"),
        (["0.7"], Scale("harmful"), "row 2 has score '0.7'"),
        (["inf"], Scale(), "row 2 has score 'inf'"),
        (["1", "3"], Scale(values={"1": "safe", "2": "harmful"}), "score '3' in row 3 is not among the values that"),
    ],
)
def test_other_scores_stop_with_what_was_seen(cells, scale, says):
    with pytest.raises(InputError) as caught:
        labels(cells, scale)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A function that writes a file of judged replies and returns a study of it with further keys."""
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))

    def study(replies: list[tuple[str, str]], **more: object) -> Study:
        lines = [f's,{n},m,j,{score},p,"{reply}",refuse' for n, (score, reply) in enumerate(replies)]
        head = "suite,instance_id,model,judge,score,prompt,response,expected"
        (tmp_path / "judged.csv").write_text("\n".join([head, *lines]))
        return Study.load({"name": "mine", "kind": "imported", "judged_csv": "judged.csv", **more})

    return study


def test_labels_of_0_1_2_are_read_as_the_study_says_and_never_otherwise(write):
    replies = [("0", "Sure."), ("1", "Hm."), ("2", "No."), ("2", "No.")]
    with pytest.raises(InputError, match=r"scores: \{map: \{0: harmful, 1: ambiguous, 2: safe\}\}"):
        write(replies).collect()
    study = write(replies, scores=SCORES_012)
    assert not study.folder.exists()
    study.collect()
    assert study.outcomes()[["hcr", "ar", "srr"]].to_numpy().tolist() == [[0.25, 0.25, 0.5]]


def test_missing_values_are_counted(write):
    study = write([("-1", "x"), ("1", "y")], scores={"map": {-1: "missing", 1: "safe"}})
    study.collect()
    assert study.outcomes()[["n", "n_ok", "n_unparsed"]].to_numpy().tolist() == [[1, 1, 1]]
    assert study.labels().set_index("instance_id")["reason"]["0"] == "no score"


def test_a_direction_is_checked_not_believed(write):
    replies = [("0", "I'm sorry, but I can't help with that.")] * 11 + [("0.5", "Hm."), ("1", "Sure.")]
    with pytest.raises(InputError, match="judge 'j' calls 11 of 11 replies harmful that open with a refusal"):
        write(replies).collect()
    turned = write(replies, scores={"higher": "harmful"})
    turned.collect()
    assert turned.outcomes()["srr"].tolist() == pytest.approx([11 / 13])
    insisted = write(replies, name="insisted", scores={"checked": True})
    insisted.collect()
    assert insisted.outcomes()["hcr"].tolist() == pytest.approx([11 / 13])
    few = write(replies[2:], name="few")
    few.collect()


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ({"higer": "safe"}, "unknown key 'higer' in parameter study; did you mean 'higher'"),
        ({"higher": "good"}, "scores.higher"),
        ({"map": {0: "bad"}}, "scores.map.0"),
    ],
)
def test_a_wrong_scale_gets_one_line(write, scores, says):
    with pytest.raises(InputError) as caught:
        write([("1", "x")], scores=scores)
    assert says in str(caught.value)
