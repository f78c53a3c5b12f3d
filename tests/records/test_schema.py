from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.records.schema import JUDGMENTS, RESPONSES, TABLES, check, typed


def test_every_table_has_its_key_and_file_columns() -> None:
    assert TABLES
    for table in TABLES.values():
        assert set(table.key) | set(table.files) <= set(table.columns)


def test_check_gives_the_order_and_dtypes_of_the_table(judgments: Any) -> None:
    frame = judgments(label=None, raw_value=None, input_tokens=None)
    checked = check(frame[frame.columns[::-1]], JUDGMENTS, "here")
    assert list(checked.columns) == list(JUDGMENTS.columns)
    assert checked.dtypes.astype(str).to_dict() == {
        **dict.fromkeys(JUDGMENTS.columns, "str"),
        **dict.fromkeys(("sample", "label", "input_tokens", "output_tokens"), "Int64"),
        "refused": "boolean",
        "raw_value": "float64",
    }


def test_typed_of_nothing_has_all_columns() -> None:
    frame = typed(pd.DataFrame(), RESPONSES)
    assert list(frame.columns) == list(RESPONSES.columns)
    assert str(frame["prompt_truncated"].dtype) == "boolean"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"instance_id": None}, "row 0 of table judgments has no instance_id"),
        ({"model": ""}, "row 0 of table judgments has no model"),
        ({"status": "okay", "label": None}, "unknown status 'okay' in here, row 0; did you mean 'ok'?"),
        ({"status": None, "label": None}, "unknown status 'nan' in here, row 0"),
        ({"label": 3}, "here: row 0 has label 3; valid: 0"),
        ({"label": 0.5}, "here: row 0 has label 0.5; valid: 0"),
        ({"label": "2"}, "here: row 0 has label '2'; valid: 0"),
        ({"status": "error"}, "here: row 0 has a label and status 'error'; only ok has one"),
        ({"raw_value": "high"}, "here: row 0 has raw_value 'high'; valid: float"),
        ({"input_tokens": 1.5}, "here: row 0 has input_tokens 1.5; valid: int"),
        ({"raw_text": "a\ud800"}, r"here: row 0 has raw_text 'a\ud800'; valid: text without lone surrogates"),
        ({"instance_id": "\udfff"}, r"here: row 0 has instance_id '\udfff'; valid: text"),
    ],
)
def test_check_names_the_bad_row_in_one_line(changes: dict[str, Any], problem: str, judgments: Any) -> None:
    with pytest.raises(InputError) as caught:
        check(judgments(**changes), JUDGMENTS, "here")
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_check_names_the_first_of_several_rows(replies: Any) -> None:
    frame = pd.concat([replies(), replies(instance_id="2", output_tokens="many"), replies(output_tokens="x")])
    with pytest.raises(InputError, match="row 1 has output_tokens 'many'"):
        check(frame, RESPONSES, "here")


def test_check_refuses_a_table_of_another_shape(replies: Any) -> None:
    with pytest.raises(InputError, match="here: table responses lacks column 'meta'"):
        check(replies().drop(columns="meta"), RESPONSES, "here")
    with pytest.raises(InputError, match="unknown column of table responses 'respons' in here; did you mean"):
        check(replies().assign(respons="x"), RESPONSES, "here")


def test_check_refuses_a_key_that_comes_twice(replies: Any) -> None:
    with pytest.raises(InputError, match=r"has the key .*'instance_id': '1'.* twice"):
        check(pd.concat([replies(), replies(response="another")]), RESPONSES, "here")
    assert len(check(pd.concat([replies(), replies(generation_id="g2")]), RESPONSES, "here")) == 2


def test_typed_names_an_unknown_column() -> None:
    with pytest.raises(InputError, match="unknown column 'respnse' in table responses; did you mean 'response'"):
        typed(pd.DataFrame(), RESPONSES, ["respnse"])


@pytest.mark.parametrize(
    ("status", "reason", "given", "read"),
    [
        ("ok", "refusal", None, True),
        ("ok", "partial_refusal", None, False),
        ("ok", "compliance", None, False),
        ("ok", "It declines at once.", None, None),
        ("ok", None, None, None),
        ("ok", "refusal", False, False),
        ("judge_refused", "refusal", None, None),  # the judge did, not the reply
    ],
)
def test_refused_reads_from_the_words_of_judges_where_it_is_not_given(
    status: str, reason: str | None, given: bool | None, read: bool | None, judgments: Any
) -> None:
    frame = judgments(status=status, label=None, reason=reason).assign(refused=pd.array([given], dtype="boolean"))
    (found,) = typed(frame, JUDGMENTS)["refused"]
    assert (None if pd.isna(found) else bool(found)) == read
