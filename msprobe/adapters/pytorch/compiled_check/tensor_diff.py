"""Two tensors that stand for the same value, one of the compiled code and one of eager mode, judged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from msprobe.adapters.pytorch.value_saver import array_of
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.numerics.array_verdict import Allowed, allowed_difference, judge_arrays

_ERRORS_OF_EAGER = 4.0


@dataclass(frozen=True, slots=True)
class TensorDiff:
    """How far one tensor of the compiled module is from that of the eager one.

    Attributes:
        max_abs, mean_abs, max_rel: differences; NaN where they could not be measured.
        allclose: whether the verdict is that both agree.
        shape: the shape of the compiled one.
        note: why they do not agree, or why a difference means nothing.
    """

    max_abs: float
    mean_abs: float
    max_rel: float
    allclose: bool
    shape: tuple[int, ...]
    note: str = ""


def compare_tensors(compiled: Any, eager: Any, exact: Any = None, beside: float = 0.0) -> TensorDiff | None:
    """Compare two tensors; None where neither is there.

    Args:
        compiled, eager: tensors, or None.
        exact: the eager result in float64, where it is known. A compiled result that is about as far from it as the
            eager one is right, however far the two are apart.
        beside: the largest element of what is computed with it, which says how large the terms are of a sum that
            cancels; 0 where nothing is.
    """
    if compiled is None and eager is None:
        return None
    if compiled is None or eager is None:
        side = "the eager module" if compiled is None else "the compiled module"
        shape = tuple((eager if compiled is None else compiled).shape)
        return TensorDiff(math.nan, math.nan, math.nan, False, shape, f"only {side} has it")
    if compiled.shape != eager.shape or compiled.dtype != eager.dtype:
        note = f"{compiled.dtype} {list(compiled.shape)} against {eager.dtype} {list(eager.shape)}"
        return TensorDiff(math.nan, math.nan, math.nan, False, tuple(compiled.shape), note)
    try:
        n, b = _as_numpy(compiled), _as_numpy(eager)
    except (ValueError, RuntimeError, TypeError) as error:
        let_through(error)
        return not_compared(compiled, error_text(error))
    dtype = str(compiled.dtype).removeprefix("torch.")
    verdict = judge_arrays(n, b, dtype)
    numbers = _differences(n, b)
    agrees, note = verdict.level == "pass", verdict.reason
    if not agrees and exact is not None:
        right = _as_numpy(exact)
        if _is_as_exact(n, b, right):
            agrees, note = True, "as far from float64 as the eager result"
        elif (
            _cancels(b, right)
            and _largest_error(n, right) <= allowed_difference(np.full_like(b, beside), dtype).element
        ):
            agrees, note = True, "a sum that cancels: the eager result is rounding, too"
    return TensorDiff(*numbers, agrees, tuple(compiled.shape), note)


def allowed_error(eager: torch.Tensor, exact: torch.Tensor | None) -> Allowed:
    """Return how far a compiled result may be from the right one, in the unit of the data.

    Args:
        eager: the result of eager mode.
        exact: the one in float64, where it is known.
    """
    n = _as_numpy(eager)
    allowed = allowed_difference(n, str(eager.dtype).removeprefix("torch."))
    if exact is None or n.dtype.kind not in "fc":
        return allowed
    error = _ERRORS_OF_EAGER * _largest_error(n, _as_numpy(exact))
    if not allowed.element < error < math.inf:
        return allowed
    return Allowed(error, max(allowed.norm, error * math.sqrt(n.size)))


def not_compared(tensor: torch.Tensor, note: str) -> TensorDiff:
    """Return what stands for a tensor that could not be compared: it does not pass."""
    return TensorDiff(math.nan, math.nan, math.nan, False, tuple(tensor.shape), note)


def _as_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    found = array_of(tensor)
    assert found is not None  # it is a tensor
    return np.asarray(found[0])


def _differences(n: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[float, float, float]:
    if n.size == 0:
        return 0.0, 0.0, 0.0
    wide = np.complex128 if n.dtype.kind == "c" else np.float64
    left, right = n.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        apart = np.where(left == right, 0.0, np.abs(left - right))
        relative = np.where(apart == 0, 0.0, apart / np.maximum(np.abs(right), np.finfo(np.float32).tiny))
    return float(apart.max()), float(apart.mean()), float(relative.max())


def _is_as_exact(n: np.ndarray[Any, Any], b: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> bool:
    errors = [_largest_error(one, exact) for one in (n, b)]
    return math.isfinite(errors[0]) and errors[1] > 0 and errors[0] <= _ERRORS_OF_EAGER * errors[1]


def _cancels(eager: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> bool:
    """Return whether an eager result has no right digit: as the gradient of a bias before a norm, which is 0."""
    return bool(np.abs(exact).max(initial=0.0) < _largest_error(eager, exact))


def _largest_error(values: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> float:
    wide = values.astype(np.result_type(exact.dtype, np.float64))  # numpy does not subtract booleans
    with np.errstate(invalid="ignore"):
        same = (wide == exact) | (np.isnan(wide) & np.isnan(exact))
        return float(np.where(same, 0.0, np.abs(wide - exact)).max(initial=0.0))
