"""The download runs against a real HTTP server on this machine; the readers run on small files of every wrong form."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slmsafety.errors import InputError
from slmsafety.suites import source
from slmsafety.suites.source import Upstream, cache_folder, fetch, present, read_rows, resolve, revision_of

CONTENT = b"id,text\n1,one\n2,two\n" * 500
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves /good.csv whole and /cut.csv with its connection closed midway; anything else is missing."""

    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        if self.path not in ("/good.csv", "/cut.csv"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if self.path == "/good.csv" else CONTENT[: len(CONTENT) // 2])
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


def pin(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Point the suite "sst" at `url`; the hash is that of CONTENT."""
    monkeypatch.setattr(Upstream, "url", property(lambda self: url))
    monkeypatch.setitem(source.UPSTREAM, "sst", Upstream("owner/name", "commit", "file.csv", SHA256))


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def one_line(info: pytest.ExceptionInfo[InputError]) -> str:
    message = str(info.value)
    assert "\n" not in message
    return message


def test_a_good_file_is_downloaded_once(server: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, f"{server}/good.csv")
    first, second = resolve("sst", None), resolve("sst", None)
    assert first == second
    assert first.read_bytes() == CONTENT
    assert files_in(cache) == [first]
    assert Handler.requests == ["/good.csv"]


def test_a_damaged_cached_file_is_downloaded_again(server: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, f"{server}/good.csv")
    path = resolve("sst", None)
    path.write_bytes(CONTENT[:-1])
    assert resolve("sst", None).read_bytes() == CONTENT
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
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/good.csv"
        pin(monkeypatch, url)
        with pytest.raises(InputError, match=f"cannot download {url}") as info:
            resolve("sst", None)
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


def test_the_cache_is_in_the_home_folder_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLMSAFETY_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "slmsafety"


def test_a_given_path_is_used_as_it_is(tmp_path: Path, cache: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("x\n")
    assert resolve("sst", str(own)) == own
    for wrong in (tmp_path / "gone.csv", tmp_path):
        with pytest.raises(InputError, match=f"suite sst: there is no file '{wrong}'") as info:
            resolve("sst", wrong)
        one_line(info)
    with pytest.raises(InputError, match="did you mean 'harmbench'"):
        resolve("harmbnech", None)


def test_pinned_addresses_are_whole_and_their_hashes_too() -> None:
    for upstream in (*source.UPSTREAM.values(), *source.BBQ):
        assert len(upstream.commit) == 40
        assert len(upstream.sha256) in (0, 64)
        assert upstream.url.isascii()
        assert " " not in upstream.url


def test_pinned_hashes_are_those_of_the_public_files(public_data: Path) -> None:
    files = {
        "harmbench": public_data / "harmbench" / "harmbench_behaviors_text_all.csv",
        "sst": public_data / "sst" / "SimpleSafetyTests_test_cases.csv",
        "xstest": public_data / "xstest" / "xstest_prompts.csv",
    }
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == {
        name: upstream.sha256 for name, upstream in source.UPSTREAM.items()
    }


def test_known_hashes_of_bbq_are_those_of_the_public_files(public_data: Path) -> None:
    known = {Path(upstream.file).name: upstream.sha256 for upstream in source.BBQ if upstream.sha256}
    found = (public_data / "bbq" / "data").glob("*.jsonl")
    assert known == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def test_the_files_of_bbq_are_downloaded_once(server: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Upstream, "url", property(lambda self: f"{server}/good.csv"))
    files = [Upstream("o/n", "c" * 40, f"data/{name}.jsonl", sha) for name, sha in (("Age", SHA256), ("SES", ""))]
    monkeypatch.setattr(source, "BBQ", tuple(files))
    assert present("bbq") == (0, 2)
    folder = resolve("bbq", None)
    assert present("bbq_full") == (2, 2)
    assert resolve("bbq_full", None) == folder
    assert sorted(path.name for path in files_in(cache)) == ["Age.jsonl", "SES.jsonl"]
    assert len(Handler.requests) == 2


def test_revisions_follow_names_and_bytes(tmp_path: Path) -> None:
    for folder, names in (("one", ("a", "b")), ("two", ("a", "b")), ("three", ("a", "c"))):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_text("x")
    one, two, three = (revision_of(sorted((tmp_path / f).iterdir())) for f in ("one", "two", "three"))
    assert one == two != three
    assert revision_of([tmp_path / "one" / "a"]) == hashlib.sha256(b"x").hexdigest()[:12]


def test_cells_stay_as_written(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes('\ufeffa,b\r\nnan,\r\n"NA"," two\r\nlines "\r\n'.encode())
    assert read_rows(path, ("a", "b"), ("a",)) == [{"a": "nan", "b": ""}, {"a": "NA", "b": " two\r\nlines "}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no column 'a'; expected columns: a, b"),
        (b"a,c\n1,2\n", "has no column 'b'; expected columns: a, b"),
        (b"a,b\n", "has a header but no row"),
        (b"a,b\n1,2\n3\n", "row 2 does not have the header's 2 cells"),
        (b"a,b\n1,2,3\n", "row 1 does not have the header's 2 cells"),
        (b"a,b\n1,2\n , \n", "row 2 has nothing in column 'a'"),
        (b'a,b\n1,"open\n', "is not a CSV file in UTF-8"),
        (b"PK\x03\x04\x14\x00\xff\xfe\x00", "is not a CSV file in UTF-8"),
        (b"\x00\x01\x02\x03", "not a CSV file in UTF-8|has no column 'a'"),
        (b'{"a": 1}\n', "has no column 'a'"),
    ],
)
def test_a_file_of_another_form_is_named_on_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as info:
        read_rows(path, ("a", "b"), ("a",))
    assert str(path) in one_line(info)


def test_a_file_that_vanished_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read") as info:
        read_rows(tmp_path / "gone.csv", ("a",), ("a",))
    one_line(info)
