"""A small server for one person on one machine: loopback only, own pages only, and nothing outside its folder."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from threefold.errors import InputError

LOOPBACK = "127.0.0.1"
LARGEST_UPLOAD = 64 * 2**20
TYPES = {
    ".html": "text/html",
    ".json": "application/json",
    ".jsonl": "text/plain",
    ".txt": "text/plain",
    ".wav": "audio/wav",
}

Answer = Callable[[dict[str, str]], Any]
Hear = Callable[[bytes], Iterator[dict[str, Any]]]


@dataclass(frozen=True)
class Site:
    """What is served: one page, JSON answers by name, an ear for audio, and the files of one folder."""

    page: str
    answers: dict[str, Answer] = field(default_factory=dict)
    hear: Hear | None = None
    folder: Path | None = None


class RefusedError(Exception):
    """A request that is answered with a status and one sentence."""

    def __init__(self, status: HTTPStatus, says: str) -> None:
        super().__init__(says)
        self.status, self.says = status, says


def serve(site: Site, port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback, not yet running: call `serve_forever`. Port 0 takes a free one."""
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), type("Handler", (_Handler,), {"site": site}))
    except OSError as error:
        raise InputError(f"port {port} cannot be used ({error.strerror}); give another, or 0 for a free one.") from None
    server.daemon_threads = True
    return server


def address(server: ThreadingHTTPServer) -> str:
    """What to type into a browser."""
    return f"http://{LOOPBACK}:{server.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    site: Site
    protocol_version = "HTTP/1.1"
    server_version = "threefold"
    sys_version = ""
    timeout = 30  # a client that stops talking does not hold a thread

    def do_GET(self) -> None:
        self._guarded(self._get)

    def do_HEAD(self) -> None:
        self._guarded(self._get)

    def do_POST(self) -> None:
        self._guarded(self._post)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            self._check_origin()
            act()
        except RefusedError as refused:
            self._refuse(refused.status, refused.says)
        except InputError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:  # one bad request must not end the page for the next
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")

    def _check_origin(self) -> None:
        """A page of another site may make a browser call us; its Host or Origin gives it away (DNS rebinding too)."""
        port = cast(tuple[str, int], self.server.server_address)[1]
        own = {f"{name}:{port}" for name in (LOOPBACK, "localhost", "[::1]")}
        if self.headers.get("Host", "") not in own:
            raise RefusedError(HTTPStatus.FORBIDDEN, "this server answers to its own loopback address only.")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in own}:
            raise RefusedError(HTTPStatus.FORBIDDEN, "this server answers its own page only.")

    def _get(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/":
            self._send(HTTPStatus.OK, self.site.page.encode(), "text/html; charset=utf-8")
        elif parts.path.startswith("/api/"):
            name = parts.path.removeprefix("/api/")
            if name not in self.site.answers:
                raise RefusedError(HTTPStatus.NOT_FOUND, f"there is nothing called {name[:60]!r} here.")
            given = {key: values[-1] for key, values in parse_qs(parts.query).items()}
            body = json.dumps(self.site.answers[name](given), default=str).encode()
            self._send(HTTPStatus.OK, body, "application/json")
        elif parts.path.startswith("/files/"):
            self._file(unquote(parts.path.removeprefix("/files/")))
        else:
            raise RefusedError(HTTPStatus.NOT_FOUND, "there is no such page.")

    def _file(self, name: str) -> None:
        folder = self.site.folder
        path = (folder / name).resolve() if folder and "\0" not in name else None
        if folder is None or path is None or not path.is_relative_to(folder.resolve()) or not path.is_file():
            raise RefusedError(HTTPStatus.NOT_FOUND, "there is no such file in this folder.")
        kind = TYPES.get(path.suffix)
        if kind is None:
            raise RefusedError(HTTPStatus.FORBIDDEN, f"files that end in {path.suffix!r} are not served.")
        self._send(HTTPStatus.OK, path.read_bytes(), kind)

    def _post(self) -> None:
        if urlsplit(self.path).path != "/hear" or self.site.hear is None:
            self.close_connection = True
            raise RefusedError(HTTPStatus.NOT_FOUND, "this page has no ear: start explore with a trained speech run.")
        sound = self._body()
        pieces = self.site.hear(sound)
        first = next(pieces, {})  # a malformed file is refused before the answer begins
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self._common_headers()
        self.end_headers()
        self._piece(first)
        for piece in pieces:
            self._piece(piece)
        self.wfile.write(b"0\r\n\r\n")

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        self.close_connection = True  # whatever was not read must not be taken for a next request
        if not length.isdigit():
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "say how long the upload is (Content-Length).")
        if int(length) > LARGEST_UPLOAD:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the upload has {int(length):,} bytes; at most {LARGEST_UPLOAD:,} are taken.",
            )
        body = io.BytesIO()
        while body.tell() < int(length):
            read = self.rfile.read(min(2**16, int(length) - body.tell()))
            if not read:
                raise RefusedError(
                    HTTPStatus.BAD_REQUEST, f"the upload ended after {body.tell():,} of {int(length):,} bytes."
                )
            body.write(read)
        return body.getvalue()

    def _piece(self, row: dict[str, Any]) -> None:
        line = json.dumps(row).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self._common_headers()
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: HTTPStatus, says: str) -> None:
        self.close_connection = True
        try:
            self._send(status, json.dumps({"error": says}).encode(), "application/json")
        except OSError:
            self.close_connection = True

    def _common_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")

    def log_message(self, format: str, *args: Any) -> None:
        if args and str(args[1] if len(args) > 1 else "").startswith("5"):
            sys.stderr.write(f"{self.command} {self.path}: {args[1]}\n")
