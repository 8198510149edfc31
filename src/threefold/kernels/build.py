"""Build the native kernels: every `cpp/*_isa.cpp` once per instruction set, linked into one plain C library.

The library knows neither Python nor torch, so it needs a C++17 compiler and nothing else, and one build serves every
version of both. Imported by setup.py by path: the standard library only. `python -m threefold.kernels.build` rebuilds.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY, SOURCES = HERE / "_native.so", HERE / "cpp"
FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden"),
    *("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"),
)
SANITIZE = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
X86 = {
    "avx512": ("-march=skylake-avx512", "-mprefer-vector-width=512"),
    "avx2": ("-march=haswell",),
    "base": (),
}


class BuildError(RuntimeError):
    """The native kernels could not be built; the sentence says why."""


def instruction_sets() -> dict[str, tuple[str, ...]]:
    """The instruction sets compiled for this processor family, best first, with their compiler flags."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return X86
    return {"base": ()}  # on ARM the baseline has NEON


def compiler() -> str:
    """The C++ compiler: $CXX, or the first of c++, g++, clang++."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    for name in names:
        if found := shutil.which(name.split()[0]):
            return found
    raise BuildError(f"no C++ compiler ({', '.join(names)}): install g++ or clang++, or set CXX.")


def fingerprint(sources: Path = SOURCES) -> str:
    """What a library says it was built from: the same for the same sources, and for no others."""
    found = hashlib.sha256()
    for source in sorted((*sources.glob("*.cpp"), *sources.glob("*.h"))):
        found.update(f"{source.name}\n".encode() + source.read_bytes())
    return found.hexdigest()[:16]


def jobs(into: Path, extra: tuple[str, ...] = (), sources: Path = SOURCES) -> list[tuple[list[str], Path]]:
    """One compiler command and its object file for every source and instruction set."""
    cxx = compiler()
    found, built_from = [], f'-DTF_SOURCES="{fingerprint(sources)}"'
    for source in sorted(sources.glob("*.cpp")):
        per_isa = source.stem.endswith("_isa")
        for isa, flags in (instruction_sets() if per_isa else {"": ()}).items():
            target = into / f"{source.stem}_{isa}.o"
            define = f"-DTF_ISA={isa}" if per_isa else built_from
            found.append(([cxx, *FLAGS, *extra, *flags, define, "-c", str(source), "-o", str(target)], target))
    return found


def build(library: Path = LIBRARY, extra: tuple[str, ...] = (), sources: Path = SOURCES) -> Path:
    """Compile and link; the library replaces the old one only when all went well."""
    with tempfile.TemporaryDirectory() as folder:
        todo = jobs(Path(folder), extra, sources)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda job: _call(job[0]), todo))
        whole = Path(folder) / "whole.so"
        _call([compiler(), "-shared", "-pthread", *extra, *(str(target) for _, target in todo), "-o", str(whole)])
        beside = library.with_suffix(".new")
        shutil.copy(whole, beside)
        os.replace(beside, library)
    reason_file(library).unlink(missing_ok=True)
    return library


def reason_file(library: Path = LIBRARY) -> Path:
    """Where the reason is kept why `library` was not built."""
    return library.with_suffix(".skipped.txt")


def build_or_skip(library: Path = LIBRARY) -> bool:
    """Build; where that fails say so, and leave the reason where `threefold doctor` finds it."""
    try:
        build(library)
    except (BuildError, OSError) as reason:
        library.unlink(missing_ok=True)  # one of older sources would be worse than none
        reason_file(library).write_text(f"{reason}\n")
        sys.stderr.write(f"\nthreefold: native kernels were NOT built; the torch paths will run instead. {reason}\n\n")
        return False
    return True


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"built {build(extra=SANITIZE if '--sanitize' in sys.argv else ())}\n")
    except BuildError as reason:
        sys.exit(str(reason))
