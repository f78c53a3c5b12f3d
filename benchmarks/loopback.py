"""A server of HTTP on loopback in a process of its own, for the benchmarks that call one; no script of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A request: its method, its path below /v1, and its body."""

    method: str
    path: str
    body: bytes


# Writes the answer to a request, and returns whether the connection goes on.
Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[bool]]


@contextmanager
def serving(script: str, *options: str) -> Iterator[str]:
    """Run a script with the option --serve in a process of its own, and give the base URL that it prints."""
    command = [sys.executable, script, "--serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def serve(answer: Answer) -> None:
    """Print the base URL and answer requests, those of a connection one after the other, until the process ends."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await answer(await _asked(reader), writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


async def send(writer: asyncio.StreamWriter, status: int, body: bytes, headers: str = "", cut: bool = False) -> bool:
    """Send an answer of JSON, or the first half of its body; return whether the connection goes on."""
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    writer.write(head.encode() + (body[: len(body) // 2] if cut else body))
    await writer.drain()
    return not cut


def told(url: str, word: str) -> dict[str, Any]:
    """Return what a server says of itself at a path below its base URL."""
    with urllib.request.urlopen(f"{url}/{word}") as response:
        found: dict[str, Any] = json.loads(response.read())
    return found


async def _asked(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    method, path = head.split(" ")[:2]
    return Asked(method, path.removeprefix("/v1"), await reader.readexactly(int(fields.get("content-length", 0))))
