"""Real HTTP servers on loopback: `transformers serve` with real weights, and one that breaks by schedule."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

# What a call meets instead of an answer: (status, headers, body), one of these, or bytes as they are.
CUT, HANG = "cut", "hang"
Reply = tuple[int, dict[str, str], bytes]


class Raw(NamedTuple):
    """Bytes as they are sent, and seconds of silence between them; the connection is then closed, unless `kept`."""

    steps: tuple[bytes | float, ...]
    kept: bool = False


Fault = Reply | str | Raw


def http(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """An answer as bytes, with the length of its body unless a header says another one."""
    head = {"content_type": "application/json", "content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in head.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def failing(status: int, error: Any = None, **headers: str) -> Reply:
    """An error in OpenAI's form."""
    return status, headers, json.dumps({"error": error or {"message": f"injected {status}"}}).encode()


def completion(text: str | None, finish: str = "stop", **more: Any) -> Reply:
    """A chat completion."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    return 200, {}, json.dumps({"model": "tiny-1", "choices": [choice], "usage": usage, **more}).encode()


def asked(body: dict[str, Any]) -> str:
    """The prompt of a request."""
    return body["prompt"] if "prompt" in body else body["messages"][-1]["content"]


def echo(path: str, body: dict[str, Any]) -> Reply:
    return completion(f"you said: {asked(body)}")


def forward_to(base_url: str) -> Callable[[str, dict[str, Any]], Reply]:
    """An answer that another server gives."""

    def answer(path: str, body: dict[str, Any]) -> Reply:
        request = urllib.request.Request(
            base_url.removesuffix("/v1") + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, {}, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, {}, error.read()

    return answer


class Server:
    """An OpenAI-shaped server: answers after `latency` seconds, unless `fault` gives a fault for (prompt, n-th try).

    It notes what it saw: how often each prompt was asked, the headers, the times, and how many calls were open at once.
    """

    def __init__(
        self,
        answer: Callable[[str, dict[str, Any]], Reply] = echo,
        fault: Callable[[str, int], Fault | None] = lambda prompt, attempt: None,
        latency: float = 0.0,
    ) -> None:
        self.answer, self.fault, self.latency = answer, fault, latency
        self.asked: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.heads: list[dict[str, str]] = []
        self.times: list[float] = []
        self.open = self.most_open = 0
        self.lock = threading.Lock()
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with server.lock:
                server.asked[asked(body)] += 1
                attempt = server.asked[asked(body)]
                server.bodies.append(body)
                server.keys.add(self.headers["authorization"])
                server.heads.append({name.lower(): value for name, value in self.headers.items()})
                server.times.append(time.monotonic())
                server.open += 1
                server.most_open = max(server.most_open, server.open)
            try:
                fault = server.fault(asked(body), attempt)
                if fault == HANG:
                    server.stopping.wait(30)
                    self.close_connection = True
                    return
                if isinstance(fault, Raw):
                    self.send_raw(fault)
                    return
                server.stopping.wait(server.latency)
                reply = (
                    server.answer(self.path, body) if fault is None else completion("cut") if fault == CUT else fault
                )
            finally:
                with server.lock:
                    server.open -= 1
            self.send(*reply, cut=fault == CUT)

        def send(self, status: int, headers: dict[str, str], body: bytes, cut: bool) -> None:
            self.send_response(status)
            for name, value in {
                "content-type": "application/json",
                "content-length": str(len(body)),
                **headers,
            }.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)
            self.close_connection = self.close_connection or cut

        def send_raw(self, fault: Raw) -> None:
            for step in fault.steps:
                if isinstance(step, bytes):
                    self.wfile.write(step)
                    self.wfile.flush()
                elif server.stopping.wait(step):
                    break
            self.close_connection = not fault.kept

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """A client that went away is no news."""


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port on loopback at which the handler answers, encrypted where there is a context."""
    http = _Http(("127.0.0.1", 0), handler)
    if tls is not None:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield http.server_address[1]
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@contextmanager
def running(server: Server, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    with listening(_handler(server), tls) as server.port:
        try:
            yield server
        finally:
            server.stopping.set()


@contextmanager
def transformers_serve(folder: Path, log: Path) -> Iterator[str]:
    """The base URL of `transformers serve` with the model in a folder; the name it serves is the folder's path."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder)]
    options = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen([*command, *options], stdout=out, stderr=subprocess.STDOUT, env=environment)
        try:
            _wait_for(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)
