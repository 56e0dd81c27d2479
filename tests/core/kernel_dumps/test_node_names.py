"""From names in files to kernels in graphs."""

from __future__ import annotations

import pytest

from msprobe.core.kernel_dumps.kernel_names import entry_stem, graph_inputs, resolve


def test_names_match_whole_never_in_part() -> None:
    found = resolve(["Default_Add-op1"], ["Default/Add-op10", "Default/Add-op1"])
    assert found == {"Default_Add-op1": "Default/Add-op1"}


def test_shifted_numbers_of_jit_are_matched_by_order() -> None:
    found = resolve(["D_Add-op1", "D_Add-op3", "D_Mul-op1"], ["D/Add-op12", "D/Add-op9", "D/Mul-op2"])
    assert found == {"D_Add-op1": "D/Add-op9", "D_Add-op3": "D/Add-op12", "D_Mul-op1": "D/Mul-op2"}


def test_unequal_numbers_of_kernels_are_not_guessed() -> None:
    assert resolve(["D_Add-op1"], ["D/Add-op2", "D/Add-op3"]) == {}


def test_two_scopes_that_are_the_same_when_flat_match_nothing() -> None:
    assert resolve(["a_b_c-op0"], ["a/b_c-op0", "a_b/c-op0"]) == {}


@pytest.mark.parametrize(
    ("full", "stem", "phase"),
    [
        ("Default/fc1-Dense/MatMul-op0", "Kernel.Default.fc1-Dense.MatMul", "forward"),
        ("Gradients/Default/Grad_Tanh/TanhGrad-op12", "Kernel.Default.Grad_Tanh.TanhGrad", "backward"),
        ("Default_MatMul-op1", "Kernel.Default_MatMul", "forward"),
    ],
    ids=["forward", "gradient", "unresolved"],
)
def test_records_are_named_after_scopes(full: str, stem: str, phase: str) -> None:
    assert entry_stem(full, "MatMul") == (stem, phase)


def test_inputs_that_the_compiler_numbered_are_named_by_position() -> None:
    assert graph_inputs({"fc.weight": 2, "Parameter_30": 1}) == {
        "fc_weight": ("fc.weight", 2),
        "Parameter_30": ("input_1", 1),
    }
