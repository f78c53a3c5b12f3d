"""A connection to a server that takes one request at a time (HTTP/1.1), and what can go wrong on it."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import h11

# The most bytes of an answer, unpacked. A reply of 100,000 tokens has under one million.
MOST_BYTES = 16 * 2**20
# The most bytes of an answer's head.
_MOST_HEAD = 64 * 2**10


class Heard(NamedTuple):
    """An answer as it came, its names of headers in lower case, its body unpacked."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unheard(Exception):
    """No whole answer came.

    Attributes
    ----------
    reason : str
        timeout, connection, malformed (a packed body that cannot be unpacked) or body_too_large.
    unsent : bool
        Whether there was no connection to send the request on.
    said : str or None
        Why there was none, in the system's words.
    stale : bool
        Whether the connection of an earlier call ended before anything came: the server had most likely left it.
    """

    def __init__(self, reason: str, unsent: bool = False, said: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.unsent, self.said, self.stale = reason, unsent, said, False


class Connection(asyncio.Protocol):
    """A connection, as an event loop makes it.

    Attributes
    ----------
    usable : bool
        Whether the last answer has come whole, with nothing after it, and the server keeps the connection.
    begun : bool
        Whether anything of the answer to the last request has come.
    since : float
        The loop's time at which the last answer had come.
    lost : Future
        Done when the connection is closed.
    """

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self.usable, self.begun, self.since = False, False, 0.0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD)
        self._answer: asyncio.Future[Heard] | None = None
        self._head: h11.Response | None = None
        self._parts: list[bytes] = []
        self._size = 0

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> Heard:
        """Send a request and return its answer; raises Unheard, after which the connection is closed."""
        self._answer = asyncio.get_running_loop().create_future()
        self.usable = self.begun = False
        self._head, self._parts, self._size = None, [], 0
        try:
            fields = {**headers, "Content-Length": str(len(body))} if body else headers
            head = h11.Request(method=method, target=target, headers=[*fields.items()])
            events = (head, h11.Data(data=body), h11.EndOfMessage()) if body else (head, h11.EndOfMessage())
            self._transport.write(b"".join(self._http.send(event) or b"" for event in events))
            return await self._answer
        finally:
            self._answer = None
            if not self.usable:
                self.close()

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Go on encrypted, through the tunnel that a proxy has made."""
        loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD)
        transport = await loop.start_tls(self._transport, self, context, server_hostname=host)
        if transport is None:
            raise ConnectionResetError
        self._transport = transport

    def close(self) -> None:
        """Close it at once."""
        self.usable = False
        self._transport.abort()

    # What an event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what sends."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take bytes of an answer; those that nobody has asked for end the connection, as they answer no request."""
        if self._answer is None or self._answer.done():
            self.close()
            return
        self.begun = True
        self._take(data)

    def eof_received(self) -> bool:
        """Take the end, which is that of an answer without a length; the transport closes itself."""
        self.usable = False
        if self._answer is not None and not self._answer.done():
            self._take(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request under way, if any."""
        self.usable = False
        self._fail(Unheard("connection"))
        if not self.lost.done():
            self.lost.set_result(None)

    def _take(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while self._answer is not None and not self._answer.done():
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    return
                self._handle(event)
        except h11.RemoteProtocolError:
            self._fail(Unheard("connection"))
        except Unheard as unheard:
            self._fail(unheard)

    def _handle(self, event: object) -> None:
        if isinstance(event, h11.Response):
            self._head = event
        elif isinstance(event, h11.Data):
            self._parts.append(bytes(event.data))
            self._size += len(event.data)
            if self._size > MOST_BYTES:
                raise Unheard("body_too_large")
        elif event is h11.PAUSED or isinstance(event, h11.EndOfMessage):
            self._end()
        elif not isinstance(event, h11.InformationalResponse):
            raise Unheard("connection")

    def _end(self) -> None:
        if self._head is None or self._answer is None:
            raise Unheard("connection")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._head.headers}
        body = _unpacked(b"".join(self._parts), headers.get("content-encoding", "").strip().lower())
        if self._head.status_code < 300 and self._http.their_state is h11.SWITCHED_PROTOCOL:
            self.usable = True
        elif self._http.our_state is self._http.their_state is h11.DONE and not self._http.trailing_data[0]:
            self._http.start_next_cycle()
            self.usable, self.since = True, asyncio.get_running_loop().time()
        self._answer.set_result(Heard(self._head.status_code, headers, body))

    def _fail(self, unheard: Unheard) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(unheard)


def _unpacked(body: bytes, encoding: str) -> bytes:
    """Return a body without its encoding (none is asked for); raises Unheard for what is none, and for a bomb."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Unheard("malformed")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, whichever it is
    try:
        data = unpack.decompress(body, MOST_BYTES + 1)
    except zlib.error:
        raise Unheard("malformed") from None
    if len(data) > MOST_BYTES:
        raise Unheard("body_too_large")
    if not unpack.eof:
        raise Unheard("malformed")
    return data
