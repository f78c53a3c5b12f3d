from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

from slmsafety import suites
from slmsafety.errors import InputError
from slmsafety.suites.base import Suite
from slmsafety.suites.catalogue import SUITES, check_suite_name, inspect, load_suite, overview, title


def test_the_paper_s_suites_have_its_number_of_replies() -> None:
    paper = [SUITES[name].rows for name in ("airbench", "harmbench", "sst", "salad", "bbq")]
    assert 26 * sum(paper) == 741_312


PACKAGED = [name for name, suite in SUITES.items() if not suite.path_may_be]


@pytest.mark.parametrize("name", PACKAGED)
def test_a_suite_of_the_package_needs_nothing(name: str) -> None:
    data = load_suite(name)
    assert (data.title, data.complete, len(data.prompts)) == (SUITES[name].title, True, SUITES[name].rows)
    assert set(data.prompts["suite"]) == {name}
    with pytest.raises(InputError, match=f"suite {name} ships with the package"):
        load_suite(name, "own.csv")


def test_a_part_of_a_suite_says_so_in_its_title(tmp_path: Path) -> None:
    path = tmp_path / "part.csv"
    path.write_text("id,harm_area,counter,category,prompts_final\nsst_1,Colours,1,Advice,Is red warm?\n")
    data = load_suite("sst", path)
    assert (data.title, data.complete, data.rows_expected) == ("Simple Safety Tests-1", False, 100)
    assert data.prompts["prompt"].tolist() == ["Is red warm?"]


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_says_where_it_comes_from_and_how_to_get_it(name: str) -> None:
    suite = SUITES[name]
    assert suite.name == name
    assert suite.title and suite.licence and suite.origin.repository and suite.how
    assert suite.rows > 0


def test_every_suite_that_a_module_describes_is_known() -> None:
    modules = [import_module(f"{suites.__name__}.{found.name}") for found in pkgutil.iter_modules(suites.__path__)]
    described = [value for module in modules for value in vars(module).values() if isinstance(value, Suite)]
    assert {suite.name for suite in described} == set(SUITES)
    assert all(SUITES[suite.name] is suite for suite in described)


def test_the_overview_has_a_text_for_every_suite_and_column() -> None:
    frame = overview()
    assert frame["suite"].tolist() == list(SUITES)
    assert not frame.eq("").any(axis=None)
    assert frame.set_index("suite").loc["airbench", ["prompts", "licence"]].tolist() == ["5,694", "CC-BY-4.0"]


def test_a_loaded_part_is_described_after_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "part.csv"
    rows = "".join(f"sst_{n},Colours,1,Advice,Is {n} a number?\n" for n in range(3))
    path.write_text(f"id,harm_area,counter,category,prompts_final\n{rows}")
    found = inspect("sst", path)
    assert (found["path"], found["present"]) == (str(path), "")
    assert (found["title"], found["prompts"]) == ("Simple Safety Tests-3", "3 of 100")
    assert found["revision"] == load_suite("sst", path).prompts["suite_revision"][0]
    two = inspect("sst", path, limit=2)
    assert (two["title"], two["prompts"]) == ("Simple Safety Tests-2", "3 of 100; 2 are sampled")
    assert inspect("sst", path, limit=9)["prompts"] == "3 of 100"
    with pytest.raises(InputError, match="there is no file"):
        inspect("sst", tmp_path / "gone.csv")


def test_a_suite_that_is_not_known_is_called_by_its_name() -> None:
    assert title("mine", pd.DataFrame({"meta": ["{}", "{}"]})) == "mine"
    assert title("mine", pd.DataFrame({"meta": []})) == "mine"


def test_an_unknown_suite_is_named_with_its_nearest() -> None:
    with pytest.raises(InputError, match="unknown suite 'harmbnech'; did you mean 'harmbench'"):
        load_suite("harmbnech")


@pytest.mark.parametrize(
    ("name", "path", "is_own", "message"),
    [
        ("harmbnech", None, False, "unknown suite 'harmbnech'; did you mean 'harmbench'"),
        ("mine", None, False, "unknown suite 'mine'; valid: .*, or give 'path:' of your own"),
        ("harmbnech", "a.csv", False, "'harmbnech' is nearly the known suite 'harmbench'; .* add 'own: true'"),
        ("HarmBench", "a.csv", False, "nearly the known suite 'harmbench'"),
        ("demo-direct", "a.csv", False, "nearly the known suite 'demo_direct'"),
        ("BBQFull", "a.csv", False, "nearly the known suite 'bbq_full'"),
        ("bbq2", "a.csv", False, "nearly the known suite 'bbq'"),
        ("sst", "a.csv", True, "suite 'sst' is a known one; remove 'own: true'"),
        ("my suite", "a.csv", False, "'my suite' cannot name a file"),
        ("../up", "a.csv", True, "cannot name a file"),
        ("", "a.csv", False, "cannot name a file"),
    ],
)
def test_a_name_that_may_be_a_slip_is_refused(name: str, path: str | None, is_own: bool, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_suite_name(name, path, is_own)


@pytest.mark.parametrize(
    ("name", "path", "is_own"),
    [
        *((name, path, False) for name in SUITES for path in (None, "a.csv")),
        ("mine", "a.csv", False),
        ("mine", "a.csv", True),
        ("bbq2", "a.csv", True),
        ("HarmBench", "a.csv", True),
    ],
)
def test_a_known_name_and_a_name_of_one_s_own_are_accepted(name: str, path: str | None, is_own: bool) -> None:
    check_suite_name(name, path, is_own)
