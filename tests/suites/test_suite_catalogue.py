from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.suites.catalogue import SUITES, inspect, load_suite, overview, title


def test_the_catalogue_has_the_study_s_suites() -> None:
    assert {name: (suite.title, suite.rows) for name, suite in SUITES.items()} == {
        "demo_direct": ("Demo direct", 52),
        "demo_framed": ("Demo framed", 52),
        "harmbench": ("HarmBench", 400),
        "sst": ("Simple Safety Tests", 100),
        "airbench": ("AirBench", 5694),
        "salad": ("SALAD", 21318),
        "bbq": ("BBQ", 1000),
        "bbq_full": ("BBQ full", 58492),
        "xstest": ("XSTest", 450),
    }
    paper = [SUITES[name].rows for name in ("airbench", "harmbench", "sst", "salad", "bbq")]
    assert 26 * sum(paper) == 741_312


@pytest.mark.parametrize("name", ["demo_direct", "demo_framed"])
def test_a_demo_suite_needs_nothing(name: str) -> None:
    data = load_suite(name)
    assert (data.title, data.complete, data.rows_expected) == (SUITES[name].title, True, 52)
    assert set(data.prompts["suite"]) == {name}
    with pytest.raises(InputError, match=f"suite {name} ships with the package"):
        load_suite(name, "own.csv")


def test_a_part_of_a_suite_says_so_in_its_title(tmp_path: Path) -> None:
    path = tmp_path / "part.csv"
    path.write_text("id,harm_area,counter,category,prompts_final\nsst_1,Colours,1,Advice,Is red warm?\n")
    data = load_suite("sst", path)
    assert (data.title, data.complete, data.rows_expected) == ("Simple Safety Tests-1", False, 100)
    assert data.prompts["prompt"].tolist() == ["Is red warm?"]


def test_every_suite_says_where_it_comes_from_and_how_to_get_it() -> None:
    for name, suite in SUITES.items():
        assert suite.licence and suite.upstream and suite.how, name
        pinned = len(suite.revision) == 40
        assert pinned != (name in ("demo_direct", "demo_framed", "salad")), name


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


def test_a_title_of_an_unknown_suite_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'salad'"):
        title("salda", pd.DataFrame())


def test_an_unknown_suite_is_named_with_its_nearest() -> None:
    with pytest.raises(InputError, match="unknown suite 'harmbnech'; did you mean 'harmbench'"):
        load_suite("harmbnech")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"suite harmbench: there is no file '{tmp_path}/gone.csv'"):
        load_suite("harmbench", tmp_path / "gone.csv")


def test_public_files_load_under_their_titles(public_data: Path) -> None:
    files = {
        "HarmBench": ("harmbench", "harmbench/harmbench_behaviors_text_all.csv", True),
        "HarmBench-80": ("harmbench", "harmbench/harmbench_behaviors_text_val.csv", False),
        "HarmBench-320": ("harmbench", "harmbench/harmbench_behaviors_text_test.csv", False),
        "Simple Safety Tests": ("sst", "sst/SimpleSafetyTests_test_cases.csv", True),
    }
    for heading, (name, file, complete) in files.items():
        data = load_suite(name, public_data / file)
        assert (data.title, data.complete) == (heading, complete)
        assert data.prompts["instance_id"].is_unique
