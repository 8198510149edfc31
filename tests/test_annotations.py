"""Shapes written in annotations are enforced, in a process of its own: checked functions cannot be compiled."""

import subprocess
import sys
from pathlib import Path

from threefold.mixers.catalog import CATALOG


def test_every_annotated_shape_holds_and_a_wrong_one_is_stopped() -> None:
    program = Path(__file__).with_name("annotated.py")
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout == f"{len(CATALOG)} mixers\n"
