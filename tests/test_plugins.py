"""A user's own modules: by import path or file, named by their bytes, with one line for what goes wrong."""

from __future__ import annotations

import hashlib

import pytest

from slmsafety.errors import InputError
from slmsafety.plugins import load_plugin

CODE = "def measure(rows):\n    return [1.0] * len(rows)\n"


@pytest.mark.parametrize(
    ("name", "path"), [("own_pkg_a.mine", "own_pkg_a/mine.py"), ("folder/mine.py", "folder/mine.py")]
)
def test_a_module_below_the_root_is_found_and_named_by_its_bytes(tmp_path, name, path):
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text(CODE)
    plugin = load_plugin(name, tmp_path)
    assert plugin.module.measure([1, 2]) == [1.0, 1.0]
    assert plugin.sha256 == hashlib.sha256(CODE.encode()).hexdigest()


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("own_pkg_gone.mine", None, "module 'own_pkg_gone.mine' cannot be imported (ModuleNotFoundError"),
        ("gone.py", None, "path 'gone.py' does not exist"),
        ("broken.py", "def measure(:\n", "module 'broken.py' cannot be imported (SyntaxError"),
        ("failing.py", "1 / 0\n", "module 'failing.py' cannot be imported (ZeroDivisionError: division by zero)"),
    ],
)
def test_what_cannot_be_imported_gets_one_line(tmp_path, name, code, says):
    if code is not None:
        (tmp_path / name).write_text(code)
    with pytest.raises(InputError) as caught:
        load_plugin(name, tmp_path)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_folder_without_code_is_no_module(tmp_path):
    (tmp_path / "own_empty_folder").mkdir()
    with pytest.raises(InputError, match="'own_empty_folder' has no file of its own"):
        load_plugin("own_empty_folder", tmp_path)


def test_old_code_never_goes_under_a_new_id(tmp_path):
    """Python keeps an imported module; a file is run anew each time."""
    (tmp_path / "own_changing.py").write_text(CODE)
    load_plugin("own_changing", tmp_path)
    (tmp_path / "own_changing.py").write_text(CODE.replace("1.0", "2.0"))
    with pytest.raises(InputError, match="'own_changing' has changed since this process imported it"):
        load_plugin("own_changing", tmp_path)
    assert load_plugin("own_changing.py", tmp_path).module.measure([1]) == [2.0]
