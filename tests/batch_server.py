"""A real HTTP server on loopback with files and batches in OpenAI's form, whose batches end when a test says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from servers import listening


class BatchServer:
    """Keeps files and batches; `answer` gives the text of a reply to a prompt, or (status, body).

    `plan` says of each new batch how many of its requests are done when it ends and with which status; without a plan
    all are, with "completed". `deaf` refuses to make batches and `fileless` to take files, with the status `refusal`;
    `mute` makes batches and answers an error.
    """

    def __init__(
        self, answer: Callable[[str], str | tuple[int, Any]], plan: list[tuple[int, str]] | None = None
    ) -> None:
        self.answer, self.plan = answer, list(plan or [])
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.polls = 0
        self.deaf = self.mute = self.fileless = False
        self.refusal = 500
        self.keep_open = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def asked(self) -> list[str]:
        """The custom ids of all requests of all batches."""
        return [line["custom_id"] for batch in self.batches.values() for line in self.lines(batch)]

    def lines(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]

    def create(self, given: dict[str, Any]) -> dict[str, Any]:
        name = f"batch_{len(self.batches)}"
        self.batches[name] = {"id": name, "object": "batch", "created_at": 0, "status": "in_progress", **given}
        return self.batches[name]

    def poll(self, name: str) -> dict[str, Any]:
        self.polls += 1
        batch = self.batches[name]
        if batch["status"] == "in_progress" and not self.keep_open:
            self._end(batch)
        return batch

    def _end(self, batch: dict[str, Any]) -> None:
        lines = self.lines(batch)
        done, status = self.plan.pop(0) if self.plan else (len(lines), "completed")
        batch["status"] = status
        if status == "failed":
            batch["errors"] = {"object": "list", "data": [{"code": "bad_file", "message": "secret words"}]}
            return
        answered = [self._answered(line) for line in reversed(lines[:done])]
        expired = [
            {"custom_id": line["custom_id"], "response": None, "error": {"code": "batch_expired"}}
            for line in lines[done:]
        ]
        batch["output_file_id"] = self._file(answered)
        batch["error_file_id"] = self._file(expired) if expired else None
        counts = {"total": len(lines), "completed": done, "failed": len(lines) - done}
        batch["request_counts"] = counts

    def _answered(self, line: dict[str, Any]) -> dict[str, Any]:
        text = self.answer(line["body"]["messages"][-1]["content"])
        if isinstance(text, tuple):
            status, given = text
            return {"custom_id": line["custom_id"], "response": {"status_code": status, "body": given}, "error": None}
        if text == "fail":
            return {"custom_id": line["custom_id"], "response": {"status_code": 500, "body": {}}, "error": None}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
        body = {"model": line["body"]["model"], "choices": [choice], "usage": usage}
        return {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}

    def _file(self, lines: list[dict[str, Any]]) -> str:
        return self.keep("\n".join(map(json.dumps, lines)).encode())

    def keep(self, data: bytes) -> str:
        name = f"file_{len(self.files)}"
        self.files[name] = data
        return name


def _handler(server: BatchServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            if self.path.endswith("/files") and server.fileless:
                self.send({"error": {"message": "no"}}, server.refusal)
            elif self.path.endswith("/files"):
                name = server.keep(_uploaded(data, self.headers["content-type"]))
                self.send({"id": name, "object": "file", "bytes": len(data), "created_at": 0, "purpose": "batch"})
            elif server.deaf:
                self.send({"error": {"message": "no"}}, server.refusal)
            else:
                made = server.create(json.loads(data))
                self.send({"error": {"message": "no"}}, 500) if server.mute else self.send(made)

        def do_GET(self) -> None:
            if match := re.search(r"/files/(\w+)/content", self.path):
                self.send(server.files[match[1]])
            elif match := re.search(r"/batches/(\w+)", self.path):
                self.send(server.poll(match[1]))
            else:
                self.send({"object": "list", "data": list(server.batches.values()), "has_more": False})

        def send(self, answer: Any, status: int = 200) -> None:
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _uploaded(data: bytes, content_type: str) -> bytes:
    """The file in a form."""
    boundary = content_type.partition("boundary=")[2].strip('"').encode()
    part = next(part for part in data.split(b"--" + boundary) if b"filename=" in part)
    return part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")


@contextmanager
def batch_server(server: BatchServer) -> Iterator[BatchServer]:
    with listening(_handler(server)) as server.port:
        yield server
