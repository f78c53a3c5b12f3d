from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from slmsafety.records.ids import content_id, file_sha256, text_id


def test_content_id_ignores_the_order_of_keys_only() -> None:
    made = content_id({"a": 1, "b": {"c": [1, 2], "d": None}})
    assert made == content_id({"b": {"d": None, "c": [1, 2]}, "a": 1})
    assert made != content_id({"a": 1, "b": {"c": [2, 1], "d": None}})
    assert made != content_id({"a": "1", "b": {"c": [1, 2], "d": None}})


def test_content_id_is_pinned() -> None:
    # Stored rows are found again by this id: another digest would orphan every table.
    assert content_id({"x": 1}) == hashlib.sha256(b'{"x":1}').hexdigest()[:12] == "5041bf1f713d"


def test_content_id_refuses_what_has_no_one_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        content_id({"x": float("nan")})


def test_text_id_tells_any_two_texts_apart() -> None:
    texts = ["", "a", "a ", "\u00e9", "e\u0301", "\ud800", "\udfff", "?"]
    assert len({text_id(text) for text in texts}) == len(texts)
    assert text_id("") == "e3b0c44298fc"


def test_file_sha256_is_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert file_sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
