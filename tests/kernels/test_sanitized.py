"""The library compiled with AddressSanitizer and UndefinedBehaviorSanitizer, driven by the tests of this folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from threefold.kernels.build import SANITIZE, BuildError, build, compiler

HERE = Path(__file__).parent
DRIVEN = ("test_linear_values.py", "test_recurrent.py", "test_recurrent_step.py", "test_products.py")


def runtime(name: str) -> str:
    """The sanitizer's shared runtime, or '' where the compiler has none."""
    try:
        found = subprocess.run([compiler(), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    except (BuildError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip() if "/" in found.stdout else ""


ASAN, STD = runtime("libasan.so"), runtime("libstdc++.so")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not ASAN and "SANITIZE" not in os.environ, reason="no C++ compiler with AddressSanitizer is here"
    ),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("sanitized") / "_native.so", SANITIZE)


def driven(library: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """A Python whose allocations are watched. Leaks are not asked for: Python leaves much behind at exit."""
    environment = os.environ | {
        "LD_PRELOAD": f"{ASAN} {STD}",
        "ASAN_OPTIONS": "detect_leaks=0,abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "THREEFOLD_KERNELS": str(library),
        "OMP_NUM_THREADS": "2",
        "MALLOC_ARENA_MAX": "2",
    }
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False)


def test_the_kernels_touch_only_what_is_theirs(library: Path) -> None:
    done = driven(library, ["-m", "pytest", "-x", *(str(HERE / name) for name in DRIVEN)])
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert " passed" in done.stdout or "100%" in done.stdout
    assert "skipped" not in done.stdout


def test_a_write_past_the_end_is_caught(library: Path) -> None:
    code = (
        "import ctypes; from threefold.kernels.native import native\n"
        "lib = native().library; isa = native().isa\n"
        "x = (ctypes.c_float * 8)(); probe = getattr(lib, f'tf_probe_{isa}')\n"
        "probe.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_long, ctypes.c_int]\n"
        "from ctypes import CDLL, c_void_p; c = CDLL(None); c.malloc.restype = c_void_p; p = c.malloc(32)\n"
        "probe(p, p, 1.0, 9, 1)\n"
    )
    done = driven(library, ["-c", code])
    assert done.returncode != 0 and "heap-buffer-overflow" in done.stderr, done.stderr[-2000:]
