"""Requests over HTTP: one is sent, and the whole answer comes back within a time, or the reason why not."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2

from slmsafety import __version__
from slmsafety.errors import InputError
from slmsafety.models.connection import Connection, Heard, Unheard
from slmsafety.models.endpoint import NO_KEY, Endpoint
from slmsafety.models.proxies import proxy_of

# Seconds within which a server must take a connection.
_CONNECT = 10.0
# Seconds that an unused connection is kept: less than the 5 s after which common servers close theirs.
_KEPT = 4.0
# Seconds in which connections are gone that were closed.
_CLOSE = 1.0
# Seconds after which the next address of a host is tried beside the first.
_NEXT_ADDRESS = 0.25
# Whom a call is billed to, where a key belongs to several.
_ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}


class Posts:
    """The connections to a server; no redirect is followed and no cookie kept. A proxy of the environment is used."""

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        """Take the server and its key; InputError for a proxy that cannot be used. Nothing is sent yet."""
        url = urlsplit(endpoint.base_url)
        self._host, self._tls = url.hostname or "", url.scheme == "https"
        self._port = url.port or (443 if self._tls else 80)
        self._proxy, self._seconds = proxy_of(url), endpoint.timeout
        self._trusted = httpx2.create_ssl_context() if self._tls or (self._proxy and self._proxy.tls) else None
        forwarded = self._proxy is not None and not self._tls
        self._target = f"{endpoint.base_url if forwarded else url.path}".rstrip("/")
        self._headers = {
            "Host": endpoint.host,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "User-Agent": f"slmsafety/{__version__}",
            **({} if key == NO_KEY else _account()),
            **(self._proxy.headers if self._proxy and forwarded else {}),
        }
        self._open: set[Connection] = set()
        self._unused: list[Connection] = []

    async def send(self, path: str, body: bytes) -> Heard:
        """Return the answer to a request at a path below the base URL; raises Unheard."""
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._seconds):
                kept = self._kept()
                connection = kept or await self._connect()
                try:
                    heard = await connection.ask("POST", f"{self._target}/{path}", self._headers, body)
                except Unheard as unheard:
                    unheard.stale = kept is not None and not connection.begun
                    raise
        except TimeoutError:
            raise Unheard("timeout", unsent=connection is None) from None
        if connection.usable:
            self._unused.append(connection)
        return heard

    async def close(self) -> None:
        """Close all connections."""
        lost = [connection.lost for connection in self._open]
        for connection in self._open:
            connection.close()
        if lost:
            await asyncio.wait(lost, timeout=_CLOSE)

    def _kept(self) -> Connection | None:
        """Return an unused connection that still stands."""
        while self._unused:
            connection = self._unused.pop()
            if connection.usable and asyncio.get_running_loop().time() - connection.since < _KEPT:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(_CONNECT):
                return await self._reach()
        except TimeoutError:
            raise Unheard("timeout", unsent=True) from None
        except (OSError, UnicodeError) as error:  # a host's name can be one that no name of a host can be
            raise Unheard("connection", unsent=True, said=_why(error)) from None

    async def _reach(self) -> Connection:
        """Return a connection to the server, through the proxy where there is one."""
        proxy = self._proxy
        host, port, tls = (proxy.host, proxy.port, proxy.tls) if proxy else (self._host, self._port, self._tls)
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection,
            host,
            port,
            ssl=self._trusted if tls else None,
            happy_eyeballs_delay=None if _is_address(host) else _NEXT_ADDRESS,
        )
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        if proxy and self._tls and self._trusted:
            authority = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
            try:
                heard = await connection.ask("CONNECT", authority, {"Host": authority, **proxy.headers})
            except Unheard as unheard:
                raise Unheard(unheard.reason, unsent=True, said="the proxy does not answer") from None
            if heard.status >= 300:
                connection.close()
                raise Unheard("connection", unsent=True, said=f"the proxy answers HTTP {heard.status}")
            await connection.start_tls(self._trusted, self._host)
        return connection


def _account() -> dict[str, str]:
    """Return the headers of whom a call is billed to; InputError for a variable that holds what can be no id."""
    named = {header: os.environ.get(variable, "").strip() for header, variable in _ACCOUNT.items()}
    for header, value in named.items():
        if not (value.isascii() and value.isprintable()):
            raise InputError(f"the environment variable {_ACCOUNT[header]} holds characters that no id has")
    return {header: value for header, value in named.items() if value}


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _why(error: OSError | UnicodeError) -> str | None:
    """Return why there is no connection, without addresses and places in a library's source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {error.verify_message}"
    if isinstance(error, socket.gaierror):
        return error.strerror
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return None
