"""Requests over HTTP: one is sent, and the whole answer comes back within a time and a size, or the reason why not."""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from collections.abc import Mapping
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import NamedTuple

import httpx2

from slmsafety import __version__
from slmsafety.errors import InputError
from slmsafety.models.endpoint import Endpoint

# The most bytes of an answer, unpacked. A reply of 100,000 tokens has under one million.
MOST_BYTES = 16 * 2**20
# Seconds within which a server must take a connection.
_CONNECT = 10.0
# Connections a pool: a pool looks through all of its connections for each request.
_POOL = 8
# Seconds that an unused connection is kept: less than the 5 s after which common servers close theirs.
_KEPT = 4.0


class Heard(NamedTuple):
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unheard(Exception):
    """No whole answer came.

    Attributes
    ----------
    reason : str
        timeout, connection, malformed (an encoding that cannot be undone) or body_too_large.
    unsent : bool
        Whether there was no connection to send the request on.
    stale : bool
        Whether a connection from an earlier call was closed before any answer: the server had most likely left it.
    said : str or None
        Why there was no connection, in the system's words.
    """

    def __init__(self, reason: str, unsent: bool = False, stale: bool = False, said: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.unsent, self.stale, self.said = reason, unsent, stale, said


class Posts:
    """The connections to a server, a few to a pool; no redirect is followed and no cookie kept.

    Proxies of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY) are used.
    """

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        """Take the server and its key; InputError for a proxy that cannot be used. Nothing is sent yet."""
        self._seconds = endpoint.timeout
        self._urls = {path: f"{endpoint.base_url.rstrip('/')}/{path}" for path in ("chat/completions", "completions")}
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "User-Agent": f"slmsafety/{__version__}",
        }
        try:
            trusted = httpx2.create_ssl_context()
            self._pools = [_pool(trusted, endpoint.timeout) for _ in range(math.ceil(endpoint.concurrency / _POOL))]
        except (ValueError, ImportError, httpx2.InvalidURL):
            # The error itself may show the proxy's password.
            raise InputError(
                "the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used: it must look like http://HOST:PORT"
            ) from None
        self._used = [False] * len(self._pools)

    async def send(self, place: int, path: str, body: bytes) -> Heard:
        """Return the answer to a request sent from a place (0 to concurrency - 1); raises Unheard."""
        number = place % len(self._pools)
        request = httpx2.Request("POST", self._urls[path], headers=self._headers, content=body)
        used = self._used[number]
        try:
            async with asyncio.timeout(self._seconds):
                response = await self._pools[number].send(request, stream=True)
                used = False
                try:
                    heard = Heard(response.status_code, response.headers, await _body(response))
                finally:
                    await response.aclose()
        except TimeoutError:
            raise Unheard("timeout") from None
        except httpx2.ConnectTimeout:
            raise Unheard("timeout", unsent=True) from None
        except (httpx2.ConnectError, httpx2.ProxyError, httpx2.UnsupportedProtocol) as error:
            raise Unheard("connection", unsent=True, said=_line(error)) from None
        except httpx2.DecodingError:
            raise Unheard("malformed") from None
        except (httpx2.HTTPError, OSError):
            raise Unheard("connection", stale=used) from None
        self._used[number] = True
        return heard

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(pool.aclose() for pool in self._pools))


def _pool(trusted: ssl.SSLContext, timeout: float) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        verify=trusted,
        timeout=httpx2.Timeout(None, connect=min(_CONNECT, timeout)),
        limits=httpx2.Limits(max_connections=_POOL, max_keepalive_connections=_POOL, keepalive_expiry=_KEPT),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        follow_redirects=False,
    )


def _line(error: Exception) -> str | None:
    """Return what a certificate, a name or a proxy lacks; without the place in a library's source."""
    return re.sub(r" \(_ssl\.c:\d+\)", "", str(error))[:200] or None


async def _body(response: httpx2.Response) -> bytes:
    parts, size = [], 0
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            size += len(chunk)
            if size > MOST_BYTES:
                raise Unheard("body_too_large")
            parts.append(chunk)
    return b"".join(parts)
