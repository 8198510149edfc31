"""Adds the native kernels to the build. Everything else is declared in pyproject.toml."""

import importlib.util
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

KERNELS = Path(__file__).parent / "src/threefold/kernels"


def load_build():
    """threefold.kernels.build, without importing the package (which needs torch)."""
    spec = importlib.util.spec_from_file_location("kernels_build", KERNELS / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildKernels(build_ext):
    """A plain C library beside the Python files; left out, with a loud reason, where no compiler is found."""

    def get_ext_filename(self, fullname):
        return str(Path(*fullname.split("."))) + ".so"

    def build_extension(self, ext):
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        if not load_build().build_or_skip(target):
            ext.optional = True


class AnyPython(bdist_wheel):
    """The library does not know Python's version: one wheel per platform."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


sources = sorted(str(path.relative_to(Path(__file__).parent)) for path in (KERNELS / "cpp").glob("*.cpp"))
setup(
    ext_modules=[Extension("threefold.kernels._native", sources=sources, optional=True)],
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": AnyPython},
)
