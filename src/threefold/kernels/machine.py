"""What this machine, this torch and the kernels are: for `threefold doctor`, and beside every measurement."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path

import torch

from threefold.kernels.build import BuildError, compiler
from threefold.kernels.native import available, isas, native

MAPS = Path("/proc/self/maps")
RUNTIME = re.compile(r"/(lib(?:gomp|iomp5|omp)[^/]*\.so[^/\s]*)")


@cache
def processor() -> str:
    """The processor's name, or its family where the system does not tell."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def openmp_runtimes(maps: str | None = None) -> list[str]:
    """The OpenMP runtimes loaded in this process. More than one costs: their spinning threads fight for the cores."""
    if maps is None:
        maps = MAPS.read_text() if MAPS.exists() else ""
    return sorted(set(RUNTIME.findall(maps)))


def native_build() -> dict[str, object]:
    """The kernels: whether they run, with what, and what could build them."""
    lib = native()
    try:
        cxx = compiler()
    except BuildError as reason:
        cxx = str(reason)
    return {
        "active": not available(),
        "why_not": available(),
        "instruction_set": lib.isa,
        "instruction_sets": list(isas()),
        "threads_from": (lib.openmp or "threads of its own") if lib.library else "",
        "compiler": cxx,
    }


def torch_build() -> dict[str, object]:
    """The parts of this torch that our paths depend on."""
    return {
        "version": torch.__version__,
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "oneDNN": torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled),
        "MKL": torch.backends.mkl.is_available(),
        "openmp_runtimes": openmp_runtimes(),
    }


def conditions() -> dict[str, object]:
    """Everything that a measured time depends on."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch_build(),
        "native": native_build(),
    }


def advice(found: dict[str, object]) -> list[str]:
    """What makes this machine slower than it need be, a sentence each."""
    built, made = found["native"], found["torch"]
    assert isinstance(built, dict) and isinstance(made, dict)
    said = []
    if not built["active"]:
        said.append(f"Native kernels do not run: {built['why_not']}")
    elif built["instruction_set"] != built["instruction_sets"][0]:
        said.append(
            f"THREEFOLD_ISA holds the kernels at {built['instruction_set']}: this machine runs "
            f"{built['instruction_sets'][0]}."
        )
    if len(made["openmp_runtimes"]) > 1:
        said.append(
            f"{len(made['openmp_runtimes'])} OpenMP runtimes are loaded ({', '.join(made['openmp_runtimes'])}): "
            "their threads fight for the cores."
        )
    if not made["oneDNN"]:
        said.append("This torch has no oneDNN, or it is switched off: LSTM runs on the native kernels.")
    threads, cores = found["threads"], found["cores"]
    assert isinstance(threads, int) and isinstance(cores, int)
    if threads > cores:
        said.append(f"torch uses {threads} threads on {cores} cores: torch.set_num_threads({cores}).")
    return said
