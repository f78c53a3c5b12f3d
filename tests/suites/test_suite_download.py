"""Downloads, against a real HTTP server on this machine."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slmsafety.errors import InputError
from slmsafety.suites.catalogue import SUITES
from slmsafety.suites.download import GithubFiles, fetch
from slmsafety.suites.prompts import revision_of

CONTENT = b"id,text\n1,one\n2,two\n" * 500
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves good.csv whole and cut.csv with its connection closed midway; anything else is missing."""

    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        name = self.path.rsplit("/", 1)[-1]
        if name not in ("good.csv", "cut.csv"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if name == "good.csv" else CONTENT[: len(CONTENT) // 2])
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    Handler.requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        thread = threading.Thread(target=http_server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http_server.server_port}"
        http_server.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLMSAFETY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def one_file(server: str, cache: Path) -> GithubFiles:
    return GithubFiles("mine", "owner/name", "commit", {"good.csv": SHA256}, server)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def one_line(info: pytest.ExceptionInfo[InputError]) -> str:
    message = str(info.value)
    assert "\n" not in message
    return message


def test_a_good_file_is_downloaded_once(one_file: GithubFiles, cache: Path) -> None:
    assert one_file.present() == (0, 1)
    first, second = one_file.fetch(), one_file.fetch()
    assert first == second
    assert first.read_bytes() == CONTENT
    assert files_in(cache) == [first]
    assert one_file.present() == (1, 1)
    assert Handler.requests == ["/owner/name/commit/good.csv"]


def test_a_damaged_cached_file_is_downloaded_again(one_file: GithubFiles) -> None:
    path = one_file.fetch()
    path.write_bytes(CONTENT[:-1])
    assert one_file.fetch().read_bytes() == CONTENT
    assert len(Handler.requests) == 2


def test_several_files_share_a_folder_and_are_downloaded_once(server: str, cache: Path) -> None:
    files = {"one/good.csv": SHA256, "two/cut.csv": ""}
    source = GithubFiles("mine", "o/n", "c" * 40, files, server)
    with pytest.raises(InputError, match=r"cut\.csv"):
        source.fetch()
    assert source.present() == (1, 2)
    source.targets()["two/cut.csv"].write_bytes(b"any bytes: no hash of it is known")
    assert source.fetch() == cache / "suites" / f"mine-{'c' * 12}"
    assert source.present() == (2, 2)
    assert len(Handler.requests) == 2


def test_a_file_with_another_hash_is_refused(server: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{server}/good.csv has sha256 {SHA256}, not the published 0000") as info:
        fetch(f"{server}/good.csv", "0" * 64, tmp_path / "suites" / "file.csv")
    assert "'path:'" in one_line(info)
    assert files_in(tmp_path) == []


def test_a_missing_file_is_named(server: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{server}/gone.csv .*404") as info:
        fetch(f"{server}/gone.csv", SHA256, tmp_path / "file.csv")
    assert "'path:'" in one_line(info)
    assert files_in(tmp_path) == []


def test_a_cut_connection_leaves_nothing_and_keeps_the_old_file(server: str, tmp_path: Path) -> None:
    target = tmp_path / "file.csv"
    with pytest.raises(InputError, match=f"cannot download {server}/cut.csv") as info:
        fetch(f"{server}/cut.csv", SHA256, target)
    one_line(info)
    assert files_in(tmp_path) == []
    target.write_bytes(b"old")
    with pytest.raises(InputError):
        fetch(f"{server}/cut.csv", SHA256, target)
    assert files_in(tmp_path) == [target]
    assert target.read_bytes() == b"old"


def test_no_network_names_the_address_and_the_way_out(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: a connection is refused
        site = f"http://127.0.0.1:{unused.getsockname()[1]}"
        source = GithubFiles("mine", "owner/name", "commit", {"good.csv": SHA256}, site)
        with pytest.raises(InputError, match=f"cannot download {site}/owner/name/commit/good.csv") as info:
            source.fetch()
    assert "give a copy of the file with 'path:'" in one_line(info)
    assert not cache.exists()


def test_a_folder_that_cannot_be_written_is_named(server: str, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(InputError, match="set SLMSAFETY_CACHE") as info:
        fetch(f"{server}/good.csv", SHA256, tmp_path / "cache" / "file.csv")
    one_line(info)


def test_failed_replacement_removes_the_temporary_file(server: str, tmp_path: Path) -> None:
    target = tmp_path / "file.csv"
    target.mkdir()  # os.replace cannot put a file where a folder is
    with pytest.raises(InputError, match="cannot write"):
        fetch(f"{server}/good.csv", SHA256, target)
    assert files_in(tmp_path) == []


PINNED = {name: suite.origin for name, suite in SUITES.items() if isinstance(suite.origin, GithubFiles)}


@pytest.mark.parametrize("name", PINNED)
def test_pinned_addresses_are_whole_and_their_hashes_too(name: str) -> None:
    origin = PINNED[name]
    assert len(origin.revision) == 40
    for file, sha256 in origin.files.items():
        assert len(sha256) in (0, 64)
        assert origin.url(file).isascii()
        assert " " not in origin.url(file)


def test_pinned_hashes_are_those_of_the_public_files(public_data: Path) -> None:
    known = {sha256 for origin in PINNED.values() for sha256 in origin.files.values()} - {""}
    files = [*(public_data / "bbq" / "data").glob("*.jsonl")]
    for name in ("harmbench_behaviors_text_all", "SimpleSafetyTests_test_cases", "xstest_prompts"):
        files += public_data.glob(f"*/{name}.csv")
    assert {hashlib.sha256(path.read_bytes()).hexdigest() for path in files} == known


def test_revisions_follow_names_and_bytes(tmp_path: Path) -> None:
    for folder, names in (("one", ("a", "b")), ("two", ("a", "b")), ("three", ("a", "c"))):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_text("x")
    one, two, three = (revision_of(sorted((tmp_path / f).iterdir())) for f in ("one", "two", "three"))
    assert one == two != three
    assert revision_of([tmp_path / "one" / "a"]) == hashlib.sha256(b"x").hexdigest()[:12]
