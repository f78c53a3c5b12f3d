"""Labels by a judge that is not the first are said to be so; suites of one title are told apart."""

from __future__ import annotations

import pandas as pd

from slmsafety.params.study import StudyParams
from slmsafety.study.display_names import suite_titles
from slmsafety.study.first_judge import of_first_judge, say_who_judged

JUDGED = pd.DataFrame({"suite": ["sst", "sst", "xstest"], "judge": ["b", "a", "b"]})


def test_the_first_judge_that_has_read_a_suite_counts():
    assert of_first_judge(JUDGED, ["a", "b"]).tolist() == [False, True, True]
    assert of_first_judge(JUDGED, ["c"]).tolist() == [False, False, False]


def test_another_judge_than_the_first_is_said(capsys):
    study = {"name": "mine", "kind": "run", "suites": ["sst", "xstest"], "models": ["gpt2-small"]}
    params = StudyParams.model_validate({**study, "judges": ["offline", "refusal_rules"]})
    say_who_judged(params, pd.DataFrame({"suite": ["sst", "xstest"], "judge": ["offline", "refusal_rules"]}))
    printed = capsys.readouterr().out
    assert "judge offline has no judgments of xstest under these settings; labels are by refusal_rules" in printed
    assert "of sst" not in printed


def test_two_suites_of_one_title_are_told_apart():
    meta = '{"title": "Manners", "rows": 1, "columns": {}}'
    titles = suite_titles(pd.DataFrame({"suite": ["table", "street"], "meta": [meta, meta]}))
    assert titles["table"] != titles["street"] and titles["table"].startswith("Manners")
