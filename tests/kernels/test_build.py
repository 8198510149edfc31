"""Building: skipped loudly where there is no compiler, never half done, and with nothing but the standard library."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from threefold.kernels import build, native

REPOSITORY = Path(__file__).parents[2]


def test_without_a_compiler_it_is_skipped_loudly_and_remembered(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    library = tmp_path / "_native.so"
    library.write_bytes(b"of older sources")
    assert build.build_or_skip(library) is False
    assert "were NOT built" in capsys.readouterr().err
    assert not library.exists(), "a library of older sources would be worse than none"
    found = native.load(library)
    assert found.library is None and "no C++ compiler (/nonexistent/c++)" in found.why_not
    assert "python -m threefold.kernels.build" in found.why_not


def test_with_a_compiler_the_kernels_are_here() -> None:
    """Else every test of theirs would be skipped, and all be green."""
    try:
        build.compiler()
    except build.BuildError as reason:
        pytest.skip(str(reason))
    assert native.available() == "" or "THREEFOLD_KERNELS" in os.environ


def test_code_that_does_not_compile_says_what_the_compiler_said(tmp_path) -> None:
    try:
        build.compiler()
    except build.BuildError as reason:
        pytest.skip(str(reason))
    sources, library = tmp_path / "cpp", tmp_path / "_native.so"
    sources.mkdir()
    (sources / "broken.cpp").write_text("int f( {\n")
    library.write_bytes(b"the one before")
    with pytest.raises(build.BuildError, match=r"broken\.cpp.* failed:"):
        build.build(library, sources=sources)
    assert library.read_bytes() == b"the one before", "replaced only when all went well"


def test_every_source_is_compiled_for_every_instruction_set(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(build, "compiler", lambda: "c++")
    commands = [command for command, _ in build.jobs(tmp_path)]
    for source in build.SOURCES.glob("*_isa.cpp"):
        mine = [command for command in commands if str(source) in command]
        assert {word for command in mine for word in command if word.startswith("-DTF_ISA=")} == {
            f"-DTF_ISA={isa}" for isa in build.instruction_sets()
        }
    monkeypatch.setattr(build.platform, "machine", lambda: "aarch64")
    assert list(build.instruction_sets()) == ["base"]


def test_a_library_that_is_not_there_or_switched_off_says_so(tmp_path, monkeypatch) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library at all")
    assert "does not load" in native.load(broken).why_not
    assert "were not built when threefold was installed" in native.load(tmp_path / "none.so").why_not
    monkeypatch.setenv("THREEFOLD_KERNELS", "off")
    assert native.load(broken).why_not == "turned off by THREEFOLD_KERNELS"


@pytest.mark.skipif(bool(native.available()), reason=f"no native kernels here: {native.available()}")
def test_a_library_of_other_sources_is_refused_with_what_to_do(tmp_path) -> None:
    sources = tmp_path / "cpp"
    shutil.copytree(build.SOURCES, sources)
    assert native.load(sources=sources).why_not == "", "the same sources, wherever they lie"
    (sources / "rows.h").write_text((sources / "rows.h").read_text() + "// another line\n")
    found = native.load(sources=sources)
    assert found.library is None and "was built from other sources" in found.why_not
    assert "rebuild them by python -m threefold.kernels.build" in found.why_not


def test_a_library_that_does_not_say_what_it_was_built_from_is_refused(tmp_path) -> None:
    try:
        cxx = build.compiler()
    except build.BuildError as reason:
        pytest.skip(str(reason))
    (tmp_path / "old.cpp").write_text('extern "C" const char* tf_best_isa() { return "base"; }\n')
    library = tmp_path / "old.so"
    subprocess.run([cxx, "-shared", "-fPIC", str(tmp_path / "old.cpp"), "-o", str(library)], check=True)
    assert "was built from other sources" in native.load(library).why_not


def test_building_pulls_nothing_in() -> None:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["build-system"]["requires"]
    assert [name.partition(">")[0] for name in declared] == ["setuptools"], "a torch in the build would be a second one"
    for file in (Path(build.__file__), REPOSITORY / "setup.py"):
        nodes = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Import | ast.ImportFrom)]
        names = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
        names |= {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module}
        assert {name.partition(".")[0] for name in names} <= set(sys.stdlib_module_names) | {"setuptools"}


@pytest.mark.slow
def test_the_same_source_is_arm_source(tmp_path) -> None:
    cross = shutil.which("aarch64-linux-gnu-g++")
    if cross is None:
        pytest.skip("aarch64-linux-gnu-g++ is not here (Debian: g++-aarch64-linux-gnu)")
    for source in build.SOURCES.glob("*.cpp"):
        command = [
            cross,
            *build.FLAGS,
            "-DTF_ISA=base",
            '-DTF_SOURCES=""',
            "-c",
            str(source),
            "-o",
            str(tmp_path / f"{source.stem}.o"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
