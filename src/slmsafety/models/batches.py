"""Batches of an OpenAI-compatible server: requests go up as a file, and come back within a day at half the price.

A batch is noted on disk before it is created, with a word that the server keeps beside it: whatever happens in
between, the next run finds the batch again instead of paying for another one.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openai import APIError, APIStatusError, OpenAI
from openai.types import Batch

from slmsafety.errors import InputError
from slmsafety.models.answers import Completion, Failure, Halt, of_batch
from slmsafety.models.attempts import Request
from slmsafety.models.endpoint import Endpoint, api_key
from slmsafety.models.json_bodies import parse
from slmsafety.records.files import write_atomic

# The limits of OpenAI's Batch API.
MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
_ENDED = ("completed", "expired", "cancelled")
_NOTE = "slmsafety"
# Statuses by which a server says that it did not make what it was asked for. After others it may have.
_NOT_MADE = (400, 401, 402, 403, 404, 405, 410, 413, 415, 422, 429, 501)


def custom_id(key: Iterable[str]) -> str:
    """Return the id by which a batch names a request: the same key gives the same 32 hex digits."""
    return hashlib.sha256("\x1f".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def files(
    model: str, requests: Iterable[Request], most: int = MOST_REQUESTS, size: int = MOST_BYTES
) -> Iterator[tuple[bytes, list[str]]]:
    """Yield the bytes of each input file with the custom ids in it, none beyond the limits.

    A request's key is its custom id. Raises InputError for a single request that is larger than a file may be.
    """
    lines: list[bytes] = []
    ids: list[str] = []
    length = 0
    for key, body in requests:
        asked = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": {"model": model, **body}}
        line = json.dumps(asked).encode() + b"\n"
        if len(line) > size:
            raise InputError(f"a request of {len(line)} bytes is larger than a batch file may be ({size})")
        if lines and (len(lines) == most or length + len(line) > size):
            yield b"".join(lines), ids
            lines, ids, length = [], [], 0
        lines.append(line)
        ids.append(str(key))
        length += len(line)
    if lines:
        yield b"".join(lines), ids


class Refused(InputError):
    """A batch that the server has found faulty: nothing of it is done, and nothing billed."""


class NotMade(InputError):
    """A batch that certainly did not come to be; `batch` is the name of its note."""

    def __init__(self, batch: str, message: str) -> None:
        """Take the name of the note and what went wrong."""
        super().__init__(message)
        self.batch = batch


class Batches:
    """The batches of one piece of work: noted in a folder, run by a server.

    Each batch has a note NAME.json with its custom ids and, once it is created, the server's id for it.
    """

    def __init__(self, endpoint: Endpoint, folder: Path) -> None:
        """Take the server and the folder of the notes, which is made when there is something to note."""
        self._folder, self._endpoint = folder, endpoint
        self._client = OpenAI(base_url=endpoint.base_url, api_key=api_key(endpoint), max_retries=endpoint.retries)

    def open(self) -> dict[str, list[str]]:
        """Return the custom ids of each batch whose results are not taken in yet, by the batch's name."""
        notes = sorted(self._folder.glob("*.json"))
        return {note.stem: json.loads(note.read_text("utf-8"))["custom_ids"] for note in notes}

    def create(self, data: bytes, ids: list[str], paid: Callable[[str], bool] = lambda name: True) -> str | None:
        """Send a file as a batch and return its name; None where `paid`, told the name before, says no.

        Raises NotMade where no batch came to be: its note is to be forgotten. After another InputError it may have.
        """
        name = uuid.uuid4().hex[:16]
        self._note(name, {"custom_ids": ids, "batch": None})
        if not paid(name):
            self.forget(name)
            return None
        self._start(name, data)
        return name

    def age(self, name: str) -> float:
        """Return the seconds since a batch's note was changed; inf where it is gone."""
        try:
            return time.time() - (self._folder / f"{name}.json").stat().st_mtime
        except FileNotFoundError:
            return float("inf")

    def ended(self, name: str) -> bool | None:
        """Return whether a batch will change no more; None for one that was noted and never created, or not noted.

        Raises Refused for one that the server has found faulty.
        """
        with self._talking():
            batch = self._find(name)
        if batch is None:
            return None
        if batch.status == "failed":
            problem = batch.errors.data[0] if batch.errors and batch.errors.data else None
            raise Refused(f"{self._endpoint.host} refused a batch: {problem.code if problem else 'no reason given'}")
        return batch.status in _ENDED

    def results(self, name: str) -> Iterator[tuple[str, Completion | Failure | Halt]]:
        """Yield (custom id, how it ended) for what an ended batch holds: all of it, or what was done in time."""
        with self._talking():
            batch = self._find(name)
            files = (batch.output_file_id, batch.error_file_id) if batch is not None else ()
            texts = [self._client.files.content(file).content for file in files if file is not None]
        for line in b"\n".join(texts).split(b"\n"):
            if result := _result(line):
                yield result

    def forget(self, name: str) -> None:
        """Remove a batch's note: its results are taken in, or it has none."""
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def _start(self, name: str, data: bytes) -> None:
        try:
            sent = self._client.files.create(file=(f"{name}.jsonl", data), purpose="batch")
        except APIError as error:
            raise NotMade(name, f"{self._said(error)}; no batch was made") from error
        try:
            # Sent once: a request that came through though its answer did not would make a second batch.
            batch = self._client.with_options(max_retries=0).batches.create(
                input_file_id=sent.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={_NOTE: name},
            )
        except APIError as error:
            if isinstance(error, APIStatusError) and error.status_code in _NOT_MADE:
                raise NotMade(name, f"{self._said(error)}; no batch was made") from error
            raise self._open_still(error) from error
        self._note(name, {**self._read(name), "batch": batch.id})

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Turn what goes wrong with the server into one line."""
        try:
            yield
        except APIError as error:
            raise self._open_still(error) from error

    def _said(self, error: APIError) -> str:
        status = getattr(error, "status_code", None)
        return f"{self._endpoint.host}: batches do not work ({f'HTTP {status}' if status else type(error).__name__})"

    def _open_still(self, error: APIError) -> InputError:
        return InputError(f"{self._said(error)}; run again to go on with them; what is open stands in {self._folder}")

    def _find(self, name: str) -> Batch | None:
        """The server's batch of a note. One whose id was not noted any more is found by the word it carries.

        None too where the note is gone: another process has taken the batch in.
        """
        try:
            note = self._read(name)
        except FileNotFoundError:
            return None
        if note["batch"] is not None:
            return self._client.batches.retrieve(note["batch"])
        for batch in self._client.batches.list():
            if (batch.metadata or {}).get(_NOTE) == name:
                self._note(name, {**note, "batch": batch.id})
                return batch
        return None

    def _read(self, name: str) -> dict[str, Any]:
        note: dict[str, Any] = json.loads((self._folder / f"{name}.json").read_text("utf-8"))
        return note

    def _note(self, name: str, content: dict[str, Any]) -> None:
        write_atomic(self._folder / f"{name}.json", json.dumps(content).encode())


def _result(line: bytes) -> tuple[str, Completion | Failure | Halt] | None:
    """Return how one request of a batch ended; None for a line that does not say which request it is about."""
    record = parse(line)
    if not isinstance(record, dict) or not isinstance(record.get("custom_id"), str):
        return None
    return record["custom_id"], of_batch(record)
