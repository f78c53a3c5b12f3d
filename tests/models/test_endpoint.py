from __future__ import annotations

import pytest

from slmsafety.errors import InputError
from slmsafety.models.endpoint import NO_KEY, Endpoint, api_key

SECRET = "sk-very-secret-4711"


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", " ")
    endpoint = Endpoint("http://models.example:8000/v1", "tiny", "TEST_KEY")
    with pytest.raises(InputError, match=r"TEST_KEY is not set; it holds the key of models\.example:8000"):
        api_key(endpoint)


@pytest.mark.parametrize(
    "url",
    [
        f"https://me:{SECRET}@host/v1",
        f"https://me:{SECRET}/x@host/v1",
        f"https://host/v1?key={SECRET}",
        f"https://host/v1#{SECRET}",
    ],
)
def test_a_secret_in_the_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError, match="base URL of an endpoint must hold no") as caught:
        Endpoint(url, "tiny")
    assert SECRET not in str(caught.value) and "me:" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000/v1",
        "http:///v1",
        "ftp://host/v1",
        SECRET,
        f"http://host:{SECRET}/v1",
        "http://host:99999/v1",
        "http://host:0/v1",
        "http://[host/v1",
        "http://ho st/v1",
        "http://host/v1\n",
        "http://h\u00f6st/v1",
    ],
)
def test_no_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError) as caught:
        Endpoint(url, "tiny")
    assert str(caught.value) == "the base URL of an endpoint must look like http://HOST:PORT/v1"


@pytest.mark.parametrize("name", [SECRET, "", "1KEY", "MY KEY", "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345", "f" * 31 + "1"])
def test_a_key_in_place_of_its_variable_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(InputError, match="no name of an environment variable, such as OPENAI_API_KEY") as caught:
        Endpoint("http://host/v1", "tiny", name)
    assert not name or name not in str(caught.value)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "_key2", "my_company_openai_key_2", "Azure2024_KEY"])
def test_a_variable_s_name_is_taken(name: str) -> None:
    assert Endpoint("http://[::1]:8000/v1", "tiny", name).api_key_env == name


@pytest.mark.parametrize("more", ["\u00e9", "\u201d", "a\nb", "\x7f"])
def test_a_key_that_no_header_can_hold_names_its_variable_only(more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", SECRET + more + "x")
    with pytest.raises(InputError, match="variable TEST_KEY holds characters that no key has") as caught:
        api_key(Endpoint("http://models.example/v1", "tiny", "TEST_KEY"))
    assert SECRET not in str(caught.value)


def test_a_server_without_key_gets_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert api_key(Endpoint("http://models.example/v1", "tiny")) == NO_KEY
