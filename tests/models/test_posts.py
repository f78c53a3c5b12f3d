"""Encrypted connections and tunnels; what else a connection can meet is tested by whole calls (test_client.py)."""

from __future__ import annotations

import select
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from servers import Server, listening, running

from slmsafety.errors import InputError
from slmsafety.models.attempts import Request
from slmsafety.models.client import complete
from slmsafety.models.endpoint import Endpoint

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")

NAMES = "subjectAltName=DNS:localhost,DNS:models.invalid"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of two names that signs itself, beside its key."""
    folder = tmp_path_factory.mktemp("tls")
    made = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-days", "2", "-nodes"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-subj", "/CN=localhost", "-addext", NAMES, *made]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "cert.pem"


@pytest.fixture
def server(certificate: Path) -> Iterator[Server]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with running(Server(), tls) as server:
        yield server


def replies(url: str) -> list[str]:
    requests = [Request(i, {"prompt": f"p{i}"}) for i in range(4)]
    endpoint = Endpoint(url, "tiny", concurrency=2, retries=0, timeout=5)
    answers = [answer for ended in complete(endpoint, requests) for _, answer in ended]
    return sorted(answer.text for answer in answers)


Asked = set[tuple[str, str | None]]


def tunnel(port: int, asked: Asked, status: int = 200) -> type[BaseHTTPRequestHandler]:
    """A proxy that leads wherever it is asked to the port, or answers with an error."""

    class Tunnel(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.add((self.path, self.headers["proxy-authorization"]))
            self.send_response(status)
            self.end_headers()
            self.close_connection = True
            if status == 200:
                with socket.create_connection(("127.0.0.1", port)) as there:
                    relay(self.connection, there)

        def log_message(self, *_: object) -> None:
            pass

    return Tunnel


def relay(here: socket.socket, there: socket.socket) -> None:
    other = {here: there, there: here}
    while True:
        for end in select.select([here, there], [], [], 10)[0]:
            try:
                data = end.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                return
            other[end].sendall(data)


def test_a_server_is_spoken_to_encrypted(server: Server, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert replies(f"https://localhost:{server.port}/v1") == [f"you said: p{i}" for i in range(4)]
    assert server.heads[0]["host"] == f"localhost:{server.port}"


def test_a_certificate_that_is_not_trusted_or_another_one_s_is_named(
    server: Server, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="the certificate is not trusted: self-signed certificate"):
        replies(f"https://localhost:{server.port}/v1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(InputError, match="the certificate is not trusted: IP address mismatch"):
        replies(f"https://127.0.0.1:{server.port}/v1")
    assert not server.asked


def test_a_proxy_leads_to_an_encrypted_server(
    server: Server, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    asked: Asked = set()
    with listening(tunnel(server.port, asked)) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:pass%20word@127.0.0.1:{port}")
        assert replies("https://models.invalid/v1") == [f"you said: p{i}" for i in range(4)]
    assert asked == {("models.invalid:443", "Basic bWU6cGFzcyB3b3Jk")}
    assert not [head for head in server.heads if "proxy-authorization" in head]  # it is the proxy's alone
    with listening(tunnel(server.port, asked, status=407)) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        with pytest.raises(InputError, match="the proxy answers HTTP 407"):
            replies("https://models.invalid/v1")
