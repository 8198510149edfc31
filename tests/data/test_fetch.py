"""Downloads from a server on this machine: whole and right, or not at all."""

import hashlib
import io
import os
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from threefold.data import fetch
from threefold.data.fetch import SOURCES, Source
from threefold.errors import InputError


class Quiet(SimpleHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: object) -> None:
        self.asked.append(self.path)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("THREEFOLD_CACHE", str(tmp_path / "cache"))
    Quiet.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *parts: Quiet(*parts, directory=str(folder)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def source_of(raw: bytes, url: str, unpacked: str = "", unlabelled: str = "") -> Source:
    return Source("tiny", "a test", "none", url, f"sha256:{hashlib.sha256(raw).hexdigest()}", 0.1, unpacked, unlabelled)


def test_a_file_is_fetched_once(site: tuple[Path, str]) -> None:
    folder, url = site
    (folder / "a.txt").write_bytes(b"hello")
    source = source_of(b"hello", f"{url}/a.txt?download=1")
    path = fetch.fetch(source)
    assert path.read_bytes() == b"hello"
    assert path == fetch.place(source)
    assert fetch.fetch(source) == path
    assert len(Quiet.asked) == 1


def packed(kind: str, files: dict[str, bytes]) -> bytes:
    """An archive with a folder `Set` of these files."""
    raw = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(raw, "w") as archive:
            for name, content in files.items():
                archive.writestr(f"Set/{name}", content)
    else:
        with tarfile.open(fileobj=raw, mode="w:bz2") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(f"Set/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar.bz2"])
def test_an_archive_is_unpacked(site: tuple[Path, str], kind: str) -> None:
    folder, url = site
    raw = packed(kind, {"train.tsv": b"good\t1\n", "test.tsv": b"secret\n"})
    (folder / f"a.{kind}").write_bytes(raw)
    path = fetch.fetch(source_of(raw, f"{url}/a.{kind}", "Set", "test.tsv"))
    assert (path / "train.tsv").read_text() == "good\t1\n"
    assert not (path / "test.tsv").exists()
    assert fetch.fetch(source_of(raw, f"{url}/a.{kind}", "Set", "test.tsv")) == path


@pytest.mark.parametrize("kind", ["zip", "tar.bz2"])
def test_an_interrupted_unpacking_leaves_nothing(site: tuple[Path, str], kind: str) -> None:
    """The archive is as its checksum says, and cut all the same: half a set must not be taken for all of it."""
    folder, url = site
    texts = {f"{n}.tsv": os.urandom(30_000) for n in range(4)}
    raw = packed(kind, texts)[:60_000]
    (folder / f"a.{kind}").write_bytes(raw)
    source = source_of(raw, f"{url}/a.{kind}", "Set")
    with pytest.raises(InputError, match="cannot be unpacked"):
        fetch.fetch(source)
    assert not fetch.place(source).exists()
    assert [path.name for path in fetch.place(source).parent.iterdir()] == [f"a.{kind}"]


def test_an_archive_of_something_else(site: tuple[Path, str]) -> None:
    folder, url = site
    raw = packed("zip", {"train.tsv": b"good\t1\n"})
    (folder / "a.zip").write_bytes(raw)
    with pytest.raises(InputError, match="holds no folder 'Other'"):
        fetch.fetch(source_of(raw, f"{url}/a.zip", "Other"))


def test_a_wrong_checksum_leaves_nothing(site: tuple[Path, str]) -> None:
    folder, url = site
    (folder / "a.txt").write_bytes(b"hell0")
    source = source_of(b"hello", f"{url}/a.txt")
    with pytest.raises(InputError, match="does not have the checksum"):
        fetch.fetch(source)
    assert not fetch.place(source).exists()


def test_no_such_file_and_no_server(site: tuple[Path, str]) -> None:
    _, url = site
    with pytest.raises(InputError, match="could not be fetched"):
        fetch.fetch(source_of(b"", f"{url}/none.txt"))
    with pytest.raises(InputError, match="could not be fetched"):
        fetch.fetch(source_of(b"", "http://127.0.0.1:9/none.txt"))


def test_what_was_not_fetched_says_how(site: tuple[Path, str]) -> None:
    with pytest.raises(InputError, match="threefold data fetch octmnist"):
        fetch.fetched("octmnist")
    with pytest.raises(InputError, match="did you mean 'octmnist'"):
        fetch.source("octminst")


def test_every_source_is_complete() -> None:
    assert [source.name for source in SOURCES] == ["octmnist", "ljspeech", "sst2", "tinyshakespeare"]
    for source in SOURCES:
        kind, _, digest = source.checksum.partition(":")
        assert len(digest) == {"md5": 32, "sha256": 64}[kind]
        assert source.url.startswith("https://")
        assert source.licence
        assert replace(source, url="x/y.npz?download=1").file == "y.npz"
