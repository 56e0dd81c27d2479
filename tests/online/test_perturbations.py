"""The changes with which a call runs again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from msprobe.core.backend.replaying import Constant, HeldTensor, PreparedCall
from msprobe.online.perturbations import exchanged, flipped, noisy, perturbed

FLOATS = arrays.arrays(np.float32, st.integers(1, 20), elements=st.floats(-1e5, 1e5, width=32))


def tensor(values: object, dtype: str = "float32") -> HeldTensor:
    held = np.float32 if dtype == "bfloat16" else dtype
    return HeldTensor(np.array(values, held), dtype)


def call(*args: object, **kwargs: object) -> PreparedCall:
    return PreparedCall("Torch", "f", list(args), dict(kwargs))  # type: ignore[arg-type]


def test_half_precision_becomes_float32_and_nothing_else() -> None:
    given = call(tensor([1.0], "bfloat16"), [tensor([2], "int64")], dtype=Constant("dtype", "float16"))
    for mode in ("improve_precision", "to_cpu"):
        changed = perturbed(given, mode)
        assert changed is not None
        assert [each.dtype for each in changed.tensors()] == ["float32", "int64"]
        assert changed.kwargs["dtype"] == Constant("dtype", "float32")


def test_only_the_first_floating_point_tensor_is_changed() -> None:
    given = call(tensor([3], "int64"), [tensor([1.0, 2.0])], tensor([5.0, 6.0]), inplace=Constant("plain", True))
    changed = perturbed(given, "change_value")
    assert changed is not None
    assert [each.values.tolist() for each in changed.tensors()] == [[3], [2.0, 1.0], [5.0, 6.0]]
    assert changed.kwargs["inplace"] == Constant("plain", False)


def test_a_call_without_anything_to_change() -> None:
    assert perturbed(call(tensor([3], "int64")), "bit_noise") is None
    assert perturbed(call(tensor([1e-30])), "add_noise") is None
    assert perturbed(call(tensor([1.0])), "change_value") is None
    assert perturbed(call(tensor([1.0])), "no_change") is not None


@given(FLOATS)
def test_one_bit_is_flipped_and_flipped_back(values: np.ndarray) -> None:
    once = flipped(values, "float32")
    if once is None:
        assert not (np.abs(values) > 2.0**-126).any()
        return
    assert ((once != values) == (np.abs(values) > 2.0**-126)).all()
    steps = once.view(np.uint32) ^ values.view(np.uint32)
    assert set(steps.tolist()) <= {0, 1}


def test_the_last_bit_of_bfloat16_is_one_of_bfloat16() -> None:
    values = np.array([1.0, -3.0], np.float32)
    changed = flipped(values, "bfloat16")
    assert changed is not None
    assert changed.tolist() == [1.0 + 2.0**-7, -3.0 - 2.0**-6]


def test_noise_is_for_larger_elements() -> None:
    changed = noisy(np.array([1.0, 1e-5, -1.0]), "float32")
    assert changed is not None
    assert changed.tolist() == [1.0 + 1e-8, 1e-5, -1.0 + 1e-8]


@pytest.mark.parametrize(("shape", "first"), [((4,), 3), ((2, 3), 5), ((2, 2, 3), 9)])
def test_first_and_last_change_places(shape: tuple[int, ...], first: int) -> None:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    changed = exchanged(values, "float64")
    assert changed is not None
    assert changed.ravel()[0] == first
    assert sorted(changed.ravel()) == sorted(values.ravel())
