"""The proxy that the environment names for a server: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, and NO_PROXY for none."""

from __future__ import annotations

import base64
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from slmsafety.errors import InputError


class Proxy(NamedTuple):
    """A proxy's address, whether it is spoken to encrypted, and the header that lets a request in."""

    host: str
    port: int
    tls: bool
    headers: dict[str, str]


def proxy_of(url: SplitResult) -> Proxy | None:
    """Return the proxy on the way to a URL, or None; InputError for one that cannot be used, without its password."""
    named = getproxies()
    proxy = named.get(url.scheme) or named.get("all")
    names = url.netloc.rpartition("@")[2], url.hostname or ""  # with a port; and an address of IPv6 without brackets
    if not proxy or any(map(proxy_bypass, names)):
        return None
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise InputError(
            "the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used: it must look like http://HOST:PORT"
        )
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    word = base64.b64encode(user.encode()).decode()
    headers = {"Proxy-Authorization": f"Basic {word}"} if parts.username else {}
    tls = parts.scheme == "https"
    return Proxy(host, port or (443 if tls else 80), tls, headers)
