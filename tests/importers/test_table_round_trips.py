"""Rows that pandas writes come back equal, in every format, delimiter, encoding and line end."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from table_tools import read

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
LATIN = st.text(st.characters(max_codepoint=255, exclude_characters="\0"), max_size=12)
COLUMNS = ["suite", "instance_id", "model", "judge", "score", "response", "prompt"]
FEW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows(texts: list[tuple[str, str]]) -> pd.DataFrame:
    cells = [("s", f"{n:02}", "m", "j", "0.5", *pair) for n, pair in enumerate(texts)]
    return pd.DataFrame(cells, columns=COLUMNS, dtype="str")


def check(path, data: bytes, frame: pd.DataFrame, **entry: str) -> None:
    found = read(path, data, **entry).imported
    merged = found.judgments.merge(found.responses[["instance_id", "response"]], on="instance_id")
    merged = merged.merge(found.prompts[["instance_id", "prompt"]], on="instance_id")
    assert merged[["instance_id", "response", "prompt"]].to_numpy().tolist() == (
        frame[["instance_id", "response", "prompt"]].to_numpy().tolist()
    )
    assert merged["label"].tolist() == [1] * len(frame)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8 and not ASCII alone."""
    try:
        return not data.decode("utf-8").isascii()
    except UnicodeDecodeError:
        return False


@FEW
@given(
    data=st.data(),
    ends=st.sampled_from(["\n", "\r\n"]),
    delimiter=st.sampled_from(",;\t|"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
)
def test_delimited(tmp_path, data, ends, delimiter, encoding):
    texts = LATIN if encoding == "latin-1" else TEXTS
    frame = rows(data.draw(st.lists(st.tuples(texts, texts), min_size=1, max_size=4)))
    written = frame.to_csv(index=False, sep=delimiter, lineterminator=ends).encode(encoding)
    assume(encoding != "latin-1" or not is_utf8(written))  # which is refused, as a slip
    said = {} if encoding.startswith("utf-8") else {"encoding": encoding}
    check(tmp_path / "a.csv", written, frame, delimiter=delimiter, **said)


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
@settings(FEW, max_examples=15)
@given(texts=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))
def test_other_formats(tmp_path, form, texts):
    frame = rows(texts)
    if form == "parquet":
        sink = io.BytesIO()
        frame.to_parquet(sink)
        written = sink.getvalue()
    elif form == "json":
        written = frame.to_json(orient="records").encode()
    else:
        records = frame.to_dict("records")
        written = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in records).encode()
    check(tmp_path / f"a.{form}", written, frame)
