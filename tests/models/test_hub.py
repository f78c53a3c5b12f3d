"""What the hub's own answers become: a server on loopback in its place, asked by the real client in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import constants, hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from huggingface_hub.utils import hf_raise_for_status

from slmsafety.models.hub import unavailable

TOKEN = "hf_" + "x7" * 17
ASK = """
import json, os, sys
from slmsafety.errors import InputError
from slmsafety.models.encoder import dependency_parser, sentence_encoder
from slmsafety.models.load import load_causal_lm
from slmsafety.models.source import Source
loaders = {"lm": load_causal_lm, "encoder": sentence_encoder, "parser": dependency_parser}
for name, (kind, source, token) in json.loads(sys.argv[1]).items():
    os.environ.pop("HF_TOKEN", None)
    if token:
        os.environ["HF_TOKEN"] = token
    try:
        loaders[kind](Source(**source))
        said = "loaded"
    except InputError as error:
        said = str(error)
    print(json.dumps([name, said]))
"""
# Repository -> status and headers, as the hub sends them.
ANSWERS: dict[str, tuple[int, dict[str, str]]] = {
    "shut/gated": (403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to it is restricted."}),
    "no/such": (404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}),
    "wrong/token": (401, {"X-Error-Message": "Invalid credentials in Authorization header"}),
    "no/revision": (404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id: v9"}),
    "closed/down": (403, {"X-Error-Message": "Access to this resource is disabled."}),
    "without/config": (404, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"}),
}
# Name -> what loads, its source, the token that is set, and what is said.
CASES: dict[str, tuple[str, dict[str, str], str | None, list[str]]] = {
    "gated, no token": (
        "lm",
        {"hub": "shut/gated"},
        None,
        [
            "hub id shut/gated, revision main: ",
            "no access token is set; ask for it on HUB/shut/gated, then set HF_TOKEN",
        ],
    ),
    "gated, a token without access": (
        "lm",
        {"hub": "shut/gated"},
        TOKEN,
        ["the account of your token (HF_TOKEN) has no access yet; ask for it on HUB/shut/gated"],
    ),
    "gated encoder": ("encoder", {"hub": "shut/gated"}, None, ["ask for it on HUB/shut/gated, then set HF_TOKEN"]),
    "gated parser": ("parser", {"hub": "shut/gated"}, None, ["ask for it on HUB/shut/gated, then set HF_TOKEN"]),
    "no repository": (
        "lm",
        {"hub": "no/such"},
        None,
        ["the hub has no such model, or it is private and HF_TOKEN is not set; check the name on HUB/no/such"],
    ),
    "no repository for this token": ("lm", {"hub": "no/such"}, TOKEN, ["your token (HF_TOKEN) may not see it"]),
    "a wrong token": (
        "lm",
        {"hub": "wrong/token"},
        TOKEN,
        ["answered 401: it does not know the token in HF_TOKEN; make one on HUB/settings/tokens"],
    ),
    "no revision": (
        "lm",
        {"hub": "no/revision", "revision": "v9"},
        None,
        [
            "hub id no/revision, revision v9: ",
            "no such revision (branch, tag or commit); see HUB/no/revision/tree/main",
        ],
    ),
    "closed": ("lm", {"hub": "closed/down"}, None, ["the hub has closed this model; see HUB/closed/down"]),
    "no config": ("lm", {"hub": "without/config"}, None, ["has no file config.json, so it is no model of this kind"]),
}


class _Hub(BaseHTTPRequestHandler):
    """Answers every request about a repository as `ANSWERS` has it."""

    def do_HEAD(self) -> None:
        repository = "/".join(self.path.removeprefix("/api/models").split("/")[1:3]).partition("?")[0]
        status, headers = ANSWERS.get(repository, (404, {}))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    do_GET = do_HEAD

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def ask(endpoint: str, cases: dict[str, tuple[object, ...]], home: Path) -> dict[str, str]:
    """What each case is told."""
    cleared = {"HF_TOKEN": "", "HF_HUB_OFFLINE": "", "HUGGING_FACE_HUB_TOKEN": ""}
    environment = {**os.environ, **cleared, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_CACHE": str(home)}
    command = [sys.executable, "-c", ASK, json.dumps(cases)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


def test_each_answer_of_the_hub_becomes_advice_in_one_line(hub: str, tmp_path: Path) -> None:
    """The address holds a password, as one of a mirror may, and no line holds that or a token."""
    said = ask(f"http://me:geheim@{hub}", {name: case[:3] for name, case in CASES.items()}, tmp_path)
    assert said.keys() == CASES.keys()
    for name, (*_, expected) in CASES.items():
        assert "cannot be loaded (" in said[name] or name == "no config"
        for part in expected:
            assert part.replace("HUB", f"http://{hub}") in said[name], (name, said[name])
        assert "\n" not in said[name] and len(said[name]) < 500
        assert TOKEN not in said[name] and "geheim" not in said[name]


def test_a_hub_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the client says it after it has tried for a minute; here it is told not to try."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(LocalEntryNotFoundError) as caught:
        hf_hub_download("some/model", "config.json", cache_dir=tmp_path, local_files_only=True)
    said = str(unavailable("hub some/model", caught.value))
    assert f"the hub {constants.ENDPOINT} cannot be reached, and it is not in the cache (" in said
    assert "HF_ENDPOINT names another hub" in said and "\n" not in said


def test_a_library_s_own_words_are_one_line_without_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret-of-mine")
    error = ValueError(f"First line.\n\n  Second line: {TOKEN} and secret-of-mine.\n" + "more " * 999)
    said = str(unavailable("hub a/b", error, "do this"))
    assert said.startswith("hub a/b: cannot be loaded (ValueError): First line. Second line: (token) and (token). more")
    assert said.endswith("; do this") and len(said) < 500
    assert str(unavailable("x", OSError())) == "x: cannot be loaded (OSError): no reason given"


def test_own_code_is_told_the_key() -> None:
    error = ValueError("The repository a/b contains custom code.\nPass `trust_remote_code=True` to allow it.")
    assert "runs only with `trust_remote_code: true` in its entry" in str(unavailable("hub a/b", error))


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (403, "answered 403: the token in HF_TOKEN may not read this model"),
        (429, "answered 429: too many requests; wait, or set HF_TOKEN"),
        (503, "answered 503; try again later"),
        (418, "answered 418: Client error '418 I'm a teapot'"),
    ],
)
def test_answers_that_the_client_waits_on(status: int, says: str) -> None:
    """Made by the client's own reader of answers, since the client itself tries such ones again for a minute."""
    request = httpx2.Request("HEAD", "https://hub/a/b/resolve/main/config.json")
    with pytest.raises(HfHubHTTPError) as caught:
        hf_raise_for_status(httpx2.Response(status, request=request))
    assert says in str(unavailable("hub a/b", caught.value))
