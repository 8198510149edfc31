"""What README and docs say of mixers, laws, recipes, commands and results is what the code says."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def test_generated_parts_are_up_to_date() -> None:
    command = [sys.executable, "docs/generate.py", "--check"]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
