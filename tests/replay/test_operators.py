"""Every operator that torch has samples of is right by its own kernels, forward and backward, except known defects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from msprobe.core.backend.replaying import CannotReplayError
from msprobe.numerics.kinds import Level
from msprobe.replay.judged_call import judge_call
from tests.matrices import matrix_params
from tests.replay.operator_samples import operators, samples

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

DTYPES = ("float32", "bfloat16", "float16")
_SAMPLE = ("matmul", "softmax", "exp", "nn.functional.layer_norm", "cumsum", "linalg.eigh", "tanh", "var")
"""Operators that CI runs."""
PARTS = 12
CI_PARTS = ("float32-0",)
"""Of all operators in each dtype, which CI runs too."""
DEFECTS: dict[str, str] = json.loads((Path(__file__).parent / "kernel_defects.json").read_text(encoding="utf-8"))
"""Operator and dtype -> what its kernel does wrong, or why its results have no single right value."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask torch for its table, which takes seconds, only where all of it runs."""
    if "name" not in metafunc.fixturenames:
        return
    names = operators() if metafunc.config.getoption("matrix") == "operators" else _SAMPLE
    cases = [pytest.param(name, dtype, id=f"{name}-{dtype}") for name in names for dtype in DTYPES]
    sample = {f"{name}-{dtype}" for name in _SAMPLE for dtype in DTYPES}
    metafunc.parametrize(("name", "dtype"), matrix_params("operators", cases, sample))


def errors(name: str, dtype: str) -> list[str]:
    """Return the values of the first samples of an operator that are judged wrong."""
    wrong: list[str] = []
    for number, sample in enumerate(samples(name, getattr(torch, dtype))):
        try:
            answer = judge_call(sample.call, sample.replayer, "cpu")
        except CannotReplayError:
            continue  # no kernel for this sample
        values = (*answer.forward, *answer.backward)
        wrong += [f"{number} {value.slot}" for value in values if value.conditioned.level is Level.ERROR]
    return wrong


@pytest.mark.matrix("wide", sample=2)
def test_an_operator_is_right(name: str, dtype: str) -> None:
    wrong = errors(name, dtype)
    assert bool(wrong) == (f"{name}-{dtype}" in DEFECTS), wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("floats", "part"),
    matrix_params("operators", [(floats, part) for floats in DTYPES for part in range(PARTS)], CI_PARTS),
)
def test_all_operators_are_right(floats: str, part: int) -> None:
    found = {f"{name}-{floats}": errors(name, floats) for name in sorted(operators())[part::PARTS]}
    wrong = {case: values for case, values in found.items() if values}
    assert wrong.keys() == DEFECTS.keys() & found.keys(), wrong


def test_the_table_of_torch_leaves_the_flags_of_the_process_open() -> None:
    operators()

    assert not torch.backends.flags_frozen()
