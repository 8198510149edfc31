"""The native library: found, loaded once, told which threads to use, and asked for functions by name.

THREEFOLD_KERNELS=off turns it off, and a path there is another library; THREEFOLD_ISA=base|avx2|avx512 forces an
instruction set. Both are read when the library is first needed. A call through ctypes releases the GIL.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from threefold.errors import InputError, require
from threefold.kernels.build import LIBRARY, SOURCES, fingerprint, instruction_sets, reason_file

POINTER, BYTES, LONG, INT, FLOAT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_float

PLAIN = (Tensor, nn.Parameter)
LARGE = 1 << 23  # bytes from which a result outgrows the caches, and is often memory that the system has just given


@dataclass
class Native:
    """The loaded library and the instruction set in use; `why_not` is empty when it can be used."""

    library: ctypes.CDLL | None
    why_not: str
    best: str = ""
    isa: str = ""
    openmp: str = ""
    found: dict[tuple[str, str], Callable[..., None]] = field(default_factory=dict)

    def function(self, name: str, arguments: tuple[Any, ...]) -> Callable[..., None]:
        """`name` compiled for the instruction set in use."""
        key = (name, self.isa)
        if key not in self.found:
            f = getattr(self.library, f"{name}_{self.isa}")
            f.argtypes, f.restype = arguments, None
            self.found[key] = f
        return self.found[key]


def load(path: Path | None = None, sources: Path = SOURCES) -> Native:
    """Load the library at `path`, or say why it cannot be used: one of other sources has other functions."""
    asked = os.environ.get("THREEFOLD_KERNELS", "")
    if asked.lower() in ("off", "0", "no"):
        return Native(None, "turned off by THREEFOLD_KERNELS")
    path = path or Path(asked or LIBRARY)
    if not path.exists():
        left = reason_file(path)
        reason = left.read_text().strip() if left.exists() else "they were not built when threefold was installed"
        return Native(None, f"{reason} (python -m threefold.kernels.build builds them)")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return Native(None, f"{path} does not load: {error}")
    if not _built_from(library, sources):
        again = "rebuild them by python -m threefold.kernels.build"
        return Native(None, f"{path} was built from other sources than those that lie here: {again}")
    library.tf_best_isa.restype = ctypes.c_char_p
    best = library.tf_best_isa().decode()
    native = Native(library, "", best, best, _share_threads(library))
    if wanted := os.environ.get("THREEFOLD_ISA"):
        native.isa = _checked(native, wanted)
    return native


def _built_from(library: ctypes.CDLL, sources: Path) -> bool:
    try:
        library.tf_sources.restype = BYTES
    except AttributeError:
        return False
    return bool(library.tf_sources().decode() == fingerprint(sources))


def fresh(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An empty tensor for a native result, on large pages where it is large and the system has them."""
    made = torch.empty(tuple(shape), dtype=dtype)
    if made.nbytes >= LARGE and (library := native().library) is not None:
        library.tf_large_pages(POINTER(made.data_ptr()), LONG(made.nbytes))
    return made


@cache
def native() -> Native:
    """The library, loaded on first use."""
    return load()


@torch.compiler.assume_constant_result
def available() -> str:
    """Empty when the native library can be used, else the reason why not."""
    return native().why_not


def watched(*tensors: Tensor | None) -> bool:
    """Whether somebody wants to see an operator run on these: a gradient, a graph, a mode, a profiler, a tensor of a
    kind of its own. If nobody does, the library can be called at once, in a fraction of the dispatcher's time."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or torch.autograd._profiler_enabled():
        return True
    learning = torch.is_grad_enabled()
    for each in tensors:  # noqa: SIM110 - a generator would take as long as all the rest
        if each is not None and (type(each) not in PLAIN or (learning and each.requires_grad)):
            return True
    return False


def isas() -> tuple[str, ...]:
    """The instruction sets that this processor runs, best first."""
    names = tuple(instruction_sets())
    return names[names.index(native().best) :] if not available() else ()


@contextmanager
def forced(isa: str) -> Iterator[None]:
    """Use another instruction set inside a `with`: for tests and comparisons."""
    lib = native()
    before, lib.isa = lib.isa, _checked(lib, isa)
    try:
        yield
    finally:
        lib.isa = before


@contextmanager
def disabled(reason: str = "turned off here") -> Iterator[None]:
    """Use the torch paths inside a `with`."""
    lib = native()
    before, lib.why_not = lib.why_not, reason
    try:
        yield
    finally:
        lib.why_not = before


def _checked(lib: Native, isa: str) -> str:
    names = tuple(instruction_sets())
    require(isa in names, f"instruction set {isa!r} is not one of {', '.join(names)}: choose one of these.")
    if lib.library is None or names.index(isa) < names.index(lib.best):
        raise InputError(f"instruction set {isa!r} cannot run here (best: {lib.best or 'none'}): choose a lesser one.")
    return isa


def _share_threads(library: ctypes.CDLL) -> str:
    """Hand the library the thread team of the OpenMP runtime that torch loaded; its name, or '' for plain threads."""
    folder = Path(torch.__file__).parent
    names = ("libgomp*.so*", "libiomp5*.so*", "libomp*.so*", "libomp*.dylib")
    for place in (folder / "lib", folder.parent / "torch.libs"):
        for path in (found for name in names for found in sorted(place.glob(name))):
            try:
                runtime = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
                address = ctypes.cast(runtime.GOMP_parallel, POINTER)
            except (OSError, AttributeError):
                continue
            library.tf_use_openmp(address)
            return path.name
    return ""
