"""The pytest plugin as a user meets it: in folders of their own."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
import torch

import threefold.laws.all  # a test run inside this process forgets what it was first to import
import threefold.laws.target  # noqa: F401
from threefold.errors import InputError
from threefold.laws.declare import MARK, laws

pytest_plugins = ["pytester"]

LAYERS = """
from torch import Tensor, nn


class Fine(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.map = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x).cumsum(1)


class Ahead(Fine):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x.roll(-1, 1) / 8
"""
TESTS = """
import pytest
from threefold.laws.pytest import laws
from my_layers import Ahead, Fine


@pytest.fixture
def width():
    return 3


@laws("causal", "batch", "padding", causal=True)
@pytest.mark.parametrize("times", [1, 2])
def test_fine(width, times):
    layer = Fine(width * times)
    assert layer.map.in_features == width * times
    return layer


class TestMine:
    @laws("batch", "causal", causal=True)
    def test_ahead(self):
        return Ahead


def test_plain():
    assert True
"""
TOLERANCE = '[tool.threefold.laws.tolerance]\nbatch = { limit = 1e-9, because = "it sums in any order" }\n'


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makepyfile(my_layers=LAYERS)
    monkeypatch.syspath_prepend(pytester.path)
    return pytester


def test_a_factory_becomes_one_test_a_law(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_mine=TESTS)
    result = folder.runpytest_inprocess("-v", "-rs")
    result.assert_outcomes(passed=6, failed=1, skipped=2)
    result.stdout.fnmatch_lines_random(
        [
            "test_mine.py::test_fine[[]causal-1] PASSED*",
            "test_mine.py::test_fine[[]padding-2] SKIPPED*",
            "test_mine.py::TestMine::test_ahead[[]causal] FAILED*",
            "test_mine.py::TestMine::test_ahead[[]batch] PASSED*",
            "*cannot be run: the layer takes no padding mask*",
            "*smallest case  T=2,B=1,at=1,feature=0,how=eval",
            "*replay *test_ahead[[]causal[]]' --laws-case T=2,B=1,at=1,feature=0,how=eval",
        ]
    )


def test_one_law_and_one_case_can_be_asked_for(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_mine=TESTS)
    result = folder.runpytest_inprocess("-k", "ahead and causal", "--laws-case", "T=5,B=1,at=3,how=eval")
    result.assert_outcomes(failed=1, deselected=8)
    result.stdout.fnmatch_lines(["*smallest case  T=5,B=1,at=3,how=eval", "*changing token 3 moved an earlier output"])


def test_a_layer_on_the_command_line_needs_no_test_file(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_mine="def test_not_asked_for():\n    assert False\n")
    folder.makefile(".toml", pyproject=TOLERANCE)
    result = folder.runpytest_inprocess("--laws=my_layers:Fine", "--laws-with", '{"width": 5}', "-k", "causal or batch")
    result.assert_outcomes(passed=2, deselected=11)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["Fine: looks causal: judged as causal", "Fine: batch: limit raised to 1e-09 because it sums in any order"]
    )
    result = folder.runpytest_inprocess("--laws=my_layers:Ahead", "--laws-claims", '{"causal": true}', "-k", "causal")
    result.assert_outcomes(failed=1, deselected=12)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*replay *threefold laws my_layers:Ahead --causal --law causal --case T=2,B=1,at=1*"])


def test_wrong_use_is_told_once(folder: pytest.Pytester) -> None:
    result = folder.runpytest_inprocess("--laws=my_layers:Fin")
    result.stdout.fnmatch_lines(["my_layers has no 'Fin'; did you mean 'Fine'?"])
    result.assert_outcomes(errors=1)
    for option, value in (("--laws-with", "{1"), ("--laws-claims", '{"caual": true}')):
        result = folder.runpytest_inprocess("--laws=my_layers:Fine", option, value)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: {option}*"])
    with pytest.raises(InputError, match="did you mean 'causal'"):
        laws("casual")


def test_everything_touched_is_restored_also_after_an_exception(folder: pytest.Pytester) -> None:
    folder.makepyfile(
        test_mine="""
        import random, torch
        from threefold.laws.pytest import laws

        class Rude(torch.nn.Linear):
            def forward(self, x):
                torch.manual_seed(3); random.seed(3); torch.set_grad_enabled(False)
                torch.set_default_dtype(torch.float16); torch.use_deterministic_algorithms(True)
                if x.shape[1] > 3:
                    raise ValueError("too long for me")
                return super().forward(x)

        @laws("causal", "batch", "determinism")
        def test_rude():
            torch.manual_seed(5)
            return Rude(4, 4)
        """
    )
    before = torch.get_rng_state(), random.getstate(), torch.is_grad_enabled(), torch.get_default_dtype()
    result = folder.runpytest_inprocess()
    assert result.parseoutcomes().get("failed", 0) >= 1
    after = torch.get_rng_state(), random.getstate(), torch.is_grad_enabled(), torch.get_default_dtype()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_decorator_leaves_the_factory_as_it_is() -> None:
    def factory() -> int:
        return 3

    marked = laws("batch", "causal", width=8)(factory)
    assert marked is factory and marked() == 3
    assert getattr(marked, MARK).names == ("causal", "batch"), "in the order in which laws are judged"
    assert getattr(marked, MARK).width == 8


def test_unused_it_loads_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\n\ndef test_light():\n"
        "    assert 'threefold.laws.plugin' in sys.modules\n"
        "    assert not {'torch', 'hypothesis', 'rich'} & set(sys.modules), 'loaded for nothing'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "threefold.laws.plugin"]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = subprocess.run(command, cwd=pytester.path, env=alone, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
