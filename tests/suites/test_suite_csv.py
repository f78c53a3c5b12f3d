from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.errors import InputError
from slmsafety.suites.csv_rows import numbered_rows, read_rows

CELL = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=8)


def test_cells_stay_as_written(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes('\ufeffa,b\r\nnan,\r\n"NA"," two\r\nlines "\r\n'.encode())
    assert read_rows(path, ("a", "b"), ("a",)) == [{"a": "nan", "b": ""}, {"a": "NA", "b": " two\r\nlines "}]


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=5))
def test_any_cell_round_trips(tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "file.csv"
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *cells])
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    assert [tuple(row.values()) for row in read_rows(path, ("a", "b"), ())] == cells


def test_rows_are_numbered_as_in_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text('a\n"two\nlines"\n\nlast\n')
    assert numbered_rows(path, ("a",), ()) == [(2, {"a": "two\nlines"}), (4, {"a": "last"})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no column 'a'; expected columns: a, b"),
        (b"a,c\n1,2\n", "has no column 'b'; expected columns: a, b"),
        (b"a;b\n1;2\n", "has no column 'a'; .*; its cells are separated by ';', a comma is expected"),
        (b"a,b\n", "has a header but no row"),
        (b"a,b\n\n\n", "has a header but no row"),
        (b"a,b\n1,2\n3\n", "row 3 does not have the header's 2 cells"),
        (b"a,b\n1,2,3\n", "row 2 does not have the header's 2 cells"),
        (b"a,b\n1,2\n , \n", "row 3 has nothing in column 'a'"),
        (b"a,b,a\n1,2,3\n", "row 1 has the column 'a' twice"),
        (b"a,b,\n1,2,3\n", "row 1 has no name for column 3"),
        (b'a,b\n1,"open\n', "is not a CSV file in UTF-8"),
        (b"PK\x03\x04\x14\x00\xff\xfe\x00", "is not a CSV file in UTF-8"),
        (b"\x00\x01\x02\x03", "not a CSV file in UTF-8|has no column 'a'"),
        (b'{"a": 1}\n', "has no column 'a'"),
    ],
)
def test_a_file_of_another_form_is_named_on_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as info:
        read_rows(path, ("a", "b"), ("a",))
    assert str(path) in str(info.value)
    assert "\n" not in str(info.value)


def test_a_file_that_vanished_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read '.*gone\.csv'"):
        read_rows(tmp_path / "gone.csv", ("a",), ("a",))
