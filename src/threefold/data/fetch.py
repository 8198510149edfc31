"""Public data by name: downloaded once, its checksum verified, kept in the cache."""

from __future__ import annotations

import re
import shutil
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from threefold.data.cache import folder, make_once
from threefold.errors import InputError, nearest, require


@dataclass(frozen=True)
class Source:
    """One file on the web: what it is, under which licence, and the checksum that it must have."""

    name: str
    says: str
    licence: str
    url: str
    checksum: str
    megabytes: float
    unpacked: str = ""  # the folder inside an archive; empty: the file itself
    unlabelled: str = ""  # a file of that folder whose labels are secret: set aside, so that it is not taken for a test

    @property
    def file(self) -> str:
        """The name under which it is kept."""
        return self.url.partition("?")[0].rpartition("/")[2]


SOURCES = (
    Source(
        name="octmnist",
        says="109,309 retina scans 28x28 in 4 classes (MedMNIST)",
        licence="CC BY 4.0",
        url="https://zenodo.org/records/10519652/files/octmnist.npz?download=1",
        checksum="md5:c68d92d5b585d8d81f7112f81e2d0842",
        megabytes=54.9,
    ),
    Source(
        name="ljspeech",
        says="13,100 English utterances of one reader, 24 hours",
        licence="public domain",
        url="https://data.keithito.com/data/speech/LJSpeech-1.1.tar.bz2",
        checksum="sha256:be1a30453f28eb8dd26af4101ae40cbf2c50413b1bb21936cbcdc6fae3de8aa5",
        megabytes=2748.6,
        unpacked="LJSpeech-1.1",
    ),
    Source(
        name="sst2",
        says="67,349 phrases and sentences of film reviews, 2 classes (GLUE)",
        licence="not stated",
        url="https://dl.fbaipublicfiles.com/glue/data/SST-2.zip",
        checksum="md5:9f81648d4199384278b86e315dac217c",
        megabytes=7.4,
        unpacked="SST-2",
        unlabelled="test.tsv",
    ),
    Source(
        name="tinyshakespeare",
        says="1,115,394 characters of Shakespeare",
        licence="public domain text",
        url="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        checksum="sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        megabytes=1.1,
    ),
)


def source(name: str) -> Source:
    """The source of this name."""
    known = {each.name: each for each in SOURCES}
    if name not in known:
        raise InputError(f"no data called {name!r}{nearest(name, known)} Known: {', '.join(known)}.")
    return known[name]


def place(what: Source) -> Path:
    """Where it is, or would be, kept: ready to be given as --data."""
    base = folder() / "fetched" / what.name
    return base / (what.unpacked or what.file)


def fetched(name: str) -> Path:
    """The data of this name, which must have been fetched."""
    path = place(source(name))
    require(path.exists(), f"{name} is not here yet: run `threefold data fetch {name}`, or give your own with --data.")
    return path


def fetch(what: Source, *, progress: bool = False) -> Path:
    """Download, verify, unpack. A file that is already here and whole is not fetched again."""
    import pooch
    import requests

    path = place(what)
    if path.exists() and what.unpacked:
        return path
    try:
        file = pooch.retrieve(
            what.url,
            known_hash=what.checksum,
            fname=what.file,
            path=folder() / "fetched" / what.name,
            downloader=pooch.HTTPDownloader(progressbar=progress, timeout=60),
        )
    except ValueError as error:
        raise InputError(f"{what.url} does not have the checksum of {what.name}; nothing was kept ({error}).") from None
    except (requests.RequestException, OSError) as error:
        raise InputError(
            f"{what.name} could not be fetched from {what.url} ({_why(error)}); try again, or give your own."
        ) from None
    return make_once(path, lambda draft: _unpack(Path(file), what, draft)) if what.unpacked else path


def _why(error: Exception) -> str:
    """The innermost reason, without the addresses of objects."""
    found = re.findall(r"\[Errno -?\d+\] ([^')\"]+)", str(error))
    return found[-1] if found else f"{type(error).__name__}: {str(error)[:120]}"


def _unpack(file: Path, what: Source, draft: Path) -> None:
    """Fill `draft` with the archive's folder; whoever is interrupted here leaves nothing that looks complete."""
    with tempfile.TemporaryDirectory(dir=draft.parent) as space:
        try:
            if file.suffix == ".zip":
                shutil.unpack_archive(file, space)
            else:
                shutil.unpack_archive(file, space, filter="data")
        except (shutil.ReadError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
            raise InputError(f"{file} cannot be unpacked ({error}): delete it and fetch again.") from None
        inside = Path(space) / what.unpacked
        require(inside.is_dir(), f"{what.file} was fetched, but holds no folder {what.unpacked!r}.")
        for each in inside.iterdir():
            each.rename(draft / f"{each.name}{'.unlabelled' if each.name == what.unlabelled else ''}")
