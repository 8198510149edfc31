"""The server answers its own page on its own machine, and survives what it is sent."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from threefold.errors import InputError
from threefold.explore.server import LARGEST_UPLOAD, Site, address, serve


def hear(sound: bytes) -> Iterator[dict[str, Any]]:
    if not sound.startswith(b"RIFF"):
        raise InputError("this is not a sound file: it does not begin as wav or flac does.")
    yield {"text": "one "}
    yield {"text": "two"}


def fails(given: dict[str, str]) -> Any:
    raise ZeroDivisionError("planned")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text('{"loss": 1}\n')
    (tmp_path / "run" / "weights.safetensors").write_text("x")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "run" / "link.json").symlink_to(tmp_path / "secret.json")
    answers = {"double": lambda given: {"is": 2 * int(given["n"])}, "fails": fails}
    made = serve(Site("<p>page</p>", answers, hear, tmp_path / "run"))
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def ask(
    server: ThreadingHTTPServer, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = client.getresponse()
    found = answer.status, answer.read()
    client.close()
    return found


def test_it_listens_on_loopback_only(server: ThreadingHTTPServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert address(server) == f"http://127.0.0.1:{server.server_address[1]}/"


def test_page_answers_and_files(server: ThreadingHTTPServer) -> None:
    assert ask(server, "/") == (200, b"<p>page</p>")
    assert ask(server, "/api/double?n=21") == (200, b'{"is": 42}')
    assert ask(server, "/files/metrics.jsonl") == (200, b'{"loss": 1}\n')
    assert ask(server, "/nothing")[0] == 404
    assert ask(server, "/api/nothing")[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", ""])
def test_a_foreign_host_is_refused(server: ThreadingHTTPServer, host: str) -> None:
    assert ask(server, "/", Host=host)[0] == 403


def test_a_foreign_page_is_refused(server: ThreadingHTTPServer) -> None:
    own = f"http://127.0.0.1:{server.server_address[1]}"
    assert ask(server, "/hear", "POST", b"RIFF", Origin="http://evil.example")[0] == 403
    assert ask(server, "/hear", "POST", b"RIFF", Origin="null")[0] == 403
    assert ask(server, "/hear", "POST", b"RIFF", Origin=own)[0] == 200


@pytest.mark.parametrize(
    "name", ["../secret.json", "..%2fsecret.json", "%2e%2e/secret.json", "/etc/passwd", "link.json", "a%00b", "", "."]
)
def test_files_outside_the_folder_are_not_served(server: ThreadingHTTPServer, name: str) -> None:
    assert ask(server, f"/files/{name}")[0] == 404


def test_only_readable_kinds_are_served(server: ThreadingHTTPServer) -> None:
    assert ask(server, "/files/weights.safetensors")[0] == 403


def test_speech_comes_in_pieces(server: ThreadingHTTPServer) -> None:
    status, body = ask(server, "/hear", "POST", b"RIFF....")
    assert status == 200
    assert [json.loads(line) for line in body.splitlines()] == [{"text": "one "}, {"text": "two"}]


def test_bad_uploads_get_a_sentence_and_the_server_goes_on(server: ThreadingHTTPServer) -> None:
    status, body = ask(server, "/hear", "POST", b"not sound")
    assert status == 400 and "not a sound file" in json.loads(body)["error"]
    status, body = ask(server, "/hear", "POST", None, Content_Length=str(LARGEST_UPLOAD + 1))
    assert status == 413 and "at most" in json.loads(body)["error"]
    assert ask(server, "/hear", "POST", None, Content_Length="-5")[0] == 411
    assert ask(server, "/api/fails")[0] == 500
    assert ask(server, "/api/double?n=x")[0] == 500
    assert ask(server, "/")[0] == 200


def test_a_client_that_leaves_does_not_end_the_server(server: ThreadingHTTPServer) -> None:
    port = server.server_address[1]
    for raw in (
        b"\x00\xff\xfe\r\n\r\n",
        b"POST /hear HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 50\r\n\r\nRI" % port,
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(raw)
    assert ask(server, "/")[0] == 200


def test_a_taken_port_is_said(server: ThreadingHTTPServer) -> None:
    with pytest.raises(InputError, match="cannot be used"):
        serve(Site(""), server.server_address[1])
