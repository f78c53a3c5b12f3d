from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.metrics.own import OwnMetric, own_metric
from slmsafety.plugins import load_plugin

REPLIES = pd.DataFrame(
    {
        "suite": "demo",
        "instance_id": ["a", "b", "c"],
        "model": "tiny",
        "generation_id": "g",
        "prompt": ["Hi", "Why?", ""],
        "response": ["Hello", "", "So."],
        "other": 1,
    },
    index=[7, 3, 5],
)
LENGTHS = "def measure(rows):\n    return rows['response'].str.len()\n"


def metric(folder: Path, code: str, name: str = "length.py") -> OwnMetric:
    (folder / name).write_text(code)
    return own_metric(load_plugin(name, folder))


def test_a_metric_of_replies_is_one_number_a_row(tmp_path: Path) -> None:
    length = metric(tmp_path, LENGTHS)
    assert (length.name, length.of) == ("length", "replies")
    expected = REPLIES[["suite", "instance_id", "model", "generation_id"]].assign(
        sample=0, metric="length", metric_id=length.id, value=[5.0, 0.0, 3.0]
    )
    pd.testing.assert_frame_equal(length.measure(REPLIES), expected)


def test_a_metric_of_prompts_gets_prompts_alone(tmp_path: Path) -> None:
    code = "OF, NAME = 'prompts', 'columns'\ndef measure(rows):\n    return [len(rows.columns)] * len(rows)\n"
    columns = metric(tmp_path, code)
    made = columns.measure(REPLIES)
    assert list(made.columns) == ["suite", "instance_id", "metric", "metric_id", "value"]
    assert made["value"].tolist() == [3.0] * 3 and set(made["metric"]) == {"columns"}


def test_numbers_of_any_kind_are_floats_and_nan_is_undefined(tmp_path: Path) -> None:
    code = (
        "import numpy as np\ndef measure(rows):\n    return (value for value in (np.float32(0.5), 2, float('nan')))\n"
    )
    made = metric(tmp_path, code).measure(REPLIES)["value"]
    assert made.dtype == np.float64 and made.tolist()[:2] == [0.5, 2.0] and math.isnan(made.iloc[2])


def test_no_rows_have_no_numbers(tmp_path: Path) -> None:
    made = metric(tmp_path, LENGTHS).measure(REPLIES.head(0))
    assert made.empty and made["value"].dtype == np.float64


def test_a_module_cannot_change_the_rows_of_its_caller(tmp_path: Path) -> None:
    code = "def measure(rows):\n    rows['suite'] = 'changed'\n    return [0.0] * len(rows)\n"
    assert set(metric(tmp_path, code).measure(REPLIES)["suite"]) == set(REPLIES["suite"]) == {"demo"}


def test_the_id_follows_the_name_and_the_bytes_of_the_file(tmp_path: Path) -> None:
    first = metric(tmp_path, LENGTHS)
    sha256 = hashlib.sha256(LENGTHS.encode()).hexdigest()
    assert first.definition() == {"metric": "length", "module": "length.py", "sha256": sha256}
    ids = {first.id, metric(tmp_path, LENGTHS + "\n").id, metric(tmp_path, LENGTHS, "size.py").id}
    assert len(ids) == 3 and metric(tmp_path, LENGTHS).id == first.id


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("", "has no function 'measure'"),
        ("measure = 3", "has no function 'measure'"),
        ("OF = 'reply'\n" + LENGTHS, "unknown value of OF 'reply' in module 'length.py'; did you mean 'replies'"),
        ("NAME = 'Reply length'\n" + LENGTHS, "'Reply length' is no name of a metric"),
        ("NAME = ''\n" + LENGTHS, "'' is no name of a metric"),
        ("OF = ['replies']\n" + LENGTHS, "unknown value of OF"),
        ("NAME = 3\n" + LENGTHS, "3 is no name of a metric"),
        ("NAME = 'perplexity'\n" + LENGTHS, "'perplexity' is a column of the built-in metrics"),
        ("NAME = 'flesch_kincaid'\n" + LENGTHS, "'flesch_kincaid' is a column of the built-in metrics"),
        ("NAME = 'model'\n" + LENGTHS, "'model' is a column of the built-in metrics"),
    ],
)
def test_a_module_that_is_no_metric_is_named(tmp_path: Path, code: str, says: str) -> None:
    with pytest.raises(InputError, match=r"module 'length\.py'.*") as caught:
        metric(tmp_path, code)
    assert says in str(caught.value)


def test_a_file_whose_name_is_no_metric_s_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"module 'My-own\.py': 'My-own' is no name of a metric; set NAME"):
        metric(tmp_path, LENGTHS, "My-own.py")
    assert metric(tmp_path, "NAME = 'mine'\n" + LENGTHS, "My-own.py").name == "mine"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("None", "returned a NoneType; return a list of 3 numbers"),
        ("1.5", "returned a float; return a list of 3 numbers"),
        ("[1, 2]", "returned 2 values for 3 rows"),
        ("rows['response'].iloc[::-1].str.len()", "returned a Series in another order"),
        ("[1, '2', 3]", "returned '2' for row 1; return a finite number, or nan"),
        ("[1, 2, None]", "returned None for row 2; return a finite number, or nan"),
        ("[1, 2, [3]]", "returned [3] for row 2"),
        ("[float('inf'), 2, 3]", "returned inf for row 0"),
    ],
)
def test_what_is_not_one_number_a_row_is_refused(tmp_path: Path, made: str, says: str) -> None:
    with pytest.raises(InputError, match=r"module 'length\.py': measure returned") as caught:
        metric(tmp_path, f"def measure(rows):\n    return {made}\n").measure(REPLIES)
    assert says in str(caught.value)


def test_the_metric_of_the_documentation_counts_words(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/metrics.md").read_text("utf-8")
    made = metric(tmp_path, page.split("```python\n")[1].split("```")[0])
    assert (made.name, made.measure(REPLIES)["value"].tolist()) == ("reply_length", [1.0, 0.0, 1.0])
