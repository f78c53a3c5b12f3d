from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from slmsafety.errors import InputError
from slmsafety.models.proxies import Proxy, proxy_of

PLAIN, SAFE = "http://models.example:8000/v1", "https://models.example/v1"


@pytest.fixture(autouse=True)
def no_proxy_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({}, PLAIN, None),
        ({"HTTP_PROXY": "http://p:3128"}, PLAIN, Proxy("p", 3128, False, {})),
        ({"http_proxy": "p:3128"}, PLAIN, Proxy("p", 3128, False, {})),
        ({"HTTP_PROXY": "http://p:3128"}, SAFE, None),
        ({"HTTPS_PROXY": "http://p"}, SAFE, Proxy("p", 80, False, {})),
        ({"HTTPS_PROXY": "https://p"}, SAFE, Proxy("p", 443, True, {})),
        ({"ALL_PROXY": "http://[::1]:8080/"}, SAFE, Proxy("::1", 8080, False, {})),
        ({"HTTPS_PROXY": "http://me@p"}, SAFE, Proxy("p", 80, False, {"Proxy-Authorization": "Basic bWU6"})),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "other.example"}, SAFE, Proxy("p", 80, False, {})),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.example, models.example"}, SAFE, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": ".example"}, SAFE, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "*"}, SAFE, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.example,::1"}, "http://[::1]:8000/v1", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "[::1]"}, "http://[::1]:8000/v1", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "models.example:8000"}, PLAIN, None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "::1"}, "http://[::2]:8000/v1", Proxy("p", 80, False, {})),
    ],
)
def test_the_environment_names_the_proxy(
    variables: dict[str, str], url: str, proxy: Proxy | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(urlsplit(url)) == proxy


@pytest.mark.parametrize(
    "url", ["socks5://me:word@p:1", "gopher://me:word@p", "http://me:word@:80", "http://me:word@p:x"]
)
def test_what_is_no_proxy_is_refused_without_its_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", url)
    with pytest.raises(InputError, match="it must look like http://HOST:PORT") as caught:
        proxy_of(urlsplit(SAFE))
    assert "word" not in str(caught.value)
