"""The golden call with inputs that are moved by one round-off, which tells how far its results may be off."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from msprobe.core.backend.replaying import (
    CannotReplayError,
    Constant,
    Execution,
    HeldTensor,
    PreparedCall,
    Replayer,
    mapped,
    widened,
)
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.numerics.conditioned import Movement

GOLDEN_DEVICE = "cpu"
DRAWS = 3
"""How often inputs are moved."""
MORE_DRAWS = 10
"""How often before a value is called wrong: in a few draws chance may hide how far inputs carry a result, where it has
few elements or depends on one direction of its inputs."""
_HALF = 1000
"""The number of the draw that moves half of the elements."""
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_SEVERAL = ("multi_head_attention_forward", "lstm_cell", "gru_cell")
_OF_SEVERAL = 1.5
_INNER_ROUNDOFFS = 20.0
"""Roundings of an ``erf`` or ``tanh`` inside of another function. Libraries of vector math state their largest errors:
1 to 4 units in the last place (SLEEF u10 and u35, VML LA, SVML, CUDA), and 20 for the fast variants inside of composite
kernels (``u20`` of ATen). Below 1 a unit is 2 ** -24 in float32: one round-off."""
_TINY = 1e-30
"""How far a zero is moved where equal elements are moved apart, in units of the round-off."""


class MovedCalls:
    """The golden results of moved inputs, computed when they are first asked for.

    With ``ties`` equal elements are moved apart, zeros too: which of them is chosen is nobody's error.
    """

    def __init__(self, call: PreparedCall, golden: PreparedCall, replayer: Replayer, *, ties: bool) -> None:
        self._call, self._golden, self._replayer, self._ties = call, golden, replayer, ties
        self._executions: list[Execution] = []
        self._draws = (execution for draw in range(MORE_DRAWS) if (execution := self._run(draw)) is not None)
        self._half: list[Execution | None] = []

    @property
    def roundoff(self) -> float:
        """The coarsest round-off of the inputs."""
        return max(self._roundoffs(), default=0.0)

    def _roundoffs(self) -> list[float]:
        given = (*self._call.tensors(), *_present(self._call.gradients))
        return [_roundoff(tensor, self._call.autocast) for tensor in given]

    def of(self, part: str, position: int, size: int, draws: int = DRAWS) -> Movement:
        """Return what moved inputs do to one result, or gradient, of so many elements, in at least so many draws."""
        self._draw(draws)
        if not self._half:
            self._half.append(self._run(_HALF, 0.5))
        values = [_array(execution, part, position) for execution in self._executions]
        half = None if self._half[0] is None else _array(self._half[0], part, position)
        found = [value for value in values if value is not None]
        inside = _inner_error(self._call, part) if position == 0 else 0.0
        return Movement(found, half, _terms(self._call, size), _stages(self._call), inside)

    def first_of(self, part: str, position: int) -> Sequence[np.ndarray[Any, Any]]:
        """Return what the first draw does to one result, or gradient: it may say that no other is needed."""
        self._draw(1)
        values = (_array(execution, part, position) for execution in self._executions)
        return [value for value in values if value is not None]

    def _draw(self, count: int) -> None:
        """Have at least so many executions with moved inputs, as far as they can be run."""
        self._executions.extend(itertools.islice(self._draws, max(0, count - len(self._executions))))

    def _run(self, draw: int, share: float = 1.0) -> Execution | None:
        generator = np.random.default_rng(draw)
        moved = _moved(self._golden, self._roundoffs(), generator, share, ties=self._ties)
        try:
            return self._replayer.run(moved, GOLDEN_DEVICE)
        except CannotReplayError:
            return None


def _terms(call: PreparedCall, size: int) -> float:
    """Return how many terms the sums of a result of so many elements may have, by the sizes of what is given.

    A sum over one tensor has as many as it is larger than the result; of a product of matrices (m, k) and (k, n) the
    sizes tell k: the root of mk * kn / mn.
    """
    given = sorted((tensor.values.size for tensor in (*call.tensors(), *_present(call.gradients))), reverse=True)
    if not given or not size:
        return 1.0
    of_product = math.sqrt(given[0] * given[1] / size) if len(given) > 1 else 1.0
    return max(1.0, given[0] / size, of_product)


def _stages(call: PreparedCall) -> float:
    """Return by how much the movement of the inputs grows as a function rounds what it computes on the way.

    Functions that call several others do so a few times, recurrent ones at each position of a sequence, whose errors
    add up by the root of their number.
    """
    if call.api in _SEVERAL:
        return _OF_SEVERAL
    if call.api not in _RECURRENT:
        return 1.0
    shape = next((tensor.values.shape for tensor in call.tensors()), ())
    return max(_OF_SEVERAL, math.sqrt(max(shape[:2], default=1)) / 1.5)


def _inner_error(call: PreparedCall, part: str) -> np.ndarray[Any, Any] | float:
    """Return how far the first result, or gradient, of a function may be off because its formula subtracts two terms
    of which one is a rounded ``erf`` or ``tanh``; in units of the round-off of the precision that it computes in.

    It is the derivative of the formula by this term: of x / 2 * (1 + erf(x / sqrt 2)), for one, it is x / 2, also where
    the result is nearly 0.
    """
    x = next((np.abs(widened(tensor.values)) for tensor in call.tensors()), None)
    if x is None or call.api.rstrip("_") not in ("gelu", "tanhshrink"):
        return 0.0
    shrinks = call.api.startswith("tanhshrink")
    if part == "outputs":
        return _INNER_ROUNDOFFS * (np.minimum(x, 1.0) if shrinks else x / 2.0)
    gradient = next((np.abs(widened(each.values)) for each in _present(call.gradients)), None)
    if gradient is None or gradient.shape != x.shape:
        return 0.0
    by_tanh = any(isinstance(each, Constant) and each.value == "tanh" for each in (*call.args, *call.kwargs.values()))
    # 1 - tanh(y) ** 2, with y = sqrt(2 / pi) * (x + 0.044715 * x ** 3), is multiplied by x / 2 and the derivative of y.
    by_square = x * math.sqrt(2.0 / math.pi) * (1.0 + 3.0 * 0.044715 * np.square(x)) if by_tanh else 0.0
    return np.asarray(_INNER_ROUNDOFFS * gradient * ((2.0 if shrinks else 0.5) + by_square))


def _moved(
    call: PreparedCall, roundoffs: Sequence[float], generator: np.random.Generator, share: float, *, ties: bool
) -> PreparedCall:
    """Return the call with a share of the elements of each tensor moved by one round-off, up or down."""
    rest = iter(roundoffs)

    def change(argument: HeldTensor | Constant) -> HeldTensor | Constant:
        if not isinstance(argument, HeldTensor):
            return argument
        roundoff = next(rest)
        if not roundoff:
            return argument
        shape = argument.values.shape
        factors = _signs(generator, shape) * roundoff
        if share < 1.0:
            factors = np.where(generator.random(shape) < share, factors, 0.0)
        if not ties:
            return replace(argument, values=argument.values * (1.0 + factors))
        apart = generator.uniform(0.5, 1.0, shape) * factors
        return replace(argument, values=argument.values * (1.0 + apart) + apart * _TINY * (argument.values == 0))

    args, kwargs = mapped(call.args, change), mapped(call.kwargs, change)
    gradients = [None if each is None else change(each) for each in call.gradients]
    kept = [each if isinstance(each, HeldTensor) else None for each in gradients]
    saved = max(roundoffs, default=0.0)
    seed = int(generator.integers(2**31))
    return replace(call, args=args, kwargs=kwargs, gradients=kept, saved_roundoff=saved, seed=seed)


def _signs(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return +1.0 and -1.0 by chance: from single bits, as numbers of a generator would take longer than the call."""
    count = math.prod(shape)
    bits = np.unpackbits(np.frombuffer(generator.bytes((count + 7) // 8), np.uint8), count=count)
    return (bits.astype(np.float64) * 2.0 - 1.0).reshape(shape)


def _array(execution: Execution, part: str, position: int) -> np.ndarray[Any, Any] | None:
    values = getattr(execution, part)
    value = values[position] if position < len(values) else None
    return widened(value.values) if isinstance(value, HeldTensor) else None


def _present(gradients: Sequence[HeldTensor | None]) -> Iterator[HeldTensor]:
    return (gradient for gradient in gradients if gradient is not None)


def _roundoff(tensor: HeldTensor, autocast: str) -> float:
    known, coarse = find_dtype(tensor.dtype), find_dtype(autocast)
    own = 0.0 if known is None else known.unit_roundoff
    return max(own, coarse.unit_roundoff) if own and coarse is not None else own
